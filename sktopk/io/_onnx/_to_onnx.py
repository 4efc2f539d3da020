"""The function `to_onnx`, which exports a classifier as an ONNX graph."""

import os
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from sktopk import __version__
from sktopk._common._atomic_file import write_atomically
from sktopk._common._extras import import_extra
from sktopk._estimators._base import BaseNetClassifier
from sktopk.io._skops import check_path

from ._classifier import Outputs
from ._compare import check_samples, compare
from ._graph import (
    IR_VERSION,
    RECIPE,
    RECIPE_OF_STEPS,
    classifier_graph,
    labels_in_graphs,
    with_steps,
)


def to_onnx(estimator: Any, path: str | os.PathLike, X: ArrayLike) -> str:
    """Export a classifier as an ONNX graph, and compare the graph with the classifier.

    Parameters
    ----------
    estimator : estimator
        Fitted classifier of this package with a network, or a Pipeline whose last step is such a
        classifier. skl2onnx must be able to convert the other steps. A FrozenEstimator is allowed.
    path : str or path-like
        File to write, which is replaced if it exists. The function returns it as str.
    X : {array, sparse matrix, frame} of shape (n_samples, n_features)
        Samples for the comparison, such as a few hundred training samples. If only some columns can
        have missing values, include such samples. If all can, missing values are also added.

    Raises
    ------
    ImportError, OSError
        If a package is missing (``pip install "sktopk[onnx]"``), or the file cannot be written.
    TypeError, ValueError
        If the estimator has no network of this package, if a step, the network, its labels or
        categorical columns cannot be converted, or if the outputs differ. No file is written.

    Notes
    -----
    The input of the graph is "X": any number of samples, with the floating-point type of X in
    `fit`, or that of the weights if `module` is a custom network. The outputs are:

    - "scores": `decision_function`, with the threshold subtracted;
    - "topk_labels" of a `TopKClassifier`: `predict_topk` with k = `k_`;
    - "label" of all other classifiers: `predict`;
    - "proba", if the estimator has this method: `predict_proba`.

    Labels are int64, bool, float64 or strings. The tolerance of scores, relative to the largest
    score, is 1e-4 in float32 and 1e-6 in float64. The tolerance of probabilities is 1e-3 and 1e-5.
    If the scores of classes are equal within the tolerance, their labels can be exchanged.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sktopk import TopKClassifier
    >>> from sktopk.io import to_onnx
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = TopKClassifier(k=2, hidden_layer_sizes=(), random_state=0).fit(X, y)
    >>> # With the extra installed
    >>> session = onnxruntime.InferenceSession(to_onnx(clf, "iris.onnx", X))  # doctest: +SKIP
    >>> scores, labels, proba = session.run(None, {"X": X[:1]})  # doctest: +SKIP
    >>> labels.tolist()  # doctest: +SKIP
    [[0, 1]]
    """
    onnx = import_extra("onnx", "to_onnx", "onnx")
    path = check_path(path)
    steps, classifier = _parts(estimator)
    outputs = Outputs(classifier)
    dtype = np.dtype(str(outputs.row_dtype).removeprefix("torch."))
    rows = check_samples(X, dtype)
    model = classifier_graph(onnx, outputs, labels_in_graphs(classifier.classes_))
    if steps:
        model = with_steps(onnx, steps, model, dtype)
    model.ir_version = IR_VERSION
    model.producer_name, model.producer_version = "sktopk", __version__
    data = model.SerializeToString()
    compare(data, estimator, X, rows, RECIPE_OF_STEPS if steps else RECIPE)
    write_atomically(path, [data])
    return path


def _parts(estimator):
    """Return the list of the pipeline steps before the classifier, and the classifier."""
    steps, inner = [], estimator
    while not isinstance(inner, BaseNetClassifier):
        if isinstance(inner, FrozenEstimator):
            inner = inner.estimator
        elif isinstance(inner, Pipeline):
            steps += [pair for pair in inner.steps[:-1] if pair[1] not in (None, "passthrough")]
            inner = inner.steps[-1][1]
        else:
            raise TypeError(
                "estimator must be a classifier of sktopk with a network, or a Pipeline that ends "
                f"with one; got {type(inner).__name__}. For a BudgetClassifier or SetClassifier, "
                "export its estimator_ and apply the decision to the scores of the graph"
            )
    check_is_fitted(inner)
    return steps, inner
