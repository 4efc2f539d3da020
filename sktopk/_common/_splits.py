"""Rows that are held out."""

import numpy as np


def held_out(y, fraction, random, stratify=False):
    """Mask of random rows, a `fraction` of all, that leaves every class a row to train on.

    With `stratify` it is that fraction of each class, at least one row of it.
    """
    order = random.permutation(len(y))
    first = np.zeros(len(y), dtype=bool)
    first[order[np.unique(y[order], return_index=True)[1]]] = True
    candidates = order[~first[order]]
    classes = np.unique(y)
    if len(candidates) == 0 or (stratify and len(np.unique(y[candidates])) < len(classes)):
        which = "some class" if stratify else "every class"
        raise ValueError(
            f"early_stopping and calibration need rows to hold out, but {which} has a single "
            "row: pass X_val and y_val"
        )
    groups = [candidates[y[candidates] == c] for c in classes] if stratify else [candidates]
    mask = np.zeros(len(y), dtype=bool)
    for group in groups:
        n_rows = np.count_nonzero(np.isin(y, y[group])) if stratify else len(y)
        mask[group[: max(1, round(fraction * n_rows))]] = True
    return mask


def held_out_groups(y, groups, fraction, random):
    """Mask of the rows of random groups, a `fraction` of them, with both classes on either side."""
    n_groups = int(groups.max()) + 1
    n_out = min(max(1, round(fraction * n_groups)), n_groups - 1)
    for _ in range(100):
        mask = np.isin(groups, random.permutation(n_groups)[:n_out])
        if len(np.unique(y[mask])) == len(np.unique(y[~mask])) == len(np.unique(y)):
            return mask
    raise ValueError(
        "early_stopping and calibration hold out whole groups, which need rows of each class in "
        f"them and in the others; found none among {n_groups} groups: pass X_val and y_val"
    )


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
