"""What the curves over the number of rows looked at have in common."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from sktopk._common._groups import encode_groups
from sktopk._common._scalars import check_nonnegative, check_option
from sktopk._common._types import Label, RowsLike
from sktopk.metrics._ranking import check_score, is_positive, undefined
from sktopk.metrics._top_curves import precision_quantile_curve
from sktopk.metrics._top_scorer import scores_of_two_classes

from ._bands import band, draw_band
from ._folds import draw_curves, folds_name, split_folds
from ._style import curve_axes, draw_legend, draw_reference

if TYPE_CHECKING:
    from matplotlib.axes import Axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class RankingCurveDisplay:
    """Curve of rows in the order of their score, with lines for chance and for the ideal.

    A subclass names its two arrays, the first one the share of rows looked at, and says how
    the second, `prevalence`, chance and ideal belong together.
    """

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
        """Draw the curve of a fitted classifier of two classes.

        Parameters
        ----------
        estimator : object
            Fitted classifier with ``classes_`` and ``decision_function`` or
            ``predict_proba``.
        X : array-like of shape (n_samples, n_features)
            Rows to rank.
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
        display : object
            This display, drawn on `ax_`.

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
        pos_label, y_score = scores_of_two_classes(estimator, X, pos_label)
        name = type(estimator).__name__ if name is None else name
        return cls.from_predictions(y, y_score, pos_label=pos_label, name=name, **kwargs)

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_score: ArrayLike,
        *,
        pos_label: Label | None = None,
        ties: str = "expected",
        sample_weight: ArrayLike | None = None,
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
        pos_label : int, float, bool or str, default=None
            Label of the positives, as in `precision_at_k_score`.
        ties : {"expected", "optimistic", "pessimistic"}, default="expected"
            Order of tied rows, as in `precision_quantile_curve`.
        sample_weight : array-like of shape (n_samples,), default=None
            Nonnegative weights of the rows.
        groups : array-like of shape (n_samples,), default=None
            Name of the group of each row, such as its day. The same share of the rows of each is
            then looked at, a row in part where there is no whole one; curve, chance and ideal
            are means over the groups with positives, which count the same.
        share_of_groups : float, default=0.8
            The share of the groups that the band has at each point, in (0, 1): .8 is from their
            quantile .1 to .9.
        name : str, default=None
            Name of the curve. None: "Classifier".
        ax : matplotlib Axes, default=None
            Axes to draw on. None: a new figure.
        **kwargs : dict
            As in `plot`: `xscale`, `plot_chance_level`, `plot_ideal`, and what
            matplotlib's ``plot`` takes.

        Returns
        -------
        display : object
            This display, drawn on `ax_`.

        Raises
        ------
        ImportError
            If matplotlib is not there, which the extra "plot" installs.
        TypeError, ValueError
            If `y_true` does not hold two labels, `y_score` holds NaN, shapes disagree or an
            argument is not allowed.
        """
        options = {"pos_label": pos_label, "ties": ties, "sample_weight": sample_weight}
        shown = {"name": "Classifier" if name is None else name}
        if groups is None:
            x, y, prevalence = cls._curve(y_true, y_score, **options)
        else:
            x, curves, prevalence = cls._curves_of_groups(y_true, y_score, groups, **options)
            y = curves.mean(0)
            shown["low"], shown["high"] = band(curves, share_of_groups)
        return cls(x, y, prevalence=prevalence, **shown).plot(ax, **kwargs)

    @classmethod
    def from_cv_results(
        cls,
        cv_results: dict[str, Any],
        X: RowsLike,
        y: ArrayLike,
        *,
        pos_label: Label | None = None,
        ties: str = "expected",
        sample_weight: ArrayLike | None = None,
        name: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the curve of each test fold of a cross-validation.

        Parameters
        ----------
        cv_results : dict
            What scikit-learn's ``cross_validate`` returns with
            ``return_estimator=True, return_indices=True``.
        X : array-like of shape (n_samples, n_features)
            The rows that were cross-validated.
        y : array-like of shape (n_samples,)
            Their labels.
        pos_label : int, float, bool or str, default=None
            Label of the positives. None: the `pos_label_` of the classifiers, as in
            `make_top_scorer`.
        ties : {"expected", "optimistic", "pessimistic"}, default="expected"
            Order of tied rows, as in `precision_quantile_curve`.
        sample_weight : array-like of shape (n_samples,), default=None
            Nonnegative weights of the rows.
        name : str, default=None
            Name of the curves. None: the estimators' class name.
        ax : matplotlib Axes, default=None
            Axes to draw on. None: a new figure.
        **kwargs : dict
            As in `from_predictions`.

        Returns
        -------
        display : object
            This display, drawn on `ax_`: its arrays and `line_` are lists with an
            element per fold, `prevalence` is the mean over the folds.

        Raises
        ------
        ImportError
            If matplotlib is not there, which the extra "plot" installs.
        ValueError
            If `cv_results` has no estimators or no indices, and as of `from_predictions`.
        """
        curves = []
        for estimator, X_test, y_test, weight in split_folds(cv_results, X, y, sample_weight):
            label, y_score = scores_of_two_classes(estimator, X_test, pos_label)
            options = {"pos_label": label, "ties": ties, "sample_weight": weight}
            curves.append(cls._curve(y_test, y_score, **options))
        x, y, prevalence = (list(each) for each in zip(*curves, strict=True))
        name = folds_name(cv_results, name)
        return cls(x, y, prevalence=float(np.mean(prevalence)), name=name).plot(ax, **kwargs)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        name: str | None = None,
        xscale: str | None = None,
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
        xscale : {"linear", "log"}, default=None
            Scale of the share of rows looked at. None: that of the display.
        plot_chance_level : bool, default=True
            Whether to draw what a random order gives, if `prevalence` is known.
        plot_ideal : bool, default=True
            Whether to draw what a perfect order gives, if `prevalence` is known.
            A line that is already there is not drawn again.
        **kwargs : dict
            Passed to matplotlib's ``plot`` for the curve.

        Returns
        -------
        display : object
            This object, with `ax_`, `figure_`, `line_`, `chance_level_`, `ideal_` and `band_`.
        """
        xscale = self._xscale if xscale is None else xscale
        check_option(xscale, "xscale", ("linear", "log"))
        ax = curve_axes(self, ax, markevery=0.12)
        x, y = (getattr(self, each) for each in self._arrays)
        style = {"label": self.name if name is None else name, **kwargs}
        self.line_ = draw_curves(ax, x, y, style)
        self.band_ = draw_band(ax, self.line_, x, self.low, self.high)
        x = np.concatenate(x) if np.ndim(x[0]) else np.asarray(x)
        self._draw_references(ax, x, plot_chance_level, plot_ideal)
        # The share 0 has no place on a logarithmic axis.
        ax.set_xscale(xscale, **({"nonpositive": "mask"} if xscale == "log" else {}))
        ax.xaxis.set_major_formatter(lambda share, _: f"{100 * share:.6g}%")
        ax.xaxis.set_minor_formatter("")
        if xscale == "log":
            low, high = ax.get_xlim()
            # Powers of ten alone would leave a single number on a short axis.
            ax.xaxis.get_major_locator().set_params(subs=(1, 2, 5) if high < 30 * low else (1,))
        ax.set(xlabel="Rows looked at, best first", ylabel=self._ylabel, ylim=(-0.02, 1.04))
        draw_legend(ax, self._legend_loc[xscale])
        return self

    def _draw_references(self, ax, x, plot_chance_level, plot_ideal):
        self.chance_level_ = self.ideal_ = None
        each = [] if self.prevalence is None else np.atleast_1d(self.prevalence)
        if not len(each) or not np.all(each > 0):
            return
        grid = np.geomspace(x[x > 0].min(), 1.0, 200)
        if len(each) == 1:
            grid = np.union1d(grid, each)  # where the ideal has its corner
        chance, ideal = np.mean([self._references(grid, share) for share in each], axis=0)
        if plot_chance_level:
            self.chance_level_ = draw_reference(ax, grid, chance, "Chance")
        if plot_ideal:
            self.ideal_ = draw_reference(ax, grid, ideal, "Ideal")

    @classmethod
    def _curve(cls, y_true, y_score, **kwargs):
        """Return the two arrays and the prevalence."""
        precision, quantile = precision_quantile_curve(y_true, y_score, **kwargs)
        prevalence = float(precision[-1])  # of all rows
        return quantile, precision, prevalence

    @classmethod
    def _curves_of_groups(cls, y_true, y_score, groups, pos_label, ties, sample_weight):
        """Return a grid, the curves of the groups with positives on it, and their prevalences."""
        positive = is_positive(y_true, pos_label)
        n_rows = len(positive)
        y_score = check_score(y_score, n_rows)
        weight = np.ones(n_rows)
        if sample_weight is not None:
            weight = check_nonnegative(sample_weight, "sample_weight", n_rows, "one per row")
        codes = encode_groups(groups, n_rows)
        grid = np.linspace(0, 1, np.bincount(codes).max() + 1)
        curves, prevalences = [], []
        for code in np.unique(codes[positive & (weight > 0)]):
            own = codes == code
            x, y, prevalence = cls._curve(
                positive[own], y_score[own], ties=ties, sample_weight=weight[own]
            )
            curves.append(cls._between(grid, x, y))
            prevalences.append(prevalence)
        if not curves:
            undefined(cls.__name__, "no positives")
            return grid, np.full((1, len(grid)), np.nan), None
        return grid, np.stack(curves), np.array(prevalences)

    @classmethod
    def _between(cls, grid, x, y):
        """The curve at the shares of a grid, where a part of a row may be looked at."""
        found = np.interp(grid, x, x * y)
        return np.divide(found, grid, where=grid > 0, out=np.full(len(grid), y[0]))
