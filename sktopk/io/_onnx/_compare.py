"""Comparison of an estimator with its graph in ONNX Runtime."""

import warnings
from contextlib import suppress

import numpy as np
import pandas as pd
from scipy.sparse import issparse

from sktopk._common._extras import import_extra

# For each dtype: tolerance of scores (relative to the largest score) and of probabilities.
_TOLERANCE = {np.dtype(np.float32): (1e-4, 1e-3), np.dtype(np.float64): (1e-6, 1e-5)}
_SHARE_MISSING = 0.3


def check_samples(X, dtype):
    """Return X as a contiguous array. Raise an error if X is empty or not numeric."""
    if issparse(X):
        X = X.toarray()
    try:
        if isinstance(X, pd.DataFrame):
            rows = X.to_numpy(dtype=dtype, na_value=np.nan)
        else:
            rows = np.asarray(X, dtype=dtype)
    except (TypeError, ValueError) as error:
        raise ValueError(f"X must hold numbers only: {error}") from error
    if rows.ndim < 2 or len(rows) == 0:
        raise ValueError(f"X must have at least one sample; got shape {rows.shape}")
    return np.ascontiguousarray(rows)


def compare(model, estimator, X, rows, recipe):
    """Check that ONNX Runtime gives the same outputs for the graph as the estimator for X."""
    runtime = import_extra("onnxruntime", "to_onnx", "onnx")
    columns = X.columns if isinstance(X, pd.DataFrame) else None
    options = runtime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1

    def predictions(values):
        values = values if columns is None else pd.DataFrame(values, columns=columns)
        with warnings.catch_warnings():  # scikit-learn warns of missing column names
            warnings.simplefilter("ignore")
            return _predictions(estimator, values)

    tried = [(rows, predictions(rows), "")]
    missing = _with_missing(rows)
    with suppress(ValueError):  # if the estimator does not accept missing values
        tried.append((missing, predictions(missing), " with missing values"))
    for values, expected, kind in tried:
        try:
            session = runtime.InferenceSession(model, options)
            names = [output.name for output in session.get_outputs()]
            found = dict(zip(names, session.run(None, {"X": values}), strict=True))
        except Exception as error:  # onnxruntime has no public base class for its errors
            raise ValueError(
                f"ONNX Runtime cannot run the graph on samples{kind}: {error}. {recipe}"
            ) from error
        _check_equal(found, expected, estimator.classes_, kind, recipe)


def _predictions(estimator, X):
    expected = {"scores": estimator.decision_function(X)}
    if hasattr(estimator, "predict_proba"):
        expected["proba"] = estimator.predict_proba(X)
    return expected


def _with_missing(rows):
    """Return a copy with missing values: at random, and everywhere in the first sample."""
    absent = np.random.default_rng(0).random(rows.shape) < _SHARE_MISSING
    absent[0] = True
    return np.where(absent, rows.dtype.type(np.nan), rows)


def _check_equal(found, expected, classes, kind, recipe):
    scores = expected["scores"]
    share, of_proba = _TOLERANCE[found["scores"].dtype]
    tolerance = share * float(np.abs(scores).max())
    errors = {"decision_function": _error(found["scores"], scores) / max(tolerance, 1e-300)}
    if "proba" in expected:
        errors["predict_proba"] = _error(found["proba"], expected["proba"]) / of_proba
    # Compare the scores of the predicted labels: nearly equal scores can exchange two labels.
    of_classes = scores if scores.ndim == 2 else np.column_stack([np.zeros_like(scores), scores])
    labels = found["topk_labels"] if "topk_labels" in found else found["label"][:, None]
    place = {label: j for j, label in enumerate(classes.tolist())}
    index = np.array([[place[label] for label in row] for row in labels.tolist()])
    best = -np.sort(-of_classes, axis=1)[:, : index.shape[1]]
    chosen = np.take_along_axis(of_classes, index, axis=1)
    errors["predict"] = _error(chosen, best) / max(2 * tolerance, 1e-300)
    for method, error in errors.items():
        wrong = ~(error <= 1)
        if wrong.any():
            raise ValueError(
                f"the graph differs from {method} for {wrong.sum()} of {len(wrong)} "
                f"samples{kind}, by {error[wrong][0]:.1g} times the tolerance. {recipe}"
            )


def _error(found, expected):
    """Return the largest absolute difference between the outputs, for each sample."""
    return np.abs(found.astype(np.float64) - expected).reshape(len(expected), -1).max(axis=1)
