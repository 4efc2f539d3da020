"""Top-k accuracy against k."""

import numpy as np

from sktopk.metrics._checks import check_count
from sktopk.metrics._scorer import predict_scores
from sktopk.metrics._topk import LabelRanks

from ._style import curve_axes, draw_legend, draw_reference


class TopKCurveDisplay:
    """Curve of top-k accuracy: how much is won by showing one more label.

    Make it by `from_estimator` or `from_predictions`; the constructor only
    holds arrays.

    Parameters
    ----------
    k : array-like of shape (n_points,)
        Numbers of labels looked at.
    accuracy : array-like of shape (n_points,)
        Top-k accuracy at each k.
    name : str, default=None
        Name of the curve in the legend. None: no legend entry.
    chance : array-like of shape (n_points,), default=None
        Top-k accuracy of a classifier that guesses, k / n_classes. None: no
        chance line.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes with the curve.
    figure_ : matplotlib Figure
        Figure of the axes.
    line_ : matplotlib Line2D
        The curve.
    chance_level_ : matplotlib Line2D or None
        The chance line.

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

    def __init__(self, k, accuracy, *, name=None, chance=None):
        self.k = k
        self.accuracy = accuracy
        self.name = name
        self.chance = chance

    @classmethod
    def from_estimator(
        cls,
        estimator,
        X,
        y,
        *,
        max_k=10,
        average="micro",
        ties="expected",
        sample_weight=None,
        name=None,
        ax=None,
        plot_chance_level=True,
        **kwargs,
    ):
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
            Passed to matplotlib's ``plot`` for the curve.

        Returns
        -------
        display : TopKCurveDisplay
            With the arrays `k`, `accuracy` and `chance`, drawn on `ax_`.
        """
        classes, y_score = predict_scores(estimator, X)
        return cls.from_predictions(
            y,
            y_score,
            labels=classes,
            max_k=max_k,
            average=average,
            ties=ties,
            sample_weight=sample_weight,
            name=type(estimator).__name__ if name is None else name,
            ax=ax,
            plot_chance_level=plot_chance_level,
            **kwargs,
        )

    @classmethod
    def from_predictions(
        cls,
        y_true,
        y_score,
        *,
        labels=None,
        max_k=10,
        average="micro",
        ties="expected",
        sample_weight=None,
        name=None,
        ax=None,
        plot_chance_level=True,
        **kwargs,
    ):
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
        """
        check_count(max_k, "max_k")
        ranks = LabelRanks.from_predictions(y_true, y_score, labels, sample_weight)
        k = np.arange(1, min(max_k, ranks.n_classes) + 1)
        accuracy = np.array([ranks.accuracy(j, average=average, ties=ties) for j in k])
        name = "Classifier" if name is None else name
        display = cls(k, accuracy, name=name, chance=k / ranks.n_classes)
        return display.plot(ax, plot_chance_level=plot_chance_level, **kwargs)

    def plot(self, ax=None, *, name=None, plot_chance_level=True, **kwargs):
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
            This object, with `ax_`, `figure_`, `line_` and `chance_level_`.
        """
        ax = curve_axes(f"{type(self).__name__}.plot", ax)
        label = self.name if name is None else name
        (self.line_,) = ax.plot(self.k, self.accuracy, **{"label": label, **kwargs})
        self.chance_level_ = None
        if plot_chance_level and self.chance is not None:
            self.chance_level_ = draw_reference(ax, self.k, self.chance, "Chance")
        # Only whole numbers of labels can be shown.
        ax.locator_params(axis="x", integer=True, nbins=10)
        ax.set(xlabel="k (labels shown per row)", ylabel="Top-k accuracy", ylim=(0, 1.02))
        draw_legend(ax, "lower right")
        self.ax_, self.figure_ = ax, ax.figure
        return self
