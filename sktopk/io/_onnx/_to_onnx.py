"""The function `to_onnx`, which exports a classifier as a graph and compares outputs of both."""

import os
import warnings
from contextlib import suppress
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.sparse import issparse

from sktopk import __version__
from sktopk._common._atomic_file import write_atomically
from sktopk._common._extras import import_extra
from sktopk.io._skops import check_path

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
    """Check that the graph in ONNX Runtime and the estimator give the same outputs for X."""
    runtime = import_extra("onnxruntime", "to_onnx", "onnx")
    columns = X.columns if isinstance(X, pd.DataFrame) else None
    options = runtime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1

    def predictions(values):
        values = values if columns is None else pd.DataFrame(values, columns=columns)
        # scikit-learn warns of missing column names.
        with warnings.catch_warnings(action="ignore"):
            expected = {"scores": estimator.decision_function(values)}
            if hasattr(estimator, "predict_proba"):
                expected["proba"] = estimator.predict_proba(values)
        return expected

    tried = [(rows, predictions(rows), "")]
    absent = np.random.default_rng(0).random(rows.shape) < _SHARE_MISSING
    absent[0] = True
    missing = np.where(absent, rows.dtype.type(np.nan), rows)
    with suppress(ValueError):  # if the estimator does not accept missing values
        tried.append((missing, predictions(missing), " with NaN added"))
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


def _check_equal(found, expected, classes, kind, recipe):
    scores = expected["scores"]
    share, of_proba = _TOLERANCE[found["scores"].dtype]
    tolerance = share * float(np.abs(scores).max())
    errors = {"decision_function": _error(found["scores"], scores) / max(tolerance, 1e-300)}
    if "proba" in expected:
        errors["predict_proba"] = _error(found["proba"], expected["proba"]) / of_proba
    # Compare the scores of the predicted labels. Labels with nearly equal scores may differ.
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
                f"the graph differs from {method} for {wrong.sum()} of {len(wrong)} samples{kind}; "
                f"the first error is {error[wrong][0]:.1g} times the tolerance. {recipe}"
            )


def _error(found, expected):
    """Return the largest absolute difference between the outputs, for each sample."""
    return np.abs(found.astype(np.float64) - expected).reshape(len(expected), -1).max(axis=1)


def to_onnx(estimator: Any, path: str | os.PathLike, X: ArrayLike) -> str:
    """Export a classifier as an ONNX graph, and compare the graph with the classifier.

    The input "X" of the graph takes any number of samples. By default, the input is float32 if the
    classifier was fitted on float32 values, else float64. If `module` is not TabularMLP, the input
    has the type of the network's weights. If `estimator` is a Pipeline with transformers and the
    parameter `X` has dtype float32, the input is float32 for any `module`. The outputs are:

    - "scores": `decision_function`, which already subtracts the threshold;
    - "topk_labels" of a `TopKClassifier`: `predict_topk` with k = `k_`;
    - "label" of all other classifiers: `predict`;
    - "proba": `predict_proba`, if the estimator has this method.

    Labels are int64, bool, float64 or strings. On X, scores of the graph may differ from those of
    the classifier by 1e-4 times the largest absolute score, and probabilities by 1e-3 (100 times
    less for float64 scores). Larger differences raise an error. If scores of classes nearly tie,
    graph and classifier may return different labels.

    Parameters
    ----------
    estimator : estimator
        Fitted classifier of this package with a network, or a Pipeline whose last step is such a
        classifier. skl2onnx must be able to convert the other steps. A FrozenEstimator is allowed.
    path : str or path-like
        File to write. An existing file is replaced.
    X : {array, sparse matrix, frame} of shape (n_samples, n_features)
        Samples on which graph and classifier are compared, such as a few hundred training samples.
        If the classifier accepts missing values in all columns, a copy of X with added missing
        values is compared, too. If only some columns may have missing values, include some in X.

    Returns
    -------
    path : str
        Path of the file.

    Raises
    ------
    ImportError, NotFittedError, OSError, TypeError, ValueError
        If a package is missing (``pip install "sktopk[onnx]"``), the file cannot be written, or
        graph and estimator differ. Also if the estimator is not fitted, has no network or cannot be
        converted. In all these cases, no file is written.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sktopk import TopKClassifier
    >>> from sktopk.io import to_onnx
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = TopKClassifier(k=2, hidden_layer_sizes=(), random_state=0).fit(X, y)
    >>> session = onnxruntime.InferenceSession(to_onnx(clf, "iris.onnx", X))  # doctest: +SKIP
    >>> scores, labels, proba = session.run(None, {"X": X[:1]})  # doctest: +SKIP
    >>> labels.tolist()  # doctest: +SKIP
    [[0, 1]]
    """
    # Import both modules here, because they import torch, which `dump` and `load` do not need.
    from . import _classifier, _graph

    onnx = import_extra("onnx", "to_onnx", "onnx")
    path = check_path(path)
    steps, classifier = _classifier.pipeline_parts(estimator)
    outputs = _classifier.Outputs(classifier)
    dtype = np.dtype(str(outputs.dtype).removeprefix("torch."))
    given = np.dtype(np.float32) if steps and getattr(X, "dtype", None) == np.float32 else dtype
    rows = check_samples(X, given)
    model = _graph.classifier_graph(onnx, outputs, _graph.labels_in_graphs(classifier.classes_))
    if steps:
        model = _graph.with_steps(onnx, steps, model, dtype, given)
    model.producer_name, model.producer_version = "sktopk", __version__
    data = model.SerializeToString()
    compare(data, estimator, X, rows, _graph.RECIPE_OF_STEPS if steps else _graph.RECIPE)
    write_atomically(path, [data])
    return path
