"""Scorers for the top of a ranking, for any binary classifier."""

import inspect
import warnings
from dataclasses import KW_ONLY, dataclass

import numpy as np

from sktopk._common._scalars import check_option, check_pos_label, is_told, place_of
from sktopk._common._types import Label
from sktopk._common._warnings import warn_of_order

from . import _top, _top_curves
from ._ranking import Ranking, is_positive, undefined
from ._scorer import METHODS, Scorer, attribute_of, predict_scores

METRICS = {
    name.removesuffix("_score"): function
    for module in (_top, _top_curves)
    for name, function in vars(module).items()
    if name.endswith("_score")
}


def top_score(name, positive, y_score, sample_weight, *, ties="expected", groups=None, **params):
    """Return the metric `name` for Boolean targets, which are not checked."""
    positive = np.asarray(positive)
    ranking = Ranking.from_values(positive, y_score, sample_weight, ties=ties, groups=groups)
    return METRICS[name](ranking, y_score, **params)


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
) -> "TopScorer":
    r"""Make a ``scoring`` argument for the top of a ranking, for any binary classifier.

    The scorer calls the function ``<name>_score`` with the scores of the positive class.

    ===========================  =======================  ==========================
    name                         required parameters      optional parameters
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

    Two metrics exist only as scorers. "partial_auc_log" (left formula) is the mean true positive
    rate (TPR) for false positive rates between a = `min_fpr` (default 1e-5) and b = `max_fpr`
    (default 0.05). The mean is taken on a logarithmic scale of the false positive rate.

    "auc_at_quantile" (right formula) is the mean precision [1]_ for shares :math:`\tau` from 0 to
    :math:`\alpha` = `quantile`. :math:`P(\tau)` is the precision among the share :math:`\tau` of
    samples with the highest scores. ``normalize=True`` divides by the value of a perfect ranking.

    .. math::
        \frac{1}{\ln(b / a)} \int_{\ln a}^{\ln b} \mathrm{TPR}(e^u) \, du, \qquad
        \frac{1}{\alpha} \int_0^\alpha P(\tau) \, d\tau

    Parameters
    ----------
    name : str
        One of the names in the table.
    k, fraction, recall, precision, fpr, max_fpr, min_fpr, quantile, normalize, alpha, ties
        Parameters of the metric, as in the table. None means the metric's default. An integer `k`
        is a number of samples per test fold. In "positives_at_top", `k` is the rank of a negative:
        positives count if they score above the k-th highest negative.
    pos_label : int, float, bool or str, default=None
        Label of the positives. None means the `pos_label_` of the classifier, or else 1 or True.

    Returns
    -------
    scorer : TopScorer
        Callable ``scorer(estimator, X, y, sample_weight=None, groups=None)``; larger is better. The
        scorer uses ``decision_function`` or else ``predict_proba`` of a fitted binary classifier.
        The score is NaN, with a warning, if there are no positives, or if the classifier knows one
        class only. Only "precision_at_k" and "recall_at_k" take groups. With metadata routing,
        request the arguments that you pass: ``set_score_request(sample_weight=True, groups=True)``.

    Raises
    ------
    TypeError, ValueError
        If `name` is unknown, or if a parameter is missing, out of range or not used by `name`.

    References
    ----------
    .. [1] L. Adam, V. Mácha, V. Šmídl. DeepTopPush: simple and scalable method for accuracy at the
       top. 2020, section 4.2 and table 4.

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
    scorer = TopScorer(**locals())
    check_option(name, "name", tuple(METRICS))
    check_pos_label(pos_label)
    params = scorer.score_params()
    data = ("y_true", "y_score", "pos_label", "sample_weight", "groups")
    parameters = inspect.signature(METRICS[name]).parameters
    takes = {key: each for key, each in parameters.items() if key not in data}
    needs = [key for key, each in takes.items() if each.default is each.empty]
    if not set(needs) <= params.keys() <= takes.keys():
        raise ValueError(
            f"name={name!r} requires {', '.join(needs) or 'no parameters'} and takes "
            f"{', '.join(key for key in takes if key not in needs) or 'no others'}; "
            f"got {', '.join(f'{key}={value!r}' for key, value in params.items()) or 'nothing'}"
        )
    # Call the metric once to check the parameters. Ignore the warning about large k.
    with warnings.catch_warnings(action="ignore", category=UserWarning):
        top_score(name, [False, True], [0.0, 1.0], None, **params)
    return scorer


@dataclass(eq=False, repr=False)
class TopScorer(Scorer):
    """Scorer that is returned by `make_top_scorer`, whose docstring describes the parameters."""

    name: str
    _: KW_ONLY
    k: int | float | None = None
    fraction: float | None = None
    recall: float | None = None
    precision: float | None = None
    fpr: float | None = None
    max_fpr: float | None = None
    min_fpr: float | None = None
    quantile: float | None = None
    normalize: bool | None = None
    alpha: float | None = None
    ties: str | None = None
    pos_label: Label | None = None

    @property
    def __name__(self):
        return "_".join(map(str, [self.name, *self.score_params().values()]))

    def score_params(self):
        params = self.get_params(deep=False)
        others = ("name", "pos_label")
        return {key: each for key, each in params.items() if key not in others and each is not None}

    @property
    def takes_groups(self):
        return "groups" in inspect.signature(METRICS[self.name]).parameters

    def score(self, estimator, X, y, sample_weight=None, groups=None):
        if groups is not None and not self.takes_groups:
            raise ValueError(f"groups must be None for name={self.name!r}; got groups")
        warn_of_order(X, y=y, sample_weight=sample_weight, groups=groups)
        pos_label, y_score = positive_scores(estimator, X, self.pos_label)
        if y_score is None:
            reason = f"{type(estimator).__name__} was trained on one class only"
            return undefined(f"{self.name}_score", reason)
        positive, params = is_positive(y, pos_label), self.score_params()
        return top_score(self.name, positive, y_score, sample_weight, groups=groups, **params)

    __call__ = score


def positive_scores(estimator, X, pos_label=None, methods=METHODS):
    """Return the positive label and its scores, or (None, None) if there is only one class."""
    classes, y_score = predict_scores(estimator, X, methods)
    if len(classes) > 2:
        raise ValueError(f"estimator must have two classes; got {len(classes)} from {estimator!r}")
    if len(classes) == 1:
        return None, None
    labels = np.asarray(classes).tolist()
    if pos_label is None:
        pos_label = attribute_of(estimator, "pos_label_")
    if pos_label is None:
        if not is_told(set(labels)):
            raise ValueError(
                "pos_label must be given for labels other than 0 and 1, -1 and 1, or booleans; "
                f"got pos_label=None and the labels {labels[0]!r} and {labels[1]!r}"
            )
        pos_label = labels[1]
    return pos_label, scores_of_class(y_score, place_of(pos_label, labels))


def scores_of_class(y_score, place):
    """Return the scores of the first (`place` = 0) or second class from scores of two classes."""
    if y_score.ndim == 2:
        return y_score[:, place]
    return -1.0 * y_score if place == 0 else y_score  # unsigned integers have no negative
