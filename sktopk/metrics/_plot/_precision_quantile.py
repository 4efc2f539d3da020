"""Precision against the share of rows looked at."""

import numpy as np
from numpy.typing import ArrayLike

from ._ranking_curve import RankingCurveDisplay


class PrecisionQuantileDisplay(RankingCurveDisplay):
    r"""Curve of precision among the top rows, against their share of all rows.

    This is the :math:`P\tau` curve of [1]_, section 4.2. The chance line lies at the
    share of positives :math:`\pi`; the ideal line is :math:`\min(1, \pi / \tau)`,
    which no ranking exceeds. The axis is logarithmic, since the top is what one looks at;
    ``xscale="linear"`` shows all rows alike. Make it by `from_estimator`, `from_predictions` or
    `from_cv_results`; the constructor only holds arrays.

    Parameters
    ----------
    quantile : array-like of shape (n_points,) or list of them
        Share of the rows looked at, in [0, 1]; a list holds the curves of folds.
    precision : array-like of shape (n_points,) or list of them
        Share of positives among them.
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
    precision_quantile_curve : The arrays of the curve.
    auc_at_quantile_score : The area under the curve.
    EnrichmentDisplay : Share of the positives found, on the same axis.

    References
    ----------
    .. [1] L. Adam, V. Mácha, V. Šmídl. DeepTopPush: simple and scalable method
       for accuracy at the top. 2020, section 4.2.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from sktopk.metrics import PrecisionQuantileDisplay
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> clf = GaussianNB().fit(X[:300], y[:300])
    >>> display = PrecisionQuantileDisplay.from_estimator(clf, X[300:], y[300:])
    >>> display.precision[[100, -1]].round(2)  # of the 100 best rows, of all rows
    array([1.  , 0.75])
    """

    _arrays = ("quantile", "precision")
    _xscale = "log"
    _ylabel = "Precision"
    _legend_loc = {"linear": "upper right", "log": "upper right"}  # noqa: RUF012

    def __init__(
        self,
        quantile: ArrayLike,
        precision: ArrayLike,
        *,
        prevalence: float | None = None,
        name: str | None = None,
        low: ArrayLike | None = None,
        high: ArrayLike | None = None,
    ) -> None:
        self.quantile = quantile
        self.precision = precision
        self.prevalence = prevalence
        self.name = name
        self.low = low
        self.high = high

    def _references(self, quantile, prevalence):
        chance = np.full(len(quantile), prevalence)
        return chance, np.minimum(1.0, prevalence / quantile)
