"""The same splits, held-out samples and seeds for every loss."""

import copy
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

# Share of the training samples that settings and thresholds are chosen on.
VALIDATION_SHARE = 0.25


def make_splits(cv, n_seeds, random_state, X, y, groups):
    """Return ``(repeat, fold, seed, train, test, split)`` of every run of a loss.

    `split` numbers the distinct pairs of training and test samples.
    """
    seeds = check_random(random_state).randint(np.iinfo(np.int32).max // 2, size=n_seeds)
    if not isinstance(cv, Integral | str) and not hasattr(cv, "split"):
        cv = list(cv)  # an iterator would be empty at the second seed
    splits, known = [], {}
    for repeat, seed in enumerate(seeds.tolist()):
        pairs = _splitter(cv, seed, y, groups).split(X, y, groups)
        for fold, (train, test) in enumerate(pairs):
            train, test = (_row_numbers(each) for each in (train, test))
            if np.intersect1d(train, test).size:
                raise ValueError(f"cv must not test on training samples; fold {fold} does")
            split = known.setdefault((train.tobytes(), test.tobytes()), len(known))
            splits.append((repeat, fold, seed + fold, train, test, split))
    if len(known) < 2:
        raise ValueError("cv must give at least two different splits; got one")
    return splits


def _splitter(cv, seed, y, groups):
    """Return the splitter of one repeat, shuffled by its seed unless it has its own."""
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
    """Return the row numbers of samples to fit and of held-out ones, by class or by group."""
    if groups is not None:
        splitter = GroupShuffleSplit(1, test_size=VALIDATION_SHARE, random_state=random)
        return next(splitter.split(y, groups=groups))
    mask = calibration_rows(y, VALIDATION_SHARE, random)
    return np.flatnonzero(~mask), np.flatnonzero(mask)
