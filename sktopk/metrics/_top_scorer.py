"""Scorers of the top of a ranking, for any classifier of two classes."""

from __future__ import annotations

import inspect
import warnings

import numpy as np

from sktopk._common._scalars import check_option, check_pos_label, is_told, place_of
from sktopk._common._types import Label

from ._ranking import Ranking, is_positive, undefined
from ._scorer import Scorer, predict_scores
from ._top import enrichment_factor, precision_at_k, recall_at_k
from ._top_curves import auc_at_quantile, bedroc, partial_auc_log
from ._top_thresholds import (
    positives_at_top,
    precision_at_recall,
    recall_at_precision,
    true_positive_rate_at_fpr,
)

_SCORES = {
    score.__name__: score
    for score in (
        precision_at_k,
        recall_at_k,
        enrichment_factor,
        precision_at_recall,
        recall_at_precision,
        positives_at_top,
        true_positive_rate_at_fpr,
        partial_auc_log,
        auc_at_quantile,
        bedroc,
    )
}
_WITH_TIES = ("precision_at_k", "recall_at_k", "enrichment_factor", "auc_at_quantile", "bedroc")
_WITH_GROUPS = ("precision_at_k", "recall_at_k")


def top_score(
    name, positive, y_score, sample_weight=None, *, ties="expected", groups=None, **params
):
    """Return the score called `name` of targets 0 and 1 (or False and True) and their scores.

    Labels are not checked. `params` are those of the function called `name` + "_score".
    """
    positive = np.asarray(positive)
    ranking = Ranking.from_values(positive, y_score, sample_weight, ties=ties, groups=groups)
    return _SCORES[name](ranking, **params)


def make_top_scorer(
    name: str,
    *,
    k: int | float | None = None,
    fraction: float | None = None,
    recall: float | None = None,
    precision: float | None = None,
    fpr: float | None = None,
    max_fpr: float | None = None,
    min_fpr: float | None = None,
    quantile: float | None = None,
    normalize: bool | None = None,
    alpha: float | None = None,
    ties: str | None = None,
    pos_label: Label | None = None,
) -> TopScorer:
    r"""Make a ``scoring`` argument of a score of the top, for any binary classifier.

    The score is the function called `name` followed by ``_score``, of the scores of the positive
    class:

    .. math::
        \mathrm{score}(y, s(X)), \qquad s = \text{decision function, or probability}

    ===========================  =======================  ==========================
    name                         needs                    takes
    ===========================  =======================  ==========================
    "precision_at_k"             k                        ties
    "recall_at_k"                k                        ties
    "enrichment_factor"          fraction                 ties
    "precision_at_recall"        recall
    "recall_at_precision"        precision
    "positives_at_top"                                    k
    "true_positive_rate_at_fpr"  fpr
    "partial_auc_log"                                     max_fpr, min_fpr
    "auc_at_quantile"            quantile                 normalize, ties
    "bedroc"                                              alpha, ties
    ===========================  =======================  ==========================

    Two of them have no function. "partial_auc_log" averages `true_positive_rate_at_fpr_score` over
    the logarithm of the rate, from `min_fpr` (1e-5) to `max_fpr` (0.05). "auc_at_quantile" averages
    the precision of the top share :math:`\tau` over all shares up to `quantile`, as in [1]_; with
    `normalize`, it is divided by the score of a perfect ranking:

    .. math::
        \frac{1}{\ln(b / a)} \int_{\ln a}^{\ln b} \mathrm{TPR}(e^u) \, du, \qquad
        \frac{1}{\alpha} \int_0^\alpha P(\tau) \, d\tau

    Parameters
    ----------
    name : str
        One of the names in the table.
    k, fraction, recall, precision, fpr, max_fpr, min_fpr, quantile, normalize, alpha, ties
        Parameters of the score. None stands for its default.
    pos_label : int, float, bool or str, default=None
        Label of the positives. None: the `pos_label_` of the classifier, also of one at the end
        of a pipeline or found by a search; else 1 or True, if the other label is 0, -1 or False.

    Returns
    -------
    scorer : TopScorer
        Called as ``scorer(estimator, X, y, sample_weight=None, groups=None)`` with a fitted
        classifier of two classes, or any object with ``classes_`` and ``decision_function``
        (preferred) or ``predict_proba``. Returns a float; larger is better. It is NaN, with an
        `UndefinedMetricWarning` that names the score, for a fold without positives and for
        a classifier trained on one class. It can be pickled and cloned. With metadata routing,
        ``scorer.set_score_request(sample_weight=True, groups=True)`` requests weights and
        groups; "precision_at_k" and "recall_at_k" take groups.

    Raises
    ------
    TypeError, ValueError
        If `name` is unknown, lacks a parameter or does not take one, or if a parameter has the
        wrong type or range. When called: if the estimator has no ``classes_``, no scores or more
        than two classes, the positive label is not known, or `name` does not take groups.

    References
    ----------
    .. [1] L. Adam, V. Mácha, V. Šmídl. DeepTopPush: simple and scalable method
       for accuracy at the top. 2020, section 4.2 and table 4.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.model_selection import cross_val_score
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from sktopk.metrics import make_top_scorer
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> scorer = make_top_scorer("recall_at_k", k=30)
    >>> print(cross_val_score(GaussianNB(), X, y, scoring=scorer, cv=3).round(2))
    [0.25 0.25 0.25]
    """
    scorer = TopScorer(**locals())  # which takes the same parameters
    check_option(name, "name", tuple(_SCORES))
    check_pos_label(pos_label)
    params = scorer.score_params()
    _, *takes = inspect.signature(_SCORES[name]).parameters.values()
    needs = [each.name for each in takes if each.default is inspect.Parameter.empty]
    takes = [each.name for each in takes] + ["ties"] * (name in _WITH_TIES)
    if not set(needs) <= set(params) <= set(takes):
        optional = [each for each in takes if each not in needs]
        raise ValueError(
            f"name={name!r} needs {', '.join(needs) or 'nothing'} and takes "
            f"{', '.join(optional) or 'nothing else'}; "
            f"got {', '.join(f'{key}={value!r}' for key, value in params.items()) or 'nothing'}"
        )
    with warnings.catch_warnings():  # of more places than samples
        warnings.simplefilter("ignore", UserWarning)
        top_score(name, [False, True], [0.0, 1.0], **params)  # raises what is out of range
    return scorer


