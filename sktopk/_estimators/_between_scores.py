"""Thresholds that lie between two scores, so that no rounding moves a row across."""

import numpy as np


def midway_below(scores, t):
    """The number between the score t and the next lower one, so that rows at t are flagged."""
    below = float(scores[scores < t].max(initial=-np.inf))
    if below == -np.inf:
        return t - digits(scores, t)
    middle = (t + below) / 2
    return middle if middle < t else below


def midway_above(scores, t):
    """The number between the score t and the next higher one, so that rows at t are not flagged."""
    above = scores[scores > t].min(initial=np.inf)
    if above == np.inf:
        return t + digits(scores, t)
    middle = (t + float(above)) / 2
    return middle if middle < above else t


def digits(scores, t):
    """What scores of the same row may differ by between batches."""
    return 8 * float(np.spacing(np.abs(scores.dtype.type(t))))
