"""What looking at k rows brings, for every k."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import UndefinedMetricWarning

from sktopk._common._groups import encode_groups
from sktopk._common._scalars import (
    check_count,
    check_nonnegative,
    check_number,
    check_option,
    on_host,
)
from sktopk._common._types import Label, RowsLike
from sktopk._common._warnings import warn
from sktopk.metrics._ranking import Ranking, estimated, is_positive, warn_of_scores
from sktopk.metrics._top_scorer import scores_of_two_classes

from ._bands import band, draw_band
from ._folds import draw_curves, folds_name, split_folds
from ._style import curve_axes, draw_legend, draw_reference

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_YLABELS = {
    "precision": "Precision among the rows looked at",
    "recall": "Share of the positives found",
    "value": "Value of the positives found",
}
_XLABELS = {
    "rows": "k (rows looked at, best first)",
    "group": "k (rows of each group looked at, best first)",
    "cost": "Cost of the rows looked at, best first",
}

# Marks of budgets, among the lines of the axes.
_BUDGET = "budget"


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
    value first. Of a marked budget a few budgets are shown, not the thousands of rows that nobody
    looks at. Make it by `from_estimator`, `from_predictions` or `from_cv_results`; the
    constructor only holds arrays.

    Where rows cost money or minutes to look at, recall or value stand over what is spent,
    :math:`\sum_{i \le k} c_i`; the ideal order is by value per cost, with a part of a row for the
    rest of the budget.

    With groups, such as days, k rows of each are looked at: the curve is the mean over the groups,
    and a band around it has most of theirs. It is the spread of days, not an error of their mean.

    Parameters
    ----------
    k : array-like of shape (n_points,) or list of them
        Numbers of rows looked at, or what they cost; a list holds the curves of folds.
    score : array-like of shape (n_points,) or list of them
        Precision, recall or value at each k.
    metric : {"precision", "recall", "value"}, default="recall"
        Which of them, for the axis.
    chance : array-like of shape (n_points,), default=None
        The score of a random order; of folds at the shortest of their `k`. None: no chance
        line.
    ideal : array-like of shape (n_points,), default=None
        The score of the best order, in the same way. None: no ideal line.
    budget : int or float, default=None
        The k to mark, if it is among `k`, or the cost up to the largest. None: no mark.
    name : str, default=None
        Name of the curve in the legend. None: no legend entry.
    by : {"rows", "cost", "group"}, default="rows"
        What `k` counts: rows, what they cost, or rows of each group.
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
    ideal_ : matplotlib Line2D or None
        The ideal line.
    budget_ : matplotlib Line2D or None
        The mark of the budget.
    band_ : matplotlib PolyCollection or None
        The band of the groups.

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
    >>> minutes = [5, 20, 5, 30, 5, 10]
    >>> display = BudgetCurveDisplay.from_predictions(
    ...     fraud, y_score, value=amount, cost=minutes, budget=60
    ... )
    >>> display.k
    array([ 5. , 25. , 30. , 60. , 67.5, 75. ])
    >>> day = ["Mon", "Mon", "Tue", "Tue", "Wed", "Wed"]
    >>> display = BudgetCurveDisplay.from_predictions(fraud, y_score, groups=day)
    >>> display.score, display.low
    (array([0.5, 1. ]), array([0.1, 1. ]))
    """

    def __init__(
        self,
        k: ArrayLike,
        score: ArrayLike,
        *,
        metric: str = "recall",
        chance: ArrayLike | None = None,
        ideal: ArrayLike | None = None,
        budget: int | float | None = None,
        name: str | None = None,
        by: str = "rows",
        low: ArrayLike | None = None,
        high: ArrayLike | None = None,
    ) -> None:
        self.k = k
        self.score = score
        self.metric = metric
        self.chance = chance
        self.ideal = ideal
        self.budget = budget
        self.name = name
        self.by = by
        self.low = low
        self.high = high

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: RowsLike,
        y: ArrayLike,
        *,
        value: ArrayLike | None = None,
        cost: ArrayLike | None = None,
        pos_label: Label | None = None,
        name: str | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the curve of a fitted classifier of two classes.

        Parameters
        ----------
        estimator : object
            Fitted classifier with ``classes_`` and ``decision_function`` or
            ``predict_proba``. Of a
            `BudgetClassifier` the classifier inside is drawn, and the number of rows
            of X that it flags is marked, unless that depends on groups or they are given; with
            ``constraint="cost"`` rows are in its order, by expected value per cost, and its
            budget is marked.
        X : array-like of shape (n_samples, n_features)
            Rows to rank.
        y : array-like of shape (n_samples,)
            True labels.
        value, cost : array-like of shape (n_samples,), default=None
            As in `from_predictions`.
        pos_label : int, float, bool or str, default=None
            Label of the positives. None: the `pos_label_` of the classifier, as in
            `make_top_scorer`.
        name : str, default=None
            Name of the curve. None: the estimator's class name.
        **kwargs : dict
            As in `from_predictions`.

        Returns
        -------
        display : BudgetCurveDisplay
            This display, drawn on `ax_`.
        """
        name = type(estimator).__name__ if name is None else name
        if _spends(estimator):
            if cost is not None:
                kwargs.setdefault("budget", estimator.budget)
        elif (
            _has_budget(estimator)
            and estimator.per != "group"
            and cost is None
            and kwargs.get("groups") is None
        ):
            if len(flagged := estimator.predict_top(X)):
                kwargs.setdefault("budget", len(flagged))
        pos_label, y_score = _ranking_scores(estimator, X, pos_label, value, cost)
        kwargs |= {"value": value, "cost": cost, "pos_label": pos_label, "name": name}
        return cls.from_predictions(y, y_score, **kwargs)

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_score: ArrayLike,
        *,
        metric: str | None = None,
        value: ArrayLike | None = None,
        cost: ArrayLike | None = None,
        max_k: int | None = None,
        budget: int | None = None,
        pos_label: Label | None = None,
        propensity: ArrayLike | None = None,
        groups: ArrayLike | None = None,
        share_of_groups: float = 0.8,
        name: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
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
        cost : array-like of shape (n_samples,), default=None
            What it takes to look at a row, such as minutes, finite and nonnegative; not for
            "precision". `max_k` and `budget` are then costs. None: rows are counted.
        max_k : int or float, default=None
            Largest k drawn, or largest cost. None: all rows.
        budget : int or float, default=None
            The k to mark, or the cost. None: no mark.
        pos_label : int, float, bool or str, default=None
            Label of the positives, as in `precision_at_k_score`.
        propensity : array-like of shape (n_samples,), default=None
            Of a log, as in `precision_at_k_score`: the probability in (0, 1] with which a label
            came to be known, NaN where it did not, so that the curve is an estimate without bias
            (of recall a ratio of two). `value` of a row of unknown label does not count.
        groups : array-like of shape (n_samples,), default=None
            Name of the group of each row, such as its day; not with `cost` or `propensity`.
            Curve, chance and ideal are then means over groups that count the same, of recall over
            those with positives; a group of fewer than k rows has what all of them bring.
        share_of_groups : float, default=0.8
            The share of the groups that the band has at each k, in (0, 1): .8 is from their
            quantile .1 to .9.
        name : str, default=None
            Name of the curve. None: "Classifier".
        ax : matplotlib Axes, default=None
            Axes to draw on. None: a new figure.
        **kwargs : dict
            As in `plot`: `n_budgets`, with `max_k` None by default, `plot_chance_level`,
            `plot_ideal`, and what matplotlib's ``plot`` takes.

        Returns
        -------
        display : BudgetCurveDisplay
            This display, drawn on `ax_`.

        Raises
        ------
        ImportError, TypeError, ValueError
            If matplotlib is missing, labels are not two, or an argument is not allowed.
        """
        metric = _checked_metric(metric, value, cost, max_k, budget)
        if cost is not None and propensity is not None:
            raise ValueError("propensity counts rows and does not go with cost: pass one of them")
        shown = {"metric": metric, "by": "rows" if cost is None else "cost", "budget": budget}
        if groups is None:
            given = metric, value, cost, max_k, propensity
            k, score, chance, ideal = _curves(y_true, y_score, pos_label, *given)
        else:
            if cost is not None or propensity is not None:
                other = "propensity" if cost is None else "cost"
                raise ValueError(f"groups count rows of each and do not go with {other}")
            y_score = np.asarray(on_host(y_score, "y_score"))
            codes = encode_groups(groups, len(y_score))
            given = metric, value, max_k
            k, curves = _curves_of_groups(y_true, y_score, pos_label, codes, *given)
            score, chance, ideal = curves.mean(1)
            shown["low"], shown["high"] = band(curves[0], share_of_groups)
            shown["by"] = "group"
        if propensity is None:
            warn_of_scores(y_true, y_score, is_positive(y_true, pos_label))
        shown["name"] = "Classifier" if name is None else name
        display = cls(k, score, chance=chance, ideal=ideal, **shown)
        return display.plot(ax, **({} if max_k is None else {"n_budgets": None}) | kwargs)

    @classmethod
    def from_cv_results(
        cls,
        cv_results: dict[str, Any],
        X: RowsLike,
        y: ArrayLike,
        *,
        metric: str | None = None,
        value: ArrayLike | None = None,
        cost: ArrayLike | None = None,
        max_k: int | None = None,
        budget: int | None = None,
        pos_label: Label | None = None,
        name: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the curve of each test fold of a cross-validation.

        Parameters
        ----------
        cv_results : dict
            What scikit-learn's ``cross_validate`` returns with
            ``return_estimator=True, return_indices=True``. Of a `BudgetClassifier` the
            classifier inside is drawn.
        X : array-like of shape (n_samples, n_features)
            The rows that were cross-validated.
        y : array-like of shape (n_samples,)
            Their labels.
        metric : {"precision", "recall", "value"}, default=None
            What to draw, as in `from_predictions`.
        value, cost : array-like of shape (n_samples,), default=None
            What a row brings and takes, as in `from_predictions`.
        max_k : int or float, default=None
            Largest k drawn, or largest cost. None: all rows of a fold.
        budget : int or float, default=None
            The k to mark, or the cost, on each curve. None: no mark.
        pos_label : int, float, bool or str, default=None
            Label of the positives. None: the `pos_label_` of the classifiers, as in
            `make_top_scorer`.
        name : str, default=None
            Name of the curves. None: the estimators' class name.
        ax : matplotlib Axes, default=None
            Axes to draw on. None: a new figure.
        **kwargs : dict
            As in `plot`: `n_budgets`, with `max_k` None by default, `plot_chance_level`,
            `plot_ideal`, and what matplotlib's ``plot`` takes.

        Returns
        -------
        display : BudgetCurveDisplay
            Drawn on `ax_`: `k`, `score` and `line_` are lists with an element per fold,
            `chance` and `ideal` are means over the folds, up to the rows of the smallest; over
            costs there are none.

        Raises
        ------
        ValueError
            If `cv_results` has no estimators or no indices.
        """
        metric = _checked_metric(metric, value, cost, max_k, budget)
        value, cost = (
            each if each is None else check_nonnegative(each, given, len(y), "one per row of X")
            for given, each in {"value": value, "cost": cost}.items()
        )
        curves = []
        for i, (estimator, X_test, y_test, _) in enumerate(split_folds(cv_results, X, y)):
            test = cv_results["indices"]["test"][i]
            own = [each if each is None else each[test] for each in (value, cost)]
            label, y_score = _ranking_scores(estimator, X_test, pos_label, *own)
            curves.append(_curves(y_test, y_score, label, metric, *own, max_k))
        k, score, chance, ideal = (list(each) for each in zip(*curves, strict=True))
        shortest = min(map(len, k))
        # A fold without positives has no recall, not even by chance.
        defined = [i for i, each in enumerate(score) if not np.isnan(each).any()] or range(len(k))
        chance, ideal = (
            np.mean([lines[i][:shortest] for i in defined], axis=0) for lines in (chance, ideal)
        )
        if cost is not None:
            # Each fold spends other sums.
            chance = ideal = None
        shown = {"metric": metric, "by": "rows" if cost is None else "cost", "budget": budget}
        shown["name"] = folds_name(cv_results, name)
        display = cls(k, score, chance=chance, ideal=ideal, **shown)
        return display.plot(ax, **({} if max_k is None else {"n_budgets": None}) | kwargs)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        name: str | None = None,
        n_budgets: int = 4,
        plot_chance_level: bool = True,
        plot_ideal: bool = True,
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
        n_budgets : float, default=4
            Where a budget is marked: how many budgets the axes show, the largest of them if
            there are several. None: all rows.
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
            This object, with `ax_`, `figure_`, `line_`, `chance_level_`, `ideal_`, `budget_`
            and `band_`.
        """
        ax = curve_axes(self, ax, markevery=0.12)
        style = {"label": self.name if name is None else name, **kwargs}
        self.line_ = draw_curves(ax, self.k, self.score, style)
        k, score = (self.k, self.score) if np.ndim(self.k[0]) else ([self.k], [self.score])
        self.budget_ = self._draw_budget(ax, k, score, color=ax.lines[-1].get_color())
        self.chance_level_ = self.ideal_ = None
        k = min(k, key=len)
        self.band_ = draw_band(ax, self.line_, k, self.low, self.high)
        if plot_chance_level and self.chance is not None:
            self.chance_level_ = draw_reference(ax, k, self.chance, "Chance")
        if plot_ideal and self.ideal is not None:
            self.ideal_ = draw_reference(ax, k, self.ideal, "Ideal")
        # There is no half of a row; more numbers would touch where they are long.
        ax.locator_params(axis="x", integer=True, nbins=6)
        ax.set(xlabel=_XLABELS[self.by], ylabel=_YLABELS[self.metric])
        if self.metric == "value":
            ax.set_ylim(bottom=0)
            # Long numbers would push the label of the axis out of the figure.
            ax.ticklabel_format(axis="y", scilimits=(-3, 5))
        else:
            ax.set_ylim(-0.02, 1.04)
        if n_budgets is not None:
            _zoom(ax, n_budgets)
        loc = "upper right" if self.metric == "precision" else "lower right"
        draw_legend(ax, loc)
        return self

    def _draw_budget(self, ax, k, score, color):
        if self.budget is None:
            return None
        if self.by == "cost":
            label = f"Budget: {self.budget:g}"
            points = [
                (
                    self.budget,
                    np.interp(self.budget, np.append(0, each_k), np.append(0, each_score)),
                )
                for each_k, each_score in zip(k, score, strict=True)
                if self.budget <= each_k[-1]
            ]
        else:
            label = f"Budget: {self.budget} rows"
            points = [
                (self.budget, value)
                for each_k, each_score in zip(k, score, strict=True)
                for value in np.asarray(each_score)[np.asarray(each_k) == self.budget]
            ]
        if not points:
            return None
        shown = label in ax.get_legend_handles_labels()[1]
        style = {"color": color, "markeredgecolor": "black", "zorder": 3}
        style |= {"linestyle": "", "marker": "*", "gid": _BUDGET, "markersize": 13, "markevery": 1}
        # Lines whose label begins with an underscore stay out of the legend.
        style["label"] = f"_{label}" if shown else label
        return ax.plot(*zip(*points, strict=True), **style)[0]


def _zoom(ax, n_budgets):
    """Show no more than so many of the budgets marked, and the curves up to there."""
    marks = [x for line in ax.lines if line.get_gid() == _BUDGET for x in line.get_xdata()]
    curves = [line.get_xydata() for line in ax.lines if line.get_gid() != _BUDGET]
    last = max(curve[-1, 0] for curve in curves)
    right = n_budgets * max(marks, default=np.inf)
    if right >= last:
        return
    ax.set_xlim(-0.02 * right, right)
    top = max(np.nanmax(curve[curve[:, 0] <= right, 1], initial=0.0) for curve in curves)
    if top > 0:
        ax.set_ylim(-0.02 * top, 1.06 * top)


def _checked_metric(metric, value, cost, max_k, budget):
    """Return the metric, which may be left to `value`, of options that are allowed."""
    metric = ("recall" if value is None else "value") if metric is None else metric
    check_option(metric, "metric", tuple(_YLABELS))
    for name, count in {"max_k": max_k, "budget": budget}.items():
        if count is not None and cost is None:
            check_count(count, name)
        elif count is not None:
            check_number(count, name, 0, bounds="neither")
    if metric == "precision" and cost is not None:
        raise ValueError("cost must be passed with metric='recall' or 'value'; got 'precision'")
    if (metric == "value") != (value is not None):
        given = "no value" if value is None else "a value"
        raise ValueError(
            f'value must be passed with metric="value" only; got {given} and {metric!r}'
        )
    return metric


def _curves(y_true, y_score, pos_label, metric, value, cost, max_k, propensity=None):
    """Return k, or the cost, and the score, that of chance and the ideal one at each."""
    if propensity is None:
        n_rows = is_positive(y_true, pos_label).astype(np.float64)
    else:
        log = estimated(y_true, pos_label, propensity)
        log.warn_if_blind("BudgetCurveDisplay")
        n_rows = log.positive
    each = np.ones(len(n_rows))
    if value is not None:
        each = check_nonnegative(value, "value", len(each), "one per row of y_score")
    gain = n_rows * each
    _, found = Ranking.from_values(gain, y_score).curve()
    if cost is None:
        k = np.arange(1, len(gain) + 1)
        # A positive of a log stands for more rows than its own.
        order = np.argsort(-each, kind="stable")
        rows, gains = (np.append(0.0, np.cumsum(part[order])) for part in (n_rows, gain))
        chance, best = k * gain.mean(), np.interp(k, rows, gains)
    else:
        cost = check_nonnegative(cost, "cost", len(gain), "one per row of y_score")
        if not cost.any():
            raise ValueError("cost must be positive for at least one row; all are zero")
        k = Ranking.from_values(cost, y_score).curve()[1][1:]
        chance, best = k / cost.sum() * gain.sum(), _best_for(k, gain, cost)
        max_k = None if max_k is None else np.searchsorted(k, max_k, side="right")
    curves = np.stack([found[1:], chance, best])
    if metric == "precision":
        curves /= k
    elif metric == "recall" and not gain.any():
        warn("BudgetCurveDisplay: no positives, recall is NaN", UndefinedMetricWarning)
        curves[:] = np.nan
    elif metric == "recall":
        curves /= gain.sum()
    return k[:max_k], *curves[:, :max_k]


def _curves_of_groups(y_true, y_score, pos_label, codes, metric, value, max_k):
    """Return k and the curves of each group, of shape (3, n_groups, n_points)."""
    positive = is_positive(y_true, pos_label)
    if value is not None:
        value = check_nonnegative(value, "value", len(positive), "one per row of y_score")
    largest = np.bincount(codes).max()
    each = []
    for code in np.unique(codes):
        rows = codes == code
        if metric == "recall" and not positive[rows].any():
            continue
        own = None if value is None else value[rows]
        _, *curves = _curves(positive[rows], y_score[rows], None, metric, own, None, None)
        curves = np.stack(curves)
        each.append(np.pad(curves, [(0, 0), (0, largest - curves.shape[1])], mode="edge"))
    if not each:
        warn("BudgetCurveDisplay: no positives, recall is NaN", UndefinedMetricWarning)
        each = [np.full((3, largest), np.nan)]
    return np.arange(1, largest + 1)[:max_k], np.stack(each, 1)[..., :max_k]


def _best_for(spent, gain, cost):
    """Return what the rows of most gain per cost bring for what is spent, the last in part."""
    with np.errstate(divide="ignore", invalid="ignore"):
        order = np.argsort(-np.where(gain > 0, gain / cost, 0.0), kind="stable")
    free = gain[cost == 0].sum()
    order = order[cost[order] > 0]
    found = free + np.cumsum(gain[order])
    return np.interp(spent, np.append(0.0, np.cumsum(cost[order])), np.append(free, found))


def _has_budget(estimator):
    """Whether it decides by itself which rows to look at, and not only ranks them."""
    return hasattr(estimator, "budget") and hasattr(estimator, "predict_top")


def _spends(estimator):
    """Whether it chooses rows by their expected value and their cost."""
    return _has_budget(estimator) and getattr(estimator, "constraint", None) == "cost"


def _ranking_scores(estimator, X, pos_label, value=None, cost=None):
    """Return the positive class and the scores of all rows, whatever may be flagged."""
    if _spends(estimator) and cost is not None:
        pos_label = estimator.pos_label_ if pos_label is None else pos_label
        worth = estimator.expected_value(X, value)
        cost = check_nonnegative(cost, "cost", len(worth), "one per row of X")
        # What costs nothing comes first, by scores that are finite.
        least = np.min(cost, where=cost > 0, initial=1.0) * 1e-9
        return pos_label, worth / np.maximum(cost, least)
    if _has_budget(estimator):
        pos_label = estimator.pos_label_ if pos_label is None else pos_label
        estimator = estimator.estimator_
    return scores_of_two_classes(estimator, X, pos_label)
