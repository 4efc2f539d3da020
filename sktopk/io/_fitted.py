"""What fitted estimators must look like: before anything is built from a file."""

import copy

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.pipeline import Pipeline

import sktopk
from sktopk._common._categories import Categories
from sktopk._common._scalars import place_of
from sktopk._estimators.decisions._conformal import METHODS, Conformity
from sktopk._estimators.decisions._expected_value import IsotonicProbability
from sktopk._estimators.decisions._guarantees import Rate
from sktopk._estimators.decisions._hierarchy import Hierarchy
from sktopk._estimators.decisions._selection import CalibrationRows

from ._classes import is_net
from ._steps import is_attribute

_OF_NETS = {"classes_", "class_count_", "n_features_in_", "input_shape_", "n_iter_", "history_"}
# Parameters that stand for another machine than this one.
_OF_MACHINE = {"device": "cpu", "checkpoint": None}
# Parameters of decisions that a fit may have promised.
_PROMISED = {"constraint", "per", "budget", "coverage"}
_OF_DECISIONS = {
    "BudgetClassifier": {"estimator_", "classes_", "pos_label_", "n_samples_fit_"},
    "SetClassifier": {"estimator_", "classes_", "k_", "threshold_", "prevalence_", "_conformity"}
    | {"_seed", "n_calibration_"},
    "ExpectedCostClassifier": {"estimator_", "classes_", "cost_matrix_"},
}


def is_kept(cls, name):
    """Tell whether a file keeps the attribute of a fitted estimator."""
    if cls is sktopk.Pipeline:
        return False
    if cls.__module__.startswith("sktopk"):
        return name in _CHECKS
    # With its version, by which scikit-learn warns that a step is of another one.
    return name == "_sklearn_version" or is_attribute(cls, name)


def check_params(estimator):
    """Check the parameters of one of our estimators, but for what is of another machine."""
    params = estimator.get_params(deep=False)
    params |= {name: value for name, value in _OF_MACHINE.items() if name in params}
    type(estimator)(**params)._check_params()


def check_inner(estimator):
    """Check the parts of estimators that hold others."""
    if isinstance(estimator, Pipeline):
        steps = estimator.steps
        if estimator.memory is not None:
            raise ValueError("memory of a Pipeline must be None")
        if not isinstance(steps, list) or not all(_is_step(each) for each in steps):
            raise ValueError("steps of a Pipeline must be pairs of a name and an estimator")
    elif hasattr(estimator, "estimator"):
        _check_estimator(estimator.estimator, estimator)


def check_state(estimator, fitted, built):
    """Raise unless fitted attributes are known, complete, and of the right type and range.

    Parameters
    ----------
    estimator : estimator
        With the parameters in the file.
    fitted : dict
        Its attributes.
    built : estimator or None
        With the parameters that its net was built from.
    """
    name = type(estimator).__name__
    unknown = sorted(key for key in fitted if not is_kept(type(estimator), key))
    if unknown:
        raise ValueError(f"{name} has no attributes {unknown}: upgrade sktopk")
    if not fitted or not type(estimator).__module__.startswith("sktopk"):
        return
    needed = _OF_NETS | {"net_"} if built is not None else _OF_DECISIONS.get(name, set())
    missing = sorted(needed - set(fitted))
    if missing:
        raise ValueError(f"{', '.join(missing)} of {name} are missing")
    check_params(estimator)
    n_classes, n_features = np.size(fitted["classes_"]), fitted.get("n_features_in_")
    for key, value in fitted.items():
        if not _CHECKS[key](value, n_classes, n_features):
            raise ValueError(f"{key} of {name} has a wrong type, shape or value: {value!r:.80}")
    if n_classes == 2 and "pos_label_" not in fitted and _ranks(estimator):
        raise ValueError(f"pos_label_ of {name} is missing")
    if "pos_label_" in fitted:
        place_of(fitted["pos_label_"], fitted["classes_"])
    if "estimator_" in fitted:
        _check_estimator(fitted["estimator_"], estimator)
    if "_promised_params" in fitted:
        # Beside defaults: others may have been set since, which do not go with them.
        type(estimator)(estimator.estimator, **fitted["_promised_params"])._check_params()
    if name == "BudgetClassifier" and estimator.explore and "_seed" not in fitted:
        raise ValueError("_seed of BudgetClassifier is missing")
    if name == "BudgetClassifier" and estimator.constraint == "fdr":
        if not {"_calibration_rows", "_seed", "likelihood_ratio_"} <= set(fitted):
            raise ValueError("calibration rows of BudgetClassifier are missing")
    elif name == "BudgetClassifier" and estimator.constraint == "cost":
        if "_probability" not in fitted:
            raise ValueError("_probability of BudgetClassifier is missing")
    elif name == "BudgetClassifier" and estimator._per == "fit":
        if "threshold_" not in fitted or not {"flagged", "precision"} & set(
            fitted.get("rates_", {})
        ):
            raise ValueError("threshold_ or rates_ of BudgetClassifier are missing")
    n_groups = len(fitted["groups_"]) if "groups_" in fitted else n_classes
    if np.shape(fitted.get("threshold_", 0.0)) not in ((), (n_groups,)):
        raise ValueError(f"threshold_ of {name} has a wrong shape: {fitted['threshold_']!r:.80}")
    if "k_" in fitted and not _is_k(fitted, name, n_classes):
        raise ValueError(f"k_ of {name} has a wrong type, shape or value: {fitted['k_']!r:.80}")
    if built is not None:
        _check_weights(built, fitted)


