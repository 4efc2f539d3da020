"""One run: a loss on a fold with a seed, its settings tried on held-out training rows."""

import inspect
import time
import warnings
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GroupShuffleSplit

from sktopk._common._fingerprints import digest
from sktopk._common._splits import (
    calibration_rows,
)
from sktopk._common._tables import (
    take_rows,
)
from sktopk._training._net import DivergedError

from ._parts import fit_rows, with_params

# Of the training rows, what the settings are compared on.
VALIDATION_SHARE = 0.25


class Data(NamedTuple):
    """The rows of all runs, and what tells them from others."""

    X: Any
    y: np.ndarray
    weight: Any
    groups: Any
    fingerprint: str


class Run(NamedTuple):
    """What a worker needs to know besides the data."""

    loss: str
    estimator: Any
    candidates: list
    repeat: int
    fold: int
    seed: int
    train: np.ndarray
    test: np.ndarray


def do_run(run, data, scorer, cache):
    """Choose a setting on held-out training rows, fit it to all of them, score the test rows.

    Returns
    -------
    row : dict
        A row of ``LossComparison.frame`` but for its split.
    messages : list of str
        Warnings of the final fit that are not about convergence.
    """
    params, validation_score, n_diverged = run.candidates[0], None, 0
    started = time.perf_counter()
    if len(run.candidates) > 1:
        fit, held = inner_split(run, data)
        tried = [unit(run, each, fit, held, data, scorer, cache) for each in run.candidates]
        scores = [result["score"] for result in tried]
        n_diverged = scores.count(None)
        if n_diverged == len(scores):
            raise RuntimeError(f"{_named(run)} failed with every setting: {tried[0]['failed']}")
        # The first of equals.
        validation_score, best = max(
            (score, -i) for i, score in enumerate(scores) if score is not None
        )
        params = run.candidates[-best]
    result = unit(run, params, run.train, run.test, data, scorer, cache)
    if result["score"] is None:
        raise RuntimeError(f"{_named(run, params)} failed: {result['failed']}")
    row = {
        "loss": run.loss,
        "repeat": run.repeat,
        "fold": run.fold,
        "seed": run.seed,
        "score": result["score"],
        "validation_score": validation_score,
        "params": params,
        "n_candidates": len(run.candidates),
        "n_diverged": n_diverged,
        "settled": result["settled"],
        "fit_seconds": result["seconds"],
        "run_seconds": time.perf_counter() - started,
        "n_train": len(run.train),
        "n_test": len(run.test),
    }
    return row, result["messages"]


def inner_split(run, data):
    """Rows to fit settings to and rows to compare them on, the same for every loss."""
    if data.groups is not None:
        splitter = GroupShuffleSplit(1, test_size=VALIDATION_SHARE, random_state=run.seed)
        groups = take_rows(data.groups, run.train)
        fit, held = next(splitter.split(run.train, groups=groups))
        return run.train[fit], run.train[held]
    random = np.random.RandomState(run.seed)
    mask = calibration_rows(data.y[run.train], VALIDATION_SHARE, random)
    return run.train[~mask], run.train[mask]


def unit(run, params, fit, score, data, scorer, cache):
    """Fit one setting to some rows and score others, unless the cache knows the result."""
    estimator = with_params(run.estimator, params, run.seed)
    key = None
    if cache.folder is not None:
        key = digest([cache.versions, data.fingerprint, estimator, fit, score, scorer])
        if (known := cache.get(key)) is not None:
            return known
    result = _fit_and_score(run, params, estimator, fit, score, data, scorer)
    about = {
        "loss": run.loss,
        "repeat": run.repeat,
        "fold": run.fold,
        "seed": run.seed,
        "params": params,
        "rows": [len(fit), len(score)],
        "versions": cache.versions,
    }
    cache.put(key, result, about)
    return result


def _fit_and_score(run, params, estimator, fit, score, data, scorer):
    started = time.perf_counter()
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            fit_rows(estimator, data.X, data.y, data.weight, fit)
            extra = {}
            if data.weight is not None and _takes_weight(scorer):
                extra["sample_weight"] = take_rows(data.weight, score)
            value = scorer(estimator, take_rows(data.X, score), data.y[score], **extra)
    except DivergedError as error:
        return {"score": None, "failed": str(error)}
    except Exception as error:
        what = f"{type(error).__name__}: {error}"
        raise RuntimeError(f"{_named(run, params)} failed: {what}") from error
    if not np.isscalar(value) or not np.isfinite(value):
        raise RuntimeError(f"{_named(run, params)}: scoring must give a finite number; got {value}")
    unsettled = [each for each in caught if issubclass(each.category, ConvergenceWarning)]
    others = {str(each.message) for each in caught if each not in unsettled}
    return {
        "score": float(value),
        "settled": not unsettled,
        "messages": sorted(others),
        "seconds": time.perf_counter() - started,
    }


def _takes_weight(scorer):
    return "sample_weight" in inspect.signature(scorer).parameters


def _named(run, params=None):
    what = f"loss={run.loss!r} in fold {run.fold}, repeat {run.repeat} (seed {run.seed})"
    return f"{what} with {params}" if params else what
