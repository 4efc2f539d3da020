"""Splits, held-out samples and seeds, which are the same for all compared losses."""

import copy
from itertools import combinations
from numbers import Integral

import numpy as np
from sklearn.model_selection import (
    GroupShuffleSplit,
    StratifiedGroupKFold,
    StratifiedKFold,
    check_cv,
)

from sktopk._common._scalars import check_random
from sktopk._common._splits import calibration_rows

# This share of the training samples is held out to select settings and thresholds.
VALIDATION_SHARE = 0.25


def make_splits(cv, n_seeds, random_state, X, y, groups):
    """Return a list of (repeat, fold, seed, train, test, split), with the number of the split."""
    seeds = check_random(random_state).randint(np.iinfo(np.int32).max // 2, size=n_seeds)
    if not isinstance(cv, Integral | str) and not hasattr(cv, "split"):
        cv = list(cv)  # an iterator would be empty for the second seed
    splits, known = [], {}
    for repeat, seed in enumerate(seeds.tolist()):
        pairs = _splitter(cv, seed, y, groups).split(X, y, groups)
        for fold, (train, test) in enumerate(pairs):
            train, test = (_row_numbers(each) for each in (train, test))
            if np.intersect1d(train, test).size:
                got = f"common samples in fold {fold}"
                raise ValueError(f"cv must have disjoint train and test sets; got {got}")
            split = known.setdefault((train.tobytes(), test.tobytes()), len(known))
            splits.append((repeat, fold, seed + fold, train, test, split))
    if len(known) < 2:
        raise ValueError("cv must have at least two different splits; got one")
    return splits


def mean_overlap(splits):
    """Return the mean share of test samples that two different splits have in common."""
    tests = list({split: test for *_, test, split in splits}.values())
    shares = [
        len(np.intersect1d(one, two)) / (len(one) * len(two)) ** 0.5
        for one, two in combinations(tests, 2)
    ]
    return float(np.mean(shares))


def _splitter(cv, seed, y, groups):
    """Return the cross-validation splitter of one repetition. `seed` is used if `cv` has none."""
    if isinstance(cv, Integral):
        folds = StratifiedKFold if groups is None else StratifiedGroupKFold
        return folds(cv, shuffle=True, random_state=seed)
    if getattr(cv, "random_state", 0) is None:
        cv = copy.copy(cv)
        cv.random_state = seed
    return check_cv(cv, y, classifier=True)


def _row_numbers(rows):
    rows = np.asarray(rows)
    return np.flatnonzero(rows) if rows.dtype == bool else rows.astype(np.int64)


def hold_out(y, random, groups=None):
    """Return indices for fitting and held-out indices. Without groups, the split is stratified."""
    if groups is not None:
        splitter = GroupShuffleSplit(1, test_size=VALIDATION_SHARE, random_state=random)
        return next(splitter.split(y, groups=groups))
    mask = calibration_rows(y, VALIDATION_SHARE, random)
    return np.flatnonzero(~mask), np.flatnonzero(mask)
