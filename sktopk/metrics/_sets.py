"""Coverage and size of prediction sets, and their scorer."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_array

from sktopk._common._scalars import check_option, check_order, on_host

from ._ranking import row_weights, undefined
from ._scorer import Scorer
from ._topk import LabelRanks, _clip_to_range, columns_of_labels

# For each `score` of `make_set_scorer`: `average` of `set_coverage_score`, or None for set sizes.
_AVERAGES = {"coverage": "micro", "macro_coverage": "macro", "neg_size": None}


def set_coverage_score(
    y_true: ArrayLike,
    y_set: Any,
    *,
    labels: ArrayLike,
    average: str = "micro",
    sample_weight: ArrayLike | None = None,
) -> float:
    r"""Compute the share of samples whose prediction set contains the true label.

    .. math::
        \frac{\sum_i w_i [y_i \in C_i]}{\sum_i w_i}, \qquad C_i = \text{prediction set of sample } i

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels.
    y_set : {array-like, sparse matrix} of shape (n_samples, n_classes)
        True or 1 if the class of the column is in the sample's prediction set, else False or 0.
    labels : array-like of shape (n_classes,)
        The class of each column of `y_set`, such as the ``classes_`` of a fitted classifier.
    average : {"micro", "macro"}, default="micro"
        "micro" is the coverage of all samples. "macro" is the mean coverage of the classes [1]_.
    sample_weight : array-like of shape (n_samples,), default=None
        Nonnegative weights. None means equal weights.

    Returns
    -------
    score : float
        In [0, 1]. A sample whose label is not in `labels` is not covered. With "macro", each such
        label is a class of coverage 0. NaN, with an `UndefinedMetricWarning`, if all weights are 0.

    Raises
    ------
    TypeError, ValueError
        If `y_set` has values other than 0 and 1, `labels` are repeated, or shapes or types differ.

    References
    ----------
    .. [1] T. Ding et al. Conformal prediction for long-tailed classification. arXiv:2507.06867.

    Examples
    --------
    >>> from sktopk.metrics import set_coverage_score
    >>> y_true = ["ash", "ash", "ash", "oak"]
    >>> y_set = [[1, 0], [1, 1], [1, 0], [1, 0]]
    >>> set_coverage_score(y_true, y_set, labels=["ash", "oak"])
    0.75
    """
    check_option(average, "average", ("micro", "macro"))
    covered, code, y_set = covered_rows(y_true, y_set, labels)
    weight = row_weights(sample_weight, len(covered), "y_set")
    if not weight.any():
        return undefined("set_coverage_score", "no sample of positive weight")
    # Covered labels get rank 1 and all other labels rank 2, so the top-1 accuracy is the coverage.
    n_tied = np.ones(len(code))
    return LabelRanks(code, ~covered, n_tied, weight, y_set.shape[1]).accuracy(1, average=average)


def set_size_score(y_set: Any, *, sample_weight: ArrayLike | None = None) -> float:
    r"""Compute the mean number of labels in a prediction set.

    .. math::
        \frac{\sum_i w_i |C_i|}{\sum_i w_i}, \qquad C_i = \text{prediction set of sample } i

    Parameters
    ----------
    y_set, sample_weight
        Prediction sets and weights of the samples, as in `set_coverage_score`.

    Returns
    -------
    score : float
        In [0, n_classes]. NaN, with a warning, if no sample has positive weight.

    Examples
    --------
    >>> from sktopk.metrics import set_size_score
    >>> set_size_score([[1, 0, 0], [1, 1, 0]])
    1.5
    """
    size = set_sizes(check_sets(y_set)).astype(np.float64)
    weight = row_weights(sample_weight, len(size), "y_set")
    if not weight.any():
        return undefined("set_size_score", "no sample of positive weight")
    return float(_clip_to_range(np.average(size, weights=weight), size))


def make_set_scorer(score: str) -> "SetScorer":
    """Make a ``scoring`` argument for the coverage or the size of a `SetClassifier`'s sets.

    Parameters
    ----------
    score : {"coverage", "macro_coverage", "neg_size"}
        "coverage" and "macro_coverage" are the micro and the macro average of `set_coverage_score`.
        "neg_size" is the negative `set_size_score`, so that smaller sets are better.

    Returns
    -------
    scorer : SetScorer
        Callable ``scorer(estimator, X, y, sample_weight=None, groups=None)``; larger is better. The
        estimator needs the method ``predict_set``, which gets `groups` if you pass them. With
        metadata routing, use ``set_score_request(sample_weight=True, groups=True)``.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.model_selection import GridSearchCV
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from sktopk import SetClassifier
    >>> from sktopk.metrics import make_set_scorer
    >>> X, y = load_digits(return_X_y=True)
    >>> clf = SetClassifier(GaussianNB(), random_state=0)
    >>> scoring, grid = make_set_scorer("neg_size"), {"method": ["lac", "aps"]}
    >>> GridSearchCV(clf, grid, scoring=scoring, cv=3).fit(X, y).best_params_
    {'method': 'lac'}
    """
    check_option(score, "score", tuple(_AVERAGES))
    return SetScorer(score)


class SetScorer(Scorer):
    """Scorer that is returned by `make_set_scorer`, whose docstring describes the parameters."""

    def __init__(self, score_name):
        self.score_name = score_name

    @property
    def __name__(self):
        return f"set_{self.score_name}"

    def score(self, estimator, X, y, sample_weight=None, groups=None):
        classes, y_set = predict_sets(estimator, X, groups)
        average, weight = _AVERAGES[self.score_name], sample_weight
        if average is None:
            return -set_size_score(y_set, sample_weight=weight)
        return set_coverage_score(y, y_set, labels=classes, average=average, sample_weight=weight)

    __call__ = score


def predict_sets(estimator, X, groups=None):
    if not hasattr(estimator, "predict_set"):
        raise TypeError(
            f"estimator must have predict_set, such as a SetClassifier; got {estimator!r}. "
            "Instead of scikit-learn's Pipeline, use sktopk.Pipeline or SetClassifier(pipeline)"
        )
    y_set = estimator.predict_set(X) if groups is None else estimator.predict_set(X, groups=groups)
    return estimator.classes_, y_set


def covered_rows(y_true, y_set, labels):
    """Return three values: mask of covered samples, column of each true label, checked `y_set`."""
    check_order(y_set, labels, "y_set")
    y_set = check_sets(y_set)
    code = columns_of_labels(y_true, labels, y_set.shape, "y_set")
    if hasattr(y_set, "indptr"):
        row = np.repeat(np.arange(len(code)), np.diff(y_set.indptr))
        found = row[(y_set.indices == code[row]) & (y_set.data != 0)]
        return np.bincount(found, minlength=len(code)) > 0, code, y_set
    covered = code < y_set.shape[1]
    covered[covered] = y_set[covered, code[covered]] != 0
    return covered, code, y_set


def check_sets(y_set):
    """Return `y_set` as an array or CSR matrix, and check that all values are 0 or 1."""
    options = {"accept_sparse": "csr", "dtype": None, "ensure_min_samples": 0}
    y_set = on_host(y_set, "y_set")
    is_matrix = not isinstance(y_set, list) or len({np.size(each) for each in y_set}) < 2
    if is_matrix:
        y_set = check_array(y_set, input_name="y_set", **options)
        values = y_set.data if hasattr(y_set, "indptr") else y_set
        is_matrix = values.dtype.kind in "biuf" and ((values == 0) | (values == 1)).all()
    if not is_matrix:
        raise ValueError(
            "y_set must have one column per class, with True (1) if the class is in the set, else "
            "False (0); got other values. SetClassifier returns such a matrix with "
            'predict_set(X, output="matrix")'
        )
    return y_set


def set_sizes(y_set):
    return np.asarray((y_set != 0).sum(axis=1)).ravel()
