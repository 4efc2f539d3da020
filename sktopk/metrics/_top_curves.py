"""Metrics that average over many thresholds and give the largest weight to the first ranks."""

import sys
from numbers import Real

import numpy as np
from numpy.typing import ArrayLike

from sktopk._common._types import Label

from ._ranking import Ranking, check_rate, undefined


def partial_auc_log_score(
    y_true, y_score, *, max_fpr=0.05, min_fpr=1e-5, pos_label=None, sample_weight=None
):
    """Compute the metric "partial_auc_log", which `make_top_scorer` describes."""
    ranking = Ranking.of(y_true, y_score, pos_label, sample_weight)
    check_rate(max_fpr, "max_fpr")
    check_rate(min_fpr, "min_fpr")
    if not min_fpr < max_fpr:
        raise ValueError(f"min_fpr={min_fpr!r} must be less than max_fpr={max_fpr!r}")
    if missing := ranking.missing_class():
        return undefined("partial_auc_log_score", missing)
    found, false = ranking.cumulative_value, ranking.cumulative_negatives
    # The true positive rate is a step function of the false positive rate.
    steps = np.log(np.clip(np.append(false / false[-1], 1.0), min_fpr, max_fpr))
    return float(found / found[-1] @ np.diff(steps) / np.log(max_fpr / min_fpr))


def auc_at_quantile_score(
    y_true, y_score, quantile, normalize=False, pos_label=None, ties="expected", sample_weight=None
):
    """Compute the metric "auc_at_quantile", which `make_top_scorer` describes."""
    ranking = Ranking.of(y_true, y_score, pos_label, sample_weight, ties=ties)
    check_rate(quantile, "quantile")
    found, selected = ranking.cumulative_value, ranking.cumulative_weight
    if not found[-1]:
        return undefined("auc_at_quantile_score", "no positives")
    end = quantile * selected[-1]
    start, width = selected[:-1], np.diff(np.minimum(selected, end))
    # Integrate found / selected over `selected`. A block of ties has found = rate * selected + rest
    # and the integral rate * width + rest * log(1 + width / start). The first block has rest = 0.
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
    r"""Compute BEDROC, the Boltzmann-enhanced discrimination of ROC, which rewards the top ranks.

    .. math::
        \mathrm{BEDROC} = \frac{S - S_{\min}}{S_{\max} - S_{\min}},
        \qquad S = \sum_{i : y_i = 1} e^{-\alpha r_i / n}

    where :math:`r_i` is the rank of sample i among n samples (1 for the highest score). S is
    :math:`S_{\min}` if all positives rank last, and :math:`S_{\max}` if all rank first [1]_.

    Parameters
    ----------
    y_true, y_score, pos_label, ties, sample_weight
        As in `precision_at_k_score`. Multiplying all weights by a constant changes nothing.
    alpha : float, default=20.0
        Emphasis on the first ranks, above 0. Rank r has the weight :math:`e^{-\alpha r / n}`. The
        first :math:`1.6 n / \alpha` ranks have 80 % of the total weight.

    Returns
    -------
    score : float
        In [0, 1]. NaN, with a warning, if there are no positives or no negatives.

    References
    ----------
    .. [1] J.-F. Truchon, C. I. Bayly. Evaluating virtual screening methods: good and bad metrics
       for the "early recognition" problem. J. Chem. Inf. Model. 47(2), 488-508, 2007.

    Examples
    --------
    >>> from sktopk.metrics import bedroc_score
    >>> bedroc_score([1, 1, 0, 0], [0.9, 0.8, 0.7, 0.6])
    1.0
    """
    ranking = Ranking.of(y_true, y_score, pos_label, sample_weight, ties=ties)
    if isinstance(alpha, bool) or not isinstance(alpha, Real):
        raise TypeError(f"alpha must be a positive finite number; got {alpha!r}")
    if not 0 < alpha <= sys.float_info.max:
        raise ValueError(f"alpha must be a positive finite number; got {alpha!r}")
    alpha = max(float(alpha), 1e-8)  # smaller numbers change the score less than rounding does
    if missing := ranking.missing_class():
        return undefined("bedroc_score", missing)
    positive = ranking.total_value / ranking.total_weight
    negative = ranking.cumulative_negatives[-1] / ranking.total_weight
    # Rank r has the weight exp(-alpha r / n), which is proportional to the integral of
    # exp(-alpha x) from (r - 1) / n to r / n. The sum over the ranks of a block is one integral.
    start, width = ranking.cumulative_weight[:-1], ranking.weight
    weight = np.exp(-alpha * (start / ranking.total_weight))
    weight *= -np.expm1(-alpha * (width / ranking.total_weight))
    # Sum over the rarer class, because a difference of large sums would lose digits.
    if positive <= negative:
        least = np.exp(-alpha * negative) * -np.expm1(-alpha * positive)
        above = (weight * (ranking.value / width)).sum() - least
    else:
        above = -np.expm1(-alpha * negative) - (weight * (ranking.negative / width)).sum()
    score = above / (np.expm1(-alpha * positive) * np.expm1(-alpha * negative))
    return float(np.clip(score, 0, 1))  # rounding can move the score slightly outside
