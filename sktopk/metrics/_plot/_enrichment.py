"""Share of the positives found against the share of rows looked at."""

import numpy as np
from numpy.typing import ArrayLike

from ._ranking_curve import RankingCurveDisplay


class EnrichmentDisplay(RankingCurveDisplay):
    r"""Curve of the share of positives found, against the share of rows looked at.

    The axis of the rows is logarithmic, so that the best 1 % of them can be
    seen. A random order finds the share f of the positives in the share f of the
    rows, a perfect one :math:`\min(1, f / \pi)` with the share of positives
    :math:`\pi`; the curve divided by the chance line is the enrichment factor.
    Make it by `from_estimator`, `from_predictions` or `from_cv_results`; the
    constructor only holds arrays.

    Parameters
    ----------
    fraction : array-like of shape (n_points,) or list of them
        Share of the rows looked at, in [0, 1]; a list holds the curves of folds.
    recall : array-like of shape (n_points,) or list of them
        Share of the positives found among them.
    prevalence : float or array-like of shape (n_groups,), default=None
        Share of positives among all rows, or among those of each group. None: no chance and ideal
        lines.
    name : str, default=None
        Name of the curve in the legend. None: no legend entry.
    low, high : array-like of shape (n_points,), default=None
        The band of the groups at each point. None: no band.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes with the curve.
    figure_ : matplotlib Figure
        Figure of the axes.
    line_ : matplotlib Line2D or list of them
        The curve, or those of the folds.
    chance_level_ : matplotlib Line2D or None
        The chance line.
    ideal_ : matplotlib Line2D or None
        The ideal line.
    band_ : matplotlib PolyCollection or None
        The band of the groups.

    See Also
    --------
    recall_at_k_score : One point of the curve.
    enrichment_factor_score : The same as a multiple of chance.
    PrecisionQuantileDisplay : Precision, on the same axis.

    Examples
    --------
    >>> from sktopk.metrics import EnrichmentDisplay
    >>> active = [1, 0, 0, 0, 1, 0, 0, 0, 0, 0]
    >>> y_score = [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]
    >>> display = EnrichmentDisplay.from_predictions(active, y_score)
    >>> display.recall[:6]
    array([0. , 0.5, 0.5, 0.5, 0.5, 1. ])
    """

    _arrays = ("fraction", "recall")
    _xscale = "log"
    _ylabel = "Share of the positives found"
    _legend_loc = {"log": "upper left", "linear": "lower right"}  # noqa: RUF012

    def __init__(
        self,
        fraction: ArrayLike,
        recall: ArrayLike,
        *,
        prevalence: float | None = None,
        name: str | None = None,
        low: ArrayLike | None = None,
        high: ArrayLike | None = None,
    ) -> None:
        self.fraction = fraction
        self.recall = recall
        self.prevalence = prevalence
        self.name = name
        self.low = low
        self.high = high

    @classmethod
    def _curve(cls, y_true, y_score, **kwargs):
        fraction, precision, prevalence = super()._curve(y_true, y_score, **kwargs)
        return fraction, precision * fraction / prevalence, prevalence

    def _references(self, fraction, prevalence):
        return fraction, np.minimum(1.0, fraction / prevalence)

    @classmethod
    def _between(cls, grid, x, y):
        return np.interp(grid, x, y)
