"""Scorers of the top of a ranking of rows, for any classifier of two classes."""

from __future__ import annotations

import inspect
import warnings

import numpy as np
from sklearn.base import BaseEstimator, is_regressor
from sklearn.utils.metadata_routing import UNUSED

from sktopk._common._scalars import check_option, check_pos_label, is_told, on_host, place_of
from sktopk._common._types import Label

from ._ranking import check_value, is_positive, undefined
from ._scorer import predict_scores
from ._top import (
    enrichment_factor_score,
    mean_value_at_k_score,
    precision_at_k_score,
    recall_at_k_score,
)
from ._top_curves import auc_at_quantile_score, bedroc_score
from ._top_thresholds import (
    partial_auc_log_score,
    positives_at_top_score,
    precision_at_recall_score,
    recall_at_precision_score,
    true_positive_rate_at_fpr_score,
)

_SCORES = {
    "precision_at_k": precision_at_k_score,
    "recall_at_k": recall_at_k_score,
    "mean_value_at_k": mean_value_at_k_score,
    "enrichment_factor": enrichment_factor_score,
    "precision_at_recall": precision_at_recall_score,
    "recall_at_precision": recall_at_precision_score,
    "positives_at_top": positives_at_top_score,
    "true_positive_rate_at_fpr": true_positive_rate_at_fpr_score,
    "partial_auc_log": partial_auc_log_score,
    "auc_at_quantile": auc_at_quantile_score,
    "bedroc": bedroc_score,
}
# What the scorer passes to a score by itself, rather than as its parameter.
_DATA = ("pos_label", "groups", "sample_weight", "propensity")


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
    method: str | None = None,
    quantile: float | None = None,
    normalize: bool | None = None,
    alpha: float | None = None,
    ties: str | None = None,
    pos_label: Label | None = None,
) -> TopScorer:
    r"""A score of the top of a ranking as a ``scoring`` argument, for any binary classifier.

    The score is the function called `name` followed by ``_score``, of the scores
    of the positive class:

    .. math::
        \mathrm{score}(y, s(X)), \qquad s = \text{decision function, or probability}

    ===========================  =======================  ==========================
    name                         needs                    takes
    ===========================  =======================  ==========================
    "precision_at_k"             k                        ties
    "recall_at_k"                k                        ties
    "mean_value_at_k"            k                        ties
    "enrichment_factor"          fraction                 ties
    "precision_at_recall"        recall
    "recall_at_precision"        precision
    "positives_at_top"                                    k
    "true_positive_rate_at_fpr"  fpr
    "partial_auc_log"                                     max_fpr, min_fpr, method
    "auc_at_quantile"            quantile                 normalize, ties
    "bedroc"                                              alpha, ties
    ===========================  =======================  ==========================

    Parameters
    ----------
    name : str
        One of the names in the table.
    k : int or float, default=None
        Number of rows, or fraction of the rows, looked at; the number of the
        negative to be above for "positives_at_top". As all that follow, None
        stands for the default of the function, where there is one.
    fraction : float, default=None
        Share of the rows looked at.
    recall : float, default=None
        Share of the positives to find.
    precision : float, default=None
        Least share of positives among the rows above the threshold.
    fpr : float, default=None
        False positive rate not to exceed.
    max_fpr, min_fpr : float, default=None
        Range of false positive rates.
    method : {"exact", "sampled"}, default=None
        Definition of the partial area.
    quantile : float, default=None
        Share of the rows looked at, for the area up to it.
    normalize : bool, default=None
        Whether to divide by the best area possible.
    alpha : float, default=None
        How early positives must come to count.
    ties : {"expected", "optimistic", "pessimistic"}, default=None
        What tied scores count.
    pos_label : int, float, bool or str, default=None
        Label of the positives. None: the `pos_label_` of the classifier, also of one at the end
        of a pipeline or found by a search; without one, 1 or True beside 0, -1 or False.

    Returns
    -------
    scorer : TopScorer
        Called as ``scorer(estimator, X, y, sample_weight=None, groups=None,
        y_value=None)`` with a fitted classifier of two classes:
        ``decision_function`` is used if there is one, else ``predict_proba``.
        Returns a float, the larger the better; NaN, with an
        `UndefinedMetricWarning` that names the score, for a fold without positives,
        and for a classifier that was trained on one class only. It can be pickled
        and cloned, and with metadata routing enabled requests what it needs by
        ``scorer.set_score_request(sample_weight=True, groups=True, y_value=True)``:
        `groups` for the names with k rows of each group (precision, recall and
        mean value), and `y_value` for "mean_value_at_k", the value of each row if that
        is not `y` itself. That name also takes a regressor, whose predictions are the
        scores.

    Raises
    ------
    TypeError
        If a parameter is of the wrong type; when called, if the estimator has no
        ``classes_`` or no scores.
    ValueError
        If `name` is none of these, lacks a parameter it needs or is given one it
        does not take, or a parameter is out of its range; when called, if there are
        more than two classes, if their labels do not tell which is positive (such as "fraud"
        and "ok") and neither `pos_label` nor the classifier does, or if metadata are given that
        `name` has no use for.

    See Also
    --------
    make_topk_scorer : Labels per row, instead of rows.
    precision_at_k_score : One of the definitions, ties and empty classes included.

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
    takes = _keywords(name)
    needs = [each for each, default in takes.items() if default is inspect.Parameter.empty]
    if not set(needs) <= set(params) <= set(takes):
        optional = [each for each in takes if each not in needs]
        raise ValueError(
            f"name={name!r} needs {', '.join(needs) or 'nothing'} and takes "
            f"{', '.join(optional) or 'nothing else'}; "
            f"got {', '.join(f'{key}={value!r}' for key, value in params.items()) or 'nothing'}"
        )
    with warnings.catch_warnings():  # of more places than rows
        warnings.simplefilter("ignore", UserWarning)
        _SCORES[name]([0, 1], [0.0, 1.0], **params)  # raises what is out of range
    return scorer


class TopScorer(BaseEstimator):
    """What `make_top_scorer` returns, which documents the parameters.

    Examples
    --------
    >>> from sktopk.metrics import make_top_scorer
    >>> make_top_scorer("precision_at_k", k=100)
    TopScorer(k=100, name='precision_at_k')
    """

    # Metadata routing takes every argument of `score` but X and y for metadata.
    __metadata_request__score = {"estimator": UNUSED}  # noqa: RUF012

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
        method=None,
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
        self.method = method
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
        """Return the parameters that are not left to the score's defaults."""
        params = self.get_params(deep=False)
        others = ("name", "pos_label")
        return {key: each for key, each in params.items() if key not in others and each is not None}

    def score(self, estimator, X, y, sample_weight=None, groups=None, y_value=None):
        """Return the score of a fitted classifier; a call does the same."""
        score = _SCORES[self.name]
        params = {**self.score_params(), "sample_weight": sample_weight}
        if groups is not None:
            if "groups" not in inspect.signature(score).parameters:
                raise ValueError(f"name={self.name!r} has no use for groups; got groups")
            params["groups"] = groups
        if self.name == "mean_value_at_k":
            if is_regressor(estimator):
                y_score = on_host(estimator.predict(X), "predictions of estimator")
            else:
                _, y_score = positive_scores(estimator, X, self.pos_label)
            y = check_value(y if y_value is None else y_value)
        elif y_value is not None:
            raise ValueError(f"name={self.name!r} has no use for y_value; got y_value")
        else:
            pos_label, y_score = positive_scores(estimator, X, self.pos_label)
            if y_score is not None:
                # They are of the positives, however poor: the score need not ask which label.
                y, params["pos_label"] = is_positive(y, pos_label), True
        if y_score is None:
            reason = f"{type(estimator).__name__} was trained on one class only"
            return undefined(f"{self.name}_score", reason)
        return score(y, y_score, **params)

    __call__ = score


def own_pos_label(estimator):
    """Return what a fitted classifier takes for positive, None unless it says so.

    Also of one at the end of a pipeline, or found by a search.
    """
    while estimator is not None and not hasattr(estimator, "pos_label_"):
        steps = getattr(estimator, "steps", None)
        estimator = steps[-1][1] if steps else getattr(estimator, "best_estimator_", None)
    return getattr(estimator, "pos_label_", None)


def positive_scores(estimator, X, pos_label=None):
    """Return the positive class of a fitted classifier and its scores, the higher the likelier.

    For None it is the `pos_label_` of the classifier, if it has one, else 1 or True. Both are
    None for a classifier that knows one class only.
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
    """Return the same of a classifier that must know two classes."""
    pos_label, y_score = positive_scores(estimator, X, pos_label)
    if y_score is None:
        raise ValueError(f"estimator must know two classes; got one from {estimator!r}")
    return pos_label, y_score


def _keywords(name):
    """Return the parameters of a score, with their defaults."""
    signature = inspect.signature(_SCORES[name])
    return {
        each.name: each.default
        for each in signature.parameters.values()
        if each.kind == inspect.Parameter.KEYWORD_ONLY and each.name not in _DATA
    }
