"""Base class of all scorers, and the scorer of top-k accuracy."""

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_is_fitted

from sktopk._common._samples import chunks
from sktopk._common._scalars import check_k, check_option, on_host, refuse_masked
from sktopk._common._warnings import warn_of_order

from ._ranking import TIES
from ._topk import LabelRanks, warn_of_all

_MOST_SCORES = 1 << 25  # per chunk of samples: 128 MiB of float32
METHODS = "decision_function", "predict_proba"  # that return scores, most preferred first


class Scorer(BaseEstimator):
    """Base class of scorers. A subclass defines `score` and ``__call__ = score``."""

    # Without this line, metadata routing would treat the argument `estimator` as metadata.
    __metadata_request__score = {"estimator": UNUSED}  # noqa: RUF012

    def _accept_sample_weight(self):
        return True  # scikit-learn calls this method in a search with weights and several metrics

    def __getattr__(self, name):
        raise AttributeError(
            f"{type(self).__name__} has no attribute {name!r}. TunedThresholdClassifierCV needs a "
            "metric of predicted labels, such as scoring='f1'; this scorer does not depend on a "
            "threshold. Use sktopk.BudgetClassifier to choose a threshold"
        )


def make_topk_scorer(
    k: int | float, *, average: str = "micro", ties: str = "expected"
) -> "TopKScorer":
    r"""Make a scorer of the top-k accuracy, to pass as ``scoring`` for any classifier.

    The score is `topk_accuracy_score` with ``labels=estimator.classes_``.

    Parameters
    ----------
    k, average, ties
        Number of predicted labels, kind of average and rule for ties, as in `topk_accuracy_score`.

    Returns
    -------
    scorer : TopKScorer
        Callable ``scorer(estimator, X, y, sample_weight=None)``; larger is better. The estimator
        needs ``decision_function`` or ``predict_proba`` with one score per class, so an ``SVC``
        needs ``decision_function_shape="ovr"``. The scorer warns if k >= n_classes. With metadata
        routing, use ``set_score_request(sample_weight=True)`` to pass weights.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.model_selection import cross_val_score
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from sktopk.metrics import make_topk_scorer
    >>> X, y = load_digits(return_X_y=True)
    >>> print(cross_val_score(GaussianNB(), X, y, scoring=make_topk_scorer(3), cv=3).round(2))
    [0.96 0.95 0.92]
    """
    check_k(k)
    check_option(average, "average", ("micro", "macro"))
    check_option(ties, "ties", TIES)
    return TopKScorer(k, average=average, ties=ties)


class TopKScorer(Scorer):
    """Scorer that is returned by `make_topk_scorer`, whose docstring describes the parameters."""

    def __init__(self, k, *, average="micro", ties="expected"):
        self.k, self.average, self.ties = k, average, ties

    @property
    def __name__(self):
        return f"{'macro_' if self.average == 'macro' else ''}top{self.k}_accuracy"

    def score(self, estimator, X, y, sample_weight=None):
        ranks = label_ranks(estimator, X, y, sample_weight)
        warn_of_all(self.k, ranks.n_classes)
        return ranks.accuracy(self.k, average=self.average, ties=self.ties)

    __call__ = score


def label_ranks(estimator, X, y, sample_weight=None):
    """Return the ranks of labels y in a classifier's scores. Large X is scored in chunks."""
    warn_of_order(X, y=y, sample_weight=sample_weight)
    classes, shape = getattr(estimator, "classes_", ()), getattr(X, "shape", (0,))
    if len(classes) > 2 and len(classes) * shape[0] > _MOST_SCORES:
        # Convert sparse X to CSR, because some other formats do not support slicing.
        rows = X.tocsr() if hasattr(X, "tocsr") else getattr(X, "iloc", X)
        parts = chunks(shape[0], len(classes), _MOST_SCORES)
        scores = (predict_scores(estimator, rows[part])[1] for part in parts)
        return LabelRanks.from_chunks(y, scores, (shape[0], len(classes)), classes, sample_weight)
    classes, y_score = predict_scores(estimator, X)
    return LabelRanks.from_predictions(y, y_score, classes, sample_weight)


def no_classifier(estimator):
    if isinstance(estimator, FrozenEstimator) and not estimator.__sklearn_is_fitted__():
        kind = type(estimator.estimator).__name__
        return NotFittedError(f"the {kind} in FrozenEstimator is not fitted: call its fit first")
    return TypeError(
        "estimator must be a classifier with classes_ and decision_function or predict_proba; got "
        f"{estimator!r}"
    )


def attribute_of(estimator, name):
    """Return an attribute of a classifier, even inside a pipeline or search. None if missing."""
    while estimator is not None and not hasattr(estimator, name):
        steps = getattr(estimator, "steps", None)
        inner = getattr(estimator, "best_estimator_", None)
        # Look into wrappers of one classifier, but not into ensembles: they number the labels.
        if inner is None and name.endswith("_") and not hasattr(estimator, "estimators_"):
            copies = getattr(estimator, "calibrated_classifiers_", None)
            inner = copies[0].estimator if copies else getattr(estimator, "estimator_", None)
        estimator = steps[-1][1] if steps else inner
    return getattr(estimator, name, None)


def predict_scores(estimator, X, methods=METHODS):
    """Return classes and scores of a fitted classifier. Scores of two classes may be 1D."""
    refuse_masked(X=X)
    classes = on_host(getattr(estimator, "classes_", None), "classes_ of estimator")
    predict = next((getattr(estimator, m) for m in methods if hasattr(estimator, m)), None)
    if classes is None or predict is None:
        check_is_fitted(estimator)
        raise no_classifier(estimator)
    y_score = np.asarray(on_host(predict(X), "scores of estimator"))
    n_classes = len(classes)
    if n_classes == 2 and y_score.shape[1:] == (1,):
        y_score = y_score[:, 0]  # networks with one output return one column
    # For three classes, "ovo" and "ovr" both give three columns.
    is_ovo = attribute_of(estimator, "decision_function_shape") == "ovo"
    if n_classes > 2 and (y_score.shape[1:] != (n_classes,) or is_ovo):
        raise ValueError(
            f"estimator must return one score for each of its {n_classes} classes; got scores of "
            f"shape {y_score.shape} from {estimator!r}. If the scores are of pairs of classes, set "
            'decision_function_shape="ovr"'
        )
    return classes, y_score
