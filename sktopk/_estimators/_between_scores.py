"""Thresholds between two scores, which no rounding moves a sample across."""

import numpy as np


def midway_below(scores, t):
    """Return the number between the score t and the next lower one; samples at t are above it."""
    below = float(scores[scores < t - rounding(scores, t)].max(initial=-np.inf))
    if below == -np.inf:
        return t - rounding(scores, t)
    middle = (t + below) / 2
    return middle if middle < t else below


def midway_above(scores, t):
    """Return the number between the score t and the next higher one; samples at t are below it."""
    above = float(scores[scores > t + rounding(scores, t)].min(initial=np.inf))
    if above == np.inf:
        return t + rounding(scores, t)
    middle = (t + above) / 2
    return middle if middle < above else t


def rounding(scores, t):
    """The difference that scores of the same sample may have in different minibatches."""
    return 8 * float(np.spacing(np.abs(scores.dtype.type(t))))
