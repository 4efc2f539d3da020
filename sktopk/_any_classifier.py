"""What wrapping any scikit-learn classifier takes: its probabilities, rows of any container."""

import numpy as np
from scipy.special import softmax

from ._data import encode
from ._lazy_rows import LazyRows, SomeRows
from .metrics._scorer import predict_scores


def predict_class_proba(estimator, X):
    """Return the classes of a fitted classifier and probabilities, or the softmax of scores."""
    name = type(estimator).__name__
    if hasattr(estimator, "classes_") and hasattr(estimator, "predict_proba"):
        classes, proba = estimator.classes_, np.asarray(estimator.predict_proba(X))
        source = "predict_proba"
    else:
        classes, scores = predict_scores(estimator, X)
        if scores.ndim == 1:
            scores = np.column_stack([np.zeros_like(scores), scores])
        # float32 would round small probabilities to zero, and let them tie.
        proba, source = softmax(scores.astype(np.float64), axis=1), "decision_function"
    if proba.shape[1:] != (len(classes),):
        raise ValueError(
            f"{source} of estimator must have a column for each of its {len(classes)} classes; "
            f"got shape {proba.shape} from {name}"
        )
    refused = np.flatnonzero(~(proba.sum(axis=1) > 0))
    if len(refused):
        what = "NaN" if np.isnan(proba[refused[0]]).any() else "probabilities that sum to 0"
        raise ValueError(
            f"{source} of estimator must not give NaN or only zeros; got {what} for row "
            f"{refused[0]} of X from {name}"
        )
    return classes, proba


def encode_labels(classes, y):
    """Return the column of each label, -1 for a label that the classifier does not know."""
    known, given = np.asarray(classes).tolist()[0], y.tolist()[0]
    if isinstance(known, str) != isinstance(given, str):
        raise ValueError(
            f"y must hold labels of the kind that estimator knows, such as {known!r}; got {given!r}"
        )
    return encode(classes, y)


def take_rows(values, index):
    """Return the rows of an array, a sparse matrix, a frame or a list; all of them for None."""
    if index is None:
        return values
    if isinstance(values, LazyRows):
        return SomeRows(values, index)
    if hasattr(values, "iloc"):
        return values.iloc[index]
    if isinstance(values, list | tuple):
        return [values[i] for i in index]
    return values[index]


def take_params(params, index, n_samples):
    """Return fit parameters for some rows: of those with `n_samples` values, these rows."""

    def length(value):
        shape = getattr(value, "shape", ())
        return shape[0] if shape else len(value) if isinstance(value, list | tuple) else None

    return {
        name: take_rows(value, index) if length(value) == n_samples else value
        for name, value in params.items()
    }


def calibration_rows(y, fraction, random):
    """Return a mask of rows to calibrate with, drawn by class.

    Rows are sorted by class, in random order inside, and every (1 / fraction)-th is taken from
    a random start: each row has the same chance, also in a class of few rows, and a class gives
    its share, rounded down or up. A class that would give all its rows keeps one back.
    """
    code = np.unique(y, return_inverse=True)[1]
    order = random.permutation(len(code))
    order = order[np.argsort(code[order], kind="stable")]
    n_taken = min(len(code), max(1, round(fraction * len(code))))
    taken = (np.arange(n_taken) + random.uniform()) * (len(code) / max(1, n_taken))
    mask = np.zeros(len(code), dtype=bool)
    mask[order[taken.astype(np.intp)]] = True
    first = order[np.unique(code[order], return_index=True)[1]]
    keeps_none = np.bincount(code[~mask], minlength=len(first)) == 0
    mask[first[keeps_none]] = False
    return mask
