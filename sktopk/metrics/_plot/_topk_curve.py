"""Top-k accuracy against k."""

import numpy as np

from sktopk.metrics._checks import check_count
from sktopk.metrics._scorer import predict_scores
from sktopk.metrics._topk import LabelRanks

from ._pyplot import import_pyplot

# Okabe and Ito's colours without the yellow, which is too light on white.
_COLORS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00"]
_MARKERS = ["o", "s", "^", "D", "v", "P"]
_CHANCE_LABEL = "Chance"


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
        plt = import_pyplot(f"{type(self).__name__}.plot")
        if ax is None:
            _, ax = plt.subplots()
        if not ax.has_data():
            ax.set_prop_cycle(color=_COLORS, marker=_MARKERS)
        label = self.name if name is None else name
        (self.line_,) = ax.plot(self.k, self.accuracy, **{"label": label, **kwargs})
        self.chance_level_ = self._plot_chance_level(ax) if plot_chance_level else None
        # Only whole numbers of labels can be shown.
        ax.locator_params(axis="x", integer=True, nbins=10)
        ax.set(xlabel="k (labels shown per row)", ylabel="Top-k accuracy", ylim=(0, 1.02))
        handles, labels = ax.get_legend_handles_labels()
        if labels:
            chance_last = sorted(range(len(labels)), key=lambda i: labels[i] == _CHANCE_LABEL)
            ax.legend(handles=[handles[i] for i in chance_last], loc="lower right")
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _plot_chance_level(self, ax):
        if self.chance is None:
            return None
        for line in ax.lines:
            if line.get_label() == _CHANCE_LABEL and np.array_equal(line.get_ydata(), self.chance):
                return line
        style = {"color": "0.45", "linestyle": "--", "marker": "", "label": _CHANCE_LABEL}
        return ax.plot(self.k, self.chance, **style)[0]
