"""Samples that calibrate instead of training."""

import numpy as np


def calibration_rows(y, fraction, random):
    """Return a mask of rows to calibrate with, drawn by class.

    Rows are sorted by class, in random order inside, and every (1 / fraction)-th is taken from
    a random start: each row has the same chance, also in a class of few rows, and a class gives
    its share, rounded down or up. A class that would give all its rows keeps one back.
    """
    code = np.unique(y, return_inverse=True)[1]
    order = random.permutation(len(code))
    order = order[np.argsort(code[order], kind="stable")]
    n_taken = min(len(code), max(1, round(fraction * len(code))))
    taken = (np.arange(n_taken) + random.uniform()) * (len(code) / max(1, n_taken))
    mask = np.zeros(len(code), dtype=bool)
    mask[order[taken.astype(np.intp)]] = True
    first = order[np.unique(code[order], return_index=True)[1]]
    keeps_none = np.bincount(code[~mask], minlength=len(first)) == 0
    mask[first[keeps_none]] = False
    return mask
