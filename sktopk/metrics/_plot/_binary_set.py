"""Which of the four sets of two classes rows get, by their true class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from sktopk._common._types import RowsLike
from sktopk.metrics._ranking import row_weights
from sktopk.metrics._sets import coverage_asked, covered_rows, predict_sets

from ._style import curve_axes, draw_level

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class BinarySetDisplay:
    """Stacked bars of the sets that rows of two classes get: one label, both or none.

    One bar per true class. The sets that hold the true label are at the bottom, so that a bar
    reaches its coverage there: the label alone, which is an answer, then both. Above them are
    the rows without a label, and at the top the wrong answers.

    Make it by `from_estimator` or `from_predictions`; the constructor only holds arrays.

    Parameters
    ----------
    share : array-like of shape (2, 4)
        Of the rows of each true class the share whose set is the first label, the second,
        both, and none; NaN for a class without rows.
    labels : array-like of shape (2,)
        The classes.
    target : float, default=None
        Coverage that was asked for. None: no line.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes with the bars.
    figure_ : matplotlib Figure
        Figure of the axes.
    bars_ : list of 4 matplotlib BarContainer
        The parts of the bars, in the order of the columns of `share`.
    target_line_ : matplotlib Line2D or None
        The target.

    See Also
    --------
    sktopk.SetClassifier : With ``conditional="class"`` each class has the coverage asked for.
    SetSizeDisplay : Sizes of sets of any number of classes.

    Examples
    --------
    >>> from sktopk.metrics import BinarySetDisplay
    >>> y_true = ["active", "active", "inactive", "inactive"]
    >>> y_set = [[1, 0], [1, 1], [0, 1], [0, 0]]
    >>> display = BinarySetDisplay.from_predictions(y_true, y_set, labels=["active", "inactive"])
    >>> display.share
    array([[0.5, 0. , 0.5, 0. ],
           [0. , 0.5, 0. , 0.5]])
    """

    def __init__(self, share: ArrayLike, labels: ArrayLike, *, target: float | None = None) -> None:
        self.share = share
        self.labels = labels
        self.target = target

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: RowsLike,
        y: ArrayLike,
        *,
        groups: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        target: float | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the sets of a fitted classifier of two classes.

        Parameters
        ----------
        estimator : object
            Fitted `SetClassifier`, or another estimator with ``predict_set`` and ``classes_``.
        X : array-like of shape (n_samples, n_features)
            Rows to classify.
        y : array-like of shape (n_samples,)
            True labels, of the two classes.
        groups : array-like of shape (n_samples,), default=None
            Groups of the rows, for ``conditional="group"``.
        sample_weight : array-like of shape (n_samples,), default=None
            Nonnegative weights of the rows.
        target : float, default=None
            Coverage that was asked for. None: ``estimator.coverage``, if its method has any.
        ax : matplotlib Axes, default=None
            Axes to draw on. None: a new figure.
        **kwargs : dict
            Passed to matplotlib's ``bar``.

        Returns
        -------
        display : BinarySetDisplay
            With the array `share`, drawn on `ax_`.

        Raises
        ------
        ImportError
            If matplotlib is not there, which the extra "plot" installs.
        TypeError
            If `estimator` has no ``predict_set``.
        ValueError
            As of `from_predictions`.
        """
        classes, y_set = predict_sets(estimator, X, groups)
        target = coverage_asked(estimator) if target is None else target
        options = {"sample_weight": sample_weight, "target": target, "ax": ax}
        return cls.from_predictions(y, y_set, labels=classes, **options, **kwargs)

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_set: Any,
        *,
        labels: ArrayLike,
        sample_weight: ArrayLike | None = None,
        target: float | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw given sets.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
            True labels, each one of `labels`.
        y_set : {array-like, sparse matrix} of shape (n_samples, 2)
            Sets, as in `set_coverage_score`.
        labels : array-like of shape (2,)
            The class of each column.
        sample_weight : array-like of shape (n_samples,), default=None
            Nonnegative weights of the rows.
        target : float, default=None
            Coverage that was asked for, a share of the rows.
        ax : matplotlib Axes, default=None
            Axes to draw on. None: a new figure.
        **kwargs : dict
            Passed to matplotlib's ``bar``.

        Returns
        -------
        display : BinarySetDisplay
            With the array `share`, drawn on `ax_`.

        Raises
        ------
        ImportError
            If matplotlib is not there, which the extra "plot" installs.
        TypeError, ValueError
            If there are not two classes, if a label is none of them, shapes disagree or an
            argument is not allowed.
        """
        _, code, y_set = covered_rows(y_true, y_set, labels)
        if y_set.shape[1] != 2:
            raise ValueError(
                f"y_set must have a column for each of 2 classes; got {y_set.shape[1]}. "
                "SetSizeDisplay draws sets of any number"
            )
        if (code > 1).any():
            raise ValueError(
                f"y_true must hold labels among {list(labels)}; "
                f"got {np.asarray(y_true)[code > 1][0]!r}"
            )
        weight = row_weights(sample_weight, len(code), "y_set")
        inside = (y_set.toarray() if hasattr(y_set, "toarray") else y_set) != 0
        kind = np.where(inside.all(axis=1), 2, np.where(inside.any(axis=1), inside[:, 1], 3))
        total = np.bincount(4 * code + kind, weights=weight, minlength=8).reshape(2, 4)
        with np.errstate(invalid="ignore"):
            share = total / total.sum(axis=1, keepdims=True)
        return cls(share, labels, target=target).plot(ax, **kwargs)

    def plot(self, ax: Axes | None = None, **kwargs: Any) -> Self:
        """Draw the bars.

        On empty axes the colour cycle is set to one that is safe for colour-blind readers.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on, of their own. None: a new figure.
        **kwargs : dict
            Passed to matplotlib's ``bar``.

        Returns
        -------
        display : BinarySetDisplay
            This object, with `ax_`, `figure_`, `bars_` and `target_line_`.
        """
        # The layout makes room for the legend beside the bars.
        ax = curve_axes(self, ax, layout="constrained")
        share, labels = np.asarray(self.share, dtype=float), [str(each) for each in self.labels]
        names = [f"{{{labels[0]}}}", f"{{{labels[1]}}}", "both", "none"]
        bottom = np.empty_like(share)
        for own in range(2):
            order = [own, 2, 3, 1 - own]
            bottom[own, order] = np.append(0.0, np.cumsum(share[own, order])[:-1])
        # The first two have the colours of the cycle.
        colors = [{}, {}, {"color": "0.75"}, {"color": "white"}]
        self.bars_ = [
            ax.bar(
                [0, 1],
                share[:, i],
                bottom=bottom[:, i],
                **{"label": names[i], "edgecolor": "0.3", "width": 0.6} | colors[i] | kwargs,
            )
            for i in range(4)
        ]
        covered = share[[0, 1], [0, 1]] + share[:, 2]
        known = ["no row" if np.isnan(each) else f"{each:.1%} covered" for each in covered]
        ax.set_xticks(
            [0, 1], [f"{label}\n{text}" for label, text in zip(labels, known, strict=True)]
        )
        self.target_line_ = None
        if self.target is not None:
            self.target_line_ = draw_level(ax, ax.axhline, self.target, f"Target {self.target:g}")
            self.target_line_.set_zorder(3)
        ax.set(xlabel="True class", ylabel="Share of its rows, by set", ylim=(0, 1))
        handles = [*self.bars_, *([] if self.target is None else [self.target_line_])]
        options = {"loc": "center left", "bbox_to_anchor": (1.0, 0.5), "fontsize": "small"}
        ax.legend(handles=handles, title="Set", **options)
        return self
