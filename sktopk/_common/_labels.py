"""Checks of labels, sample weights and class weights."""

from contextlib import suppress
from enum import Enum
from numbers import Real

import numpy as np
from sklearn.exceptions import DataConversionWarning
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import type_of_target

from ._scalars import on_host, place_of, refuse_times_and_complex
from ._warnings import warn

# Number of classes that a message shows.
_SHOWN = 5
_NUMBERS = bool, int, float, np.bool_, np.number


def check_given(y, name="y"):
    """Check that y is not None."""
    if y is None:
        raise ValueError(
            f"requires {name} to be passed, but the target {name} is None: {name} must have one "
            "class label per sample"
        )


def check_labels(y, name="y"):
    """Return class labels as an array of shape (n_samples,)."""
    check_given(y, name)
    y = _without_nullable_dtype(on_host(y, name))
    values = np.asarray(y)
    refuse_missing(values, name)
    refuse_times_and_complex(
        values, name, what="class labels", advice="convert them to strings, such as by astype(str)"
    )
    if values.dtype.kind == "O" and all(isinstance(v, _NUMBERS) for v in values.flat):
        y = values = np.array(values.tolist())
    _refuse_other_types(values, name)
    try:
        kind = type_of_target(y, input_name=name)
    except ValueError as error:
        if not str(error).startswith("Expected array-like"):
            raise
        raise ValueError(f"{name} must be an array or list of labels: {error}") from error
    except TypeError as error:
        if values.ndim < 2:
            _refuse_mixed(np.atleast_1d(values), name, error)
            raise
        raise ValueError(
            f"{name} must hold one class label per sample; got shape {values.shape}"
        ) from error
    if kind.startswith(("multilabel", "multiclass-multioutput")):
        raise ValueError(f"{name} must hold one class label per sample; got a {kind} target")
    if kind.startswith("continuous"):
        raise ValueError(
            f"Unknown label type: {name} must hold class labels; got {len(np.unique(values))} "
            f"continuous values. Make it discrete, for example {name} >= "
            f"{np.quantile(values, 0.9):.4g}"
        )
    y = column_or_1d(y)
    if values.ndim == 2:
        # Warn here, because scikit-learn's warning would not point to the user's code.
        warn(
            f"A column-vector {name} was passed when a 1d array was expected: "
            f"pass {name}.ravel(), or the column of a data frame",
            DataConversionWarning,
        )
    if kind not in ("binary", "multiclass"):
        _refuse_mixed(y, name)
        raise ValueError(
            f"Unknown label type: {name} must hold strings, booleans or integers of at most 64 "
            f"bits; got labels of type {type(y.tolist()[0]).__name__}"
        )
    try:
        n_classes = len(np.unique(y))
    except TypeError as error:
        _refuse_mixed(y, name, error)
        raise
    if kind == "multiclass" and len(y) > 20 and n_classes > round(0.5 * len(y)):
        warn(
            f"The number of unique classes ({n_classes}) is greater than 50% of the number of "
            f"samples ({len(y)}). For a numerical target, use a regressor"
        )
    return y


def _without_nullable_dtype(y):
    """Return y. Convert pandas' nullable dtypes to NumPy dtypes if no value is missing."""
    column = y.iloc[:, 0] if hasattr(y, "iloc") and y.shape[1:] == (1,) else y
    dtype = getattr(getattr(column, "dtype", None), "numpy_dtype", np.dtype(object))
    return y.to_numpy(dtype) if dtype.kind in "biu" and not column.isna().any() else y


def refuse_missing(values, name, what_held="labels"):
    """Check that no value is NaN, NaT, None or infinite."""
    if values.dtype.kind == "f":
        is_nan, infinite = np.isnan(values), np.isinf(values)
        what, wrong = ("NaN", is_nan) if is_nan.any() else ("infinity", infinite)
    elif values.dtype.kind in "mM":
        what, wrong = "NaT", np.isnat(values)
    elif values.dtype.kind == "O" and values.ndim == 1:
        # Find None, pandas' NA, NaN and NaT. Only NaN and NaT are not equal to themselves.
        absent = [type(v).__name__ in ("NoneType", "NAType") or v != v for v in values.tolist()]
        what, wrong = "missing values", np.array(absent, dtype=bool)
    else:
        return
    if wrong.any():
        raise ValueError(
            f"Input {name} contains {what}: {name} must not have missing {what_held}; got "
            f"{np.count_nonzero(wrong)} of {values.size}, first in row {np.flatnonzero(wrong)[0]}. "
            "Drop these samples, or label them"
        )


def _refuse_other_types(values, name):
    """Check that the labels are not enumerations or other objects."""
    if values.dtype.kind != "O" or values.ndim != 1:
        return
    # scikit-learn describes sequences, such as the label sets of multi-label targets.
    known = str, bytes, list, tuple, np.ndarray, *_NUMBERS
    other = next((label for label in values if not isinstance(label, known)), None)
    if other is not None:
        text = "label.name" if isinstance(other, Enum) else "str(label)"
        raise ValueError(
            f"{name} must hold labels that are strings, numbers or booleans; got "
            f"{type(other).__name__}. Pass [{text} for label in {name}]"
        )


