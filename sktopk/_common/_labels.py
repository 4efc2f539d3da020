"""Class labels that users pass in, checked and encoded."""

import numpy as np
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets, type_of_target

from ._lazy_rows import check_given


def check_labels(y, name="y"):
    """Return class labels of shape (n_samples,)."""
    check_given(y, name)
    if (values := np.asarray(y)).dtype.kind == "f" and not np.isfinite(values).all():
        what = "NaN" if np.isnan(values).any() else "infinity"
        raise ValueError(f"Input {name} contains {what}: {name} must hold class labels")
    kind = type_of_target(y, input_name=name)
    if kind.startswith(("multilabel", "multiclass-multioutput")):
        raise ValueError(f"{name} must hold one class label per row; got a {kind} target")
    if kind.startswith("continuous"):
        raise ValueError(
            f"Unknown label type: {name} is continuous ({len(np.unique(values))} values); it must "
            f"hold class labels: make it discrete, for example "
            f"{name} >= {np.quantile(values, 0.9):.4g}"
        )
    y = column_or_1d(y, warn=True)
    check_classification_targets(y)
    try:
        np.unique(y)
    except TypeError as error:
        raise ValueError(
            f"{name} must hold labels of one kind, all strings or all numbers, and none missing; "
            f"got {sorted({type(label).__name__ for label in y.tolist()})}"
        ) from error
    return y


def check_length(y, n_samples, name="y"):
    """Raise unless there is a label for each of `n_samples` rows."""
    if len(y) != n_samples:
        raise ValueError(
            f"{name} must have one label per row of X: X has {n_samples} rows, "
            f"{name} has inconsistent length {len(y)}"
        )


def check_classes(y, name="y"):
    """Return the sorted distinct labels, at least two of them."""
    classes = np.unique(y)
    if len(classes) < 2:
        raise ValueError(f"{name} must have at least 2 classes; got 1 class: {classes.tolist()}")
    return classes


def encode(classes, y):
    """Return the index of each label among the sorted `classes`, -1 where it is none."""
    index = np.searchsorted(classes, y).clip(max=len(classes) - 1)
    return np.where(classes[index] == y, index, -1)


def class_count(target, weight, n_classes):
    """Return the sum of the weights of each class."""
    return np.bincount(target, weights=weight, minlength=n_classes)


def class_weights(class_weight, classes, count):
    """Return the weight of each class; "balanced" counts rows by their sample weight."""
    if class_weight == "balanced":
        # A class announced to partial_fit may have no rows yet: any weight does.
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
    if unknown:
        raise ValueError(
            f"class_weight must have labels of y as keys, {classes.tolist()}; got {unknown}"
        )
    weights = np.array([class_weight.get(label, 1.0) for label in classes.tolist()], dtype=float)
    if not (np.isfinite(weights).all() and (weights >= 0).all()):
        raise ValueError(f"class_weight must be finite and nonnegative; got {class_weight!r}")
    return weights


def encode_labels(classes, y):
    """Return the column of each label, -1 for a label that the classifier does not know."""
    known, given = np.asarray(classes).tolist()[0], y.tolist()[0]
    if isinstance(known, str) != isinstance(given, str):
        raise ValueError(
            f"y must hold labels of the kind that estimator knows, such as {known!r}; got {given!r}"
        )
    return encode(classes, y)
