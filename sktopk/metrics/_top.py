"""Metrics of the samples with the highest scores, or with scores that reach a threshold."""

import numpy as np
from numpy.typing import ArrayLike

from sktopk._common._scalars import check_count
from sktopk._common._types import Label
from sktopk._common._warnings import warn

from ._ranking import ROUNDING, Ranking, check_rate, first_reaching, undefined, warn_of_few


def precision_at_k_score(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    k: int | float,
    pos_label: Label | None = None,
    ties: str = "expected",
    groups: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    r"""Compute the share of positives among the k samples of highest score.

    .. math::
        \frac{1}{k} \sum_{i=1}^n w_i y_i a_i,
        \qquad a_i = \min\Bigl(1, \max\Bigl(0, \frac{k - g_i}{m_i}\Bigr)\Bigr)

    where :math:`w_i` is the weight of sample i, :math:`y_i` is 1 for positives, else 0, and
    :math:`a_i` is 1 if sample i is selected, 0 if not, or between if only a part of tied samples
    is selected. :math:`g_i` is the total weight of the samples that score higher than i.
    :math:`m_i` is the total weight of i and all samples tied with i.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels of two classes: numbers, strings or booleans.
    y_score : array-like of shape (n_samples,)
        Real scores; larger means more likely positive. Infinities are allowed.
    k : int or float
        Number of samples to select. A k in (0, 1) selects this share of the samples, rounded up.
        With `groups`, k applies to each group.
    pos_label : int, float, bool or str, default=None
        Label of the positives. None means 1 or True; the other label must then be 0, -1 or False.
    ties : {"expected", "optimistic", "pessimistic"}, default="expected"
        Rule for samples tied at rank k. "expected" chooses among them at random, and returns the
        expected score. "optimistic" selects positives first, "pessimistic" negatives first.
    groups : array-like of shape (n_samples,), default=None
        Group of each sample, such as its day. The k best samples of each group are selected. The
        score is the number of all selected positives, divided by the sum of k over the groups.
    sample_weight : array-like of shape (n_samples,), default=None
        Nonnegative weights. A sample of weight 2 counts as two, and takes two of the k places.

    Returns
    -------
    score : float
        In [0, 1]. NaN, with an `UndefinedMetricWarning`, if no positive has a weight > 0. If the
        data or a group has fewer than k samples, the divisor is still k, and there is a warning.

    Raises
    ------
    TypeError, ValueError
        If values are missing, there are more than two labels, shapes differ, or k is out of range.

    Examples
    --------
    >>> from sktopk.metrics import precision_at_k_score
    >>> fraud = [1, 0, 1, 0, 0, 1]
    >>> y_score = [0.9, 0.8, 0.7, 0.3, 0.3, 0.3]
    >>> precision_at_k_score(fraud, y_score, k=2)
    0.5
    >>> day = ["Mon", "Mon", "Mon", "Tue", "Tue", "Tue"]
    >>> precision_at_k_score(fraud, y_score, k=2, groups=day)  # 1 of 2, and 2/3 of 2
    0.4166...
    """
    ranking = Ranking.of(y_true, y_score, pos_label, sample_weight, ties=ties, groups=groups)
    found, selected, places = ranking.best(k)
    if not ranking.total_value:
        return undefined("precision_at_k_score", "no positives")
    n_places = places.sum()
    if n_places - selected > 1e-9 * n_places:
        warn(
            f"precision_at_k_score: k={k!r} exceeds the size of y_true or of a group. The score "
            f"divides by {n_places:g}, but only {selected:g} samples (by weight) count. Reduce k"
        )
    return float(found / n_places)


def recall_at_k_score(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    k: int | float,
    pos_label: Label | None = None,
    ties: str = "expected",
    groups: ArrayLike | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    r"""Compute the share of the positives that are among the k samples of highest score.

    .. math::
        \frac{\sum_i w_i y_i a_i}{\sum_i w_i y_i}

    where :math:`a_i` is 1 for the k best samples, else 0 (for ties, see `precision_at_k_score`).

    Parameters
    ----------
    y_true, y_score, k, pos_label, ties, groups, sample_weight
        Parameters of `precision_at_k_score`, with the same meaning, defaults and errors.

    Returns
    -------
    score : float
        In [0, 1]. NaN if there are no positives, and 1 if `k` > n_samples, both with a warning.

    Examples
    --------
    >>> from sktopk.metrics import recall_at_k_score
    >>> recall_at_k_score([1, 0, 1, 0], [0.9, 0.8, 0.7, 0.3], k=2)
    0.5
    """
    ranking = Ranking.of(y_true, y_score, pos_label, sample_weight, ties=ties, groups=groups)
    found, selected, places = ranking.best(k)
    if not ranking.total_value:
        return undefined("recall_at_k_score", "no positives")
    if ranking.total_weight * (1 - 1e-9) <= selected < places.sum() * (1 - 1e-9):
        warn_of_few("recall_at_k_score", k, selected, "samples")
    return float(found / ranking.value.sum())


def enrichment_factor_score(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    fraction: float,
    pos_label: Label | None = None,
    ties: str = "expected",
    sample_weight: ArrayLike | None = None,
) -> float:
    r"""Compute the precision among the top samples, divided by the overall share of positives.

    .. math::
        \mathrm{EF} = \frac{1}{k} \sum_i w_i y_i a_i \Big/
        \frac{\sum_i w_i y_i}{\sum_i w_i}, \qquad k = \lceil f \sum_i w_i \rceil

    where :math:`a_i` is 1 for the k best samples, else 0 (for ties, see `precision_at_k_score`).

    Parameters
    ----------
    y_true, y_score, pos_label, ties, sample_weight
        Parameters of `precision_at_k_score`, with the same meaning, defaults and errors.
    fraction : float
        Share f of the samples to select, in (0, 1]. The selected weight k is f times the total
        weight, rounded up to an integer. If the mean weight is below 1, k is rounded up to a
        multiple of the mean weight instead. k is at most the total weight.

    Returns
    -------
    score : float
        At least 0; random scores give 1 on average. NaN, with a warning, if there are no positives.

    Examples
    --------
    >>> from sktopk.metrics import enrichment_factor_score
    >>> enrichment_factor_score([1, 0, 0, 0, 1], [5, 4, 3, 2, 1], fraction=0.2)
    2.5
    """
    ranking = Ranking.of(y_true, y_score, pos_label, sample_weight, ties=ties)
    check_rate(fraction, "fraction")
    if not ranking.total_value:
        return undefined("enrichment_factor_score", "no positives")
    if fraction == 1:
        return 1.0
    found, selected, _ = ranking.best(float(fraction))
    return float(found / selected * (ranking.weight.sum() / ranking.value.sum()))


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
        \qquad t = \max\Bigl\{ s_j : \sum_i w_i y_i [s_i \ge s_j] \ge r \sum_i w_i y_i \Bigr\}

    With equal weights, the threshold t is the :math:`\lceil r n_+ \rceil`-th largest score of the
    :math:`n_+` positives. The problem Prec@Rec of [1]_ has the same threshold.

    Parameters
    ----------
    y_true, y_score, pos_label, sample_weight
        Labels, scores and weights, as in `precision_at_k_score`. Scaling all weights has no effect.
    recall : float
        Share r of the positives that must score at or above the threshold, in (0, 1].

    Returns
    -------
    score : float
        In [0, 1]. 1 if there are no negatives. NaN, with a warning, if there are no positives.

    References
    ----------
    .. [1] L. Adam, V. Mácha, V. Šmídl. DeepTopPush: simple and scalable method for accuracy at the
       top. 2020, table 1 and section 4.2.

    Examples
    --------
    >>> from sktopk.metrics import precision_at_recall_score
    >>> precision_at_recall_score([1, 0, 1, 0, 1], [0.9, 0.8, 0.7, 0.3, 0.2], recall=0.5)
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
        \quad\text{with}\quad \sum_i w_i y_i [s_i \ge t] \ge p \sum_i w_i [s_i \ge t]

    Parameters
    ----------
    y_true, y_score, pos_label, sample_weight
        Labels, scores and weights, as in `precision_at_k_score`. Scaling all weights has no effect.
    precision : float
        Minimum share p of positives among the samples at or above the threshold, in (0, 1].

    Returns
    -------
    score : float
        In [0, 1]. 0 if `precision` is never reached. NaN, with a warning, if no sample is positive.

    Examples
    --------
    >>> from sktopk.metrics import recall_at_precision_score
    >>> recall_at_precision_score([1, 0, 1, 1, 0], [0.9, 0.8, 0.7, 0.3, 0.2], precision=0.75)
    1.0
    """
    ranking = Ranking.of(y_true, y_score, pos_label, sample_weight)
    check_rate(precision, "precision")
    found = ranking.cumulative_value
    if not found[-1]:
        return undefined("recall_at_precision_score", "no positives")
    reached = found >= precision * ranking.cumulative_weight * (1 - ROUNDING)
    return float(np.max(found, where=reached, initial=0.0) / found[-1])


def positives_at_top_score(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    k: int = 1,
    pos_label: Label | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    r"""Compute the share of the positives that score strictly above the k-th negative.

    .. math::
        \frac{\sum_i w_i y_i [s_i > s^-_{[k]}]}{\sum_i w_i y_i}

    where :math:`s^-_{[k]}` is the k-th largest score of the negatives. The method TopPushK uses
    this threshold, and the method DeepTopPush uses k = 1 [1]_.

    Parameters
    ----------
    y_true, y_score, pos_label, sample_weight
        Parameters of `precision_at_k_score`, with the same meaning, defaults and errors.
    k : int, default=1
        Rank of a negative; 1 means the negative of highest score. Positives must score above this
        negative. A negative of weight 2 counts twice, and a negative of weight 0 is ignored.

    Returns
    -------
    score : float
        In [0, 1]. Positives tied with the k-th negative do not count. With fewer than k negatives,
        the score is 1, with a warning if `k` > 1. NaN, with a warning, if there are no positives.

    References
    ----------
    .. [1] L. Adam, V. Mácha, V. Šmídl. DeepTopPush: simple and scalable method for accuracy at the
       top. 2020, table 1.

    Examples
    --------
    >>> from sktopk.metrics import positives_at_top_score
    >>> positives_at_top_score([1, 1, 0, 1, 1], [0.9, 0.8, 0.8, 0.7, 0.2])
    0.25
    """
    ranking = Ranking.of(y_true, y_score, pos_label, sample_weight)
    check_count(k, "k")
    found = ranking.cumulative_value
    if not found[-1]:
        return undefined("positives_at_top_score", "no positives")
    negatives = ranking.cumulative_negatives
    if k > 1 and negatives[-1] < k * (1 - 1e-9):
        warn_of_few("positives_at_top_score", k, negatives[-1], "negatives")
    # The highest negative has rank 1, even if its weight is below 1.
    rank = k if k > 1 else negatives[negatives > 0].min(initial=1.0)
    return float(found[first_reaching(negatives, rank) - 1] / found[-1])


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

    The maximum is over all thresholds t. A threshold selects either all tied samples or none.

    Parameters
    ----------
    y_true, y_score, pos_label, sample_weight
        Labels, scores and weights, as in `precision_at_k_score`. Scaling all weights has no effect.
    fpr : float
        Largest allowed false positive rate f, in [0, 1]. For f = 0, see `positives_at_top_score`.

    Returns
    -------
    score : float
        In [0, 1]. NaN, with a warning, if there are no positives or no negatives.

    Examples
    --------
    >>> from sktopk.metrics import true_positive_rate_at_fpr_score
    >>> true_positive_rate_at_fpr_score([1, 0, 1, 1, 0, 1], [9, 8, 7, 7, 3, 2], fpr=0.5)
    0.75
    """
    ranking = Ranking.of(y_true, y_score, pos_label, sample_weight)
    check_rate(fpr, "fpr", zero=True)
    if missing := ranking.missing_class():
        return undefined("true_positive_rate_at_fpr_score", missing)
    found, false = ranking.cumulative_value, ranking.cumulative_negatives
    last = np.searchsorted(false, fpr * false[-1] * (1 + ROUNDING), side="right") - 1
    return float(found[last] / found[-1])
