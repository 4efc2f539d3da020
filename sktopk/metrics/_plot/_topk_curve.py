"""Top-k accuracy against k."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from sktopk._common._groups import encode_groups
from sktopk._common._scalars import check_count
from sktopk._common._types import RowsLike
from sktopk.metrics._scorer import predict_scores
from sktopk.metrics._topk import LabelRanks

from ._bands import band, draw_band
from ._folds import draw_curves, folds_name, split_folds
from ._style import curve_axes, draw_legend, draw_reference

if TYPE_CHECKING:
    from matplotlib.axes import Axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class TopKCurveDisplay:
    """Curve of top-k accuracy: how much is won by showing one more label.

    Make it by `from_estimator`, `from_predictions` or `from_cv_results`; the
    constructor only holds arrays.

    Parameters
    ----------
    k : array-like of shape (n_points,) or list of them
        Numbers of labels looked at; a list holds the curves of folds.
    accuracy : array-like of shape (n_points,) or list of them
        Top-k accuracy at each k.
    name : str, default=None
        Name of the curve in the legend. None: no legend entry.
    chance : array-like of shape (n_points,), default=None
        Top-k accuracy of a classifier that guesses, k / n_classes; of folds at the
        longest of their `k`. None: no chance line.
    low, high : array-like of shape (n_points,), default=None
        The band of the groups at each k. None: no band.

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
    band_ : matplotlib PolyCollection or None
        The band of the groups.

    See Also
    --------
    topk_accuracy_score : One point of the curve.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.linear_model import LogisticRegression
    >>> from sktopk.metrics import TopKCurveDisplay
    >>> X, y = load_digits(return_X_y=True)
    >>> clf = LogisticRegression(C=1e-3, max_iter=1000).fit(X[:900], y[:900])
    >>> y_score = clf.decision_function(X[900:])
    >>> display = TopKCurveDisplay.from_predictions(y[900:], y_score, max_k=3)
    >>> display.accuracy.round(2)
    array([0.93, 0.96, 0.98])
    """

    def __init__(
        self,
        k: ArrayLike,
        accuracy: ArrayLike,
        *,
        name: str | None = None,
        chance: ArrayLike | None = None,
        low: ArrayLike | None = None,
        high: ArrayLike | None = None,
    ) -> None:
        self.k = k
        self.accuracy = accuracy
        self.name = name
        self.chance = chance
        self.low = low
        self.high = high

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: RowsLike,
        y: ArrayLike,
        *,
        max_k: int = 10,
        average: str = "micro",
        ties: str = "expected",
        sample_weight: ArrayLike | None = None,
        name: str | None = None,
        ax: Axes | None = None,
        plot_chance_level: bool = True,
        **kwargs: Any,
    ) -> Self:
        """Draw the curve of a fitted classifier.

        Parameters
        ----------
        estimator : object
            Fitted classifier with ``classes_`` and ``decision_function`` or
            ``predict_proba``. Classes of `y` that it does not know are misses.
        X : array-like of shape (n_samples, n_features)
            Rows to classify.
        y : array-like of shape (n_samples,)
            True labels.
        max_k : int, default=10
            Largest k, cut to the number of classes.
        average : {"micro", "macro"}, default="micro"
            Mean over rows or over classes, as in `topk_accuracy_score`.
        ties : {"expected", "optimistic", "pessimistic"}, default="expected"
            What ties count, as in `topk_accuracy_score`.
        sample_weight : array-like of shape (n_samples,), default=None
            Nonnegative weights of the rows.
        name : str, default=None
            Name of the curve. None: the estimator's class name.
        ax : matplotlib Axes, default=None
            Axes to draw on. None: a new figure.
        plot_chance_level : bool, default=True
            Whether to draw k / n_classes.
        **kwargs : dict
            `groups` and `share_of_groups`, as in `from_predictions`; others are passed to
            matplotlib's ``plot`` for the curve.

        Returns
        -------
        display : TopKCurveDisplay
            With the arrays `k`, `accuracy` and `chance`, drawn on `ax_`.

        Raises
        ------
        ImportError
            If matplotlib is not there, which the extra "plot" installs.
        NotFittedError
            If `estimator` is not fitted.
        TypeError
            If it is no classifier with scores.
        ValueError
            As of `from_predictions`.
        """
        classes, y_score = predict_scores(estimator, X)
        name = type(estimator).__name__ if name is None else name
        score = {"max_k": max_k, "average": average, "ties": ties, "sample_weight": sample_weight}
        plot = {"ax": ax, "plot_chance_level": plot_chance_level, **kwargs}
        return cls.from_predictions(y, y_score, labels=classes, name=name, **score, **plot)

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_score: ArrayLike,
        *,
        labels: ArrayLike | None = None,
        max_k: int = 10,
        average: str = "micro",
        ties: str = "expected",
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        share_of_groups: float = 0.8,
        name: str | None = None,
        ax: Axes | None = None,
        plot_chance_level: bool = True,
        **kwargs: Any,
    ) -> Self:
        """Draw the curve of given scores.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
            True labels.
        y_score : array-like of shape (n_samples, n_classes) or (n_samples,)
            Scores, as in `topk_accuracy_score`.
        labels : array-like of shape (n_classes,), default=None
            The class of each column, as in `topk_accuracy_score`.
        max_k : int, default=10
            Largest k, cut to the number of classes.
        average : {"micro", "macro"}, default="micro"
            Mean over rows or over classes, as in `topk_accuracy_score`.
        ties : {"expected", "optimistic", "pessimistic"}, default="expected"
            What ties count, as in `topk_accuracy_score`.
        sample_weight : array-like of shape (n_samples,), default=None
            Nonnegative weights of the rows.
        groups : array-like of shape (n_samples,), default=None
            Name of the group of each row, such as its place. The curve is then the mean over the
            groups, which count the same.
        share_of_groups : float, default=0.8
            The share of the groups that the band has at each k, in (0, 1): .8 is from their
            quantile .1 to .9.
        name : str, default=None
            Name of the curve. None: "Classifier".
        ax : matplotlib Axes, default=None
            Axes to draw on. None: a new figure.
        plot_chance_level : bool, default=True
            Whether to draw k / n_classes.
        **kwargs : dict
            Passed to matplotlib's ``plot`` for the curve.

        Returns
        -------
        display : TopKCurveDisplay
            With the arrays `k`, `accuracy` and `chance`, drawn on `ax_`.

        Raises
        ------
        ImportError
            If matplotlib is not there, which the extra "plot" installs.
        TypeError, ValueError
            If `y_score` holds NaN, shapes disagree or an argument is not allowed.
        """
        options, band_of = {"average": average, "ties": ties}, {}
        k, ranks = cls._ranks(y_true, y_score, labels, sample_weight, max_k)
        if groups is None:
            accuracy = _accuracies(ranks, k, **options)
        else:
            codes = encode_groups(groups, len(ranks.code))
            # A group without weight has no accuracy.
            weighted = np.unique(codes[ranks.sample_weight > 0])
            each = [ranks.take(codes == code) for code in weighted]
            curves = np.stack([_accuracies(own, k, **options) for own in each])
            accuracy = curves.mean(0)
            band_of["low"], band_of["high"] = band(curves, share_of_groups)
        name = "Classifier" if name is None else name
        display = cls(k, accuracy, name=name, chance=k / ranks.n_classes, **band_of)
        return display.plot(ax, plot_chance_level=plot_chance_level, **kwargs)

    @classmethod
    def from_cv_results(
        cls,
        cv_results: dict[str, Any],
        X: RowsLike,
        y: ArrayLike,
        *,
        max_k: int = 10,
        average: str = "micro",
        ties: str = "expected",
        sample_weight: ArrayLike | None = None,
        name: str | None = None,
        ax: Axes | None = None,
        plot_chance_level: bool = True,
        **kwargs: Any,
    ) -> Self:
        """Draw the curve of each test fold of a cross-validation.

        Parameters
        ----------
        cv_results : dict
            What scikit-learn's ``cross_validate`` returns with
            ``return_estimator=True, return_indices=True``.
        X : array-like of shape (n_samples, n_features)
            The rows that were cross-validated.
        y : array-like of shape (n_samples,)
            Their labels; those unseen in the training of a fold are misses.
        max_k : int, default=10
            Largest k, cut to the number of classes.
        average : {"micro", "macro"}, default="micro"
            Mean over rows or over classes, as in `topk_accuracy_score`.
        ties : {"expected", "optimistic", "pessimistic"}, default="expected"
            What ties count, as in `topk_accuracy_score`.
        sample_weight : array-like of shape (n_samples,), default=None
            Nonnegative weights of the rows.
        name : str, default=None
            Name of the curves. None: the estimators' class name.
        ax : matplotlib Axes, default=None
            Axes to draw on. None: a new figure.
        plot_chance_level : bool, default=True
            Whether to draw k / n_classes.
        **kwargs : dict
            Passed to matplotlib's ``plot`` for the curves.

        Returns
        -------
        display : TopKCurveDisplay
            Drawn on `ax_`: `k`, `accuracy` and `line_` are lists with an element per
            fold, `chance` is the mean over the folds.

        Raises
        ------
        ImportError
            If matplotlib is not there, which the extra "plot" installs.
        ValueError
            If `cv_results` has no estimators or no indices, and as of `from_predictions`.
        """
        curves = []
        options = {"average": average, "ties": ties}
        for estimator, X_test, y_test, weight in split_folds(cv_results, X, y, sample_weight):
            classes, y_score = predict_scores(estimator, X_test)
            k, ranks = cls._ranks(y_test, y_score, classes, weight, max_k)
            curves.append((k, _accuracies(ranks, k, **options), ranks.n_classes))
        k, accuracy, n_classes = (list(each) for each in zip(*curves, strict=True))
        # A fold that knows fewer classes has all of them looked at from there on.
        shares = np.minimum(1.0, max(k, key=len) / np.array(n_classes)[:, None])
        display = cls(k, accuracy, name=folds_name(cv_results, name), chance=shares.mean(axis=0))
        return display.plot(ax, plot_chance_level=plot_chance_level, **kwargs)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        name: str | None = None,
        plot_chance_level: bool = True,
        **kwargs: Any,
    ) -> Self:
        """Draw the curve; several may share one axes.

        On empty axes the colour cycle is set to one that is safe for
        colour-blind readers, with a marker of its own for each curve.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on. None: a new figure.
        name : str, default=None
            Name of the curve. None: the name of the display.
        plot_chance_level : bool, default=True
            Whether to draw the chance line; a line that is already there is
            not drawn again.
        **kwargs : dict
            Passed to matplotlib's ``plot`` for the curve.

        Returns
        -------
        display : TopKCurveDisplay
            This object, with `ax_`, `figure_`, `line_`, `chance_level_` and `band_`.
        """
        ax = curve_axes(self, ax)
        style = {"label": self.name if name is None else name, **kwargs}
        # Markers that touch hide the curve.
        self.line_ = draw_curves(ax, self.k, self.accuracy, style, markevery=1 + len(self.k) // 20)
        self.band_ = draw_band(ax, self.line_, self.k, self.low, self.high)
        k = max(self.k, key=len) if np.ndim(self.k[0]) else self.k
        self.chance_level_ = None
        if plot_chance_level and self.chance is not None:
            self.chance_level_ = draw_reference(ax, k, self.chance, "Chance")
        # Only whole numbers of labels can be shown.
        ax.locator_params(axis="x", integer=True, nbins=10)
        ax.set(xlabel="k (labels shown per row)", ylabel="Top-k accuracy", ylim=(0, 1.02))
        draw_legend(ax)
        return self

    @staticmethod
    def _ranks(y_true, y_score, labels, sample_weight, max_k):
        """Return the numbers of labels and where the true one stands in each row."""
        check_count(max_k, "max_k")
        ranks = LabelRanks.from_predictions(y_true, y_score, labels, sample_weight)
        return np.arange(1, min(max_k, ranks.n_classes) + 1), ranks


def _accuracies(ranks, k, **kwargs):
    return np.array([ranks.accuracy(j, **kwargs) for j in k])
