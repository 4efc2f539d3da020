"""Thresholds between two scores, so that rounding does not change predictions."""

import numpy as np


def midway_below(scores, t):
    """Return a threshold midway between the score t and the next lower score."""
    below = float(scores[scores < t - rounding(scores, t)].max(initial=-np.inf))
    if below == -np.inf:
        return t - rounding(scores, t)
    middle = (t + below) / 2
    return middle if middle < t else below


def midway_above(scores, t):
    """Return a threshold midway between the score t and the next higher score."""
    above = float(scores[scores > t + rounding(scores, t)].min(initial=np.inf))
    if above == np.inf:
        return t + rounding(scores, t)
    middle = (t + above) / 2
    return middle if middle < above else t


def rounding(scores, t):
    """Return a bound on the difference of two scores near t that differ only by rounding."""
    return 8 * float(np.spacing(np.abs(scores.dtype.type(t))))
