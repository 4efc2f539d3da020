"""Choice of held-out calibration samples."""

import numpy as np


def calibration_rows(y, fraction, random):
    """Return a Boolean mask that selects calibration samples at random, stratified by class.

    Systematic sampling takes every (1 / fraction)-th sample of the shuffled classes, so that each
    sample has the same probability. Each class keeps at least one training sample.
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
