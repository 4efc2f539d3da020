"""What selecting k samples brings, for every k."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

import numpy as np
from numpy.typing import ArrayLike

from sktopk.metrics._budget_curve import budget_curve, budget_curve_of_groups
from sktopk.metrics._ranking import is_positive, warn_of_scores
from sktopk.metrics._top_scorer import scores_of_two_classes

from ._base import CurveDisplay, draw_curves, draw_legend, draw_reference

_YLABELS = {
    "precision": "Precision among the selected samples",
    "recall": "Share of the positives found",
    "value": "Value of the positives found",
}
_XLABELS = {
    "rows": "k (selected samples, best first)",
    "group": "k (selected samples of each group, best first)",
}
# Marks of budgets, among the lines of the axes.
_BUDGET = "budget"


@dataclass(eq=False, repr=False)
class BudgetCurveDisplay(CurveDisplay):
    r"""Curve of what a review budget of k samples brings: precision, recall or value.

    With the positives :math:`y_i \in \{0, 1\}` and values :math:`v_i` of the selected samples,
    best score first:

    .. math::
        \text{precision} = \frac{1}{k} \sum_{i \le k} y_i, \qquad
        \text{recall} = \frac{\sum_{i \le k} y_i}{\sum_i y_i}, \qquad
        \text{value} = \sum_{i \le k} v_i y_i

    Ties count with their expectation in a random order. A random order of all samples gives the
    chance line. The ideal line selects the positives first, highest value first. The constructor
    only stores arrays. `from_estimator`, `from_predictions` and `from_cv_results` take:

    - ``metric``: what to draw, "value" by default if ``value`` is given, else "recall". Recall is
      NaN, with an `UndefinedMetricWarning`, without positives.
    - ``value``: what each sample brings if it is positive and selected, such as money: finite,
      nonnegative numbers in any unit. Only "value" takes it.
    - ``max_k``: the largest k drawn. By default all samples.
    - ``budget``: the k to mark. For a `BudgetClassifier`, `from_estimator` draws the classifier
      inside, and marks the number of samples of X that it selects.
    - ``pos_label``: label of the positives, as in `precision_at_k_score`.
    - ``groups`` (not of folds): group of each sample, such as its day: k samples of each group are
      selected. The curve is the mean over the groups (of recall: over those with positives). A
      group of fewer than k samples keeps the score of all its samples.
    - ``share_of_groups``: share of the groups inside the band at each k, in (0, 1), 0.8 by default.
      The band shows the spread of the groups, not the error of the mean.

    `plot` takes ``n_budgets``, how many of the (largest) marked budgets the axes show, 4 by default
    or None for all samples, and ``plot_chance_level`` and ``plot_ideal``, True by default.

    Parameters
    ----------
    k : array-like of shape (n_points,) or list of them
        Numbers of selected samples; a list holds the curves of folds.
    score : array-like of shape (n_points,) or list of them
        Precision, recall or value at each k.
    metric : {"precision", "recall", "value"}, default="recall"
        Which of them, for the axis.
    chance, ideal : array-like of shape (n_points,), default=None
        Score of a random and of the best order; for folds at the shortest of their `k`. None: no
        line.
    budget : int, default=None
        The k to mark, if it is among `k`. None: no mark.
    name : str, default=None
        Name of the curve in the legend. None: no legend entry.
    by : {"rows", "group"}, default="rows"
        Whether `k` counts samples, or samples of each group.
    low, high : array-like of shape (n_points,), default=None
        The band of the groups at each k. None: no band.

    Attributes
    ----------
    ax_, figure_, line_, chance_level_, ideal_, budget_, band_ : matplotlib artists
        Axes, figure, curve (a list of the curves of folds), reference lines, mark of the budget
        and band of the groups; None if not drawn.

    Examples
    --------
    >>> from sktopk.metrics import BudgetCurveDisplay
    >>> fraud = [1, 0, 0, 1, 0, 1]
    >>> y_score = [0.9, 0.8, 0.7, 0.6, 0.2, 0.2]
    >>> amount = [20, 10, 10, 500, 10, 100]
    >>> display = BudgetCurveDisplay.from_predictions(fraud, y_score, value=amount, budget=4)
    >>> display.score
    array([ 20.,  20.,  20., 520., 570., 620.])
    >>> day = ["Mon", "Mon", "Tue", "Tue", "Wed", "Wed"]
    >>> display = BudgetCurveDisplay.from_predictions(fraud, y_score, groups=day)
    >>> display.score, display.low
    (array([0.5, 1. ]), array([0.1, 1. ]))
    """

    k: ArrayLike
    score: ArrayLike
    _: KW_ONLY
    metric: str = "recall"
    chance: ArrayLike | None = None
    ideal: ArrayLike | None = None
    budget: int | None = None
    name: str | None = None
    by: str = "rows"
    low: ArrayLike | None = None
    high: ArrayLike | None = None

    _markevery = 0.12
    _options = ("metric", "value", "max_k", "budget", "pos_label", "groups", "share_of_groups")

    @classmethod
    def _draw(cls, arguments, ax, options, **kwargs):
        if options.get("max_k") is not None:
            kwargs.setdefault("n_budgets", None)
        return super()._draw(arguments, ax, options, **kwargs)

    @classmethod
    def _defaults(cls, estimator, X, kwargs):
        """Return the number of samples that a `BudgetClassifier` selects as the budget."""
        if not _has_budget(estimator) or kwargs.get("groups") is not None:
            return {}
        n_selected = np.count_nonzero(estimator.predict(X) == estimator.pos_label_)
        return {"budget": n_selected} if n_selected else {}

    @classmethod
    def _scores(cls, estimator, X, label):
        """Return the positive class and the scores of all samples, also of those not selected."""
        if _has_budget(estimator):
            label = estimator.pos_label_ if label is None else label
            estimator = estimator.estimator_
        return scores_of_two_classes(estimator, X, label)

    @classmethod
    def _curve(cls, y_true, y_score, **options):
        if options.get("groups") is not None:
            curve = budget_curve_of_groups(y_true, y_score, **options)
        else:
            options = {name: each for name, each in options.items() if "groups" not in name}
            curve = budget_curve(y_true, y_score, **options)
        warn_of_scores(y_true, y_score, is_positive(y_true, options.get("pos_label")))
        return curve

    @classmethod
    def _join(cls, folds):
        joined = {name: [fold[name] for fold in folds] for name in ("k", "score")}
        shortest = min(map(len, joined["k"]))
        # A fold without positives has no recall, not even by chance.
        defined = [fold for fold in folds if not np.isnan(fold["score"]).any()] or folds
        for name in ("chance", "ideal"):
            joined[name] = np.mean([fold[name][:shortest] for fold in defined], axis=0)
        return joined | {name: folds[0][name] for name in ("metric", "budget")}

    def _plot(self, ax, label, *, n_budgets=4, plot_chance_level=True, plot_ideal=True, **kwargs):
        self.line_ = draw_curves(ax, self.k, self.score, {"label": label, **kwargs})
        color = ax.lines[-1].get_color()
        ks, scores = (self.k, self.score) if np.ndim(self.k[0]) else ([self.k], [self.score])
        self.budget_ = self._draw_budget(ax, ks, scores, color)
        self.band_ = self.chance_level_ = self.ideal_ = None
        k = min(ks, key=len)
        if self.low is not None:
            self.band_ = ax.fill_between(k, self.low, self.high, color=color, alpha=0.2, lw=0)
        if plot_chance_level and self.chance is not None:
            self.chance_level_ = draw_reference(ax, k, self.chance, "Chance")
        if plot_ideal and self.ideal is not None:
            self.ideal_ = draw_reference(ax, k, self.ideal, "Ideal")
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
        draw_legend(ax, "upper right" if self.metric == "precision" else "lower right")

    def _draw_budget(self, ax, ks, scores, color):
        if self.budget is None:
            return None
        points = [
            (self.budget, value)
            for k, score in zip(ks, scores, strict=True)
            for value in np.asarray(score)[np.asarray(k) == self.budget]
        ]
        if not points:
            return None
        label = f"Budget: {self.budget} samples"
        # Lines whose label begins with an underscore stay out of the legend.
        label = f"_{label}" if label in ax.get_legend_handles_labels()[1] else label
        style = {"color": color, "markeredgecolor": "black", "zorder": 3, "label": label}
        style |= {"linestyle": "", "marker": "*", "gid": _BUDGET, "markersize": 13, "markevery": 1}
        return ax.plot(*zip(*points, strict=True), **style)[0]


def _zoom(ax, n_budgets):
    """Show at most `n_budgets` of the marked budgets, and the curves up to there."""
    marks = [x for line in ax.lines if line.get_gid() == _BUDGET for x in line.get_xdata()]
    curves = [line.get_xydata() for line in ax.lines if line.get_gid() != _BUDGET]
    right = n_budgets * max(marks, default=np.inf)
    if right >= max(curve[-1, 0] for curve in curves):
        return
    ax.set_xlim(-0.02 * right, right)
    top = max(np.nanmax(curve[curve[:, 0] <= right, 1], initial=0.0) for curve in curves)
    if top > 0:
        ax.set_ylim(-0.02 * top, 1.06 * top)


def _has_budget(estimator):
    """Whether it decides by itself which samples to select, and not only ranks them."""
    return hasattr(estimator, "budget") and hasattr(estimator, "predict_top")
