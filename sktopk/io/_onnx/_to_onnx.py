"""Estimators as ONNX graphs: steps of a pipeline, classifier, threshold and labels in one."""

import os
import sys
from typing import Any

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from sktopk import __version__
from sktopk._common._atomic_file import write_atomically
from sktopk._common._extras import import_extra
from sktopk._estimators.decisions._any_classifier import GivenScores
from sktopk._estimators.decisions._budget import BudgetClassifier

from ._converted import SLACK, converted_classifier, given_scores, with_steps
from ._decisions import DECISIONS, check_decision, with_decision
from ._graph import IR_VERSION


def to_onnx(estimator: Any, path: str | os.PathLike) -> str:
    """Write a classifier as an ONNX graph that gives scores and labels.

    Parameters
    ----------
    estimator : estimator
        A fitted classifier of this package with a network; a `TopVotingClassifier` of one and of
        classifiers that skl2onnx converts, trees among them; or a `BudgetClassifier` with
        ``per="fit"``, a `SetClassifier` or an `ExpectedCostClassifier` around one, around any other
        classifier that skl2onnx converts from one table of numbers, or made by `from_scores`. Any
        of them inside a FrozenEstimator, or as the last step of a Pipeline whose other steps
        skl2onnx converts: scalers, PCA, TruncatedSVD and the like.
    path : str or path-like
        File to write; one that exists is replaced.

    Returns
    -------
    path : str
        The path. The graph has the input "X" of shape (n_samples, ...), with any number of rows,
        in the float type of the network (its `dtype`, that of the rows it was trained on for
        "auto"), in float32 for other classifiers, and two outputs or three. The first is
        "scores", what `decision_function` returns, with any threshold subtracted. The second is,
        for a `TopKClassifier`, "topk_labels" of shape (n_samples, k) with the k of `k_`, best
        first, tied labels in the order of `classes_`; for a `SetClassifier` "set", the bool matrix
        (n_samples, n_classes) of `predict_set`; for all others "label", what `predict` returns.
        Labels are int64, bool, float64 or strings. The third is "proba", what `predict_proba`
        returns, calibrated where that is, and not there where the estimator has none. Sets around
        other classifiers have the one of "scores" and "proba" that they are made of. After
        `from_scores` "X" is a float64 table of scores, of one column for one number per row.

    Raises
    ------
    ImportError
        If onnx is missing, skl2onnx for steps and other classifiers, or onnxscript for a network
        other than `MLP` and `TabularMLP`: ``pip install "sktopk[onnx]"``.
    NotFittedError
        If the estimator is not fitted.
    TypeError
        If the estimator is no decision and has no network of this package, or if it has labels
        that a graph cannot hold.
    ValueError
        If a BudgetClassifier has no fixed threshold (per batch or group, "fdr" and "cost" look at
        a batch as a whole); if sets need more than the scores of a row: a draw (`randomized`), its
        group, or a `hierarchy`; if a step or a classifier cannot be converted, or its graph says
        otherwise than it; or if the network was trained on a frame with columns of categories:
        encode them in front.

    Notes
    -----
    `MLP` and `TabularMLP` are written layer by layer, any other `module` by ``torch.onnx.export``.
    Scores agree to rounding, about 1e-6 relative in float32; with ``precision="bfloat16"`` the
    graph is the more exact one.

    What skl2onnx makes of another classifier is tried with 200 rows that are drawn at many scales,
    and refused unless 95 % of them have the scores that the classifier gives. It scores in
    float32, whatever the classifier was trained on, also where it votes beside a network. Where a
    vote was trained with missing values some of these rows have them: skl2onnx has them in
    histogram boosting, not in forests. Rows whose score is within a millionth of the
    threshold count as tied with it: they are not flagged by a `BudgetClassifier`, but for
    ``constraint="recall"``, and are inside of sets made of probabilities.

    See Also
    --------
    register_onnx_converters : Let skl2onnx convert pipelines and ensembles with our classifiers.
    dump : For Python programs, and for more training.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sktopk import TopKClassifier
    >>> from sktopk.io import to_onnx
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = TopKClassifier(k=2, hidden_layer_sizes=(), random_state=0).fit(X, y)

    Where the extra and ONNX Runtime are installed:

    >>> session = onnxruntime.InferenceSession(to_onnx(clf, "iris.onnx"))  # doctest: +SKIP
    >>> scores, labels = session.run(None, {"X": X[:1]})  # doctest: +SKIP
    >>> labels.tolist()  # doctest: +SKIP
    [[0, 1]]
    """
    onnx = import_extra("onnx", "to_onnx", "onnx")
    model = model_of(onnx, estimator)
    model.ir_version = IR_VERSION
    model.producer_name, model.producer_version = "sktopk", __version__
    onnx.checker.check_model(model, full_check=True)
    write_atomically(path, [model.SerializeToString()])
    return os.fspath(path)


def model_of(onnx, estimator):
    """The graph of an estimator, with the outputs that `to_onnx` names."""
    steps, classifier, decision = _parts(estimator)
    slack = 0.0
    if has_network(classifier):
        from ._network import network_model

        model, dtype = network_model(onnx, classifier), classifier._numpy_dtype()
    elif isinstance(classifier, GivenScores):
        model, dtype = given_scores(onnx, classifier), np.float64
    else:
        # Those that the decision asks for.
        names = {"scores": "decision_function", "proba": "predict_proba"}
        names = names if isinstance(decision, BudgetClassifier) else dict(reversed(names.items()))
        output = next(name for name in names if hasattr(classifier, names[name]))
        model, slack = converted_classifier(onnx, steps, classifier, output), SLACK
        steps = []
    if decision is not None:
        model = with_decision(onnx, model, decision, slack)
    return with_steps(onnx, steps, model, dtype) if steps else model


def has_network(estimator):
    """Tell whether it is a classifier of this package with a network."""
    # Where torch was never loaded there is none; this would load it.
    if "torch" not in sys.modules:
        return False
    from sktopk._estimators._net_classifier import NetClassifier

    return isinstance(estimator, NetClassifier)


def _parts(estimator):
    """Steps before the classifier, the classifier, a decision around it."""
    steps, decision = [], None
    while not has_network(estimator):
        if isinstance(estimator, FrozenEstimator):
            estimator = estimator.estimator
        elif isinstance(estimator, Pipeline):
            before = estimator.steps[:-1]
            steps += [(n, step) for n, step in before if step not in (None, "passthrough")]
            estimator = estimator.steps[-1][1]
        elif isinstance(estimator, DECISIONS) and decision is None:
            check_is_fitted(estimator, "estimator_")
            check_decision(estimator)
            estimator, decision = estimator.estimator_, estimator
        elif decision is not None and not isinstance(estimator, DECISIONS):
            break
        else:
            raise TypeError(
                "estimator must be a classifier of sktopk with a network, alone or in a "
                "BudgetClassifier, SetClassifier or ExpectedCostClassifier "
                "around any classifier, or a Pipeline that ends in one; got "
                f"{type(estimator).__name__}"
            )
    if not isinstance(estimator, GivenScores):
        check_is_fitted(estimator)
    return steps, estimator, decision
