"""One run: a loss on a fold with a seed, with its settings tried on held-out training samples."""

import time
import warnings
from typing import Any, NamedTuple

import numpy as np
from sklearn import get_config
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from sktopk._common._input import take_rows
from sktopk._common._scoring import weight_for
from sktopk._training._net import DivergedError

from ._splits import hold_out


class Rows(NamedTuple):
    """Samples with their labels, and their weights and groups or None."""

    X: Any
    y: np.ndarray
    weight: np.ndarray | None = None
    groups: Any = None

    def take(self, index):
        """Return some of the samples."""
        # Tables of pyarrow are indexed by columns.
        X = self.X.take(index) if is_arrow(self.X) else take_rows(self.X, index)
        others = (each if each is None else take_rows(each, index) for each in self[1:])
        return Rows(X, *others)


class Run(NamedTuple):
    """What a worker needs in addition to the samples."""

    loss: str
    estimator: Any
    candidates: list
    repeat: int
    fold: int
    seed: int
    train: np.ndarray
    test: np.ndarray


class Trial(NamedTuple):
    """The result of one training; the score is None if it diverged, as `diverged` says."""

    score: float | None
    diverged: str
    messages: set
    seconds: float


def is_arrow(X):
    """Return whether X is a table of pyarrow."""
    return type(X).__module__.partition(".")[0] == "pyarrow"


def do_run(run, rows, scorer):
    """Choose a setting on held-out training samples, fit it to all of them, score the test samples.

    Returns
    -------
    row : dict
        A row of ``LossComparison.frame`` but for its split.
    messages : set of str
        Warnings of the final fit.
    """
    params, validation_score, n_diverged = run.candidates[0], None, 0
    started = time.perf_counter()
    train, test = rows.take(run.train), rows.take(run.test)
    if len(run.candidates) > 1:
        # The same for every loss.
        kept, held = hold_out(train.y, np.random.RandomState(run.seed), train.groups)
        fit, judge = train.take(kept), train.take(held)
        tried = [_trial(run, each, fit, judge, scorer) for each in run.candidates]
        n_diverged = sum(trial.score is None for trial in tried)
        if n_diverged == len(tried):
            raise RuntimeError(f"{_named(run)} failed with every setting: {tried[0].diverged}")
        scores = [-np.inf if trial.score is None else trial.score for trial in tried]
        best = int(np.argmax(scores))
        params, validation_score = run.candidates[best], scores[best]
    trial = _trial(run, params, train, test, scorer)
    if trial.score is None:
        raise RuntimeError(f"{_named(run, params)} failed: {trial.diverged}")
    row = {name: getattr(run, name) for name in ("loss", "repeat", "fold", "seed")}
    row |= {
        "score": trial.score,
        "validation_score": validation_score,
        "params": params,
        "n_candidates": len(run.candidates),
        "n_diverged": n_diverged,
        "fit_seconds": trial.seconds,
        "run_seconds": time.perf_counter() - started,
        "n_train": len(run.train),
        "n_test": len(run.test),
    }
    return row, trial.messages


def _trial(run, params, train, test, scorer):
    """Fit one setting to some samples and score others."""
    estimator = with_params(run.estimator, params, run.seed)
    started, score, diverged = time.perf_counter(), None, ""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            score = score_rows(fit_rows(estimator, train), test, scorer)
        except DivergedError as error:
            diverged = str(error)
        except Exception as error:
            what = f"{type(error).__name__}: {error}"
            raise RuntimeError(f"{_named(run, params)} failed: {what}") from error
    messages = {str(each.message) for each in caught}
    return Trial(score, diverged, messages, time.perf_counter() - started)


def fit_rows(estimator, rows):
    """Fit `estimator` in place; in a pipeline the weights are those of the last step."""
    params = {} if rows.weight is None else {_weight_name(estimator): rows.weight}
    return estimator.fit(rows.X, rows.y, **params)


def _weight_name(estimator):
    if isinstance(estimator, Pipeline) and not get_config()["enable_metadata_routing"]:
        name, last = estimator.steps[-1]
        return f"{name}__{_weight_name(last)}"
    return "sample_weight"


def score_rows(estimator, rows, scorer):
    """Return the score of a fitted estimator, a finite number."""
    score = scorer(estimator, rows.X, rows.y, **weight_for(scorer, rows.weight))
    number = np.asarray(score)
    if number.shape or number.dtype.kind not in "fiub" or not np.isfinite(number):
        raise ValueError(f"scoring must give a finite number; got {score!r}")
    return float(number)


def with_params(estimator, params, seed=None):
    """Return a clone with other parameters, and every `random_state` set to `seed`."""
    copy = clone(estimator).set_params(**params)
    if seed is None:
        return copy
    names = [n for n in copy.get_params(deep=True) if n.split("__")[-1] == "random_state"]
    return copy.set_params(**dict.fromkeys(names, seed))


def _named(run, params=None):
    what = f"loss={run.loss!r} in fold {run.fold}, repeat {run.repeat} (seed {run.seed})"
    return f"{what} with {params}" if params else what
