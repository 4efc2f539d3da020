"""What a few budgets bring, drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from sktopk._common._types import Label, RowsLike
from sktopk.metrics._budget_table import budget_table
from sktopk.metrics._ranking import estimated, is_positive
from sktopk.metrics._top_scorer import scores_of_two_classes

from ._style import curve_axes, draw_legend, draw_reference

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_N_POINTS = 40


class BudgetTableDisplay:
    """Curve of the hits that a budget brings, with intervals, and the numbers of a few budgets.

    Make it by `from_estimator` or `from_predictions`; the constructor only holds arrays.

    Parameters
    ----------
    table : dict of str to array-like of shape (n_budgets,)
        What `budget_table` says of the budgets to mark, a frame of ``pandas.DataFrame(table)``.
    curve : dict of str to array-like of shape (n_points,)
        The same of the budgets that the curve goes through.
    chance : float, default=None
        Share of positives among all rows. None: no chance line.
    confidence : float, default=0.95
        Level of the intervals, for the legend.
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
    band_ : matplotlib PolyCollection
        Its intervals.
    points_ : matplotlib Line2D
        The budgets that are marked.
    texts_ : list of matplotlib Text
        What stands beside each of them.
    chance_level_ : matplotlib Line2D or None
        The chance line.

    See Also
    --------
    budget_table : The numbers.
    BudgetCurveDisplay : Precision, recall or money for any number of rows.
    sktopk.BudgetClassifier : Flags the rows within a budget.

    Examples
    --------
    >>> import numpy as np
    >>> from sktopk.metrics import BudgetTableDisplay
    >>> rng = np.random.default_rng(0)
    >>> fraud = rng.random(10_000) < 0.02
    >>> y_score = rng.normal(size=10_000) + 2 * fraud
    >>> display = BudgetTableDisplay.from_predictions(
    ...     fraud, y_score, budgets=[20, 50], n_rows=1000
    ... )
    >>> print(display.texts_[0].get_text())
    7.3 hits (6.2 to 8.9)
    36 % right, 38 % found
    """

    def __init__(
        self,
        table: dict[str, np.ndarray],
        curve: dict[str, np.ndarray],
        *,
        chance: float | None = None,
        confidence: float = 0.95,
        name: str | None = None,
    ) -> None:
        self.table = table
        self.curve = curve
        self.chance = chance
        self.confidence = confidence
        self.name = name

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: RowsLike,
        y: ArrayLike,
        *,
        pos_label: Label | None = None,
        name: str | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the budgets of a fitted classifier of two classes.

        Parameters
        ----------
        estimator : object
            Fitted classifier with ``classes_`` and ``decision_function`` or
            ``predict_proba``.
        X : array-like of shape (n_samples, n_features)
            Rows to rank, which it was not trained on.
        y : array-like of shape (n_samples,)
            True labels.
        pos_label : int, float, bool or str, default=None
            Label of the positives. None: the `pos_label_` of the classifier, as in
            `make_top_scorer`.
        name : str, default=None
            Name of the curve. None: the estimator's class name.
        **kwargs : dict
            As in `from_predictions`.

        Returns
        -------
        display : BudgetTableDisplay
            This display, drawn on `ax_`.
        """
        pos_label, y_score = scores_of_two_classes(estimator, X, pos_label)
        name = type(estimator).__name__ if name is None else name
        return cls.from_predictions(y, y_score, pos_label=pos_label, name=name, **kwargs)

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_score: ArrayLike,
        *,
        budgets: ArrayLike = (50, 100, 200),
        n_rows: int | None = None,
        confidence: float = 0.95,
        n_bootstraps: int = 500,
        pos_label: Label | None = None,
        random_state: int | np.random.RandomState | None = 0,
        propensity: ArrayLike | None = None,
        name: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the budgets of given scores.

        Parameters
        ----------
        y_true, y_score, budgets, n_rows, confidence, n_bootstraps, pos_label, random_state
            As in `budget_table`.
        propensity : array-like of shape (n_samples,), default=None
            Of a log, as in `budget_table`: a probability in (0, 1], or NaN.
        name : str, default=None
            Name of the curve. None: "Classifier".
        ax : matplotlib Axes, default=None
            Axes to draw on. None: a new figure.
        **kwargs : dict
            As in `plot`: `plot_chance_level`, and what matplotlib's ``plot`` takes.

        Returns
        -------
        display : BudgetTableDisplay
            This display, drawn on `ax_`.

        Raises
        ------
        ImportError, TypeError, ValueError
            If matplotlib is missing, or as in `budget_table`.
        """
        options = {"n_rows": n_rows, "confidence": confidence, "n_bootstraps": n_bootstraps}
        options |= {"pos_label": pos_label, "random_state": random_state, "propensity": propensity}
        table = budget_table(y_true, y_score, budgets=budgets, **options)
        if propensity is None:
            positive = is_positive(y_true, pos_label)
        else:
            positive = estimated(y_true, pos_label, propensity).positive
        most = min(1.2 * table["budget"].max(), len(positive) if n_rows is None else n_rows)
        through = np.unique(np.linspace(1, most, _N_POINTS).round().astype(int))
        through = np.union1d(through, table["budget"])
        curve = budget_table(y_true, y_score, budgets=through, **options)
        name = "Classifier" if name is None else name
        chance = float(positive.mean())
        return cls(table, curve, chance=chance, confidence=confidence, name=name).plot(ax, **kwargs)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        name: str | None = None,
        plot_chance_level: bool = True,
        **kwargs: Any,
    ) -> Self:
        """Draw the curve; several may share one axes.

        On empty axes the colour cycle is set to one that is safe for colour-blind readers.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on. None: a new figure.
        name : str, default=None
            Name of the curve. None: the name of the display.
        plot_chance_level : bool, default=True
            Whether to draw what a random order brings; a line that is already there is not
            drawn again.
        **kwargs : dict
            Passed to matplotlib's ``plot`` for the curve.

        Returns
        -------
        display : BudgetTableDisplay
            This object, with `ax_`, `figure_`, `line_`, `band_`, `points_`, `texts_` and
            `chance_level_`.
        """
        ax = curve_axes(self, ax)
        curve, table = self.curve, self.table
        label = self.name if name is None else name
        if label is not None:
            label = f"{label} ({100 * self.confidence:g} % interval)"
        (self.line_,) = ax.plot(
            curve["budget"], curve["hits"], **{"label": label, "markevery": [], **kwargs}
        )
        style = {"color": self.line_.get_color()}
        ends = curve["hits_low"], curve["hits_high"]
        self.band_ = ax.fill_between(curve["budget"], *ends, alpha=0.2, linewidth=0, **style)
        (self.points_,) = ax.plot(
            table["budget"], table["hits"], "o", markevery=1, label="_budgets", **style
        )
        rows = (dict(zip(table, row, strict=True)) for row in zip(*table.values(), strict=True))
        self.texts_ = [_say(ax, **row) for row in rows]
        self.chance_level_ = None
        if plot_chance_level and self.chance is not None:
            hits = self.chance * curve["budget"]
            self.chance_level_ = draw_reference(ax, curve["budget"], hits, "Chance")
        ax.locator_params(axis="x", integer=True, nbins=6)
        ax.set(xlabel="Budget (rows looked at, best first)", ylabel="Hits to expect")
        # Room for the words beside the last point.
        most = max(line.get_xdata()[-1] for line in ax.lines)
        ax.set_xlim(0, 1.3 * most)
        ax.set_ylim(bottom=0)
        draw_legend(ax, "upper left")
        return self


def _say(ax, budget, hits, hits_low, hits_high, precision, recall, **_):
    """Write the numbers of a budget beside its point, below the curve, which rises."""
    digits = 1 if hits < 10 else 0
    mean, low, high = (f"{each:.{digits}f}" for each in (hits, hits_low, hits_high))
    found = f", {100 * recall:.0f} % found" if recall >= 0 else ""
    text = f"{mean} hits ({low} to {high})\n{100 * precision:.0f} % right{found}"
    where = {"xytext": (8, -8), "textcoords": "offset points", "va": "top", "fontsize": "small"}
    return ax.annotate(text, (budget, hits), **where)
