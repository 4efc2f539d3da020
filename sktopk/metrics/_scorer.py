"""What all scorers share, and the scorer of top-k accuracy."""

from __future__ import annotations

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_is_fitted

from sktopk._common._scalars import check_k, check_option, on_host, refuse_masked

from ._ranking import TIES
from ._topk import LabelRanks

# Scores that exist at a time: 128 MiB of float32.
_MOST_SCORES = 1 << 25


class Scorer(BaseEstimator):
    """Base of the scorers: an object called as ``scorer(estimator, X, y)``.

    It is a `BaseEstimator` because that is scikit-learn's public way to a representation,
    `clone` and `set_score_request`. A subclass defines `score` and ``__call__ = score``.
    """

    # Metadata routing takes every argument of `score` but X and y for metadata.
    __metadata_request__score = {"estimator": UNUSED}  # noqa: RUF012

    def __getattr__(self, name):
        raise AttributeError(
            f"{type(self).__name__} has no attribute {name!r}. If TunedThresholdClassifierCV asked "
            "for it: it needs a score of predicted labels, such as scoring='f1'. This scorer "
            "judges scores or sets, which no threshold changes; sktopk.BudgetClassifier chooses "
            "a threshold for the top"
        )


def make_topk_scorer(
    k: int | float, *, average: str = "micro", ties: str = "expected"
) -> TopKScorer:
    r"""Make a ``scoring`` argument of the top-k accuracy, for any scikit-learn classifier.

    The score is `topk_accuracy_score` with ``labels=estimator.classes_``:

    .. math::
        \frac{\sum_i w_i h_i}{\sum_i w_i}

    where :math:`h_i` says whether the label of sample i is among the k highest scores. A class
    that is only in the test fold is a miss; a class that the test fold lacks changes nothing.

    Parameters
    ----------
    k, average, ties
        As in `topk_accuracy_score`.

    Returns
    -------
    scorer : TopKScorer
        Called as ``scorer(estimator, X, y, sample_weight=None)`` with a fitted classifier, or any
        object with ``classes_`` and ``decision_function`` (preferred) or ``predict_proba``.
        Returns a float; larger is better. It can be pickled and cloned. With metadata routing,
        ``scorer.set_score_request(sample_weight=True)`` requests weights.

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type or range. When called: if the estimator has no
        ``classes_`` or no scores, or the scores are not one per class, as for the pairwise
        scores of ``SVC(decision_function_shape="ovo")``.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.model_selection import cross_val_score
    >>> from sktopk.metrics import make_topk_scorer
    >>> X, y = load_digits(return_X_y=True)
    >>> clf = LogisticRegression(C=1e-3, max_iter=1000)
    >>> scores = cross_val_score(clf, X, y, scoring=make_topk_scorer(3), cv=3)
    >>> print(scores.round(2))
    [0.99 0.99 0.98]
    """
    check_k(k)
    check_option(average, "average", ("micro", "macro"))
    check_option(ties, "ties", TIES)
    return TopKScorer(k, average=average, ties=ties)


class TopKScorer(Scorer):
    """Scorer of `make_topk_scorer`, which documents the parameters."""

    def __init__(self, k, *, average="micro", ties="expected"):
        self.k = k
        self.average = average
        self.ties = ties

    @property
    def __name__(self):
        """Column name in the history of a skorch scoring callback, as a function has one."""
        return f"{'macro_' if self.average == 'macro' else ''}top{self.k}_accuracy"

    def score(self, estimator, X, y, sample_weight=None):
        """Return the top-k accuracy of a fitted classifier; a call does the same."""
        ranks = label_ranks(estimator, X, y, sample_weight)
        return ranks.accuracy(self.k, average=self.average, ties=self.ties)

    __call__ = score


def label_ranks(estimator, X, y, sample_weight=None):
    """Return the `LabelRanks` of samples by a fitted classifier, in pieces for many classes."""
    classes = getattr(estimator, "classes_", ())
    n_rows = _MOST_SCORES // max(1, len(classes))
    if len(classes) > 2 and n_rows < getattr(X, "shape", (0,))[0]:
        pieces = (predict_scores(estimator, rows)[1] for rows in _row_pieces(X, n_rows))
        shape = (X.shape[0], len(classes))
        return LabelRanks.from_pieces(y, pieces, shape, classes, sample_weight)
    classes, y_score = predict_scores(estimator, X)
    return LabelRanks.from_predictions(y, y_score, classes, sample_weight)


def _row_pieces(X, n_rows):
    """Yield the rows of an array, a sparse matrix or a frame, some at a time."""
    # Not every sparse format can be sliced.
    rows = X.tocsr() if hasattr(X, "tocsr") else getattr(X, "iloc", X)
    for start in range(0, X.shape[0], max(1, n_rows)):
        yield rows[start : start + max(1, n_rows)]


def no_classifier(estimator):
    """Return the error for an estimator without classes or scores."""
    return TypeError(
        "estimator must be a classifier with classes_ and decision_function or predict_proba; got "
        f"{estimator!r}"
    )


def predict_scores(estimator, X):
    """Return the classes of a fitted classifier and its scores, one column per class.

    The scores of two classes may have one dimension: decision scores of the second class.
    """
    refuse_masked(X, "X")
    classes = on_host(getattr(estimator, "classes_", None), "classes_ of estimator")
    predict = getattr(estimator, "decision_function", None)
    if predict is None:
        predict = getattr(estimator, "predict_proba", None)
    if classes is None or predict is None:
        check_is_fitted(estimator)
        raise no_classifier(estimator)
    y_score = np.asarray(on_host(predict(X), "scores of estimator"))
    n_classes = len(classes)
    if n_classes == 2 and y_score.shape[1:] == (1,):
        y_score = y_score[:, 0]  # as networks with one output return them
    if n_classes > 2 and (y_score.shape[1:] != (n_classes,) or _is_one_vs_one(estimator)):
        raise ValueError(
            f"estimator must score each of its {n_classes} classes; got scores of shape "
            f"{y_score.shape} from {estimator!r}. Pairwise scores are no class scores: "
            'set decision_function_shape="ovr"'
        )
    return classes, y_score


def _is_one_vs_one(estimator):
    # Three classes have three pairs: the shape alone would not tell.
    params = estimator.get_params() if hasattr(estimator, "get_params") else {}
    shapes = [params[name] for name in params if name.endswith("decision_function_shape")]
    return "ovo" in shapes
