"""Guarantees about a batch: conformal selection, and positives among its best samples."""

import math
from bisect import bisect_left

import numpy as np
from scipy.stats import false_discovery_control, hypergeom


def conformal_selection(old, positive, new, budget):
    """Return the mask of new scores of which at most a share `budget` is expected to be negative.

    The procedure of Benjamini and Hochberg on the conformal p-values
    (1 + number of negative calibration scores of at least s) / (n + 1).
    """
    negative = np.sort(old[~positive])
    n_above = len(negative) - np.searchsorted(negative, new)
    return false_discovery_control((1 + n_above) / (1 + len(old))) <= budget


def n_samples_needed(budget):
    """Return the smallest n for which the least p-value, 1 / (n + 1), is at most `budget`."""
    return math.ceil(round(1 / budget, 9)) - 1


def hits_interval(old, positive, new, n, delta, random):
    """Return bounds on the positives among the n best of `new` that hold with 1 - delta."""
    above = _labels_above(old, positive, new, n, random)
    n_above, n_positive = len(above), np.count_nonzero(above)

    # Both rise and fall with the positives among the n: bisection finds their ends.
    def as_many_are_rare(hits):
        return hypergeom.sf(n_positive - 1, n_above + n, n_positive + hits, n_above)

    def as_few_are_rare(hits):
        return hypergeom.cdf(n_positive, n_above + n, n_positive + hits, n_above)

    numbers = range(n + 1)
    low = bisect_left(numbers, True, key=lambda hits: as_many_are_rare(hits) > delta / 2)
    high = bisect_left(numbers, True, key=lambda hits: as_few_are_rare(hits) <= delta / 2)
    return low, high - 1


def simultaneous_hits(old, positive, new, ns, delta, random):
    """Return bounds for several numbers of samples, which all hold at once with 1 - delta.

    By Bonferroni's inequality. Each bound then gains from the others, since one more sample brings
    at most one more positive.
    """
    each = [hits_interval(old, positive, new, n, delta / len(ns), random) for n in ns]
    low, high = np.transpose(each)
    more = np.maximum(0, np.subtract.outer(ns, ns))  # samples of the first that the second lacks
    return (low[None] - more.T).max(axis=1), (high[None] + more).min(axis=1)


def _labels_above(old, positive, new, n, random):
    """Return the labels of the calibration samples that rank above the (n + 1)-th new one."""
    if n == len(new):
        return positive
    cut = np.partition(new, -n - 1)[-n - 1]
    above, tied = old > cut, old == cut
    if tied.any():
        # New samples of equal score are in random order. Any order of them and of the
        # calibration samples is as likely once these have random places in it.
        n_taken, n_tied = n - np.count_nonzero(new > cut), np.count_nonzero(new == cut)
        place = random.beta(n_taken + 1, n_tied - n_taken)
        above |= tied & (random.random(len(tied)) < place)
    return positive[above]
