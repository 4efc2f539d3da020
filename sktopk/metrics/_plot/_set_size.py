"""Display of the sizes of prediction sets, and of the coverage of the sets of each size."""

from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from sktopk.metrics._ranking import row_weights
from sktopk.metrics._sets import covered_rows, predict_sets, set_sizes
from sktopk.metrics._topk import grouped_means

from ._base import LEVEL_STYLE, ScoreDisplay, draw_bars, draw_once


@dataclass(eq=False, repr=False)
class SetSizeDisplay(ScoreDisplay):
    """Distribution of set sizes, with the coverage of the sets of each size.

    A bar shows the share of the samples whose set has a given size. A line shows the share of these
    samples whose set contains the label. Larger points stand for more samples. Sets of all sizes
    are equally reliable if the line is constant.

    Create it with `from_estimator` from an estimator with ``predict_set``, such as `SetClassifier`,
    or with `from_predictions` from sets and their `labels`, as in `set_coverage_score`. Both take
    `sample_weight` and `target`, by default the `coverage` of the estimator.

    Parameters
    ----------
    lower, upper : array-like of shape (n_bins,)
        Smallest and largest set size of each bin. Each size up to 10 has its own bin. Bins of
        larger sizes end at 20, 50, 100, 200, 500, 1000, ...
    proportion, coverage : array-like of shape (n_bins,)
        Share of the samples in each bin, and their coverage, which is NaN in bins without samples.
    name : str, default=None
        Name of the bars in the legend. None means no legend entry.
    target : float, default=None
        Target coverage. None means no line.

    Attributes
    ----------
    ax_, figure_, bars_, line_, points_, target_line_ : matplotlib artists
        Axes, figure, bars, line and points of the coverage, and target line (None if not drawn).

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from sktopk import SetClassifier
    >>> from sktopk.metrics import SetSizeDisplay
    >>> X, y = load_digits(return_X_y=True)
    >>> clf = SetClassifier(GaussianNB(), method="lac", random_state=0).fit(X[:900], y[:900])
    >>> display = SetSizeDisplay.from_estimator(clf, X[900:], y[900:])
    >>> display.upper
    array([0, 1, 2, 3, 4])
    """

    lower: ArrayLike
    upper: ArrayLike
    proportion: ArrayLike
    coverage: ArrayLike
    _: KW_ONLY
    name: str | None = None
    target: float | None = None

    # The constrained layout makes room for rotated tick labels.
    _figure: ClassVar = {"layout": "constrained"}
    _options = ("labels", "sample_weight", "target")
    _label = "labels"
    _name = "Sets"

    @classmethod
    def _scores(cls, estimator, X, label):
        return predict_sets(estimator, X)

    @classmethod
    def _defaults(cls, estimator, X, kwargs):
        method = getattr(estimator, "method", None)
        name = type(estimator).__name__ + ("" if method is None else f" ({method})")
        # Other methods have no target coverage.
        has_target = method not in (None, "topk", "average_k")
        return {"name": name, "target": estimator.coverage if has_target else None}

    @classmethod
    def _curve(cls, y_true, y_set, *, labels, sample_weight=None, target=None):
        covered, _, y_set = covered_rows(y_true, y_set, labels)
        weight = row_weights(sample_weight, len(covered), "y_set")
        if not weight.any():
            raise ValueError("sample_weight must have a positive value; got only zeros")
        size, present = set_sizes(y_set), weight > 0
        lower, upper = _bins(size[present].max())
        bin_of = np.searchsorted(lower, size[present], side="right") - 1
        total, coverage = grouped_means(bin_of, covered[present], weight[present], len(lower))
        shares = {"proportion": total / total.sum(), "coverage": coverage}
        return {"lower": lower, "upper": upper, "target": target, **shares}

    def _plot(self, ax, label, **kwargs):
        n_ticks = len(ax.get_xticks()) if ax.containers else 0
        position = np.arange(len(self.lower))
        (self.line_,) = ax.plot(position, self.coverage, linewidth=1, markersize=0, alpha=0.5)
        size, color = 10 + 200 * np.asarray(self.proportion), self.line_.get_color()
        style = {"marker": self.line_.get_marker(), "edgecolor": "white", "zorder": 2.1}
        self.points_ = ax.scatter(position, self.coverage, size, color=color, **style)
        style = {"color": color, "alpha": 0.45, "zorder": 1, "label": label}
        self.bars_ = draw_bars(ax, self.proportion, **{**style, **kwargs})
        self.target_line_ = None
        if self.target is not None:
            style = {**LEVEL_STYLE, "label": f"Target {self.target:g}"}
            self.target_line_ = draw_once(ax.lines, ax.axhline, self.target, **style)
        if len(position) >= n_ticks:
            bins = zip(self.lower, self.upper, strict=True)
            names = [f"{low}" if low == high else f"{low}–{high}" for low, high in bins]
            crowded = {"rotation": 45, "ha": "right", "rotation_mode": "anchor", "size": "small"}
            ax.set_xticks(position, names, **(crowded if len(position) > 12 else {}))
        ax.set(xlabel="Labels in the set", ylabel="Share of samples (bars), coverage (line)")
        ax.set_ylim(0, 1.02)
        handles = zip(*ax.get_legend_handles_labels(), strict=True)
        handles = sorted(handles, key=lambda entry: entry[1].startswith("Target "))
        if handles:
            ax.legend(*zip(*handles, strict=True), loc="best")


def _bins(largest):
    """Return the smallest and the largest size of each bin. The last bin contains `largest`."""
    lower = [*range(11)]
    scale = 10
    while lower[-1] <= largest:
        lower += [scale + 1, 2 * scale + 1, 5 * scale + 1]
        scale *= 10
    n_bins = np.searchsorted(lower, largest, side="right")
    return np.array(lower[:n_bins]), np.array(lower[1 : n_bins + 1]) - 1
