"""Top-k accuracy of frequent and of rare classes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from sktopk._common._scalars import n_kept
from sktopk._common._types import RowsLike
from sktopk.metrics._scorer import predict_scores
from sktopk.metrics._topk import shot_accuracy_score

from ._bars import draw_bars
from ._style import curve_axes, draw_legend, draw_reference

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_GROUPS = ("many", "medium", "few")
# A little above the highest accuracy.
_TOP = 1.02
# Pixels on each side of a legend.
_PAD = 5


class ShotAccuracyDisplay:
    """Bars of the top-k accuracy of many-, medium- and few-shot classes.

    Make it by `from_estimator` or `from_predictions`; the constructor only holds numbers.

    Parameters
    ----------
    accuracy : array-like of shape (3,)
        Macro top-k accuracy of the many-, medium- and few-shot classes; NaN for a group
        without classes, which then has no bar, and says so if no display on the axes has one.
    k : int or float, default=5
        Number, or fraction of the classes, of labels looked at.
    few, many : float, default=20 and 100
        Bounds of the groups, as in `shot_accuracy_score`.
    name : str, default=None
        Name of the bars in the legend. None: no legend entry.
    chance : float, default=None
        Top-k accuracy in [0, 1] of a classifier that guesses, k / n_classes. None: no chance
        line.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes with the bars.
    figure_ : matplotlib Figure
        Figure of the axes.
    bars_ : matplotlib BarContainer
        The bars, many-shot first.
    chance_level_ : matplotlib Line2D or None
        The chance line.

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
        k: int = 5,
        few: int = 20,
        many: int = 100,
        ties: str = "expected",
        sample_weight: ArrayLike | None = None,
        name: str | None = None,
        ax: Axes | None = None,
        plot_chance_level: bool = True,
        **kwargs: Any,
    ) -> Self:
        """Draw the bars of a fitted classifier.

        Parameters
        ----------
        estimator : object
            Fitted classifier with ``classes_`` and ``decision_function`` or
            ``predict_proba``. Classes of `y` that it does not know are few-shot classes with
            accuracy 0.
        X : array-like of shape (n_samples, n_features)
            Rows to classify.
        y : array-like of shape (n_samples,)
            True labels.
        class_counts : array-like of shape (n_classes,), default=None
            Training rows of each class, in the order of ``classes_``. None: the
            ``class_count_`` of the estimator.
        k : int or float, default=5
            Number, or fraction of the classes, of labels looked at.
        few, many : float, default=20 and 100
            A class with fewer than `few` training rows is a few-shot class, one with more
            than `many` a many-shot class.
        ties : {"expected", "optimistic", "pessimistic"}, default="expected"
            What ties count, as in `topk_accuracy_score`.
        sample_weight : array-like of shape (n_samples,), default=None
            Nonnegative weights of the rows inside their class.
        name : str, default=None
            Name of the bars. None: the estimator's class name.
        ax : matplotlib Axes, default=None
            Axes to draw on. None: a new figure.
        plot_chance_level : bool, default=True
            Whether to draw k / n_classes.
        **kwargs : dict
            Passed to matplotlib's ``bar``.

        Returns
        -------
        display : ShotAccuracyDisplay
            With the numbers in `accuracy` and `chance`, drawn on `ax_`.

        Raises
        ------
        ImportError
            If matplotlib is not there, which the extra "plot" installs.
        NotFittedError
            If `estimator` is not fitted.
        TypeError
            If it is no classifier with scores.
        ValueError
            As of `from_predictions`.
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
        shots = {"class_counts": class_counts, "k": k, "few": few, "many": many}
        score = {"labels": classes, "ties": ties, "sample_weight": sample_weight}
        plot = {"ax": ax, "plot_chance_level": plot_chance_level, **kwargs}
        return cls.from_predictions(y, y_score, name=name, **shots, **score, **plot)

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
        plot_chance_level: bool = True,
        **kwargs: Any,
    ) -> Self:
        """Draw the bars of given scores.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
            True labels.
        y_score : array-like of shape (n_samples, n_classes) or (n_samples,)
            Scores, as in `topk_accuracy_score`.
        class_counts : array-like of shape (n_classes,)
            Training rows of each column's class.
        labels : array-like of shape (n_classes,), default=None
            The class of each column, as in `topk_accuracy_score`.
        k : int or float, default=5
            Number, or fraction of the classes, of labels looked at.
        few, many : float, default=20 and 100
            A class with fewer than `few` training rows is a few-shot class, one with more
            than `many` a many-shot class.
        ties : {"expected", "optimistic", "pessimistic"}, default="expected"
            What ties count, as in `topk_accuracy_score`.
        sample_weight : array-like of shape (n_samples,), default=None
            Nonnegative weights of the rows inside their class.
        name : str, default=None
            Name of the bars. None: "Classifier".
        ax : matplotlib Axes, default=None
            Axes to draw on. None: a new figure.
        plot_chance_level : bool, default=True
            Whether to draw k / n_classes.
        **kwargs : dict
            Passed to matplotlib's ``bar``.

        Returns
        -------
        display : ShotAccuracyDisplay
            With the numbers in `accuracy` and `chance`, drawn on `ax_`.

        Raises
        ------
        ImportError
            If matplotlib is not there, which the extra "plot" installs.
        TypeError, ValueError
            If `class_counts` has not a number per class, `y_score` holds NaN, shapes disagree
            or an argument is not allowed.
        """
        shots = {"k": k, "few": few, "many": many}
        options = {"labels": labels, "ties": ties, "sample_weight": sample_weight}
        scores = shot_accuracy_score(y_true, y_score, class_counts=class_counts, **shots, **options)
        accuracy = [scores[group] for group in _GROUPS]
        name = "Classifier" if name is None else name
        n_classes = len(class_counts)
        chance = min(1.0, n_kept(k, n_classes) / n_classes)
        display = cls(accuracy, **shots, name=name, chance=chance)
        return display.plot(ax, plot_chance_level=plot_chance_level, **kwargs)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        name: str | None = None,
        plot_chance_level: bool = True,
        **kwargs: Any,
    ) -> Self:
        """Draw the bars; those of several displays on one axes stand side by side.

        On empty axes the colour cycle is set to one that is safe for colour-blind readers.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on. None: a new figure.
        name : str, default=None
            Name of the bars. None: the name of the display.
        plot_chance_level : bool, default=True
            Whether to draw the chance line; a line that is already there is
            not drawn again.
        **kwargs : dict
            Passed to matplotlib's ``bar``.

        Returns
        -------
        display : ShotAccuracyDisplay
            This object, with `ax_`, `figure_`, `bars_` and `chance_level_`.
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
            xlabel="Classes, by their training rows",
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
