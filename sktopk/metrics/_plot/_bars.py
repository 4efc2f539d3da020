"""Displays with bars: sizes of prediction sets, and accuracy of frequent and rare classes."""

from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from sktopk._common._scalars import n_kept
from sktopk.metrics._ranking import row_weights
from sktopk.metrics._sets import covered_rows, predict_sets, set_sizes
from sktopk.metrics._topk import grouped_means, shot_accuracy_score

from ._base import LEVEL_STYLE, ScoreDisplay, draw_bars, draw_legend, draw_once, draw_reference

_GROUPS = ("many", "medium", "few")
_TOP = 1.02  # upper limit of the accuracy axis, in a figure without a legend


@dataclass(eq=False, repr=False)
class SetSizeDisplay(ScoreDisplay):
    """Distribution of set sizes, with the coverage of the sets of each size.

    Each bar shows the share of samples with a given set size. For each set size, a line shows the
    coverage: the share of sets that contain the true label. Larger points stand for more samples.

    Create the display with `from_predictions` or, if `predict_set` needs no `groups`, with
    `from_estimator`. Both accept `labels`, `sample_weight` and `target`. In `from_estimator`, the
    default `target` of a `SetClassifier` is `coverage`, but None for method "topk" or "average_k".

    Parameters
    ----------
    lower, upper : array-like of shape (n_bins,)
        Smallest and largest set size of each bin. Bins are 0, 1, ..., 10, 11-20, 21-50, 51-100, ...
    proportion : array-like of shape (n_bins,)
        Share of all samples whose set size is in the bin.
    coverage : array-like of shape (n_bins,)
        Share of the bin's samples whose set contains the label. NaN in bins without samples.
    name : str, default=None
        Name of the bars in the legend. None means no legend entry.
    target : float, default=None
        Target coverage, drawn as a line. None draws no line.

    Attributes
    ----------
    ax_, figure_, bars_, line_, points_, target_line_ : matplotlib artists
        `ax_` are the axes of `figure_`. `bars_` shows `proportion`, `line_` and `points_` show
        `coverage`, and `target_line_` shows `target` (None if not drawn).

    Examples
    --------
    >>> from sktopk.metrics import SetSizeDisplay
    >>> y_true, y_set = ["ash", "oak", "oak"], [[1, 0], [1, 1], [1, 0]]
    >>> display = SetSizeDisplay.from_predictions(y_true, y_set, labels=["ash", "oak"])
    >>> display.upper, display.coverage
    (array([0, 1, 2]), array([nan, 0.5, 1. ]))
    """

    lower: ArrayLike
    upper: ArrayLike
    proportion: ArrayLike
    coverage: ArrayLike
    _: KW_ONLY
    name: str | None = None
    target: float | None = None

    _figure: ClassVar = {"layout": "constrained"}
    _options = ("labels", "sample_weight", "target")
    _label = "labels"
    _name = "Sets"
    _predict = staticmethod(predict_sets)

    @classmethod
    def _defaults(cls, estimator, X, kwargs):
        method = getattr(estimator, "method", None)
        name = type(estimator).__name__ + ("" if method is None else f" ({method})")
        # The methods "topk" and "average_k" have no target coverage.
        has_target = method not in (None, "topk", "average_k")
        target = getattr(estimator, "coverage", None) if has_target else None
        return {"name": name, "target": target}

    @classmethod
    def _curve(cls, y_true, y_set, *, labels, sample_weight=None, target=None):
        covered, _, y_set = covered_rows(y_true, y_set, labels)
        weight = row_weights(sample_weight, len(covered), "y_set")
        if not weight.any():
            raise ValueError("sample_weight must have a positive value; got only zeros")
        size, present = set_sizes(y_set), weight > 0
        steps = (step * 10**power + 1 for power in range(1, 18) for step in (1, 2, 5))
        lower = [*range(11), *steps]
        n_bins = np.searchsorted(lower, size[present].max(), side="right")
        lower, upper = np.array(lower[:n_bins]), np.array(lower[1 : n_bins + 1]) - 1
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
        ylabel = "Share of samples (bars), coverage (line)"
        ax.set(xlabel="Labels in the set", ylabel=ylabel, ylim=(0, 1.02))
        handles = zip(*ax.get_legend_handles_labels(), strict=True)
        handles = sorted(handles, key=lambda entry: entry[1].startswith("Target "))
        if handles:
            ax.legend(*zip(*handles, strict=True), loc="best")


