"""Metrics of the samples whose score reaches a threshold."""

import numpy as np
from numpy.typing import ArrayLike

from sktopk._common._scalars import check_count
from sktopk._common._types import Label

from ._ranking import Ranking, check_rate, first_reaching, last_within, undefined, warn_of_few


def precision_at_recall_score(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    recall: float,
    pos_label: Label | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    r"""Compute the precision at the highest threshold that reaches a given recall.

    .. math::
        \frac{\sum_i w_i y_i [s_i \ge t]}{\sum_i w_i [s_i \ge t]},
        \qquad t = \max\Bigl\{ s_j :
        \sum_i w_i y_i [s_i \ge s_j] \ge r \sum_i w_i y_i \Bigr\}

    With equal weights, the threshold is the :math:`\lceil r n_+ \rceil`-th largest score of a
    positive, as in the constraint of Prec@Rec [1]_. A lower threshold can have a higher precision.

    Parameters
    ----------
    y_true, y_score, pos_label, sample_weight
        As in `precision_at_k_score`, with the same errors. Only ratios of weights matter.
    recall : float
        Share r of the positives to find, in (0, 1].

    Returns
    -------
    score : float
        In [0, 1]. 1 without negatives. NaN, with a warning, without positives.

    References
    ----------
    .. [1] L. Adam, V. Mácha, V. Šmídl. DeepTopPush: simple and scalable method
       for accuracy at the top. 2020, table 1 and section 4.2.

    Examples
    --------
    >>> from sktopk.metrics import precision_at_recall_score
    >>> y_true, y_score = [1, 0, 1, 0, 1], [0.9, 0.8, 0.7, 0.3, 0.2]
    >>> precision_at_recall_score(y_true, y_score, recall=0.5)
    0.6666...
    """
    ranking = Ranking.of(y_true, y_score, pos_label, sample_weight)
    check_rate(recall, "recall")
    found = ranking.cumulative_value
    if not found[-1]:
        return undefined("precision_at_recall_score", "no positives")
    last = first_reaching(found, recall * found[-1])
    return float(found[last] / ranking.cumulative_weight[last])


def recall_at_precision_score(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    precision: float,
    pos_label: Label | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    r"""Compute the largest recall among all thresholds that reach a given precision.

    .. math::
        \max_t \frac{\sum_i w_i y_i [s_i \ge t]}{\sum_i w_i y_i}
        \quad\text{with}\quad
        \sum_i w_i y_i [s_i \ge t] \ge p \sum_i w_i [s_i \ge t]

    Parameters
    ----------
    y_true, y_score, pos_label, sample_weight
        As in `precision_at_k_score`, with the same errors. Only ratios of weights matter.
    precision : float
        Minimum share p of positives among the samples above the threshold, in (0, 1].

    Returns
    -------
    score : float
        In [0, 1]. 0 if no threshold reaches the precision. NaN, with a warning, without positives.

    Examples
    --------
    >>> from sktopk.metrics import recall_at_precision_score
    >>> y_true, y_score = [1, 0, 1, 1, 0], [0.9, 0.8, 0.7, 0.3, 0.2]
    >>> recall_at_precision_score(y_true, y_score, precision=0.75)
    1.0
    """
    ranking = Ranking.of(y_true, y_score, pos_label, sample_weight)
    check_rate(precision, "precision")
    found = ranking.cumulative_value
    if not found[-1]:
        return undefined("recall_at_precision_score", "no positives")
    # Allow for rounding errors, because float 0.07 * 100 is above 7.
    reached = found >= precision * ranking.cumulative_weight * (1 - 1e-12)
    return float(np.max(found, where=reached, initial=0.0) / found[-1])


def positives_at_top_score(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    k: int = 1,
    pos_label: Label | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    r"""Compute the share of the positives that score strictly above every negative.

    .. math::
        \frac{\sum_i w_i y_i [s_i > s^-_{[k]}]}{\sum_i w_i y_i}

    where :math:`s^-_{[k]}` is the k-th largest score of a negative. DeepTopPush maximizes this
    metric for k = 1, and TopPushK for larger k [1]_.

    Parameters
    ----------
    y_true, y_score, pos_label, sample_weight
        As in `precision_at_k_score`, with the same errors.
    k : int, default=1
        Rank of the negative that the positives must exceed, at least 1. With weights, it is the
        first negative at which the cumulative weight of the negatives reaches `k`.

    Returns
    -------
    score : float
        In [0, 1]. Positives tied with the k-th negative do not count. 1 with fewer than k
        negatives, with a warning if `k` > 1. NaN, with a warning, without positives.

    References
    ----------
    .. [1] L. Adam, V. Mácha, V. Šmídl. DeepTopPush: simple and scalable method
       for accuracy at the top. 2020, table 1.

    Examples
    --------
    >>> from sktopk.metrics import positives_at_top_score
    >>> y_true, y_score = [1, 1, 0, 1, 0, 1], [0.9, 0.8, 0.8, 0.7, 0.3, 0.2]
    >>> positives_at_top_score(y_true, y_score)
    0.25
    """
    ranking = Ranking.of(y_true, y_score, pos_label, sample_weight)
    check_count(k, "k")
    found = ranking.cumulative_value
    if not found[-1]:
        return undefined("positives_at_top_score", "no positives")
    # Count the positives above the k-th negative. With fewer than k negatives, count all positives.
    negatives = ranking.cumulative_negatives
    if k > 1 and negatives[-1] < k * (1 - 1e-9):
        warn_of_few("positives_at_top_score", k, negatives[-1], "negatives")
    return float(found[first_reaching(negatives, k) - 1] / found[-1])


def true_positive_rate_at_fpr_score(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    fpr: float,
    pos_label: Label | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    r"""Compute the largest true positive rate at a limited false positive rate.

    .. math::
        \max \Bigl\{ \frac{\sum_i w_i y_i [s_i \ge t]}{\sum_i w_i y_i} :
        \frac{\sum_i w_i (1 - y_i) [s_i \ge t]}{\sum_i w_i (1 - y_i)} \le f \Bigr\}

    over all thresholds t. This is the ROC curve without interpolation.

    Parameters
    ----------
    y_true, y_score, pos_label, sample_weight
        As in `precision_at_k_score`, with the same errors. Only ratios of weights matter.
    fpr : float
        Largest allowed false positive rate f, in [0, 1]. 0 gives `positives_at_top_score`.

    Returns
    -------
    score : float
        In [0, 1]. Tied samples are selected together or not at all. NaN, with a warning, if a
        class is absent.

    Examples
    --------
    >>> from sktopk.metrics import true_positive_rate_at_fpr_score
    >>> y_true, y_score = [1, 0, 1, 1, 0, 1], [0.9, 0.8, 0.7, 0.7, 0.3, 0.2]
    >>> true_positive_rate_at_fpr_score(y_true, y_score, fpr=0.5)
    0.75
    """
    ranking = Ranking.of(y_true, y_score, pos_label, sample_weight)
    check_rate(fpr, "fpr", zero=True)
    if missing := ranking.missing_class():
        return undefined("true_positive_rate_at_fpr_score", missing)
    found, false = ranking.cumulative_value, ranking.cumulative_negatives
    return float(found[last_within(false, fpr * false[-1])] / found[-1])
