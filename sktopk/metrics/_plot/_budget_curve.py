"""What looking at k rows brings, for every k."""

import warnings

import numpy as np
from sklearn.exceptions import UndefinedMetricWarning

from sktopk.metrics._checks import check_count, check_nonnegative, check_option
from sktopk.metrics._ranking import Ranking, is_positive
from sktopk.metrics._top_scorer import positive_scores

from ._style import curve_axes, draw_legend, draw_reference

_YLABELS = {
    "precision": "Precision among the rows looked at",
    "recall": "Share of the positives found",
    "value": "Value of the positives found",
}


class BudgetCurveDisplay:
    r"""Curve of what a budget of k rows brings: precision, recall or money.

    With the positives :math:`y_i \in \{0, 1\}` and values :math:`v_i` of the rows that are
    looked at, best score first:

    .. math::
        \text{precision} = \frac{1}{k} \sum_{i \le k} y_i, \qquad
        \text{recall} = \frac{\sum_{i \le k} y_i}{\sum_i y_i}, \qquad
        \text{value} = \sum_{i \le k} v_i y_i

    Rows that tie are counted with what a random order of them brings on average. A random order
    of all rows gives the chance line; the ideal one looks at the positives first, of highest
    value first. Make it by `from_estimator` or `from_predictions`; the constructor only holds
    arrays.

    Parameters
    ----------
    k : array-like of shape (n_points,)
        Numbers of rows looked at.
    score : array-like of shape (n_points,)
        Precision, recall or value at each k.
    metric : {"precision", "recall", "value"}, default="recall"
        Which of them, for the axis.
    chance : array-like of shape (n_points,), default=None
        The score of a random order. None: no chance line.
    ideal : array-like of shape (n_points,), default=None
        The score of the best order. None: no ideal line.
    budget : int, default=None
        The k to mark, if it is among `k`. None: no mark.
    name : str, default=None
        Name of the curve in the legend. None: no legend entry.

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
    ideal_ : matplotlib Line2D or None
        The ideal line.
    budget_ : matplotlib Line2D or None
        The mark of the budget.

    See Also
    --------
    sktopk.BudgetClassifier : Flags the rows within a budget.
    precision_at_k_score : One point of the curve of precision.
    EnrichmentDisplay : The curve of recall on a logarithmic axis.

    Examples
    --------
    >>> from sktopk.metrics import BudgetCurveDisplay
    >>> fraud = [1, 0, 0, 1, 0, 1]
    >>> y_score = [0.9, 0.8, 0.7, 0.6, 0.2, 0.2]
    >>> amount = [20, 10, 10, 500, 10, 100]
    >>> display = BudgetCurveDisplay.from_predictions(fraud, y_score, value=amount, budget=4)
    >>> display.score
    array([ 20.,  20.,  20., 520., 570., 620.])
    >>> display.ideal
    array([500., 600., 620., 620., 620., 620.])
    """

    def __init__(
        self, k, score, *, metric="recall", chance=None, ideal=None, budget=None, name=None
    ):
        self.k = k
        self.score = score
        self.metric = metric
        self.chance = chance
        self.ideal = ideal
        self.budget = budget
        self.name = name

    @classmethod
    def from_estimator(cls, estimator, X, y, *, name=None, **kwargs):
        """Draw the curve of a fitted classifier of two classes.

        Parameters
        ----------
        estimator : object
            Fitted classifier with ``classes_`` and ``decision_function`` or
            ``predict_proba``; the second of its classes is positive. Of a
            `BudgetClassifier` the classifier inside is drawn, and the number of rows
            of X that it flags is marked, unless that depends on groups.
        X : array-like of shape (n_samples, n_features)
            Rows to rank.
        y : array-like of shape (n_samples,)
            True labels.
        name : str, default=None
            Name of the curve. None: the estimator's class name.
        **kwargs : dict
            As in `from_predictions`, but for `pos_label`.

        Returns
        -------
        display : BudgetCurveDisplay
            This display, drawn on `ax_`.
        """
        name = type(estimator).__name__ if name is None else name
        # Only what has a budget of its own decides which rows to look at.
        if hasattr(estimator, "budget") and hasattr(estimator, "predict_top"):
            if estimator.per != "group" and len(flagged := estimator.predict_top(X)):
                kwargs.setdefault("budget", len(flagged))
            estimator = estimator.estimator_
        pos_label, y_score = positive_scores(estimator, X)
        if y_score is None:
            raise ValueError(f"estimator must know two classes; got one from {estimator!r}")
        return cls.from_predictions(y, y_score, pos_label=pos_label, name=name, **kwargs)

    @classmethod
    def from_predictions(
        cls,
        y_true,
        y_score,
        *,
        metric=None,
        value=None,
        max_k=None,
        budget=None,
        pos_label=None,
        name=None,
        ax=None,
        **kwargs,
    ):
        """Draw the curve of given scores.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
            True labels.
        y_score : array-like of shape (n_samples,)
            Real scores, the larger the likelier positive.
        metric : {"precision", "recall", "value"}, default=None
            What to draw. None: "value" if `value` is given, else "recall". Recall is NaN,
            with an `UndefinedMetricWarning`, if there are no positives.
        value : array-like of shape (n_samples,), default=None
            What a row brings if it is positive and looked at, such as money: finite and
            nonnegative, in any unit. For "value", which needs it, only.
        max_k : int, default=None
            Largest k drawn. None: all rows.
        budget : int, default=None
            The k to mark. None: no mark.
        pos_label : int, float, bool or str, default=None
            Label of the positives. None: the greater of the two labels.
        name : str, default=None
            Name of the curve. None: "Classifier".
        ax : matplotlib Axes, default=None
            Axes to draw on. None: a new figure.
        **kwargs : dict
            As in `plot`: `plot_chance_level`, `plot_ideal`, and what matplotlib's
            ``plot`` takes.

        Returns
        -------
        display : BudgetCurveDisplay
            This display, drawn on `ax_`.
        """
        metric = ("recall" if value is None else "value") if metric is None else metric
        check_option(metric, "metric", tuple(_YLABELS))
        for number, count in {"max_k": max_k, "budget": budget}.items():
            if count is not None:
                check_count(count, number)
        if (metric == "value") != (value is not None):
            given = "no value" if value is None else "a value"
            raise ValueError(
                f'value must be passed with metric="value" only; got {given} and {metric!r}'
            )
        gain = is_positive(y_true, pos_label).astype(np.float64)
        if value is not None:
            gain *= check_nonnegative(value, "value", len(gain), "one per row of y_score")
        _, found = Ranking.from_values(gain, y_score).curve()
        k = np.arange(1, len(gain) + 1)
        best = np.cumsum(np.sort(gain)[::-1])
        curves = np.stack([found[1:], k * gain.mean(), best])
        if metric == "precision":
            curves /= k
        elif metric == "recall" and not gain.any():
            message = "BudgetCurveDisplay: no positives, recall is NaN"
            warnings.warn(message, UndefinedMetricWarning, stacklevel=2)
            curves[:] = np.nan
        elif metric == "recall":
            curves /= gain.sum()
        score, chance, ideal = curves[:, :max_k]
        display = cls(
            k[:max_k],
            score,
            metric=metric,
            chance=chance,
            ideal=ideal,
            budget=budget,
            name="Classifier" if name is None else name,
        )
        return display.plot(ax, **kwargs)

    def plot(self, ax=None, *, name=None, plot_chance_level=True, plot_ideal=True, **kwargs):
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
            Whether to draw what a random order brings.
        plot_ideal : bool, default=True
            Whether to draw what the best order brings. A line that is already there is
            not drawn again.
        **kwargs : dict
            Passed to matplotlib's ``plot`` for the curve.

        Returns
        -------
        display : BudgetCurveDisplay
            This object, with `ax_`, `figure_`, `line_`, `chance_level_`, `ideal_` and
            `budget_`.
        """
        ax = curve_axes(f"{type(self).__name__}.plot", ax, markevery=0.12)
        label = self.name if name is None else name
        (self.line_,) = ax.plot(self.k, self.score, **{"label": label, **kwargs})
        self.budget_ = self._draw_budget(ax)
        self.chance_level_ = self.ideal_ = None
        if plot_chance_level and self.chance is not None:
            self.chance_level_ = draw_reference(ax, self.k, self.chance, "Chance")
        if plot_ideal and self.ideal is not None:
            self.ideal_ = draw_reference(ax, self.k, self.ideal, "Ideal")
        ax.set(xlabel="k (rows looked at, best first)", ylabel=_YLABELS[self.metric])
        if self.metric == "value":
            ax.set_ylim(bottom=0)
            # Long numbers would push the label of the axis out of the figure.
            ax.ticklabel_format(axis="y", scilimits=(-3, 5))
        else:
            ax.set_ylim(-0.02, 1.04)
        loc = "upper right" if self.metric == "precision" else "lower right"
        draw_legend(ax, loc, fontsize="small")
        self.ax_, self.figure_ = ax, ax.figure
        return self

    def _draw_budget(self, ax):
        at = np.flatnonzero(np.asarray(self.k) == self.budget)
        if not len(at):
            return None
        label = f"Budget: {self.budget} rows"
        shown = label in ax.get_legend_handles_labels()[1]
        style = {"color": self.line_.get_color(), "markeredgecolor": "black", "zorder": 3}
        style |= {"linestyle": "", "marker": "*", "markersize": 13, "markevery": 1}
        # Lines whose label begins with an underscore stay out of the legend.
        style["label"] = f"_{label}" if shown else label
        return ax.plot([self.budget], [np.asarray(self.score)[at[0]]], **style)[0]
