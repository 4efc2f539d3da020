"""Slow definitions of the losses that are linear programs; labels are 0 or 1."""

import math
from itertools import combinations, pairwise

import numpy as np

from tests.losses import top_references

SURROGATES = top_references.SURROGATES | {"ramp": lambda z: min(max(0.0, 1 + z), 1.0)}


def pair_mean(scores, is_positive, is_negative, weights, margin, surrogate):
    """Weighted mean loss of the pairs of a positive and a negative, or None without a pair."""
    pairs = [(i, j) for i in np.flatnonzero(is_positive) for j in np.flatnonzero(is_negative)]
    weight = [weights[i] * weights[j] for i, j in pairs]
    each = [SURROGATES[surrogate]((scores[j] - scores[i]) / margin) for i, j in pairs]
    return np.average(each, weights=weight) if sum(weight) else None


def pairwise_auc(scores, labels, weights, margin=1.0, surrogate="hinge"):
    return pair_mean(scores, labels == 1, labels == 0, weights, margin, surrogate)


def multi_class_auc(scores, labels, weights, multi_class, margin=1.0, surrogate="hinge"):
    """Mean pairwise loss over classes or pairs of classes; `scores` has a column per class."""
    means = []
    for a, b in np.ndindex(scores.shape[1], scores.shape[1]):
        values, others = scores[:, a], labels == b
        if multi_class == "ovr":
            others = labels != a
        elif multi_class == "mu":
            values = values - scores[:, b]
        # A term is a class ("ovr"), an ordered pair ("ovo") or an unordered pair of classes ("mu").
        if {"ovr": a == b, "ovo": a != b, "mu": a < b}[multi_class]:
            means.append(pair_mean(values, labels == a, others, weights, margin, surrogate))
    means = [mean for mean in means if mean is not None]
    return np.mean(means) if means else 0.0


def hinge_sums(scores, labels, weights, tau, margin):
    """Return P and N, the weighted sums of the hinges of positives and of negatives."""
    z = np.where(labels == 1, tau - scores, scores - tau) / margin
    hinges = weights * np.maximum(0.0, 1 + z)
    return hinges[labels == 1].sum(), hinges[labels == 0].sum()


def kinks(scores, labels, margin):
    return np.sort(np.where(labels == 1, scores - margin, scores + margin))


def fbeta(scores, labels, weights, beta=1.0, margin=1.0):
    total, found = weights[labels == 1].sum(), []
    for tau in kinks(scores, labels, margin):
        P, N = hinge_sums(scores, labels, weights, tau, margin)
        if P < total:
            found.append(1 - (1 + beta**2) * (total - P) / ((1 + beta**2) * total - P + N))
    return min(found)


def crossing(function, low, high):
    """Find the root of a monotone function by bisection, to the last digit."""
    rising = function(low) <= function(high)
    while (middle := (low + high) / 2) not in (low, high):
        if (function(middle) > 0) == rising:
            high = middle
        else:
            low = middle
    return middle


def at_rate(kind, rate, scores, labels, weights, margin):
    """Mean hinges (of positives, of negatives) at the threshold where entry `kind` is `rate`."""

    def means(tau):
        sums = hinge_sums(scores, labels, weights, tau, margin)
        return sums[0] / weights[labels == 1].sum(), sums[1] / weights[labels == 0].sum()

    ends = scores.min() - 2 * margin, scores.max() + 2 * margin
    return means(crossing(lambda tau: means(tau)[kind] - rate, *ends))


def precision_at_recall(scores, labels, weights, recall, margin=1.0):
    return at_rate(0, 1 - recall, scores, labels, weights, margin)[1]


def recall_at_fpr(scores, labels, weights, fpr, margin=1.0):
    return at_rate(1, fpr, scores, labels, weights, margin)[0]


def recall_at_precision(scores, labels, weights, precision, margin=1.0, penalty=2.0):
    """Return the loss at the best threshold: a kink, or a root of the violation."""
    total, other = weights[labels == 1].sum(), weights[labels == 0].sum()

    def violation(tau):
        P, N = hinge_sums(scores, labels, weights, tau, margin)
        return precision * N - (1 - precision) * (total - P)

    candidates = [*kinks(scores, labels, margin)]
    for low, high in pairwise(kinks(scores, labels, margin)):
        if violation(low) * violation(high) < 0:
            candidates.append(crossing(violation, low, high))
    return min(
        hinge_sums(scores, labels, weights, tau, margin)[0] / total
        + penalty * max(0.0, violation(tau)) / other
        for tau in candidates
    )


def precision_at_k(scores, labels, weights, k, margin=1.0):
    """Try all sets of k samples. A sample of weight w counts as w samples."""
    scores, labels = (each.repeat(weights.round().astype(int)) for each in (scores, labels))
    k = min(k, len(scores))
    best_right = best_any = -math.inf
    for chosen in map(list, combinations(range(len(scores)), k)):
        value, n_positive = scores[chosen].sum() / (k * margin), labels[chosen].sum()
        if n_positive == min(k, labels.sum()):
            best_right = max(best_right, value)
        best_any = max(best_any, value + (k - n_positive) / k)
    return best_any - best_right