def _refuse_mixed(y, name, error=None):
    """Check that the labels are not a mixture of strings and other types."""
    kinds = {type(label) for label in y.tolist()}
    if len(kinds) == 1 or not any(issubclass(kind, str) for kind in kinds):
        return
    kinds = sorted(kind.__name__ for kind in kinds)
    raise ValueError(
        f"{name} must hold only strings or only numbers, without missing labels; got {kinds}"
    ) from error


def check_length(y, n_samples, name="y"):
    """Check that y contains exactly `n_samples` labels."""
    if len(y) != n_samples:
        raise ValueError(
            f"{name} must have one label per sample ({n_samples}); got inconsistent length {len(y)}"
        )


def check_classes(y, name="y"):
    """Return the sorted distinct labels, and check that there are at least two."""
    classes = np.unique(y)
    if len(classes) < 2:
        raise ValueError(f"{name} must have at least 2 classes; got 1 class: {classes.tolist()}")
    return classes


def check_two_classes(y, pos_label, name="y"):
    """Return the two sorted labels. Check that there are two, and that `pos_label` is one."""
    classes = check_classes(y, name)
    if len(classes) > 2:
        raise ValueError(
            "Only binary classification is supported. The type of the target is multiclass: "
            f"{name} must have 2 classes; got {listed(classes)}"
        )
    if pos_label is not None:
        place_of(pos_label, classes)  # raises unless it is one of the classes
    return classes


def listed(classes):
    """Return the number of classes and the first of them, for a message."""
    more = ", ..." if len(classes) > _SHOWN else ""
    return f"{len(classes)} ({', '.join(map(repr, classes[:_SHOWN].tolist()))}{more})"


def check_weight(sample_weight, n_samples):
    """Return float64 weights. Check that they are finite and nonnegative with a positive sum."""
    if sample_weight is None:
        return np.ones(n_samples)
    if isinstance(sample_weight, Real):
        sample_weight = np.full(n_samples, sample_weight)
    sample_weight = on_host(sample_weight, "sample_weight")
    refuse_times_and_complex(sample_weight, "sample_weight")
    try:
        weight = np.array(sample_weight, dtype=np.float64)
    except (OverflowError, RuntimeError, TypeError, ValueError) as error:
        raise ValueError(f"sample_weight must hold numbers; got {sample_weight!r:.80}") from error
    if weight.shape != (n_samples,):
        raise ValueError(
            f"sample_weight must be 1D with one weight per sample, shape ({n_samples},); "
            f"got shape {weight.shape}"
        )
    refused = weight[~(np.isfinite(weight) & (weight >= 0))]
    if len(refused):
        raise ValueError(f"sample_weight must be finite and nonnegative; got {refused[0]:g}")
    if not weight.any():
        raise ValueError("sample_weight must be positive for at least one sample; got only zeros")
    if not weight.max() <= _LARGEST / n_samples:
        raise ValueError(
            f"sample_weight must have a sum of at most {_LARGEST:g}; got up to {weight.max():g}: "
            "divide all weights by their mean"
        )
    return weight


# Below this limit, products of weights with n_samples and n_classes are finite.
_LARGEST = 1e150


def class_weights(class_weight, classes, count):
    """Return the weight of each class. `count` has the sum of sample weights of each class."""
    if isinstance(class_weight, str) and class_weight == "balanced":
        # In partial_fit, a class may have no samples so far. Avoid a division by 0.
        return count.sum() / (len(classes) * np.where(count > 0, count, 1.0))
    if class_weight is None:
        return np.ones(len(classes))
    if not isinstance(class_weight, dict):
        raise ValueError(
            f'class_weight must be a dict {{label: weight}}, "balanced" or None; '
            f"got {class_weight!r}"
        )
    known = set(classes.tolist())
    unknown = [label for label in class_weight if label not in known]
    # As in scikit-learn, a label can be absent (from a fold) if every label of y has a weight.
    if unknown and not known <= class_weight.keys():
        raise ValueError(
            f"class_weight must have labels of y as keys, {classes.tolist()}; got {unknown}"
        )
    try:
        weights = np.array([float(class_weight.get(label, 1.0)) for label in classes.tolist()])
    except (OverflowError, TypeError, ValueError):
        weights = None
    if weights is None or not ((weights <= 1e100) & (weights >= 0)).all():
        raise ValueError(
            f"class_weight must be finite and nonnegative, at most 1e+100; got {class_weight!r}"
        )
    return weights


def encode(classes, y):
    """Return the index of each label in the sorted `classes`; -1 for other labels."""
    index = np.searchsorted(classes, y).clip(max=len(classes) - 1)
    return np.where(classes[index] == y, index, -1)


def encode_labels(classes, y, name="y"):
    """Return the index of each label in the `classes` of a classifier; -1 for other labels."""
    known, given = np.asarray(classes).tolist()[0], y.tolist()[0]
    with suppress(TypeError):  # raised if labels cannot be compared
        if isinstance(known, str) == isinstance(given, str):
            return encode(classes, y)
    raise ValueError(
        f"{name} must have labels of the type known to estimator, such as {known!r}; got {given!r}"
    )


def class_counts(classes, y):
    """Return the number of labels of each class in the sorted `classes`."""
    index = encode_labels(classes, y)
    return np.bincount(index[index >= 0], minlength=len(classes))