def _ranks(estimator):
    """Whether it is a net that orders rows. What belongs to nets is imported for nets alone."""
    if not is_net(type(estimator)):
        return False
    from sktopk._estimators.ranking._ranking import RankingClassifier

    return isinstance(estimator, RankingClassifier)


def _check_weights(estimator, fitted):
    """Check what the net of a new estimator is going to be built from.

    Shapes come before memory: what the parameters ask for has to be in the file.
    """
    from sktopk._training._net import OURS, weight_shapes

    check_params(estimator)
    state = fitted["net_"]
    if not isinstance(state, dict) or not isinstance(state.get("weights"), dict):
        raise ValueError("net_ lacks a part of its state")
    if state.get("dtype") not in ("float32", "float64"):
        raise ValueError(f"dtype of net_ must be float32 or float64; got {state.get('dtype')!r}")
    for name, value in state["weights"].items():
        if not isinstance(value, np.ndarray) or not np.isfinite(value).all():
            raise ValueError(f"weights of net_ must be finite arrays; {name} is {value!r:.40}")
    shape = copy.copy(estimator)
    vars(shape).update({key: value for key, value in fitted.items() if key != "net_"})
    vars(shape).update(_OF_MACHINE)
    task = shape._task(state["dtype"])
    expected = weight_shapes(task)
    if expected is None and task.module in OURS:
        raise ValueError("no network can be built from the parameters of the file")
    found = {name: np.shape(value) for name, value in state["weights"].items()}
    wrong = [name for name in expected or {} if found.get(name) != expected[name]]
    if wrong:
        raise ValueError(
            f"size mismatch: weights {wrong[0]} have shape {found.get(wrong[0])}, in the "
            f"network that the parameters describe {expected[wrong[0]]}"
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
    return _are_names(value) and len(value) > 1


def _are_names(value):
    return (
        isinstance(value, np.ndarray)
        and value.ndim == 1
        and len(value) > 0
        and (value.dtype.kind != "O" or all(isinstance(label, str) for label in value))
        and bool(np.all(value[:-1] < value[1:]))
    )


def _is_number(value, low, high=np.inf):
    is_number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    return is_number and low <= value <= high


def _is_k(fitted, name, n_classes):
    """Whether `k_` is a number of labels, or of rows, or the mean size of a set."""
    k = fitted["k_"]
    if name == "SetClassifier" and fitted["_conformity"].method == "average_k":
        return _is_number(k, 0, n_classes) and k > 0
    if name == "RecallAtKClassifier" and isinstance(k, float):
        return _is_number(k, 0, 1) and 0 < k < 1
    most = {"SetClassifier": np.inf, "TopKClassifier": n_classes - 1}.get(name, np.inf)
    return _is_int(k, 1) and k <= most


def _is_loss(value):
    from sktopk._estimators.labels._losses import LOSSES

    return isinstance(value, str) and value in tuple(LOSSES)


def _is_calibration(value, n_classes):
    from sktopk._estimators._calibration import METHODS as CALIBRATION_METHODS

    if not isinstance(value, tuple) or len(value) != 3 or value[0] not in CALIBRATION_METHODS:
        return False
    return all(_are_floats(each, 1) or _are_floats(each, n_classes) for each in value[1:])


def _are_floats(value, n):
    return _is_array(value, n) and value.dtype.kind == "f" and bool(np.isfinite(value).all())


def _are_shares(value, n_classes):
    return _are_floats(value, n_classes) and bool((value >= 0).all() and value.sum() > 0)


def _are_thresholds(value):
    is_array = isinstance(value, np.ndarray) and value.ndim == 1 and value.dtype.kind == "f"
    is_known = is_array or isinstance(value, float | np.floating)
    return is_known and not np.isnan(value).any()


def _are_scores(value, n_classes):
    """Whether these are scores of rows, of which all members may have seen some: NaN."""
    is_array = isinstance(value, np.ndarray) and value.dtype.kind == "f"
    return is_array and value.shape[1:] in ((), (n_classes,)) and not np.isinf(value).any()


def _are_rates(value):
    known = {"flagged", "fpr", "recall", "precision"}
    if not isinstance(value, dict) or not value or not set(value) <= known:
        return False
    return all(isinstance(each, Rate) and _is_rate(*each) for each in value.values())


def _is_rate(count, n, *shares):
    counts = _is_int(n, 1) and _is_int(count, 0) and count <= n
    return counts and all(_is_number(each, 0, 1) for each in shares)


def _is_conformity(value, n_classes):
    if not isinstance(value, Conformity) or not isinstance(value.method, str):
        return False
    if not _is_number(value.k, 0, n_classes) or not _is_number(value.penalty, 0):
        return False
    if value.hierarchy is not None and not _is_hierarchy(value.hierarchy, n_classes):
        return False
    if value.max_size is not None and not _is_int(value.max_size, 1):
        return False
    if value.method == "pas":
        return _are_shares(value.prevalence, n_classes)
    return value.method in METHODS and value.prevalence is None


def _is_hierarchy(value, n_classes):
    """Whether each node is before its parent, and the last one is the root."""
    if not isinstance(value, Hierarchy) or not isinstance(value.names, np.ndarray):
        return False
    n_nodes, parent = n_classes + len(value.names), value.parent
    if not _is_array(value.names, n_nodes - n_classes) or value.names.dtype.kind not in "Uiufb":
        return False
    if not _is_array(parent, n_nodes) or parent.dtype.kind != "i":
        return False
    lowest = np.maximum(np.arange(n_nodes - 1) + 1, n_classes)
    children = np.bincount(parent[:-1].clip(0), minlength=n_nodes)[n_classes:]
    within = (parent[:-1] >= lowest).all() and (parent < n_nodes).all()
    return bool(within and parent[-1] == n_nodes - 1 and (children > 1).all())


def _are_columns(value, n_features):
    """Whether these are numbers of columns, each once."""
    if not isinstance(value, tuple) or not all(_is_int(j, 0) for j in value):
        return False
    return len(set(value)) == len(value) and all(j < n_features for j in value)


def _are_categories(value, n_features):
    """Whether each column has different categories, of texts and numbers, a missing one first."""
    if not isinstance(value, Categories) or not isinstance(value.values, dict):
        return False
    if not value.values or not _are_columns(tuple(value.values), n_features):
        return False
    pooled = _are_columns(value.pooled, n_features) and set(value.pooled) <= set(value.values)
    return pooled and all(map(_are_different, value.values.values()))


def _are_different(values):
    if not isinstance(values, list) or not all(
        isinstance(each, str | int | float) or (each is None and i == 0)
        for i, each in enumerate(values)
    ):
        return False
    return len(set(values)) == len(values) and all(each == each for each in values)


def _are_calibration_rows(value):
    """Whether scores, labels, weights and keys belong to the same rows, and can be compared."""
    if not isinstance(value, CalibrationRows) or not isinstance(value.scores, np.ndarray):
        return False
    n = len(value.scores)
    weight, key = value.weight, value.key
    return (
        n > 0
        and _are_floats(value.scores, n)
        and _is_array(value.positive, n)
        and value.positive.dtype == bool
        and (weight is None or _are_shares(weight, n))
        and (key is None or (_is_array(key, n) and key.dtype == np.uint64))
    )


def _is_probability(value):
    """Whether probabilities rise with scores."""
    if not isinstance(value, IsotonicProbability) or not isinstance(value.scores, np.ndarray):
        return False
    n = value.scores.size
    return (
        n > 0
        and _are_floats(value.scores, n)
        and _are_shares(value.proba, n)
        and bool((np.diff(value.scores) > 0).all() and (np.diff(value.proba) >= 0).all())
        and value.proba[-1] <= 1
    )


def _is_history(value):
    return isinstance(value, list) and all(
        isinstance(row, dict) and all(isinstance(key, str) for key in row) for row in value
    )


# By attribute: whether a value will do, given the numbers of classes and of features.
_CHECKS = {
    "_calibration_certainty": lambda v, c, f: (
        isinstance(v, np.ndarray) and v.ndim == 1 and len(v) > 0 and _are_floats(v, len(v))
    ),
    "_calibration_rows": lambda v, c, f: _are_calibration_rows(v),
    "_conformity": lambda v, c, f: _is_conformity(v, c),
    "_exponent_unit_": lambda v, c, f: _is_number(v, 0, 1e300) and v > 0,
    "_of_tables_": lambda v, c, f: isinstance(v, bool),
    "_probability": lambda v, c, f: _is_probability(v),
    "_promised_params": lambda v, c, f: isinstance(v, dict) and _PROMISED.issuperset(v),
    "_left_out_": lambda v, c, f: v is None or isinstance(v, str),
    "_missing_": lambda v, c, f: v is None or _are_columns(v, f),
    "_models_proba_": lambda v, c, f: isinstance(v, bool),
    "_seed": lambda v, c, f: _is_int(v, 0),
    "calibration_": lambda v, c, f: _is_calibration(v, c),
    "class_count_": lambda v, c, f: _are_shares(v, c),
    "categories_": lambda v, c, f: _are_categories(v, f),
    "classes_": lambda v, c, f: _are_labels(v),
    "cost_matrix_": lambda v, c, f: (
        _is_array(v, c, c) and v.dtype.kind == "f" and bool(np.isfinite(v).all())
    ),
    "comparison_": lambda v, c, f: isinstance(v, dict),
    "estimator_": lambda v, c, f: True,
    "clusters_": lambda v, c, f: (
        _is_array(v, c) and v.dtype.kind == "i" and bool((v >= -1).all() and (v < c).all())
    ),
    "feature_names_in_": lambda v, c, f: _is_array(v, f) and v.dtype.kind == "O",
    "groups_": lambda v, c, f: _are_names(v),
    "history_": lambda v, c, f: _is_history(v),
    "input_shape_": lambda v, c, f: (
        isinstance(v, tuple) and all(_is_int(n, 0) for n in v) and v[:1] == (f,)
    ),
    "k_": lambda v, c, f: _is_number(v, 0, 2**53),
    "likelihood_ratio_": lambda v, c, f: v is None or isinstance(v, BaseEstimator),
    "loss_": lambda v, c, f: _is_loss(v),
    "score_scale_": lambda v, c, f: isinstance(v, float) and 0 < v < np.inf,
    "n_calibration_": lambda v, c, f: _is_int(v, 0),
    "n_groups_": lambda v, c, f: _is_int(v, 1),
    "n_features_in_": lambda v, c, f: _is_int(v, 1),
    "n_samples_fit_": lambda v, c, f: _is_int(v, 1),
    "n_iter_": lambda v, c, f: _is_int(v, 0),
    "net_": lambda v, c, f: True,
    "oob_decision_function_": lambda v, c, f: _are_scores(v, c),
    "oob_score_": lambda v, c, f: isinstance(v, float),
    "prevalence_": lambda v, c, f: v is None or _are_shares(v, c),
    "pos_label_": lambda v, c, f: isinstance(v, str | int | float),
    "rates_": lambda v, c, f: _are_rates(v),
    "threshold_": lambda v, c, f: _are_thresholds(v),
}
