"""Slow definitions of accuracy at the top; for a sample of weight w, pass w equal samples."""

import math
from fractions import Fraction

SURROGATES = {
    "quadratic": lambda z: max(0.0, 1 + z) ** 2,
    "hinge": lambda z: max(0.0, 1 + z),
    "logistic": lambda z: max(0.0, z) / math.log(2) + math.log2(1 + math.exp(-abs(z))),
}
WANTED = {"negatives": (0,), "positives": (1,), "all": (0, 1)}


def rank_of_share(tau, n):
    """Return ceil(n tau), at least 1, with the decimal value of tau: 0.07 of 100 is 7."""
    return max(1, math.ceil(n * Fraction(str(tau))))


def ranked(scores, labels, of):
    return sorted((s for s, y in zip(scores, labels, strict=True) if y in WANTED[of]), reverse=True)


def rank(k, tau, n):
    return min(k if tau is None else rank_of_share(tau, n), n)


def kth_largest(scores, labels, of, k=None, tau=None):
    values = ranked(scores, labels, of)
    return values[rank(k, tau, len(values)) - 1] if values else None


def top_mean(scores, labels, of, k=None, tau=None):
    values = ranked(scores, labels, of)
    best = values[: rank(k, tau, len(values))]
    return sum(best) / len(best) if best else None


def surrogate_mean(scores, labels, of, threshold, surrogate):
    values = ranked(scores, labels, of)
    return math.fsum(SURROGATES[surrogate](s - threshold) for s in values) / len(values)


def surrogate_quantile(scores, labels, of, tau, surrogate="quadratic"):
    if not ranked(scores, labels, of):
        return None
    low, high = min(s for s in scores if s > -math.inf) - 50, max(scores) + 50
    for _ in range(200):
        middle = (low + high) / 2
        above = surrogate_mean(scores, labels, of, middle, surrogate) > tau
        low, high = (middle, high) if above else (low, middle)
    return low


def weighted_kth_largest(scores, weights, j):
    """Return the largest score s for which the samples with scores >= s have weight >= j."""
    above = [sum(w for w, r in zip(weights, scores, strict=True) if r >= s) for s in scores]
    return max(s for s, mass in zip(scores, above, strict=True) if mass >= j)


def weighted_top_mean(scores, weights, j):
    """Return the mean of the largest scores with total weight j."""
    total, left = 0, j
    for s, w in sorted(zip(scores, weights, strict=True), reverse=True):
        total, left = total + min(w, left) * s, left - min(w, left)
    return total / j


def losses(scores, labels, threshold, errors, surrogate):
    """Return the loss of each sample. All losses are 0 if there is no threshold (None)."""
    loss = SURROGATES[surrogate]
    if threshold is None:
        return [0.0] * len(scores)
    if errors == "false_negatives":
        return [loss(threshold - s) * y for s, y in zip(scores, labels, strict=True)]
    return [loss(s - threshold) * (1 - y) for s, y in zip(scores, labels, strict=True)]
