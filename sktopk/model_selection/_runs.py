"""One run: a loss on a fold with a seed, its settings tried on held-out training rows."""

import time
from typing import Any, NamedTuple

import numpy as np

from sktopk._common._fingerprints import digest
from sktopk._common._input import take_rows
from sktopk._estimators.labels._comparison import (
    Rows,
    Trial,
    run_trial,
    score_rows,
    with_params,
)

from ._splits import hold_out


class Data(NamedTuple):
    """The rows of all runs, and what tells them from others."""

    rows: Rows
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

    @property
    def place(self):
        """Which run it is, by plain values."""
        return {name: getattr(self, name) for name in ("loss", "repeat", "fold", "seed")}


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
        groups = None if data.groups is None else take_rows(data.groups, run.train)
        random = np.random.RandomState(run.seed)
        # The same for every loss.
        fit, held = (run.train[i] for i in hold_out(data.rows.y[run.train], random, groups))
        tried = [run_or_recall(run, p, fit, held, data, scorer, cache) for p in run.candidates]
        n_diverged = sum(bool(trial.diverged) for trial in tried)
        if n_diverged == len(tried):
            raise RuntimeError(f"{_named(run)} failed with every setting: {tried[0].diverged}")
        # The first of equals.
        scores = [-np.inf if trial.diverged else trial.scores[0] for trial in tried]
        best = int(np.argmax(scores))
        params, validation_score = run.candidates[best], scores[best]
    trial = run_or_recall(run, params, run.train, run.test, data, scorer, cache)
    if trial.diverged:
        raise RuntimeError(f"{_named(run, params)} failed: {trial.diverged}")
    row = run.place | {
        "score": trial.scores[0],
        "validation_score": validation_score,
        "params": params,
        "n_candidates": len(run.candidates),
        "n_diverged": n_diverged,
        "settled": trial.settled,
        "fit_seconds": trial.seconds,
        "run_seconds": time.perf_counter() - started,
        "n_train": len(run.train),
        "n_test": len(run.test),
    }
    return row, trial.messages


def run_or_recall(run, params, fit, score, data, scorer, cache):
    """Fit one setting to some rows and score others, unless the cache knows the result."""
    estimator = with_params(run.estimator, params, run.seed)
    if cache is not None:
        question = [cache.versions, data.fingerprint, estimator, fit, score, scorer]
        key = digest([Trial._fields, *question])
        if (known := cache.get(key)) is not None:
            return Trial(**known)
    try:
        test = data.rows.take(score)
        trial = run_trial(
            estimator, data.rows.take(fit), lambda fitted: [score_rows(fitted, test, scorer)]
        )
    except Exception as error:
        what = f"{type(error).__name__}: {error}"
        raise RuntimeError(f"{_named(run, params)} failed: {what}") from error
    if cache is not None:
        rows = [len(fit), len(score)]
        about = run.place | {"params": params, "rows": rows, "versions": cache.versions}
        cache.put(key, trial._asdict(), about)
    return trial


def _named(run, params=None):
    what = f"loss={run.loss!r} in fold {run.fold}, repeat {run.repeat} (seed {run.seed})"
    return f"{what} with {params}" if params else what
