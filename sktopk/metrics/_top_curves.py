"""Scores that average over all numbers of selected samples, the first ones most."""

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
    r"""Compute the precision among the top samples, for every number of samples.

    .. math::
        P(\tau) = \frac{1}{\tau W} \sum_i w_i y_i a_i(\tau W), \qquad W = \sum_i w_i

    where :math:`a_i(k)` is the selected part of sample i if k are selected, as in
    `precision_at_k_score`. This is the :math:`P\tau` curve of [1]_, section 4.2.

    Parameters
    ----------
    y_true, y_score, pos_label, ties
        As in `precision_at_k_score`.
    sample_weight : array-like of shape (n_samples,), default=None
        Nonnegative weights; weight 2 equals the sample twice, weight 0 removes it.

    Returns
    -------
    precision : ndarray of shape (n_samples + 1,)
        Element k is the expected precision of the k best samples. Element 0 is its limit, the
        precision of the samples tied at the top. NaN, with a warning, without positives.
    quantile : ndarray of shape (n_samples + 1,)
        Share of the samples (of their weight) that is selected, increasing from 0 to 1.

    Raises
    ------
    TypeError, ValueError
        As in `precision_at_k_score`.

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
    ranking = Ranking.from_labels(y_true, y_score, pos_label, sample_weight, ties=ties)
    selected, found = ranking.curve()
    quantile = selected / selected[-1] if selected[-1] else selected
    if not found[-1]:
        return np.full(len(found), undefined("precision_quantile_curve", "no positives")), quantile
    first = ranking.value[0] / ranking.weight[0]
    precision = np.concatenate([[first], found[1:] / selected[1:]])
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
    r"""Average the precision over the top quantiles: the area under `precision_quantile_curve`.

    .. math::
        \frac{1}{\alpha} \int_0^\alpha P(\tau) \, d\tau

    with :math:`P` of `precision_quantile_curve`; the integral is exact. [1]_ calls the area
    AUC@quantile and does not give its scale. A perfect ranking has the score

    .. math::
        \min\Bigl(1, \frac{\pi}{\alpha} \Bigl(1 + \ln \frac{\alpha}{\pi}\Bigr)\Bigr),
        \qquad \pi = \frac{\sum_i w_i y_i}{\sum_i w_i}

    for :math:`\alpha > \pi`, and 1 otherwise.

    Parameters
    ----------
    y_true, y_score : array-like of shape (n_samples,)
        Two labels, and real scores, as in `precision_at_k_score`.
    quantile : float
        Largest share of selected samples, :math:`\alpha` in (0, 1]; not rounded.
    normalize : bool, default=False
        Whether to divide by the score of a perfect ranking.
    pos_label, ties, sample_weight
        As in `precision_quantile_curve`.

    Returns
    -------
    score : float
        In [0, 1]. It is the share of positives if all scores are tied, and 1 without negatives.
        NaN, with a warning, without positives.

    Raises
    ------
    TypeError, ValueError
        If `quantile` is not a number in (0, 1], or as in `precision_at_k_score`.

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
    ranking = Ranking.from_labels(y_true, y_score, pos_label, sample_weight, ties=ties)
    return auc_at_quantile(ranking, quantile, normalize=normalize)


def auc_at_quantile(ranking, quantile, *, normalize=False):
    """Return the mean precision of a `Ranking` over the shares up to `quantile`."""
    check_rate(quantile, "quantile")
    found, selected = ranking.cumulative_value, ranking.cumulative_weight
    if not found[-1]:
        return undefined("auc_at_quantile_score", "no positives")
    end = quantile * selected[-1]
    start, width = selected[:-1], np.diff(np.minimum(selected, end))
    # Inside a block found = rate * selected + rest, so that the integral of found / selected
    # is rate * width + rest * log(1 + width / start); nothing rests in the first block.
    rate = ranking.value / ranking.weight
    rest = found[:-1] - rate * start
    log = np.log1p(np.divide(width, start, out=np.zeros_like(width), where=start > 0))
    score = (rate * width + rest * log).sum() / end
    if normalize:
        share = found[-1] / selected[-1] / quantile
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
    r"""Compute the Boltzmann-enhanced discrimination of ROC: early recognition of positives.

    .. math::
        \mathrm{BEDROC} = \frac{S - S_{\min}}{S_{\max} - S_{\min}},
        \qquad S = \sum_{i : y_i = 1} e^{-\alpha r_i / n}

    where :math:`r_i` is the rank of sample i (1 for the highest score), and the extremes are S
    with all positives at the bottom and at the top. It equals the closed form in [1]_, with
    :math:`R_a = n_+ / n`:

    .. math::
        \mathrm{RIE} \, \frac{R_a \sinh(\alpha / 2)}
        {\cosh(\alpha / 2) - \cosh(\alpha / 2 - \alpha R_a)}
        + \frac{1}{1 - e^{\alpha (1 - R_a)}}

    Parameters
    ----------
    y_true, y_score : array-like of shape (n_samples,)
        Two labels, and real scores, as in `precision_at_k_score`.
    alpha : float, default=20.0
        How early positives must come to count, positive and finite. The best
        :math:`1.6 / \alpha` of the samples have 80 % of the weight (8 % of them for 20).
        Towards 0 the score becomes the area under the ROC curve.
    pos_label, ties, sample_weight
        As in `precision_quantile_curve`.

    Returns
    -------
    score : float
        1 if all positives are above all negatives, 0 if all are below. NaN, with a warning,
        without positives or without negatives.

    Raises
    ------
    TypeError, ValueError
        If `alpha` is not a positive finite number, or as in `precision_at_k_score`.

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
    ranking = Ranking.from_labels(y_true, y_score, pos_label, sample_weight, ties=ties)
    return bedroc(ranking, alpha)


def bedroc(ranking, alpha=20.0):
    """Return the BEDROC score of a `Ranking`."""
    if isinstance(alpha, bool) or not isinstance(alpha, Real):
        raise TypeError(f"alpha must be a positive finite number; got {alpha!r}")
    if not 0 < alpha <= sys.float_info.max:
        raise ValueError(f"alpha must be a positive finite number; got {alpha!r}")
    alpha = float(alpha)
    if missing := ranking.missing_class():
        return undefined("bedroc_score", missing)
    positive = ranking.total_value / ranking.total_weight
    negative = ranking.cumulative_negatives[-1] / ranking.total_weight
    # The weight of rank r is proportional to the integral of exp(-alpha x) over its n-th part
    # of [0, 1], so that S, up to a factor that cancels, is an integral over the curve.
    start, width = ranking.cumulative_weight[:-1], ranking.weight
    weight = np.exp(-alpha * start / ranking.total_weight)
    weight *= -np.expm1(-alpha * width / ranking.total_weight)
    # Sum over the rarer class: a difference from the sum over all samples would lose it.
    if positive <= negative:
        least = np.exp(-alpha * negative) * -np.expm1(-alpha * positive)
        above = (weight * (ranking.value / width)).sum() - least
    else:
        above = -np.expm1(-alpha * negative) - (weight * (ranking.negative / width)).sum()
    score = above / (np.expm1(-alpha * positive) * np.expm1(-alpha * negative))
    # Rounding decides the sign of a difference of equal numbers.
    return float(np.clip(score, 0, 1))
