"""Display of precision, recall or value against the number of selected samples."""

from dataclasses import KW_ONLY, dataclass

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import UndefinedMetricWarning

from sktopk._common._samples import encode_groups, rows_of_groups
from sktopk._common._scalars import check_count, check_nonnegative, check_number, check_option
from sktopk._common._warnings import warn
from sktopk.metrics._ranking import Ranking, check_score, is_positive, warn_of_scores

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
# The lines that mark budgets get this matplotlib `gid`, which distinguishes them from curves.
_BUDGET = "budget"


@dataclass(eq=False, repr=False)
class BudgetCurveDisplay(CurveDisplay):
    r"""Curve of precision, recall or value among the k samples with the highest scores, against k.

    The labels :math:`y_i \in \{0, 1\}` and values :math:`v_i` are sorted by decreasing score:

    .. math::
        \text{precision} = \frac{1}{k} \sum_{i \le k} y_i, \qquad
        \text{recall} = \frac{\sum_{i \le k} y_i}{\sum_i y_i}, \qquad
        \text{value} = \sum_{i \le k} v_i y_i

    The curve is the mean over all orders of tied samples. The chance line shows a random order. The
    ideal line shows the best order: positives first, by decreasing value.

    `from_estimator`, `from_predictions` and `from_cv_results` take `pos_label` and these options:

    - ``metric``: "precision", "recall" (default) or "value" (default if ``value`` is given).
      Without positives, recall is NaN, with an `UndefinedMetricWarning`.
    - ``value``: benefit :math:`v_i` of finding each sample, such as an amount of money.
    - ``max_k``: the largest k that is drawn. The default is the number of samples.
    - ``budget``: the k to mark. For a `BudgetClassifier`, `from_estimator` draws the curve of the
      wrapped classifier and, by default, marks the number of flagged samples of X.
    - ``groups``: group of each sample, such as its day. Not in `from_cv_results`. The curve is
      the mean over groups, with k samples of each. For recall, only groups with positives count.
    - ``share_of_groups`` (default 0.8): with ``groups``, a band around the curve contains at least
      this share of groups at each k. The band shows how groups vary, not the error of the mean.

    `plot` takes ``plot_chance_level`` and ``plot_ideal`` (default True), and ``n_budgets``, which
    limits the x axis to ``n_budgets`` times the largest marked k. The default of ``n_budgets`` is
    4. With ``max_k``, the default is None, which means no such limit.

    Parameters
    ----------
    k, score : array-like of shape (n_points,) or list of arrays
        Numbers of selected samples, and the metric at each k. A list has one array per fold.
    metric : {"precision", "recall", "value"}, default="recall"
        Metric in `score`. It determines the label and the range of the y axis.
    chance, ideal : array-like of shape (n_points,), default=None
        The metric at each k for a random order and for the best order. None draws no line.
    low, high : array-like of shape (n_points,), default=None
        Lower and upper edge of the band at each k. None draws no band.
    budget : int, default=None
        The k to mark on the curve. None, or a number that is not in `k`, draws no mark.
    name : str, default=None
        Name of the curve in the legend. None means no legend entry.
    by : {"rows", "group"}, default="rows"
        Whether `k` counts the selected samples in total ("rows") or of each group ("group").

    Attributes
    ----------
    ax_, figure_, line_, chance_level_, ideal_, budget_, band_ : matplotlib artists
        `ax_` are the axes of `figure_`. `line_` is the curve (a list for folds), and `budget_` the
        mark of `budget`. `chance_level_`, `ideal_`, `budget_` and `band_` are None if not drawn.

    Examples
    --------
    >>> from sktopk.metrics import BudgetCurveDisplay
    >>> fraud, y_score = [1, 0, 0, 1, 0, 1], [0.9, 0.8, 0.7, 0.6, 0.2, 0.2]
    >>> amount = [20, 10, 10, 500, 10, 100]
    >>> BudgetCurveDisplay.from_predictions(fraud, y_score, value=amount, budget=4).score
    array([ 20.,  20.,  20., 520., 570., 620.])
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
    def _split(cls, kwargs):
        if kwargs.get("max_k") is not None:
            kwargs.setdefault("n_budgets", None)
        return super()._split(kwargs)

    @classmethod
    def _defaults(cls, estimator, X, kwargs):
        if not _has_budget(estimator) or kwargs.get("groups") is not None:
            return {}
        label = kwargs.get("pos_label")
        label = estimator.pos_label_ if label is None else label
        n_selected = np.count_nonzero(estimator.predict(X) == label)
        return {"budget": n_selected} if n_selected else {}

    @classmethod
    def _scores(cls, estimator, X, label):
        if _has_budget(estimator):
            label = estimator.pos_label_ if label is None else label
            estimator = estimator.estimator_
        return super()._scores(estimator, X, label)

    @classmethod
    def _curve(
        cls, y_true, y_score, *, pos_label=None, groups=None, share_of_groups=0.8, **options
    ):
        metric, value, max_k, budget = _checked(**options)
        positive = is_positive(y_true, pos_label)
        if not len(positive):
            raise ValueError("y_true must have at least one label; got 0 samples")
        y_score, gain = check_score(y_score, len(positive)), positive.astype(np.float64)
        if value is not None:
            gain *= check_nonnegative(value, "value", len(gain), "one per row of y_score")
        most = len(gain)  # samples that a budget can select
        if groups is None:
            curves, spread = _curves(gain, y_score, metric, len(gain))[:, :max_k], {}
        else:
            check_number(share_of_groups, "share_of_groups", 0, 1, bounds="neither")
            code = encode_groups(groups, len(gain))
            # Groups without positives have no recall, so omit them.
            known = np.unique(code[positive] if metric == "recall" and positive.any() else code)
            rows = rows_of_groups(code)
            most = np.bincount(code).max()
            n = min(most, max_k or most)
            each = np.stack([_curves(gain[rows[i]], y_score[rows[i]], metric, n) for i in known])
            tail = (1 - share_of_groups) / 2
            low, high = np.quantile(each[:, 0], [tail, 1 - tail], axis=0, method="inverted_cdf")
            curves, spread = each.mean(axis=0), {"low": low, "high": high, "by": "group"}
        curve = dict(zip(("score", "chance", "ideal"), curves, strict=True)) | spread
        if budget is not None and budget > most:
            warn(f"budget={budget} is not marked, because there are only {most} samples")
        warn_of_scores(y_true, y_score, positive)
        k = np.arange(1, len(curve["score"]) + 1)
        return curve | {"k": k, "metric": metric, "budget": budget}

    @classmethod
    def _join(cls, folds):
        joined = {name: [fold[name] for fold in folds] for name in ("k", "score")}
        shortest = min(map(len, joined["k"]))
        # Folds without positives have no recall, so omit them.
        defined = [fold for fold in folds if not np.isnan(fold["score"]).any()] or folds
        for name in ("chance", "ideal"):
            joined[name] = np.mean([fold[name][:shortest] for fold in defined], axis=0)
        return joined | {name: folds[0][name] for name in ("metric", "budget")}

    def _plot(self, ax, label, *, n_budgets=4, plot_chance_level=True, plot_ideal=True, **kwargs):
        if any(line.get_gid() == _BUDGET for line in ax.lines):
            ax.autoscale()  # the limits of an earlier curve may be too small
        self.line_ = draw_curves(ax, self.k, self.score, {"label": label, **kwargs})
        color = ax.lines[-1].get_color()
        ks, scores = (self.k, self.score) if np.ndim(self.k[0]) else ([self.k], [self.score])
        self.budget_ = self._draw_budget(ax, ks, scores, color)
        self.band_, k = None, min(ks, key=len)
        if self.low is not None:
            self.band_ = ax.fill_between(k, self.low, self.high, color=color, alpha=0.2, lw=0)
        self.chance_level_ = draw_reference(ax, k, self.chance, "Chance", plot_chance_level)
        self.ideal_ = draw_reference(ax, k, self.ideal, "Ideal", plot_ideal)
        ax.locator_params(axis="x", integer=True, nbins=6)
        ax.set(xlabel=_XLABELS[self.by], ylabel=_YLABELS[self.metric])
        if self.metric == "value":
            ax.set_ylim(bottom=0)
            # Long tick labels would move the label of the axis out of the figure.
            ax.ticklabel_format(axis="y", scilimits=(-3, 5))
        else:
            ax.set_ylim(-0.02, 1.04)
        if n_budgets is not None:
            _zoom(ax, n_budgets)
        draw_legend(ax, "upper right" if self.metric == "precision" else "lower right")

    def _draw_budget(self, ax, ks, scores, color):
        curves = zip(ks, scores, strict=True)
        marked = [np.asarray(score)[np.asarray(k) == self.budget] for k, score in curves]
        heights = np.concatenate(marked)
        if not len(heights):
            return None
        label = f"Budget: {self.budget} samples"
        # matplotlib omits labels with a leading underscore from the legend.
        label = f"_{label}" if label in ax.get_legend_handles_labels()[1] else label
        style = {"color": color, "markeredgecolor": "black", "zorder": 3, "label": label}
        style |= {"linestyle": "", "marker": "*", "gid": _BUDGET, "markersize": 13, "markevery": 1}
        return ax.plot(np.full(len(heights), self.budget), heights, **style)[0]


def _zoom(ax, n_budgets):
    """Limit the x axis to `n_budgets` times the largest marked budget, and rescale the y axis."""
    marks = [x for line in ax.lines if line.get_gid() == _BUDGET for x in line.get_xdata()]
    curves = [xy for line in ax.lines if line.get_gid() != _BUDGET and len(xy := line.get_xydata())]
    right = n_budgets * max(marks, default=np.inf)
    if right >= max(curve[-1, 0] for curve in curves):
        return
    ax.set_xlim(-0.02 * right, right)
    curves += [path.vertices for band in ax.collections for path in band.get_paths()]
    top = max(np.nanmax(curve[curve[:, 0] <= right, 1], initial=0.0) for curve in curves)
    if top > 0:
        ax.set_ylim(-0.02 * top, 1.06 * top)


def _has_budget(estimator):
    return hasattr(estimator, "budget") and hasattr(estimator, "predict_top")


def _curves(gain, y_score, metric, n):
    """Return the metric at k = 1, ..., n for three orders: by score, random and best."""
    k = np.arange(1, len(gain) + 1)
    found = Ranking.from_values(gain, y_score).curve()[1][1:]
    curves = np.stack([found, k * gain.mean(), np.cumsum(np.sort(gain)[::-1])])
    # A group of fewer than n samples has no more samples to select: repeat its last sum.
    curves = np.pad(curves, ((0, 0), (0, max(0, n - len(gain)))), mode="edge")[:, :n]
    if metric == "precision":
        curves /= np.arange(1, n + 1)
    elif metric == "recall" and gain.any():
        curves /= gain.sum()
    elif metric == "recall":
        warn("BudgetCurveDisplay: no positives in y_true, so recall is NaN", UndefinedMetricWarning)
        curves[:] = np.nan
    return curves


def _checked(metric=None, value=None, max_k=None, budget=None):
    """Check and return the options. The default `metric` is "value" with values, else "recall"."""
    metric = ("recall" if value is None else "value") if metric is None else metric
    check_option(metric, "metric", tuple(_YLABELS))
    for name, count in {"max_k": max_k, "budget": budget}.items():
        if count is not None:
            check_count(count, name)
    if (metric == "value") != (value is not None):
        got = "no value" if value is None else "a value"
        raise ValueError(f'pass value if and only if metric="value"; got {got} and {metric=}')
    return metric, value, max_k, budget
