"""Guarantees for a batch: conformal selection, and bounds on the number of positives."""

import math
from bisect import bisect_left

import numpy as np
from scipy.stats import false_discovery_control, hypergeom


def conformal_selection(old, positive, new, budget):
    """Return the mask of the selected new scores, with a false discovery rate <= `budget`.

    This is the procedure of Benjamini and Hochberg (1995) for the conformal p-values (1 + number of
    negative calibration scores >= s) / (n + 1) of Jin and Candès (2023).
    """
    negative = np.sort(old[~positive])
    n_above = len(negative) - np.searchsorted(negative, new)
    return false_discovery_control((1 + n_above) / (1 + len(old))) <= budget


def n_samples_needed(budget):
    """Return the smallest n for which the lowest possible p-value, 1 / (n + 1), is <= budget."""
    return math.ceil(round(1 / budget, 9)) - 1


def hits_interval(old, positive, new, n, delta, random):
    """Return bounds on the number of positives among the n best new samples (level 1 - delta)."""
    above = _labels_above(old, positive, new, n, random)
    n_above, n_positive = len(above), np.count_nonzero(above)

    # Both tails are monotone in the number of positives (hits), so bisection finds the bounds.
    def upper_tail(hits):
        return hypergeom.sf(n_positive - 1, n_above + n, n_positive + hits, n_above)

    def lower_tail(hits):
        return hypergeom.cdf(n_positive, n_above + n, n_positive + hits, n_above)

    numbers = range(n + 1)
    low = bisect_left(numbers, True, key=lambda hits: upper_tail(hits) > delta / 2)
    high = bisect_left(numbers, True, key=lambda hits: lower_tail(hits) <= delta / 2)
    return low, high - 1


def simultaneous_hits(old, positive, new, ns, delta, random):
    """Return bounds for each n in `ns`. All bounds hold simultaneously at level 1 - delta.

    Each interval has the level 1 - delta / len(ns) (Bonferroni), and is narrowed by the others: if
    n increases by m, the number of positives increases by 0 to m.
    """
    each = [hits_interval(old, positive, new, n, delta / len(ns), random) for n in ns]
    low, high = np.transpose(each)
    more = np.maximum(0, np.subtract.outer(ns, ns))  # by how much ns[i] exceeds ns[j]
    return (low[None] - more.T).max(axis=1), (high[None] + more).min(axis=1)


def _labels_above(old, positive, new, n, random):
    """Return the labels of calibration samples that score above the (n + 1)-th best new sample."""
    if n == len(new):
        return positive
    cut = np.partition(new, -n - 1)[-n - 1]
    above, tied = old > cut, old == cut
    if tied.any():
        # Break ties at random: all orders of the tied samples are equally probable. The relative
        # place of the (n + 1)-th new sample among them then has a beta distribution.
        n_taken, n_tied = n - np.count_nonzero(new > cut), np.count_nonzero(new == cut)
        place = random.beta(n_taken + 1, n_tied - n_taken)
        above |= tied & (random.random(len(tied)) < place)
    return positive[above]
