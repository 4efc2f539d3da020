"""Display of the top-k accuracy against k."""

from dataclasses import KW_ONLY, dataclass

import numpy as np
from numpy.typing import ArrayLike

from sktopk._common._scalars import check_count
from sktopk.metrics._topk import LabelRanks

from ._base import CurveDisplay, draw_curves, draw_legend, draw_reference


@dataclass(eq=False, repr=False)
class TopKCurveDisplay(CurveDisplay):
    """Curve of the top-k accuracy against k.

    Create it with `from_estimator`, `from_predictions` or `from_cv_results`. They take `max_k`
    (default 10, at most the number of classes), and `labels`, `average`, `ties` and
    `sample_weight` as in `topk_accuracy_score`. `plot` takes ``plot_chance_level`` (default True).

    Parameters
    ----------
    k, accuracy : array-like of shape (n_points,) or list of arrays
        Numbers of labels, and the top-k accuracy at each k. A list has one array per fold.
    name : str, default=None
        Name of the curve in the legend. None means no legend entry.
    chance : array-like of shape (n_points,), default=None
        Top-k accuracy of random guesses, k / n_classes. For folds, it has the length of the
        longest `k`. None means no chance line.

    Attributes
    ----------
    ax_, figure_, line_, chance_level_ : matplotlib artists
        Axes, figure, curve (a list for folds) and chance line (None if not drawn).

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

    k: ArrayLike
    accuracy: ArrayLike
    _: KW_ONLY
    name: str | None = None
    chance: ArrayLike | None = None

    _options = ("labels", "max_k", "average", "ties", "sample_weight")
    _label = "labels"

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
        # In a fold with at most k classes, random guesses have top-k accuracy 1.
        longest = max(joined["k"], key=len)
        chances = [np.minimum(1.0, longest * fold["chance"][0]) for fold in folds]
        return joined | {"chance": np.mean(chances, axis=0)}

    def _plot(self, ax, label, *, plot_chance_level=True, **kwargs):
        style = {"label": label, **kwargs}
        # Draw at most about 20 markers, so that they do not hide the curve.
        self.line_ = draw_curves(ax, self.k, self.accuracy, style, markevery=1 + len(self.k) // 20)
        k = max(self.k, key=len) if np.ndim(self.k[0]) else self.k
        self.chance_level_ = draw_reference(ax, k, self.chance, "Chance", plot_chance_level)
        ax.locator_params(axis="x", integer=True, nbins=10)
        ax.set(xlabel="k (number of labels)", ylabel="Top-k accuracy", ylim=(0, 1.02))
        draw_legend(ax)
