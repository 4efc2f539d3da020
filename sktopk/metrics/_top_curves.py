"""Scores that look at all numbers of rows at once, the first of them most."""

import sys
from numbers import Real

import numpy as np
from numpy.typing import ArrayLike

from sktopk._common._types import Label

from ._ranking import Ranking, check_rate, undefined


def precision_quantile_curve(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    pos_label: Label | None = None,
    ties: str = "expected",
    sample_weight: ArrayLike | None = None,
) -> tuple[np.ndarray, np.ndarray]:
    r"""Precision among the top rows, for every number of rows looked at.

    .. math::
        P(\tau) = \frac{1}{\tau W} \sum_i w_i y_i a_i(\tau W), \qquad W = \sum_i w_i

    where :math:`a_i(k)` is the part of row i among the k best, as in
    `precision_at_k_score`: the :math:`P\tau` curve of [1]_, section 4.2.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Two labels: numbers, strings or booleans.
    y_score : array-like of shape (n_samples,)
        Real scores, the larger the likelier positive.
    pos_label : int, float, bool or str, default=None
        Label of the positives, as in `precision_at_k_score`.
    ties : {"expected", "optimistic", "pessimistic"}, default="expected"
        Order of tied rows: random, scored by its expectation, or positives
        first, or negatives first.
    sample_weight : array-like of shape (n_samples,), default=None
        Nonnegative weights; a weight of 2 equals the row twice. Rows of weight 0
        are left out.

    Returns
    -------
    precision : ndarray of shape (n_samples + 1,)
        Element k is the expected precision of the k best rows, the first one the
        limit, precision of the rows tied at the top. NaN, with an
        `UndefinedMetricWarning`, if there are no positives (of positive weight).
    quantile : ndarray of shape (n_samples + 1,)
        Share of the rows (of their weight) looked at, increasing from 0 to 1.

    Raises
    ------
    ValueError
        As in `precision_at_k_score`.

    See Also
    --------
    auc_at_quantile_score : Area under the curve.
    PrecisionQuantileDisplay : The curve, drawn.

    References
    ----------
    .. [1] L. Adam, V. Mácha, V. Šmídl. DeepTopPush: simple and scalable method
       for accuracy at the top. 2020, section 4.2.

    Examples
    --------
    >>> from sktopk.metrics import precision_quantile_curve
    >>> y_true, y_score = [1, 0, 1, 0], [0.9, 0.8, 0.7, 0.3]
    >>> precision, quantile = precision_quantile_curve(y_true, y_score)
    >>> precision.round(2)
    array([1.  , 1.  , 0.5 , 0.67, 0.5 ])
    >>> quantile
    array([0.  , 0.25, 0.5 , 0.75, 1.  ])
    """
    ranking = Ranking.from_labels(y_true, y_score, pos_label, sample_weight, ties)
    looked_at, found = ranking.curve()
    quantile = looked_at / looked_at[-1] if looked_at[-1] else looked_at
    if not found[-1]:
        return np.full(len(found), undefined("precision_quantile_curve", "no positives")), quantile
    first = ranking.value[0] / ranking.weight[0]
    precision = np.concatenate([[first], found[1:] / looked_at[1:]])
    return precision, quantile


def auc_at_quantile_score(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    quantile: float,
    normalize: bool = False,
    pos_label: Label | None = None,
    ties: str = "expected",
    sample_weight: ArrayLike | None = None,
) -> float:
    r"""Area under the curve of precision against the top quantile, as a mean precision.

    .. math::
        \frac{1}{\alpha} \int_0^\alpha P(\tau) \, d\tau

    with :math:`P` of `precision_quantile_curve` and the integral exact. [1]_
    calls the area AUC@quantile and does not say how it is scaled; its figures
    (90 and more at a quantile of .2 with 10 % of positives) are beyond what this
    allows. Divided by :math:`\alpha` it is a precision, and that of a perfect
    ranking is

    .. math::
        \min\Bigl(1, \frac{\pi}{\alpha} \Bigl(1 + \ln \frac{\alpha}{\pi}\Bigr)\Bigr),
        \qquad \pi = \frac{\sum_i w_i y_i}{\sum_i w_i}

    for :math:`\alpha > \pi` and 1 otherwise: .847 in that example.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Two labels: numbers, strings or booleans.
    y_score : array-like of shape (n_samples,)
        Real scores, the larger the likelier positive.
    quantile : float
        Share of the rows looked at, :math:`\alpha` in (0, 1]; not rounded to whole
        rows.
    normalize : bool, default=False
        Whether to divide by what a perfect ranking would score, so that it
        scores 1 whatever the share of positives.
    pos_label : int, float, bool or str, default=None
        Label of the positives, as in `precision_at_k_score`.
    ties : {"expected", "optimistic", "pessimistic"}, default="expected"
        Order of tied rows, as in `precision_quantile_curve`.
    sample_weight : array-like of shape (n_samples,), default=None
        Nonnegative weights; a weight of 2 equals the row twice.

    Returns
    -------
    score : float
        In [0, 1]; the share of positives if all scores are tied, 1 if there are
        no negatives. NaN, with an `UndefinedMetricWarning`, if there are no
        positives (of positive weight).

    Raises
    ------
    TypeError
        If `quantile` is not a number.
    ValueError
        If `quantile` is not in (0, 1], or as in `precision_at_k_score`.

    See Also
    --------
    precision_quantile_curve : The curve.

    References
    ----------
    .. [1] L. Adam, V. Mácha, V. Šmídl. DeepTopPush: simple and scalable method
       for accuracy at the top. 2020, section 4.2 and table 4.

    Examples
    --------
    >>> from sktopk.metrics import auc_at_quantile_score
    >>> y_true, y_score = [1, 0, 1, 0], [0.9, 0.8, 0.7, 0.3]
    >>> auc_at_quantile_score(y_true, y_score, quantile=0.5)
    0.8465...
    >>> auc_at_quantile_score([1, 0], [0.9, 0.8], quantile=1.0, normalize=True)
    1.0
    """
    check_rate(quantile, "quantile")
    ranking = Ranking.from_labels(y_true, y_score, pos_label, sample_weight, ties)
    found, looked_at = ranking.cumulative_value, ranking.cumulative_weight
    if not found[-1]:
        return undefined("auc_at_quantile_score", "no positives")
    end = quantile * looked_at[-1]
    start, width = looked_at[:-1], np.diff(np.minimum(looked_at, end))
    # Inside a block found = rate * looked_at + rest, so that the integral of found / looked_at
    # is rate * width + rest * log(1 + width / start); nothing rests in the first block.
    rate = ranking.value / ranking.weight
    rest = found[:-1] - rate * start
    log = np.log1p(np.divide(width, start, out=np.zeros_like(width), where=start > 0))
    score = (rate * width + rest * log).sum() / end
    if normalize:
        share = found[-1] / looked_at[-1] / quantile
        score /= 1.0 if share >= 1 else share * (1 - np.log(share))
    return float(score)


