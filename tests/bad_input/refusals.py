"""How a refusal is judged: its error, the inputs, and what was fitted before."""

import re
import warnings
from functools import cache
from typing import NamedTuple

import joblib
import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.utils.validation import check_is_fitted

import sktopk

X = np.random.default_rng(0).normal(size=(40, 3))
OF_FOUR = np.arange(40) % 4
OF_TWO = (OF_FOUR == 1).astype(int)

NETS = {
    "TopKClassifier": {"k": 2},
    "DeepTopPushClassifier": {},
    "TopPushKClassifier": {"k": 2},
    "RecallAtKClassifier": {"k": 4},
    "PatMatClassifier": {"tau": 0.2},
    "PatMatNPClassifier": {"tau": 0.2},
    "RecallAtFPRClassifier": {"fpr": 0.2},
    "PrecisionAtRecallClassifier": {},
    "AUCClassifier": {},
    "FScoreClassifier": {},
    "RecallAtPrecisionClassifier": {"precision": 0.2},
}
DECISIONS = {
    "BudgetClassifier": {"estimator": LogisticRegression()},
    "SetClassifier": {"estimator": LogisticRegression(), "method": "lac"},
    "ExpectedCostClassifier": {"estimator": LogisticRegression()},
}


class Row(NamedTuple):
    """What is passed, the error it meets and what that says; None for any estimator."""

    passed: object
    error: type | tuple
    says: str
    only: tuple | None = None


def labels(name):
    return (
        OF_FOUR if name in ("TopKClassifier", "SetClassifier", "ExpectedCostClassifier") else OF_TWO
    )


def make(name, **params):
    if name in NETS:
        params = NETS[name] | {"max_epochs": 1, "hidden_layer_sizes": (), "device": "cpu"} | params
    else:
        params = DECISIONS[name] | params
    return getattr(sktopk, name)(**params)


def fit(estimator, X, y):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return estimator.fit(X, y)


@cache
def fitted(name):
    """An estimator that was fitted before, its parameters and its scores."""
    estimator = fit(make(name), X, labels(name))
    return estimator, estimator.get_params(deep=False), estimator.predict(X)


def fingerprint(values):
    """A hash of what was passed, blind to what containers note of themselves."""
    if isinstance(values, tuple):
        return tuple(map(fingerprint, values))
    if sparse.issparse(values):
        return fingerprint((values.data, values.indices, values.indptr))
    if isinstance(values, pd.DataFrame | pd.Series | pl.DataFrame):
        values = values.to_numpy()
    if isinstance(values, np.ndarray) and values.dtype.kind == "O":
        return repr(values.tolist())
    return joblib.hash(values)


def assert_refused(name, row, call, inputs=()):
    """`call` an estimator that was fitted before: it must raise, and change nothing else."""
    estimator, params, answers = fitted(name)
    inputs = X, OF_FOUR, OF_TWO, inputs
    before = fingerprint(inputs)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with pytest.raises(row.error) as caught:
                call(estimator)
        message = str(caught.value)
        assert re.search(row.says, message, re.DOTALL), f"{name}: {message}"
        assert fingerprint(inputs) == before, f"{name} changed its input"
        estimator.set_params(**params)
        if is_fitted(estimator):
            np.testing.assert_array_equal(estimator.predict(X), answers, name)
            return
        # Clearly unfitted is well, too.
        with pytest.raises(NotFittedError):
            estimator.predict(X)
    except BaseException:
        fitted.cache_clear()
        raise
    fitted.cache_clear()


def is_fitted(estimator):
    try:
        check_is_fitted(estimator)
    except NotFittedError:
        return False
    return True
