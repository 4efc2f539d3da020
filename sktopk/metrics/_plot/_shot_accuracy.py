"""Top-k accuracy of frequent and of rare classes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from sktopk._common._scalars import n_kept
from sktopk._common._types import RowsLike
from sktopk.metrics._scorer import predict_scores
from sktopk.metrics._topk import shot_accuracy_score

from ._base import curve_axes, draw_bars, draw_legend, draw_reference

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_GROUPS = ("many", "medium", "few")
# A little above the highest accuracy.
_TOP = 1.02
# Pixels on each side of a legend.
_PAD = 5


class ShotAccuracyDisplay:
    """Bars of the top-k accuracy of many-, medium- and few-shot classes.

    Make it with `from_estimator` or `from_predictions`; the constructor only stores numbers.

    Parameters
    ----------
    accuracy : array-like of shape (3,)
        Macro top-k accuracy of the many-, medium- and few-shot classes. A group without classes
        is NaN and has no bar.
    k : int or float, default=5
        Number of labels, or fraction of the classes.
    few, many : float, default=20 and 100
        Bounds of the groups, as in `shot_accuracy_score`.
    name : str, default=None
        Name of the bars in the legend. None: no legend entry.
    chance : float, default=None
        Top-k accuracy of random guesses, k / n_classes. None: no chance line.

    Attributes
    ----------
    ax_, figure_ : matplotlib Axes and Figure
        Where the display is drawn.
    bars_, chance_level_ : matplotlib artists
        The bars, many-shot first, and the chance line.

    See Also
    --------
    shot_accuracy_score : The heights of the bars.

    Examples
    --------
    >>> from sktopk.metrics import ShotAccuracyDisplay
    >>> y_true = [0, 0, 1, 2]
    >>> y_score = [[3, 2, 1], [1, 2, 3], [2, 3, 1], [3, 2, 1]]
    >>> display = ShotAccuracyDisplay.from_predictions(
    ...     y_true, y_score, class_counts=[500, 50, 5], k=1
    ... )
    >>> display.accuracy
    [0.5, 1.0, 0.0]
    """

    def __init__(
        self,
        accuracy: dict[str, float],
        *,
        k: int = 5,
        few: int = 20,
        many: int = 100,
        name: str | None = None,
        chance: dict[str, float] | None = None,
    ) -> None:
        self.accuracy = accuracy
        self.k = k
        self.few = few
        self.many = many
        self.name = name
        self.chance = chance

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: RowsLike,
        y: ArrayLike,
        *,
        class_counts: ArrayLike | None = None,
        name: str | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the bars of a fitted classifier.

        Parameters
        ----------
        estimator : object
            Fitted classifier with ``classes_`` and ``decision_function`` or ``predict_proba``.
        X : array-like of shape (n_samples, n_features)
            Samples to classify.
        y : array-like of shape (n_samples,)
            True labels. Unknown ones are few-shot classes with accuracy 0.
        class_counts : array-like of shape (n_classes,), default=None
            Number of training samples of each class, in the order of ``classes_``. None: the
            ``class_count_`` of the estimator.
        name : str, default=None
            Name of the bars. None: the class name of the estimator.
        **kwargs : dict
            As in `from_predictions`.

        Returns
        -------
        display : ShotAccuracyDisplay
            This display, drawn on `ax_`.

        Raises
        ------
        ImportError, TypeError, ValueError
            If `estimator` is no fitted classifier with scores, or as in `from_predictions`.
        """
        if class_counts is None:
            class_counts = getattr(estimator, "class_count_", None)
        if class_counts is None:
            raise ValueError(
                "class_counts must be given, the training rows of each class in the order of "
                f"classes_: {type(estimator).__name__} has no class_count_"
            )
        classes, y_score = predict_scores(estimator, X)
        name = type(estimator).__name__ if name is None else name
        return cls.from_predictions(
            y, y_score, class_counts=class_counts, labels=classes, name=name, **kwargs
        )

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_score: ArrayLike,
        *,
        class_counts: ArrayLike,
        labels: ArrayLike | None = None,
        k: int = 5,
        few: int = 20,
        many: int = 100,
        ties: str = "expected",
        sample_weight: ArrayLike | None = None,
        name: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the bars of given scores.

        Parameters
        ----------
        y_true, y_score, class_counts, labels, k, few, many, ties, sample_weight
            As in `shot_accuracy_score`.
        name : str, default=None
            Name of the bars. None: "Classifier".
        ax : matplotlib Axes, default=None
            Axes to draw on. None: a new figure.
        **kwargs : dict
            As in `plot`.

        Returns
        -------
        display : ShotAccuracyDisplay
            This display, drawn on `ax_`.

        Raises
        ------
        ImportError
            If matplotlib is not installed; the extra "plot" installs it.
        TypeError, ValueError
            As in `shot_accuracy_score`.
        """
        shots = {"k": k, "few": few, "many": many}
        options = {"labels": labels, "ties": ties, "sample_weight": sample_weight}
        scores = shot_accuracy_score(y_true, y_score, class_counts=class_counts, **shots, **options)
        accuracy = [scores[group] for group in _GROUPS]
        name = "Classifier" if name is None else name
        n_classes = len(class_counts)
        chance = min(1.0, n_kept(k, n_classes) / n_classes)
        return cls(accuracy, **shots, name=name, chance=chance).plot(ax, **kwargs)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        name: str | None = None,
        plot_chance_level: bool = True,
        **kwargs: Any,
    ) -> Self:
        """Draw the bars; displays that share one axes stand side by side.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on. None: a new figure.
        name : str, default=None
            Name of the bars. None: the name of the display.
        plot_chance_level : bool, default=True
            Whether to draw the chance line. A line that is already there is not drawn again.
        **kwargs : dict
            Passed to matplotlib's ``bar``.

        Returns
        -------
        display : ShotAccuracyDisplay
            This object, drawn.
        """
        # The layout makes room for names of two lines.
        ax = curve_axes(self, ax, layout="constrained")
        label = self.name if name is None else name
        self.bars_ = draw_bars(ax, self.accuracy, **{"label": label, "zorder": 2, **kwargs})
        self.chance_level_ = None
        if plot_chance_level and self.chance is not None:
            self.chance_level_ = draw_reference(
                ax, [-0.5, 2.5], [self.chance] * 2, "Chance", zorder=3
            )
        bounds = f"> {self.many:g}", f"{self.few:g} to {self.many:g}", f"< {self.few:g}"
        bars = [[bar.get_height() for bar in each] for each in ax.containers]
        absent = np.where(np.isnan(bars).all(axis=0), "\nno class tested", "")
        names = [
            f"{group}\n({bound}){note}"
            for group, bound, note in zip(_GROUPS, bounds, absent, strict=True)
        ]
        ax.set_xticks(range(len(names)), names)
        ax.set(
            xlabel="Classes, by number of training samples",
            ylabel=f"Top-{self.k} accuracy, mean over classes",
            xlim=(-0.5, 2.5),
            ylim=(0, _TOP),
            yticks=np.linspace(0, 1, 6),
        )
        ax.grid(axis="y", color="0.9", zorder=0)
        ax.set_axisbelow(True)
        draw_legend(ax, ncols=2)
        if (legend := ax.get_legend()) is not None:
            # Bars leave no other room than that above the highest one there may be. It comes in
            # twentieths of the axes, so that another font draws the same bars.
            room = legend.get_window_extent().padded(_PAD).height / ax.bbox.height
            ax.set_ylim(0, _TOP / (1 - min(np.ceil(20 * room) / 20, 0.5)))
        return self