def bedroc_score(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    alpha: float = 20.0,
    pos_label: Label | None = None,
    ties: str = "expected",
    sample_weight: ArrayLike | None = None,
) -> float:
    r"""Boltzmann-enhanced discrimination of ROC: recognition of the positives early on.

    .. math::
        \mathrm{BEDROC} = \frac{S - S_{\min}}{S_{\max} - S_{\min}},
        \qquad S = \sum_{i : y_i = 1} e^{-\alpha r_i / n}

    where :math:`r_i` is the rank of row i, 1 for the highest score, and the
    extremes are those of S for all positives at the bottom and at the top. It
    is :math:`\mathrm{RIE}`, which is proportional to S, brought to [0, 1]; the closed
    form in [1]_, with :math:`R_a = n_+ / n`, is the same number:

    .. math::
        \mathrm{RIE} \, \frac{R_a \sinh(\alpha / 2)}
        {\cosh(\alpha / 2) - \cosh(\alpha / 2 - \alpha R_a)}
        + \frac{1}{1 - e^{\alpha (1 - R_a)}}

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Two labels: numbers, strings or booleans.
    y_score : array-like of shape (n_samples,)
        Real scores, the larger the likelier positive.
    alpha : float, default=20.0
        How early: the best :math:`1.6 / \alpha` of the rows have 80 % of the weight
        (8 % for 20). Positive; towards 0 the score becomes the area under the
        ROC curve.
    pos_label : int, float, bool or str, default=None
        Label of the positives, as in `precision_at_k_score`.
    ties : {"expected", "optimistic", "pessimistic"}, default="expected"
        Order of tied rows: random, scored by its expectation, or positives
        first, or negatives first.
    sample_weight : array-like of shape (n_samples,), default=None
        Nonnegative weights; a weight of 2 equals the row twice.

    Returns
    -------
    score : float
        1 if all positives are above all negatives, 0 if below. NaN, with an
        `UndefinedMetricWarning`, if there are no positives or no negatives (of
        positive weight).

    Raises
    ------
    TypeError
        If `alpha` is not a number.
    ValueError
        If `alpha` is not positive and finite, or as in `precision_at_k_score`.

    See Also
    --------
    enrichment_factor_score : Up to a cut, rather than with weights.

    References
    ----------
    .. [1] J.-F. Truchon, C. I. Bayly. Evaluating virtual screening methods: good
       and bad metrics for the "early recognition" problem. Journal of Chemical
       Information and Modeling 47(2), 488-508, 2007.

    Examples
    --------
    >>> from sktopk.metrics import bedroc_score
    >>> bedroc_score([1, 1, 0, 0], [0.9, 0.8, 0.7, 0.6])
    1.0
    >>> round(bedroc_score([0, 1, 1, 0], [0.9, 0.8, 0.7, 0.6], alpha=2.0), 3)
    0.378
    """
    if isinstance(alpha, bool) or not isinstance(alpha, Real):
        raise TypeError(f"alpha must be a positive finite number; got {alpha!r}")
    if not 0 < alpha <= sys.float_info.max:
        raise ValueError(f"alpha must be a positive finite number; got {alpha!r}")
    alpha = float(alpha)
    ranking = Ranking.from_labels(y_true, y_score, pos_label, sample_weight, ties)
    if missing := ranking.missing_class():
        return undefined("bedroc_score", missing)
    positive = ranking.total_value / ranking.total_weight
    negative = ranking.cumulative_negatives[-1] / ranking.total_weight
    # The weight of rank r is proportional to the integral of exp(-alpha x) over its n-th part
    # of [0, 1], so that S, up to a factor that cancels, is an integral over the curve.
    start, width = ranking.cumulative_weight[:-1], ranking.weight
    weight = np.exp(-alpha * start / ranking.total_weight)
    weight *= -np.expm1(-alpha * width / ranking.total_weight)
    # Of the rarer class, as a difference from all would lose it.
    if positive <= negative:
        least = np.exp(-alpha * negative) * -np.expm1(-alpha * positive)
        above = (weight * (ranking.value / width)).sum() - least
    else:
        above = -np.expm1(-alpha * negative) - (weight * (ranking.negative / width)).sum()
    score = above / (np.expm1(-alpha * positive) * np.expm1(-alpha * negative))
    # Of a difference of equal numbers rounding decides the sign.
    return float(np.clip(score, 0, 1))
