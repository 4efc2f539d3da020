"""What every comparison of losses does: train on some rows, score others, survive divergence."""

import time
import warnings
from typing import Any, NamedTuple

import numpy as np
from sklearn import get_config
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import Pipeline

from sktopk._common._input import take_rows
from sktopk._common._scoring import check_scorer, weight_for
from sktopk._training._net import DivergedError
from sktopk.metrics import make_topk_scorer


class Rows(NamedTuple):
    """Rows with their labels, and weights or None."""

    X: Any
    y: Any
    weight: Any = None

    def take(self, index):
        """Return some of the rows."""
        return Rows(*(each if each is None else take_rows(each, index) for each in self))


class Trial(NamedTuple):
    """What came of one training, in plain values.

    Parameters
    ----------
    scores : list of float
        The score of each block of rows; empty if training diverged.
    diverged : str
        How, or empty.
    settled : bool
        Whether no warning said that training could go on.
    messages : list of str
        Other warnings.
    seconds : float
    """

    scores: list
    diverged: str
    settled: bool
    messages: list
    seconds: float


def run_trial(estimator, train, scores_of, **fit_params):
    """Fit `estimator` in place to rows, and score it.

    Parameters
    ----------
    estimator : estimator
    train : Rows
    scores_of : callable
        Returns a list of scores of the fitted estimator.
    **fit_params : dict
        Passed to `fit`.

    Returns
    -------
    trial : Trial
    """
    started = time.perf_counter()
    scores, diverged = [], ""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            fit_rows(estimator, train, **fit_params)
            scores = scores_of(estimator)
        except DivergedError as error:
            diverged = str(error)
    unsettled = [each for each in caught if issubclass(each.category, ConvergenceWarning)]
    others = {str(each.message) for each in caught if each not in unsettled}
    seconds = time.perf_counter() - started
    return Trial(scores, diverged, not unsettled, sorted(others), seconds)


def fit_rows(estimator, rows, **params):
    """Fit `estimator` in place; in a pipeline the weights are those of the last step."""
    if rows.weight is not None:
        params[_weight_name(estimator)] = rows.weight
    return estimator.fit(rows.X, rows.y, **params)


def _weight_name(estimator):
    if isinstance(estimator, Pipeline) and not get_config()["enable_metadata_routing"]:
        name, last = estimator.steps[-1]
        return f"{name}__{_weight_name(last)}"
    return "sample_weight"


def score_rows(estimator, rows, scorer):
    """Return the score of a fitted estimator on `rows`, a finite number."""
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


def largest_k(k, n_classes):
    """Return the k of a score of a classifier of so many classes, trained at `k`."""
    return min(int(max(k) if isinstance(k, dict) else k), n_classes - 1)


def make_scorer(estimator, scoring, k):
    """Return the scorer of `scoring`, which is top-k accuracy where that is None."""
    return make_topk_scorer(k) if scoring is None else check_scorer(estimator, scoring)
