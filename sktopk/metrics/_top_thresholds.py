"""Scores of the rows above a threshold, which flags tied rows all or none."""

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
    r"""Precision at the highest threshold that finds a given share of the positives.

    .. math::
        \frac{\sum_i w_i y_i [s_i \ge t]}{\sum_i w_i [s_i \ge t]},
        \qquad t = \max\Bigl\{ s_j :
        \sum_i w_i y_i [s_i \ge s_j] \ge r \sum_i w_i y_i \Bigr\}

    The threshold is the score of a positive: with equal weights the
    :math:`\lceil r n_+ \rceil`-th largest, as in the constraint of Prec@Rec [1]_. It is
    not the best precision over all thresholds of at least that recall, which a
    threshold with a higher recall may have.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Two labels: numbers, strings or booleans.
    y_score : array-like of shape (n_samples,)
        Real scores, the larger the likelier positive.
    recall : float
        Share r of the positives to find, in (0, 1].
    pos_label : int, float, bool or str, default=None
        Label of the positives, as in `precision_at_k_score`.
    sample_weight : array-like of shape (n_samples,), default=None
        Nonnegative weights; a weight of 2 equals the row twice.

    Returns
    -------
    score : float
        In [0, 1]. All rows tied at the threshold are above it, positives and
        negatives: a threshold cannot tell them apart. 1 if there are no
        negatives; NaN, with an `UndefinedMetricWarning`, if there are no
        positives (of positive weight).

    Raises
    ------
    TypeError
        If `recall` is not a number.
    ValueError
        If `recall` is not in (0, 1], or as in `precision_at_k_score`.

    See Also
    --------
    precision_at_k_score : Precision at a number of rows.

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
    check_rate(recall, "recall")
    ranking = Ranking.from_labels(y_true, y_score, pos_label, sample_weight)
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
    r"""Largest share of the positives found at a threshold of a given precision.

    .. math::
        \max_t \frac{\sum_i w_i y_i [s_i \ge t]}{\sum_i w_i y_i}
        \quad\text{with}\quad
        \sum_i w_i y_i [s_i \ge t] \ge p \sum_i w_i [s_i \ge t]

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Two labels: numbers, strings or booleans.
    y_score : array-like of shape (n_samples,)
        Real scores, the larger the likelier positive.
    precision : float
        Least share p of positives among the rows above the threshold, in (0, 1].
    pos_label : int, float, bool or str, default=None
        Label of the positives, as in `precision_at_k_score`.
    sample_weight : array-like of shape (n_samples,), default=None
        Nonnegative weights; a weight of 2 equals the row twice.

    Returns
    -------
    score : float
        In [0, 1]; 0 if no threshold has the precision. Rows tied at the threshold
        are above it all or none. NaN, with an `UndefinedMetricWarning`, if there
        are no positives (of positive weight).

    Raises
    ------
    TypeError
        If `precision` is not a number.
    ValueError
        If `precision` is not in (0, 1], or as in `precision_at_k_score`.

    See Also
    --------
    precision_at_recall_score : The other way round.

    Examples
    --------
    >>> from sktopk.metrics import recall_at_precision_score
    >>> y_true, y_score = [1, 0, 1, 1, 0], [0.9, 0.8, 0.7, 0.3, 0.2]
    >>> recall_at_precision_score(y_true, y_score, precision=0.75)
    1.0
    >>> recall_at_precision_score(y_true, y_score, precision=0.9)
    0.3333...
    """
    check_rate(precision, "precision")
    ranking = Ranking.from_labels(y_true, y_score, pos_label, sample_weight)
    found = ranking.cumulative_value
    if not found[-1]:
        return undefined("recall_at_precision_score", "no positives")
    # A precision such as 0.7 of 10 rows must not fail by its last digit.
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
    r"""Share of the positives that score strictly above every negative.

    .. math::
        \frac{\sum_i w_i y_i [s_i > s^-_{[k]}]}{\sum_i w_i y_i}

    where :math:`s^-_{[k]}` is the k-th largest score of a negative, the largest
    for k = 1: what DeepTopPush maximises, and TopPushK for larger k [1]_.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Two labels: numbers, strings or booleans.
    y_score : array-like of shape (n_samples,)
        Real scores, the larger the likelier positive.
    k : int, default=1
        Which negative to be above, at least 1. At most k - 1 negatives then score
        as high as the positives counted.
    pos_label : int, float, bool or str, default=None
        Label of the positives, as in `precision_at_k_score`.
    sample_weight : array-like of shape (n_samples,), default=None
        Nonnegative weights, which count as numbers of rows: the k-th negative is
        the first at which the weight of the negatives reaches k.

    Returns
    -------
    score : float
        In [0, 1]. A positive tied with that negative is not above it. 1 if there
        are fewer than k negatives, as nothing stands above any positive, with a
        warning unless k is 1; NaN, with an `UndefinedMetricWarning`, if there are
        no positives (of positive weight).

    Raises
    ------
    TypeError
        If k is not an integer.
    ValueError
        If k < 1, or as in `precision_at_k_score`.

    See Also
    --------
    true_positive_rate_at_fpr_score : The same for a share of the negatives.

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
    check_count(k, "k")
    ranking = Ranking.from_labels(y_true, y_score, pos_label, sample_weight)
    found = ranking.cumulative_value
    if not found[-1]:
        return undefined("positives_at_top_score", "no positives")
    # What is found before the block with the k-th negative; before the end if there is none.
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
    r"""Largest share of positives that a threshold finds while it flags few negatives.

    .. math::
        \max \Bigl\{ \frac{\sum_i w_i y_i [s_i \ge t]}{\sum_i w_i y_i} :
        \frac{\sum_i w_i (1 - y_i) [s_i \ge t]}{\sum_i w_i (1 - y_i)} \le f \Bigr\}

    over all thresholds t: the left end of the ROC curve, without interpolation.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Two labels: numbers, strings or booleans.
    y_score : array-like of shape (n_samples,)
        Real scores, the larger the likelier positive.
    fpr : float
        False positive rate f that must not be exceeded, in [0, 1]; 0 is
        `positives_at_top_score`.
    pos_label : int, float, bool or str, default=None
        Label of the positives, as in `precision_at_k_score`.
    sample_weight : array-like of shape (n_samples,), default=None
        Nonnegative weights; a weight of 2 equals the row twice.

    Returns
    -------
    score : float
        In [0, 1]. Tied rows are flagged all or none: those that would exceed the
        rate are left out with the positives among them. NaN, with an
        `UndefinedMetricWarning`, if there are no positives or no negatives (of
        positive weight).

    Raises
    ------
    TypeError
        If `fpr` is not a number.
    ValueError
        If `fpr` is not in [0, 1], or as in `precision_at_k_score`.

    See Also
    --------
    positives_at_top_score : The same for a number of negatives.
    partial_auc_log_score : Mean over rates of different orders of magnitude.

    Examples
    --------
    >>> from sktopk.metrics import true_positive_rate_at_fpr_score
    >>> y_true, y_score = [1, 0, 1, 1, 0, 1], [0.9, 0.8, 0.7, 0.7, 0.3, 0.2]
    >>> true_positive_rate_at_fpr_score(y_true, y_score, fpr=0.5)
    0.75
    """
    check_rate(fpr, "fpr", zero=True)
    ranking = Ranking.from_labels(y_true, y_score, pos_label, sample_weight)
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
    r"""Area under the left end of the ROC curve, over the logarithm of the false positive rate.

    .. math::
        \frac{1}{\ln(b / a)} \int_{\ln a}^{\ln b} T(e^u) \, du

    where :math:`T(f)` is `true_positive_rate_at_fpr_score` at rate f, and a and b
    are `min_fpr` and `max_fpr`: the mean of that score when all orders of
    magnitude of the rate matter alike.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Two labels: numbers, strings or booleans.
    y_score : array-like of shape (n_samples,)
        Real scores, the larger the likelier positive.
    max_fpr : float, default=0.05
        Largest false positive rate, in (0, 1].
    min_fpr : float, default=1e-5
        Smallest false positive rate, above 0 and below `max_fpr`. At all rates
        below one over the number of negatives T is `positives_at_top_score`.
    method : {"exact", "sampled"}, default="exact"
        "exact" is the integral above. "sampled" is the partial AUROC that the
        published code of accuracy at the top evaluates: take the points
        (rate reached, T) at 1000 rates from `min_fpr` to `max_fpr` with equal ratios,
        join the distinct ones by straight lines and divide the area under them,
        over the rate itself, by the range of the rates reached. If only one
        rate is reached it is T there.
    pos_label : int, float, bool or str, default=None
        Label of the positives, as in `precision_at_k_score`.
    sample_weight : array-like of shape (n_samples,), default=None
        Nonnegative weights; a weight of 2 equals the row twice.

    Returns
    -------
    score : float
        In [0, 1]. Tied rows are flagged all or none. NaN, with an
        `UndefinedMetricWarning`, if there are no positives or no negatives (of
        positive weight).

    Raises
    ------
    TypeError
        If a rate is not a number.
    ValueError
        If the rates are not 0 < min_fpr < max_fpr <= 1, `method` is neither, or as in
        `precision_at_k_score`.

    See Also
    --------
    true_positive_rate_at_fpr_score : At one rate.
    sklearn.metrics.roc_auc_score : With ``max_fpr``, the area over the rate itself.

    Examples
    --------
    >>> from sktopk.metrics import partial_auc_log_score
    >>> y_true, y_score = [1, 0, 1, 1, 0, 1], [0.9, 0.8, 0.7, 0.7, 0.3, 0.2]
    >>> partial_auc_log_score(y_true, y_score, min_fpr=0.25, max_fpr=1.0)
    0.5
    """
    check_rate(max_fpr, "max_fpr")
    check_rate(min_fpr, "min_fpr")
    if not min_fpr < max_fpr:
        raise ValueError(f"min_fpr={min_fpr!r} must be less than max_fpr={max_fpr!r}")
    check_option(method, "method", ("exact", "sampled"))
    ranking = Ranking.from_labels(y_true, y_score, pos_label, sample_weight)
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
