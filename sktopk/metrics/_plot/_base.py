"""What the displays share; the only module that imports matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from sktopk._common._scalars import check_nonnegative, on_host
from sktopk._common._types import RowsLike
from sktopk.metrics._top_scorer import scores_of_two_classes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's colours without the yellow, which is too light on white.
_COLORS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00"]
# One more than colours: curves repeat after 42, not after 6.
_MARKERS = ["o", "s", "^", "D", "v", "P", "X"]
# One more than colours, too, for curves of so many points that markers would touch.
_DASHES = [(8, 2), (5, 1, 1, 1), (2, 1), (8, 1, 1, 1, 1, 1), (4, 2), (1, 1)]
_LINE_STYLES = ["-", *((0, dashes) for dashes in _DASHES)]
_MOST_MARKED_POINTS = 100
# Looking for the best place of a legend among more takes seconds.
_MAX_POINTS_FOR_BEST = 300_000
_REFERENCE_STYLES = {"Chance": "--", "Ideal": ":"}
_GROUP_WIDTH = 0.8


class Display:
    """Base of all displays: a subclass draws itself on axes in `_plot`."""

    # Options of a new figure, and which points of a curve have a marker.
    _figure: ClassVar = {}
    _markevery = 1

    def plot(self, ax: Axes | None = None, *, name: str | None = None, **kwargs: Any) -> Self:
        """Draw the display; several of them may share one axes.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on. None: a new figure. Empty axes get colours and markers that
            colour-blind readers can tell apart.
        name : str, default=None
            Name in the legend. None: the name of the display.
        **kwargs : dict
            Options that the class describes, and those of matplotlib's ``plot``, ``bar`` or
            ``errorbar``. Reference lines that are already there are not drawn again.

        Returns
        -------
        display : object
            This display, drawn on `ax_`.
        """
        plt = import_pyplot(f"{type(self).__name__}.plot")
        if ax is None:
            _, ax = plt.subplots(**self._figure)
        self.ax_, self.figure_ = ax, ax.figure
        if not ax.has_data():
            cycle = {"color": _COLORS * len(_MARKERS), "marker": _MARKERS * len(_COLORS)}
            ax.set_prop_cycle(**cycle, markevery=[self._markevery] * len(cycle["color"]))
        self._plot(ax, self.name if name is None else name, **kwargs)
        return self


class ScoreDisplay(Display):
    """Base of displays that are made of labels and scores.

    A subclass defines the class method `_curve`, which returns the arguments of the constructor
    from labels, scores and the parameters that `_options` names.
    """

    _options = ()
    # The parameter of `_curve` that names classes, and is known from an estimator.
    _label = "pos_label"
    _name = "Classifier"

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: RowsLike, y: ArrayLike, *, name: str | None = None, **kwargs: Any
    ) -> Self:
        """Draw the display of a fitted classifier.

        Parameters
        ----------
        estimator : object
            Fitted classifier with ``classes_`` and ``decision_function`` or ``predict_proba``.
        X : array-like of shape (n_samples, n_features)
            Samples to predict.
        y : array-like of shape (n_samples,)
            True labels.
        name : str, default=None
            Name in the legend. None: the class name of the estimator.
        **kwargs : dict
            As in `from_predictions`. A `pos_label` of None is the `pos_label_` of the classifier.

        Returns
        -------
        display : object
            This display, drawn on `ax_`.

        Raises
        ------
        ImportError, TypeError, ValueError
            If `estimator` is no fitted classifier with scores, or as in `from_predictions`.
        """
        kwargs = {"name": type(estimator).__name__} | cls._defaults(estimator, X, kwargs) | kwargs
        if name is not None:
            kwargs["name"] = name
        label, y_score = cls._scores(estimator, X, kwargs.pop(cls._label, None))
        return cls.from_predictions(y, y_score, **{cls._label: label}, **kwargs)

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_score: ArrayLike,
        *,
        name: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the display of given scores.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
            True labels.
        y_score : array-like of shape (n_samples,) or (n_samples, n_classes)
            Real scores; a larger score means that the class is more likely. For a display of
            sets, the sets.
        name : str, default=None
            Name in the legend. None: "Classifier" or "Sets".
        ax : matplotlib Axes, default=None
            Axes to draw on. None: a new figure.
        **kwargs : dict
            Options of the curve, which the class describes, and of `plot`.

        Returns
        -------
        display : object
            This display, drawn on `ax_`.

        Raises
        ------
        ImportError
            If matplotlib is not installed; the extra "plot" installs it.
        TypeError, ValueError
            If labels and scores do not fit together, or an argument is not allowed.
        """
        options = cls._split(kwargs)
        arguments = {"name": cls._name if name is None else name}
        return cls._draw(arguments | cls._curve(y_true, y_score, **options), ax, options, **kwargs)

    @classmethod
    def _split(cls, kwargs):
        """Take the options of the curve out of `kwargs`, and return them."""
        return {each: kwargs.pop(each) for each in cls._options if each in kwargs}

    @classmethod
    def _defaults(cls, estimator, X, kwargs):
        """Return arguments of `from_predictions` that follow from the estimator."""
        return {}

    @classmethod
    def _draw(cls, arguments, ax, options, **kwargs):
        """Draw a new display; `options` are those that its curve was made with."""
        return cls(**arguments).plot(ax, **kwargs)

    @classmethod
    def _scores(cls, estimator, X, label):
        """Return the label, which may be None, and the scores of an estimator."""
        return scores_of_two_classes(estimator, X, label)