class TopScorer(Scorer):
    """Scorer of `make_top_scorer`, which documents the parameters."""

    def __init__(
        self,
        name,
        *,
        k=None,
        fraction=None,
        recall=None,
        precision=None,
        fpr=None,
        max_fpr=None,
        min_fpr=None,
        quantile=None,
        normalize=None,
        alpha=None,
        ties=None,
        pos_label=None,
    ):
        self.name = name
        self.k = k
        self.fraction = fraction
        self.recall = recall
        self.precision = precision
        self.fpr = fpr
        self.max_fpr = max_fpr
        self.min_fpr = min_fpr
        self.quantile = quantile
        self.normalize = normalize
        self.alpha = alpha
        self.ties = ties
        self.pos_label = pos_label

    @property
    def __name__(self):
        """Column name in the history of a skorch scoring callback, as a function has one."""
        return "_".join(map(str, [self.name, *self.score_params().values()]))

    def score_params(self):
        """Return the parameters that are not left to the defaults of the score."""
        params = self.get_params(deep=False)
        others = ("name", "pos_label")
        return {key: each for key, each in params.items() if key not in others and each is not None}

    def score(self, estimator, X, y, sample_weight=None, groups=None):
        """Return the score of a fitted classifier; a call does the same."""
        if groups is not None and self.name not in _WITH_GROUPS:
            raise ValueError(f"name={self.name!r} has no use for groups; got groups")
        pos_label, y_score = positive_scores(estimator, X, self.pos_label)
        if y_score is None:
            reason = f"{type(estimator).__name__} was trained on one class only"
            return undefined(f"{self.name}_score", reason)
        positive, params = is_positive(y, pos_label), self.score_params()
        return top_score(self.name, positive, y_score, sample_weight, groups=groups, **params)

    __call__ = score


def own_pos_label(estimator):
    """Return the `pos_label_` of a fitted classifier, None without one.

    The classifier may be at the end of a pipeline, or found by a search.
    """
    while estimator is not None and not hasattr(estimator, "pos_label_"):
        steps = getattr(estimator, "steps", None)
        estimator = steps[-1][1] if steps else getattr(estimator, "best_estimator_", None)
    return getattr(estimator, "pos_label_", None)


def positive_scores(estimator, X, pos_label=None):
    """Return the positive class of a fitted classifier, and its scores as an array.

    `pos_label` None stands for the `pos_label_` of the classifier, or else for 1 or True. Both
    are None for a classifier that knows one class only.
    """
    classes, y_score = predict_scores(estimator, X)
    if len(classes) > 2:
        raise ValueError(f"estimator must know two classes; got {len(classes)} from {estimator!r}")
    if len(classes) == 1:
        return None, None
    labels = np.asarray(classes).tolist()
    if pos_label is None:
        pos_label = own_pos_label(estimator)
    if pos_label is None:
        if not is_told(set(labels)):
            raise ValueError(
                f"the labels {labels[0]!r} and {labels[1]!r} do not tell which is positive: pass "
                "pos_label, the label of the positives"
            )
        pos_label = labels[1]
    place = place_of(pos_label, labels)
    if y_score.ndim == 2:
        y_score = y_score[:, place]
    elif place == 0:
        y_score = -y_score
    return pos_label, y_score


def scores_of_two_classes(estimator, X, pos_label=None):
    """Do the same for a classifier that must know two classes."""
    pos_label, y_score = positive_scores(estimator, X, pos_label)
    if y_score is None:
        raise ValueError(f"estimator must know two classes; got one from {estimator!r}")
    return pos_label, y_score
