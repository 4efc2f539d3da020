"""Splits and runs of `compare_losses`: select a setting for a loss, fit a model and score it."""

import copy
import time
import warnings
from inspect import signature
from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from sklearn import get_config
from sklearn.base import clone
from sklearn.model_selection import (
    GroupShuffleSplit,
    StratifiedGroupKFold,
    StratifiedKFold,
    check_cv,
)
from sklearn.utils.metadata_routing import get_routing_for_object

from sktopk._common._input import take_rows
from sktopk._common._samples import calibration_rows
from sktopk._common._scalars import check_random
from sktopk._estimators.decisions._any_classifier import weight_name
from sktopk._training._net import DivergedError

VALIDATION_SHARE = 0.25  # of the training samples, held out to select settings and thresholds


def make_splits(cv, n_seeds, random_state, X, y, groups):
    """Return tuples (repeat, fold, seed, train, test, split). Equal splits have equal `split`."""
    seeds = check_random(random_state).randint(np.iinfo(np.int32).max // 2, size=n_seeds)
    if not isinstance(cv, Integral | str) and not hasattr(cv, "split"):
        cv = list(cv)  # an iterator would be empty for the second seed
    splits, known = [], {}
    for repeat, seed in enumerate(seeds.tolist()):
        for fold, (train, test) in enumerate(_splitter(cv, seed, y, groups).split(X, y, groups)):
            train, test = (np.arange(len(y))[each] for each in (train, test))  # masks or indices
            if np.intersect1d(train, test).size:
                got = f"common samples in fold {fold}"
                raise ValueError(f"cv must have disjoint train and test sets; got {got}")
            split = known.setdefault((train.tobytes(), test.tobytes()), len(known))
            splits.append((repeat, fold, seed + fold, train, test, split))
    if len(known) < 2:
        raise ValueError("cv must have at least two different splits; got one")
    return splits


def _splitter(cv, seed, y, groups):
    """Return the cross-validation splitter of one repetition. It uses `seed` if cv has no seed."""
    if isinstance(cv, Integral):
        folds = StratifiedKFold if groups is None else StratifiedGroupKFold
        return folds(cv, shuffle=True, random_state=seed)
    if getattr(cv, "random_state", 0) is None:
        cv = copy.copy(cv)
        cv.random_state = seed
    return check_cv(cv, y, classifier=True)


def hold_out(y, random, groups=None):
    """Return two index arrays, stratified by class: samples for fitting, and held-out samples."""
    mask = calibration_rows(y, VALIDATION_SHARE, random, groups)
    if groups is not None and not mask.any():  # each chosen group is the only one of a class
        splitter = GroupShuffleSplit(1, test_size=VALIDATION_SHARE, random_state=random)
        return next(splitter.split(y, groups=groups))
    return np.flatnonzero(~mask), np.flatnonzero(mask)


class Rows(NamedTuple):
    X: Any
    y: np.ndarray
    weight: np.ndarray | None
    groups: Any

    def take(self, index):
        return Rows(*(each if each is None else take_rows(each, index) for each in self))


class Run(NamedTuple):
    loss: str
    estimator: Any
    candidates: list
    repeat: int
    fold: int
    seed: int
    train: np.ndarray
    test: np.ndarray
    split: int


def do_run(run, rows, scorer):
    """Select a setting, fit and score it. Return two values: a dict of results, and warnings."""
    params, validation_score, n_diverged = run.candidates[0], None, 0
    started = time.perf_counter()
    train, test = rows.take(run.train), rows.take(run.test)
    if len(run.candidates) > 1:
        # All losses use the same seed in a fold, and therefore hold out the same samples.
        kept, held = hold_out(train.y, np.random.RandomState(run.seed), train.groups)
        fit, judge = train.take(kept), train.take(held)
        scores = []
        for params in run.candidates:
            try:
                scores.append(_fit_and_score(run, params, fit, judge, scorer)[0])
            except RuntimeError as error:
                if not isinstance(error.__cause__, DivergedError):
                    raise
                scores.append(-np.inf)
                diverged = error
        n_diverged = scores.count(-np.inf)
        if n_diverged == len(scores):
            raise RuntimeError(f"every setting diverged: {diverged}") from diverged
        best = int(np.argmax(scores))
        params, validation_score = run.candidates[best], scores[best]
    score, seconds, messages = _fit_and_score(run, params, train, test, scorer)
    row = {
        **{name: getattr(run, name) for name in ("loss", "repeat", "fold", "split", "seed")},
        "score": score,
        "validation_score": validation_score,
        "params": params,
        "n_candidates": len(run.candidates),
        "n_diverged": n_diverged,
        "fit_seconds": seconds,
        "run_seconds": time.perf_counter() - started,
        "n_train": len(run.train),
        "n_test": len(run.test),
    }
    return row, messages


def _fit_and_score(run, params, train, test, scorer):
    """Return three values: score of a setting, seconds for fit and score, and warnings."""
    estimator = with_params(run.estimator, params, run.seed)
    started = time.perf_counter()
    with warnings.catch_warnings(record=True, action="always") as caught:
        try:
            of_fit, of_score = {}, {}
            if train.weight is not None:
                routes = get_config()["enable_metadata_routing"]
                of_fit = {"sample_weight" if routes else weight_name(estimator): train.weight}
                if "sample_weight" in signature(scorer).parameters:
                    of_score = {"sample_weight": test.weight}
            if test.groups is not None and requests_groups(scorer):
                of_score["groups"] = test.groups
            estimator.fit(train.X, train.y, **of_fit)
            score = scorer(estimator, test.X, test.y, **of_score)
            if np.ndim(score) or not np.isfinite(score):
                raise ValueError(f"scoring must return a finite number; got {score!r}")
        except Exception as error:
            raise RuntimeError(
                f"loss={run.loss!r} in fold {run.fold}, repeat {run.repeat} (seed {run.seed}) with "
                f"{params} failed: {type(error).__name__}: {error}"
            ) from error
    return float(score), time.perf_counter() - started, {str(each.message) for each in caught}


def requests_groups(scorer):
    """Return whether a scorer has the request ``set_score_request(groups=True)``."""
    return bool(get_routing_for_object(scorer).consumes("score", {"groups"}))


def with_params(estimator, params, seed):
    """Return a clone with `params` set, and with every `random_state` set to `seed`."""
    copy = clone(estimator).set_params(**params)
    names = [n for n in copy.get_params(deep=True) if n.split("__")[-1] == "random_state"]
    return copy.set_params(**dict.fromkeys(names, seed))
