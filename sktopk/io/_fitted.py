"""What fitted estimators must look like before anything is built from a file."""

from itertools import pairwise

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline

from sktopk._estimators._calibration import CALIBRATIONS
from sktopk._estimators._net_classifier import NetClassifier
from sktopk._estimators.decisions._conformal import Conformity
from sktopk._estimators.decisions._guarantees import Rate
from sktopk._estimators.labels._losses import LOSSES
from sktopk._training._torch_names import (
    OPTIMIZERS,
)

_NET_KEYS = {
    "dtype",
    "weights",
    "optimizer",
    "generator",
    "rng_state",
    "criterion",
    "noise",
    "history",
}
_OF_NETS = {"classes_", "class_count_", "n_features_in_", "input_shape_", "n_iter_", "history_"}


def attributes_of(estimator):
    """Names of the fitted attributes that a file keeps."""
    return set() if isinstance(estimator, Pipeline | FrozenEstimator) else set(_CHECKS)


def check_inner(estimator):
    """Check the parts of estimators that hold others."""
    if isinstance(estimator, Pipeline):
        steps = estimator.steps
        if estimator.memory is not None:
            raise ValueError("memory of a Pipeline must be None")
        if not isinstance(steps, list) or not all(_is_step(each) for each in steps):
            raise ValueError("steps of a Pipeline must be pairs of a name and an estimator")
    elif isinstance(estimator, FrozenEstimator) or hasattr(estimator, "estimator"):
        _check_estimator(estimator.estimator, estimator)


def check_fitted(estimator, fitted):
    """Raise unless fitted attributes are known, complete, and of the right type and shape."""
    name = type(estimator).__name__
    unknown = sorted(set(fitted) - attributes_of(estimator))
    if unknown:
        raise ValueError(f"{name} has no attributes {unknown}: upgrade sktopk")
    if not fitted:
        return
    needed = {"classes_"} | (_OF_NETS | {"net_"} if isinstance(estimator, NetClassifier) else set())
    missing = sorted(needed - set(fitted))
    if missing:
        raise ValueError(f"{', '.join(missing)} of {name} are missing")
    n_classes, n_features = np.size(fitted["classes_"]), fitted.get("n_features_in_")
    for key, value in fitted.items():
        if not _CHECKS[key](value, n_classes, n_features):
            raise ValueError(f"{key} of {name} has a wrong type, shape or value: {value!r:.80}")
    if "estimator_" in fitted:
        _check_estimator(fitted["estimator_"], estimator)


def check_net(estimator, fitted):
    """Check what the net of a new estimator is going to be built from.

    Shapes come before memory: what the parameters ask for has to be in the file.
    """
    # Those of another machine.
    estimator.device, estimator.checkpoint = "cpu", None
    estimator._check_params()
    state, classes = fitted["net_"], fitted.get("classes_")
    if not isinstance(state, dict) or not set(state) >= _NET_KEYS:
        raise ValueError("net_ lacks a part of its state")
    if state["dtype"] not in ("float32", "float64"):
        raise ValueError(f"dtype of net_ must be float32 or float64; got {state['dtype']!r}")
    if not all(isinstance(state[key], dict) for key in ("weights", "optimizer", "criterion")):
        raise ValueError("the weights of net_ are no table of arrays")
    if estimator.module is None and classes is not None:
        estimator.classes_ = classes
        sizes = [fitted.get("n_features_in_"), *estimator.hidden_layer_sizes]
        sizes.append(estimator._n_outputs())
        expected = [(n_out, n_in) for n_in, n_out in pairwise(sizes)]
        weights = [np.shape(value) for value in state["weights"].values()]
        found = [shape for shape in weights if len(shape) == 2]
        if found != expected:
            raise ValueError(
                f"weights of wrong shape: {found} do not belong to hidden_layer_sizes="
                f"{estimator.hidden_layer_sizes!r}, {sizes[0]} features and {sizes[-1]} outputs"
            )
    states = [state["generator"], *state["rng_state"][:1]]
    for values in states if state["noise"] is None else [*states, state["noise"]]:
        # What a generator on a GPU draws from has another length.
        if np.size(values) > 100:
            torch.Generator().set_state(torch.from_numpy(np.asarray(values)))


def check_optimizer_state(net, optimizer):
    """Check that what the optimizer remembers of each weight has its shape."""
    if optimizer not in OPTIMIZERS:
        return
    for parameter, state in net.optimizer_.state.items():
        for key, value in state.items():
            shape = tuple(getattr(value, "shape", ()))
            if shape and shape != tuple(getattr(parameter, "shape", ())):
                raise ValueError(
                    f"{key} of the optimizer has shape {shape}; the weight has "
                    f"{tuple(parameter.shape)}"
                )


def _check_estimator(value, owner):
    if not isinstance(value, BaseEstimator):
        raise ValueError(
            f"estimator of {type(owner).__name__} must be an estimator; got {value!r:.80}"
        )


def _is_step(pair):
    return isinstance(pair, tuple) and len(pair) == 2 and isinstance(pair[0], str)


def _is_int(value, low):
    return isinstance(value, int | np.integer) and not isinstance(value, bool) and value >= low


def _is_array(value, *shape):
    return isinstance(value, np.ndarray) and value.shape == shape


def _are_labels(value):
    return (
        isinstance(value, np.ndarray)
        and value.ndim == 1
        and len(value) > 1
        and bool(np.all(value[:-1] < value[1:]))
    )


def _is_calibration(value, n_classes):
    if not isinstance(value, tuple) or len(value) != 3 or value[0] not in CALIBRATIONS[1:]:
        return False
    return all(_is_array(each, 1) or _is_array(each, n_classes) for each in value[1:])


def _are_rates(value):
    return isinstance(value, dict) and all(isinstance(each, Rate) for each in value.values())


# By attribute: whether a value will do, given the numbers of classes and of features.
_CHECKS = {
    "_conformity": lambda v, c, f: isinstance(v, Conformity),
    "_exponent_unit_": lambda v, c, f: isinstance(v, float | int | np.number) and v > 0,
    "_models_proba_": lambda v, c, f: isinstance(v, bool),
    "_seed": lambda v, c, f: _is_int(v, 0),
    "calibration_": lambda v, c, f: _is_calibration(v, c),
    "class_count_": lambda v, c, f: _is_array(v, c) and v.dtype.kind == "f",
    "classes_": lambda v, c, f: _are_labels(v),
    "comparison_": lambda v, c, f: isinstance(v, dict),
    "estimator_": lambda v, c, f: True,
    "feature_names_in_": lambda v, c, f: _is_array(v, f) and v.dtype.kind == "O",
    "history_": lambda v, c, f: isinstance(v, list) and all(isinstance(row, dict) for row in v),
    "input_shape_": lambda v, c, f: (
        isinstance(v, tuple) and all(_is_int(n, 0) for n in v) and v[:1] == (f,)
    ),
    "k_": lambda v, c, f: isinstance(v, int | float | np.number) and v > 0,
    "loss_": lambda v, c, f: v in tuple(LOSSES),
    "n_calibration_": lambda v, c, f: _is_int(v, 0),
    "n_features_in_": lambda v, c, f: _is_int(v, 1),
    "n_iter_": lambda v, c, f: _is_int(v, 0),
    "net_": lambda v, c, f: True,
    "prevalence_": lambda v, c, f: v is None or _is_array(v, c),
    "rates_": lambda v, c, f: _are_rates(v),
    "threshold_": lambda v, c, f: isinstance(v, float | np.floating) and not np.isnan(v),
}