class CurveDisplay(ScoreDisplay):
    """Base of displays with one curve per classifier, or one per test fold.

    The class method `_join` returns the arguments for all folds from a list of those of each.
    """

    @classmethod
    def from_cv_results(
        cls,
        cv_results: dict[str, Any],
        X: RowsLike,
        y: ArrayLike,
        *,
        name: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the curve of each test fold of a cross-validation.

        Parameters
        ----------
        cv_results : dict
            Result of scikit-learn's ``cross_validate`` with ``return_estimator=True`` and
            ``return_indices=True``.
        X, y : array-like of shape (n_samples, n_features) and (n_samples,)
            The samples that were cross-validated, and their labels.
        name, ax
            As in `from_estimator` and `from_predictions`.
        **kwargs : dict
            As in `from_estimator`, without `groups`. Arrays have one value per sample of X.

        Returns
        -------
        display : object
            This display, drawn on `ax_`. Its curves and `line_` are lists with one element per
            fold. Reference lines are means over the folds.

        Raises
        ------
        ImportError, TypeError, ValueError
            If `cv_results` has no estimators or no indices, or as in `from_predictions`.
        """
        if not {"estimator", "indices"} <= set(cv_results):
            raise ValueError(
                "cv_results must come from cross_validate with return_estimator=True and "
                f"return_indices=True; got the keys {sorted(cv_results)}"
            )
        options = cls._split(kwargs)
        label = options.pop(cls._label, None)
        arrays = {
            each: check_nonnegative(options.pop(each), each, len(y), "one per row of X")
            for each in ("sample_weight", "value")
            if options.get(each) is not None
        }
        X, y = on_host(X, "X"), np.asarray(on_host(y, "y"))
        rows = np.asarray(X) if isinstance(X, list) else getattr(X, "iloc", X)
        folds, estimators = [], cv_results["estimator"]
        for estimator, test in zip(estimators, cv_results["indices"]["test"], strict=True):
            own, y_score = cls._scores(estimator, rows[test], label)
            parts = {each: values[test] for each, values in arrays.items()}
            folds.append(cls._curve(y[test], y_score, **{cls._label: own}, **options, **parts))
        name = type(estimators[0]).__name__ if name is None else name
        name = f"{name} ({len(estimators)} folds)"
        return cls._draw({"name": name} | cls._join(folds), ax, options, **kwargs)


def import_pyplot(caller):
    """Return `matplotlib.pyplot`, or say which extra `caller` needs."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(f'{caller} needs matplotlib: pip install "sktopk[plot]"') from error
    return plt


def draw_curves(ax, x, y, kwargs, **single):
    """Draw a curve, `single` unless `kwargs` say otherwise, or those of folds; return the lines.

    The curves of folds are thin and of one colour; the first has the label. A curve of hundreds
    of points has its own line style instead of markers.
    """
    if not np.ndim(x[0]):
        if len(x) > _MOST_MARKED_POINTS:
            curves = [line for line in ax.lines if line.get_color() in _COLORS]
            n_curves = sum(line.get_linestyle() != "None" for line in curves)
            style = _LINE_STYLES[n_curves % len(_LINE_STYLES)]
            single = {"marker": "", "markevery": 1, "linestyle": style, **single}
        return ax.plot(x, y, **{**single, **kwargs})[0]
    lines = []
    style = {"linewidth": 1.0, "marker": "", "markevery": 1, "alpha": 0.7, **kwargs}
    for each_x, each_y in zip(x, y, strict=True):
        lines += ax.plot(each_x, each_y, **style)
        style = {**style, "color": lines[0].get_color(), "label": None}
    return lines


def draw_bars(ax, height, **kwargs):
    """Draw bars at 0, 1, 2, ... beside those that are there; return the new ones."""
    bars = ax.bar(np.arange(len(height)), height, **kwargs)
    series = [each for each in ax.containers if hasattr(each, "patches")]
    width = _GROUP_WIDTH / len(series)
    for i, each in enumerate(series):
        for position, bar in enumerate(each.patches):
            bar.set(x=position - _GROUP_WIDTH / 2 + i * width, width=width)
    return bars


def draw_reference(ax, x, y, label, *, zorder=1.9):
    """Return the grey line called `label`, "Chance" or "Ideal", drawn unless it is there."""
    points = np.c_[x, y]
    for line in ax.lines:
        known = line.get_xydata()
        if line.get_label() == label and known.shape == points.shape and np.allclose(known, points):
            return line
    style = {"linestyle": _REFERENCE_STYLES[label], "zorder": zorder}
    # All that the cycle sets, or the next curve would skip a colour.
    style |= {"color": "0.45", "marker": "", "markevery": 1}
    return ax.plot(x, y, label=label, **style)[0]


def draw_level(ax, draw, level, label):
    """Return the grey line called `label`, by `ax.axhline` or `ax.axvline` unless it is there."""
    for line in ax.lines:
        if line.get_label() == label:
            return line
    return draw(level, color="0.45", linestyle="--", zorder=1.9, label=label)


def draw_legend(ax, loc="best", **kwargs):
    """Name every curve, then each reference line once.

    `loc` is used for so many points that a search for the best place takes too long; other
    arguments are matplotlib's.
    """
    entries = list(zip(*ax.get_legend_handles_labels(), strict=True))
    curves = [entry for entry in entries if entry[1] not in _REFERENCE_STYLES]
    handle_of = {label: handle for handle, label in entries}
    curves += [(handle_of[label], label) for label in _REFERENCE_STYLES if label in handle_of]
    if sum(len(line.get_xdata()) for line in ax.lines) <= _MAX_POINTS_FOR_BEST:
        loc = "best"
    if curves:
        ax.legend(*zip(*curves, strict=True), loc=loc, fontsize="small", **kwargs)
