"""Top-k accuracy against k."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from sktopk._common._scalars import check_count
from sktopk.metrics._scorer import predict_scores
from sktopk.metrics._topk import LabelRanks

from ._base import CurveDisplay, curve_axes, draw_curves, draw_legend, draw_reference

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class TopKCurveDisplay(CurveDisplay):
    """Curve of the top-k accuracy against k.

    Make it with `from_estimator`, `from_predictions` or `from_cv_results`, which take `max_k`
    (default 10, cut to the number of classes) and `labels`, `average`, `ties` and `sample_weight`
    as in `topk_accuracy_score`. The constructor only stores arrays.

    Parameters
    ----------
    k : array-like of shape (n_points,) or list of them
        Numbers of labels; a list holds the curves of folds.
    accuracy : array-like of shape (n_points,) or list of them
        Top-k accuracy at each k.
    name : str, default=None
        Name of the curve in the legend. None: no legend entry.
    chance : array-like of shape (n_points,), default=None
        Top-k accuracy of random guesses, k / n_classes; for folds at the longest of their `k`.
        None: no chance line.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Where the display is drawn.
    line_, chance_level_ : matplotlib Line2D
        The curve, or a list of the curves of folds, and the chance line (or None).

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sktopk.metrics import TopKCurveDisplay
    >>> X, y = load_digits(return_X_y=True)
    >>> clf = LogisticRegression(C=1e-3, max_iter=1000).fit(X[:900], y[:900])
    >>> display = TopKCurveDisplay.from_estimator(clf, X[900:], y[900:], max_k=3)
    >>> display.accuracy.round(2)
    array([0.93, 0.96, 0.98])
    """

    _options = ("labels", "max_k", "average", "ties", "sample_weight")
    _label = "labels"

    def __init__(
        self,
        k: ArrayLike,
        accuracy: ArrayLike,
        *,
        name: str | None = None,
        chance: ArrayLike | None = None,
    ) -> None:
        self.k = k
        self.accuracy = accuracy
        self.name = name
        self.chance = chance

    @classmethod
    def _scores(cls, estimator, X, label):
        return predict_scores(estimator, X)

    @classmethod
    def _curve(cls, y_true, y_score, labels=None, max_k=10, sample_weight=None, **options):
        check_count(max_k, "max_k")
        ranks = LabelRanks.from_predictions(y_true, y_score, labels, sample_weight)
        k = np.arange(1, min(max_k, ranks.n_classes) + 1)
        accuracy = np.array([ranks.accuracy(j, **options) for j in k])
        return {"k": k, "accuracy": accuracy, "chance": k / ranks.n_classes}

    @classmethod
    def _join(cls, folds):
        joined = {name: [fold[name] for fold in folds] for name in ("k", "accuracy")}
        # A fold that knows fewer classes than k has accuracy 1 by chance.
        longest = max(joined["k"], key=len)
        chances = [np.minimum(1.0, longest * fold["chance"][0]) for fold in folds]
        return joined | {"chance": np.mean(chances, axis=0)}

    def plot(
        self,
        ax: Axes | None = None,
        *,
        name: str | None = None,
        plot_chance_level: bool = True,
        **kwargs: Any,
    ) -> Self:
        """Draw the curve; several may share one axes.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on. None: a new figure. Empty axes get colours and markers that
            colour-blind readers can tell apart.
        name : str, default=None
            Name of the curve. None: the name of the display.
        plot_chance_level : bool, default=True
            Whether to draw the chance line. A line that is already there is not drawn again.
        **kwargs : dict
            Passed to matplotlib's ``plot`` for the curve.

        Returns
        -------
        display : TopKCurveDisplay
            This object, with `ax_`, `figure_`, `line_` and `chance_level_`.
        """
        ax = curve_axes(self, ax)
        style = {"label": self.name if name is None else name, **kwargs}
        # Markers that touch hide the curve.
        self.line_ = draw_curves(ax, self.k, self.accuracy, style, markevery=1 + len(self.k) // 20)
        k = max(self.k, key=len) if np.ndim(self.k[0]) else self.k
        self.chance_level_ = None
        if plot_chance_level and self.chance is not None:
            self.chance_level_ = draw_reference(ax, k, self.chance, "Chance")
        ax.locator_params(axis="x", integer=True, nbins=10)
        ax.set(xlabel="k (number of labels)", ylabel="Top-k accuracy", ylim=(0, 1.02))
        draw_legend(ax)
        return self
