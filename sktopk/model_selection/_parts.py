"""The classifier inside a pipeline, its seeds and weights, and the rows a run needs."""

from numbers import Integral

import numpy as np
from sklearn import get_config
from sklearn.base import clone
from sklearn.pipeline import Pipeline

from sktopk._common._tables import (
    take_rows,
)
from sktopk._estimators.labels._topk_classifier import TopKClassifier


def classifier_prefix(estimator):
    """Return "clf__" for a pipeline with a TopKClassifier in step "clf", "" for the classifier.

    Parameters
    ----------
    estimator : estimator
        A TopKClassifier, or anything whose parameters hold exactly one, at any depth.
    """
    if isinstance(estimator, TopKClassifier):
        return ""
    params = estimator.get_params(deep=True) if hasattr(estimator, "get_params") else {}
    names = [name for name, value in params.items() if isinstance(value, TopKClassifier)]
    if len(names) != 1:
        raise TypeError(
            "estimator must be a TopKClassifier or hold exactly one, as a pipeline does that ends "
            f"in it; found {len(names)} in {type(estimator).__name__}"
        )
    return f"{names[0]}__"


def own_params(estimator, prefix):
    """Return the parameters of the classifier that `classifier_prefix` found."""
    params = estimator.get_params(deep=True)
    return params[prefix.removesuffix("__")].get_params() if prefix else params


def with_params(estimator, params, seed=None):
    """Return a clone with other parameters, and every `random_state` set to `seed`."""
    copy = clone(estimator).set_params(**params)
    if seed is None:
        return copy
    names = [n for n in copy.get_params(deep=True) if n.split("__")[-1] == "random_state"]
    return copy.set_params(**dict.fromkeys(names, seed))


def fit_rows(estimator, X, y, weight, rows):
    """Fit `estimator` in place on some rows; `weight` may be None."""
    params = {}
    if weight is not None:
        params[_weight_name(estimator)] = take_rows(weight, rows)
    return estimator.fit(take_rows(X, rows), take_rows(y, rows), **params)


def _weight_name(estimator):
    if isinstance(estimator, Pipeline) and not get_config()["enable_metadata_routing"]:
        name, last = estimator.steps[-1]
        return f"{name}__{_weight_name(last)}"
    return "sample_weight"


def check_at_least(value, name, low):
    """Raise unless `value` is an integer of at least `low`."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be an integer; got {value!r}")
    if value < low:
        raise ValueError(f"{name} must be at least {low}; got {value!r}")
