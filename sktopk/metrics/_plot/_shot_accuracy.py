"""Display of the top-k accuracy of frequent and rare classes."""

from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from sktopk._common._scalars import n_kept
from sktopk.metrics._topk import shot_accuracy_score

from ._base import ScoreDisplay, draw_bars, draw_legend, draw_reference

_GROUPS = ("many", "medium", "few")
# Upper limit of the accuracy axis, in a figure without a legend.
_TOP = 1.02
# Free pixels around the legend.
_PAD = 5


@dataclass(eq=False, repr=False)
class ShotAccuracyDisplay(ScoreDisplay):
    """Bar chart of the top-k accuracy of many-, medium- and few-shot classes.

    Create it with `from_estimator` or `from_predictions`. Both take `class_counts`, `labels`, `k`,
    `few`, `many`, `ties` and `sample_weight` as in `shot_accuracy_score`. In `from_estimator`,
    `class_counts` defaults to the ``class_count_`` of the estimator. `plot` takes
    ``plot_chance_level`` (default True).

    Parameters
    ----------
    accuracy : array-like of shape (3,)
        Macro top-k accuracy of the many-, medium- and few-shot classes. The accuracy of a group
        without classes is NaN, and it has no bar.
    k : int or float, default=5
        Number of labels, or fraction of the classes.
    few, many : float, default=20 and 100
        Bounds of the groups in training samples, as in `shot_accuracy_score`.
    name : str, default=None
        Name of the bars in the legend. None means no legend entry.
    chance : float, default=None
        Top-k accuracy of random guesses, k / n_classes, in [0, 1]. None means no line.

    Attributes
    ----------
    ax_, figure_, bars_, chance_level_ : matplotlib artists
        Axes, figure, bars (many-shot first) and chance line (None if not drawn).

    Examples
    --------
    >>> from sktopk.metrics import ShotAccuracyDisplay
    >>> y_true, y_score = [0, 0, 1, 2], [[3, 2, 1], [1, 2, 3], [2, 3, 1], [3, 2, 1]]
    >>> counts = [500, 50, 5]
    >>> display = ShotAccuracyDisplay.from_predictions(y_true, y_score, class_counts=counts, k=1)
    >>> display.accuracy
    [0.5, 1.0, 0.0]
    """

    accuracy: ArrayLike
    _: KW_ONLY
    k: int | float = 5
    few: float = 20
    many: float = 100
    name: str | None = None
    chance: float | None = None

    # The constrained layout makes room for tick labels of two or three lines.
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
    def _curve(cls, y_true, y_score, *, class_counts, k=5, few=20, many=100, **options):
        shots = {"k": k, "few": few, "many": many}
        scores = shot_accuracy_score(y_true, y_score, class_counts=class_counts, **shots, **options)
        n_classes = len(class_counts)
        chance = min(1.0, n_kept(k, n_classes) / n_classes)
        return {"accuracy": [scores[group] for group in _GROUPS], "chance": chance, **shots}

    def _plot(self, ax, label, *, plot_chance_level=True, **kwargs):
        self.bars_ = draw_bars(ax, self.accuracy, **{"label": label, "zorder": 2, **kwargs})
        chance = None if self.chance is None else [self.chance] * 2
        where = ax, [-0.5, 2.5], chance
        self.chance_level_ = draw_reference(*where, "Chance", plot_chance_level, zorder=3)
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
            # Extend the axis, so that the legend is above all bars. Round up to a multiple of 1/20,
            # so that slightly different fonts give the same figure.
            room = legend.get_window_extent().padded(_PAD).height / ax.bbox.height
            ax.set_ylim(0, _TOP / (1 - min(np.ceil(20 * room) / 20, 0.5)))