@dataclass(eq=False, repr=False)
class ShotAccuracyDisplay(ScoreDisplay):
    """Bar chart of the top-k accuracy of many-, medium- and few-shot classes.

    Create the display with `from_predictions` or `from_estimator`. Both accept the parameters of
    `shot_accuracy_score`. In `from_estimator`, `class_counts` defaults to the ``class_count_`` of
    the estimator. With ``plot_chance_level=False``, `plot` does not draw `chance`.

    Parameters
    ----------
    accuracy : array-like of shape (3,)
        Macro top-k accuracy of many-, medium- and few-shot classes. NaN draws no bar.
    k : float, default=5
        Number of predicted labels.
    few, many : float, default=20 and 100
        Few-shot classes have fewer than `few` training samples, many-shot classes more than `many`.
    name : str, default=None
        Name of the bars in the legend. None means no legend entry.
    chance : float, default=None
        Accuracy of random guesses, drawn as a line. None draws no line.

    Attributes
    ----------
    ax_, figure_, bars_, chance_level_ : matplotlib artists
        `ax_` are the axes of `figure_`. `bars_` shows `accuracy` (many-shot classes first), and
        `chance_level_` shows `chance` (None if not drawn).

    Examples
    --------
    >>> from sktopk.metrics import ShotAccuracyDisplay
    >>> y_true, y_score = [0, 0, 1, 2], [[3, 2, 1], [1, 2, 3], [2, 3, 1], [3, 2, 1]]
    >>> counts = [500, 50, 5]
    >>> ShotAccuracyDisplay.from_predictions(y_true, y_score, class_counts=counts, k=1).accuracy
    [0.5, 1.0, 0.0]
    """

    accuracy: ArrayLike
    _: KW_ONLY
    k: int | float = 5
    few: float = 20
    many: float = 100
    name: str | None = None
    chance: float | None = None

    _figure: ClassVar = {"layout": "constrained"}
    _options = ("class_counts", "labels", "k", "few", "many", "ties", "sample_weight")
    _label = "labels"

    @classmethod
    def _defaults(cls, estimator, X, kwargs):
        if hasattr(estimator, "class_count_") or "class_counts" in kwargs:
            return {"class_counts": getattr(estimator, "class_count_", None)}
        raise ValueError(
            f"class_counts must be given, because {type(estimator).__name__} has no class_count_: "
            "pass the number of training samples of each class, in the order of classes_"
        )

    @classmethod
    def _curve(cls, y_true, y_score, *, class_counts=None, k=5, few=20, many=100, **options):
        shots = {"k": k, "few": few, "many": many}
        scores = shot_accuracy_score(y_true, y_score, class_counts=class_counts, **shots, **options)
        n_classes = 2 if np.ndim(y_score) == 1 else np.shape(y_score)[1]
        chance = min(1.0, n_kept(k, n_classes) / n_classes)
        return {"accuracy": [scores[group] for group in _GROUPS], "chance": chance, **shots}

    def _plot(self, ax, label, *, plot_chance_level=True, **kwargs):
        self.bars_ = draw_bars(ax, self.accuracy, **{"label": label, "zorder": 2, **kwargs})
        level, shown = [self.chance] * 2, plot_chance_level and self.chance is not None
        self.chance_level_ = draw_reference(ax, [-0.5, 2.5], level, "Chance", shown, zorder=3)
        bounds = f"> {self.many:g}", f"{self.few:g} to {self.many:g}", f"< {self.few:g}"
        bars = [[bar.get_height() for bar in each] for each in ax.containers]
        absent = np.where(np.isnan(bars).all(axis=0), "\nno class tested", "")
        parts = zip(_GROUPS, bounds, absent, strict=True)
        ax.set_xticks(range(3), [f"{group}\n({bound}){note}" for group, bound, note in parts])
        ax.set(xlabel="Classes, by number of training samples", xlim=(-0.5, 2.5), ylim=(0, _TOP))
        ax.set(ylabel=f"Top-{self.k} accuracy, mean over classes", yticks=np.linspace(0, 1, 6))
        ax.grid(axis="y", color="0.9", zorder=0)
        ax.set_axisbelow(True)
        draw_legend(ax, ncols=2)
        if (legend := ax.get_legend()) is not None:
            # Leave space for the legend and 5 pixels. Round up to 0.05, as fonts differ by system.
            room = legend.get_window_extent().padded(5).height / ax.bbox.height
            ax.set_ylim(0, _TOP / (1 - min(np.ceil(20 * room) / 20, 0.5)))
