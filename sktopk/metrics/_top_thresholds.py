"""Scores of the samples above a threshold, which selects all or none of tied samples."""

import numpy as np
from numpy.typing import ArrayLike
from sklearn.metrics import auc

from sktopk._common._scalars import check_count, check_option
from sktopk._common._types import Label

from ._ranking import Ranking, check_rate, first_reaching, last_within, undefined, warn_of_few

_N_RATES = 1000


def precision_at_recall_score(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    recall: float,
    pos_label: Label | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    r"""Compute the precision at the highest threshold that finds a share of the positives.

    .. math::
        \frac{\sum_i w_i y_i [s_i \ge t]}{\sum_i w_i [s_i \ge t]},
        \qquad t = \max\Bigl\{ s_j :
        \sum_i w_i y_i [s_i \ge s_j] \ge r \sum_i w_i y_i \Bigr\}

    The threshold is the score of a positive: with equal weights the
    :math:`\lceil r n_+ \rceil`-th largest, as in the constraint of Prec@Rec [1]_. A lower
    threshold may have a higher precision.

    Parameters
    ----------
    y_true, y_score : array-like of shape (n_samples,)
        Two labels, and real scores, as in `precision_at_k_score`.
    recall : float
        Share r of the positives to find, in (0, 1].
    pos_label, sample_weight
        As in `precision_quantile_curve`.

    Returns
    -------
    score : float
        In [0, 1]; 1 without negatives. NaN, with a warning, without positives.

    Raises
    ------
    TypeError, ValueError
        If `recall` is not a number in (0, 1], or as in `precision_at_k_score`.

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
    ranking = Ranking.from_labels(y_true, y_score, pos_label, sample_weight)
    return precision_at_recall(ranking, recall)


def precision_at_recall(ranking, recall):
    """Return the precision of a `Ranking` at the highest threshold of this recall."""
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
    r"""Compute the largest share of the positives found at a threshold of a given precision.

    .. math::
        \max_t \frac{\sum_i w_i y_i [s_i \ge t]}{\sum_i w_i y_i}
        \quad\text{with}\quad
        \sum_i w_i y_i [s_i \ge t] \ge p \sum_i w_i [s_i \ge t]

    Parameters
    ----------
    y_true, y_score : array-like of shape (n_samples,)
        Two labels, and real scores, as in `precision_at_k_score`.
    precision : float
        Least share p of positives among the samples above the threshold, in (0, 1].
    pos_label, sample_weight
        As in `precision_quantile_curve`.

    Returns
    -------
    score : float
        In [0, 1]; 0 if no threshold has the precision. NaN, with a warning, without positives.

    Raises
    ------
    TypeError, ValueError
        If `precision` is not a number in (0, 1], or as in `precision_at_k_score`.

    Examples
    --------
    >>> from sktopk.metrics import recall_at_precision_score
    >>> y_true, y_score = [1, 0, 1, 1, 0], [0.9, 0.8, 0.7, 0.3, 0.2]
    >>> recall_at_precision_score(y_true, y_score, precision=0.75)
    1.0
    >>> recall_at_precision_score(y_true, y_score, precision=0.9)
    0.3333...
    """
    ranking = Ranking.from_labels(y_true, y_score, pos_label, sample_weight)
    return recall_at_precision(ranking, precision)


def recall_at_precision(ranking, precision):
    """Return the largest recall of a `Ranking` at a threshold of this precision."""
    check_rate(precision, "precision")
    found = ranking.cumulative_value
    if not found[-1]:
        return undefined("recall_at_precision_score", "no positives")
    # A precision such as 0.7 of 10 samples must not fail by its last digit.
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

    where :math:`s^-_{[k]}` is the k-th largest score of a negative. DeepTopPush maximizes the
    score with k = 1, TopPushK with larger k [1]_.

    Parameters
    ----------
    y_true, y_score : array-like of shape (n_samples,)
        Two labels, and real scores, as in `precision_at_k_score`.
    k : int, default=1
        Which negative the positives must exceed, at least 1. At most k - 1 negatives then score
        as high as the positives that count.
    pos_label : int, float, bool or str, default=None
        Label of the positives, as in `precision_at_k_score`.
    sample_weight : array-like of shape (n_samples,), default=None
        Nonnegative weights, which count as numbers of samples: the k-th negative is the first
        one at which the weight of the negatives reaches `k`.

    Returns
    -------
    score : float
        In [0, 1]. A positive tied with the k-th negative is not above it. It is 1 with fewer
        than k negatives, with a warning unless `k` is 1. NaN, with a warning, without positives.

    Raises
    ------
    TypeError, ValueError
        If `k` is not an integer of at least 1, or as in `precision_at_k_score`.

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
    >>> positives_at_top_score(y_true, y_score, k=2)
    0.75
    """
    return positives_at_top(Ranking.from_labels(y_true, y_score, pos_label, sample_weight), k)


def positives_at_top(ranking, k=1):
    """Return the share of the positives of a `Ranking` above the `k`-th negative."""
    check_count(k, "k")
    found = ranking.cumulative_value
    if not found[-1]:
        return undefined("positives_at_top_score", "no positives")
    # Positives before the block of the k-th negative; all of them if there is none.
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
    r"""Compute the largest share of positives that a threshold finds at a false positive rate.

    .. math::
        \max \Bigl\{ \frac{\sum_i w_i y_i [s_i \ge t]}{\sum_i w_i y_i} :
        \frac{\sum_i w_i (1 - y_i) [s_i \ge t]}{\sum_i w_i (1 - y_i)} \le f \Bigr\}

    over all thresholds t: the left end of the ROC curve, without interpolation.

    Parameters
    ----------
    y_true, y_score : array-like of shape (n_samples,)
        Two labels, and real scores, as in `precision_at_k_score`.
    fpr : float
        Largest false positive rate f, in [0, 1]; 0 gives `positives_at_top_score`.
    pos_label, sample_weight
        As in `precision_quantile_curve`.

    Returns
    -------
    score : float
        In [0, 1]. Tied samples that would exceed the rate are not selected, nor are the
        positives among them. NaN, with a warning, without positives or without negatives.

    Raises
    ------
    TypeError, ValueError
        If `fpr` is not a number in [0, 1], or as in `precision_at_k_score`.

    Examples
    --------
    >>> from sktopk.metrics import true_positive_rate_at_fpr_score
    >>> y_true, y_score = [1, 0, 1, 1, 0, 1], [0.9, 0.8, 0.7, 0.7, 0.3, 0.2]
    >>> true_positive_rate_at_fpr_score(y_true, y_score, fpr=0.5)
    0.75
    """
    ranking = Ranking.from_labels(y_true, y_score, pos_label, sample_weight)
    return true_positive_rate_at_fpr(ranking, fpr)


def true_positive_rate_at_fpr(ranking, fpr):
    """Return the largest recall of a `Ranking` at a false positive rate of at most `fpr`."""
    check_rate(fpr, "fpr", zero=True)
    if missing := ranking.missing_class():
        return undefined("true_positive_rate_at_fpr_score", missing)
    found, false = ranking.cumulative_value, ranking.cumulative_negatives
    return float(found[last_within(false, fpr * false[-1])] / found[-1])


def partial_auc_log_score(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    max_fpr: float = 0.05,
    min_fpr: float = 1e-5,
    method: str = "exact",
    pos_label: Label | None = None,
    sample_weight: ArrayLike | None = None,
) -> float:
    r"""Compute the area under the ROC curve over the logarithm of small false positive rates.

    .. math::
        \frac{1}{\ln(b / a)} \int_{\ln a}^{\ln b} T(e^u) \, du

    where :math:`T(f)` is `true_positive_rate_at_fpr_score` at rate f, and a and b are `min_fpr`
    and `max_fpr`. All orders of magnitude of the rate count the same.

    Parameters
    ----------
    y_true, y_score : array-like of shape (n_samples,)
        Two labels, and real scores, as in `precision_at_k_score`.
    max_fpr : float, default=0.05
        Largest false positive rate, in (0, 1].
    min_fpr : float, default=1e-5
        Smallest false positive rate, above 0 and below `max_fpr`. Below one over the number of
        negatives, T is `positives_at_top_score`.
    method : {"exact", "sampled"}, default="exact"
        "exact" is the integral above. "sampled" is the partial AUROC of the published code of
        accuracy at the top: take the points (rate reached, T) at 1000 rates from `min_fpr` to
        `max_fpr` with equal ratios, and divide the area under the line through the distinct
        points, over the rate itself, by the range of the rates reached. With a single point it
        is T there.
    pos_label, sample_weight
        As in `precision_quantile_curve`.

    Returns
    -------
    score : float
        In [0, 1]. NaN, with a warning, without positives or without negatives.

    Raises
    ------
    TypeError, ValueError
        If the rates are not numbers with 0 < min_fpr < max_fpr <= 1, `method` is unknown, or as
        in `precision_at_k_score`.

    Examples
    --------
    >>> from sktopk.metrics import partial_auc_log_score
    >>> y_true, y_score = [1, 0, 1, 1, 0, 1], [0.9, 0.8, 0.7, 0.7, 0.3, 0.2]
    >>> partial_auc_log_score(y_true, y_score, min_fpr=0.25, max_fpr=1.0)
    0.5
    """
    ranking = Ranking.from_labels(y_true, y_score, pos_label, sample_weight)
    return partial_auc_log(ranking, max_fpr, min_fpr, method=method)


def partial_auc_log(ranking, max_fpr=0.05, min_fpr=1e-5, *, method="exact"):
    """Return the area under the ROC curve of a `Ranking` over the logarithm of the rate."""
    check_rate(max_fpr, "max_fpr")
    check_rate(min_fpr, "min_fpr")
    if not min_fpr < max_fpr:
        raise ValueError(f"min_fpr={min_fpr!r} must be less than max_fpr={max_fpr!r}")
    check_option(method, "method", ("exact", "sampled"))
    if missing := ranking.missing_class():
        return undefined("partial_auc_log_score", missing)
    found, false = ranking.cumulative_value, ranking.cumulative_negatives
    tpr, fpr = found / found[-1], false / false[-1]
    if method == "exact":
        # Each rate holds until the next one: steps between the logarithms of the rates.
        steps = np.log(np.clip(np.append(fpr, 1.0), min_fpr, max_fpr))
        return float(tpr @ np.diff(steps) / np.log(max_fpr / min_fpr))
    reached = np.unique(last_within(fpr, np.geomspace(min_fpr, max_fpr, _N_RATES)))
    if len(reached) == 1:
        return float(tpr[reached[0]])
    return float(auc(fpr[reached], tpr[reached]) / np.ptp(fpr[reached]))
