"""Base classes and drawing functions of all displays. Only this module imports matplotlib."""

from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import indexable

from sktopk._common._scalars import check_nonnegative, on_host
from sktopk._common._types import RowsLike
from sktopk.metrics._scorer import predict_scores
from sktopk.metrics._top_scorer import positive_scores

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's color palette without yellow, which is hard to see on white.
_COLORS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00"]
# Seven markers and six colors give 42 combinations, because 7 and 6 have no common factor.
_MARKERS = ["o", "s", "^", "D", "v", "P", "X"]
# Dashes distinguish curves that have too many points for markers.
_DASHES = [(8, 2), (5, 1, 1, 1), (2, 1), (8, 1, 1, 1, 1, 1), (4, 2), (1, 1)]
_LINE_STYLES = ["-", *((0, dashes) for dashes in _DASHES)]
_MOST_MARKED_POINTS = 100
# With more points, matplotlib takes seconds to find the best location of a legend.
_MAX_POINTS_FOR_BEST = 300_000
_REFERENCE_STYLES = {"Chance": "--", "Ideal": ":"}
LEVEL_STYLE = {"color": "0.45", "linestyle": "--", "zorder": 1.9}
_GROUP_WIDTH = 0.8


class Display:
    """Base class of all displays. A subclass draws in its method `_plot`."""

    # Arguments of `plt.subplots` for a new figure.
    _figure: ClassVar = {}
    _markevery = 1

    def plot(self, ax: "Axes | None" = None, *, name: str | None = None, **kwargs: Any) -> Self:
        """Draw the display. Several displays can be drawn on the same axes.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on. None creates a new figure with a color-blind safe palette.
        name : str, default=None
            Name in the legend. None means the attribute `name` of the display.
        **kwargs : dict
            Options of the display, such as ``plot_chance_level``, if it has any. All other
            arguments are passed to matplotlib's ``plot``, ``bar`` or ``errorbar``.

        Returns
        -------
        display : object
            This display, drawn on `ax_`.
        """
        try:
            import matplotlib.pyplot as plt
        except ImportError as error:
            caller = f"{type(self).__name__}.plot"
            raise ImportError(f'{caller} needs matplotlib: pip install "sktopk[plot]"') from error
        if ax is None:
            _, ax = plt.subplots(**self._figure)
        self.ax_, self.figure_ = ax, ax.figure
        if not ax.has_data():
            cycle = {"color": _COLORS * len(_MARKERS), "marker": _MARKERS * len(_COLORS)}
            ax.set_prop_cycle(**cycle, markevery=[self._markevery] * len(cycle["color"]))
        self._plot(ax, kwargs.pop("label", self.name if name is None else name), **kwargs)
        return self


class ScoreDisplay(Display):
    """Base class of displays that are computed from labels and scores."""

    # Names of the arguments that are passed to `_curve`. All other arguments are passed to `plot`.
    _options = ()
    # Argument whose value `from_estimator` reads from the classifier: "pos_label" or "labels".
    _label = "pos_label"
    _name = "Classifier"
    _predict = staticmethod(predict_scores)

    @classmethod
    def from_estimator(
        cls, estimator: Any, X: RowsLike, y: ArrayLike, *, name: str | None = None, **kwargs: Any
    ) -> Self:
        """Draw the display for a fitted classifier.

        Parameters
        ----------
        estimator : object
            Fitted classifier with ``classes_`` and ``decision_function`` or ``predict_proba``.
        X, y : array-like of shape (n_samples, n_features) and (n_samples,)
            Samples and their true labels.
        name : str, default=None
            Name in the legend. None means the class name of the estimator.
        **kwargs : dict
            Other arguments of `from_predictions`. ``pos_label=None`` means
            ``estimator.pos_label_``, if it exists, else the label 1 or True.

        Returns
        -------
        display : object
            This display, drawn on `ax_`.
        """
        given = kwargs if name is None else kwargs | {"name": name}
        kwargs = {"name": type(estimator).__name__} | cls._defaults(estimator, X, kwargs) | given
        label, y_score = cls._scores(estimator, X, kwargs.pop(cls._label, None))
        return cls.from_predictions(y, y_score, **{cls._label: label}, **kwargs)

    @classmethod
    def from_predictions(
        cls,
        y_true: ArrayLike,
        y_score: ArrayLike,
        *,
        name: str | None = None,
        ax: "Axes | None" = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the display for given scores.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
            True labels.
        y_score : array-like of shape (n_samples,) or (n_samples, n_classes)
            Scores; larger means more likely. For `SetSizeDisplay`, pass prediction sets instead.
        name : str, default=None
            Name in the legend. None means "Classifier" or, for prediction sets, "Sets".
        ax, **kwargs
            Arguments of `plot`, and options that the docstring of the class describes.

        Returns
        -------
        display : object
            This display, drawn on `ax_`.

        Raises
        ------
        ImportError, TypeError, ValueError
            If matplotlib is missing (``pip install "sktopk[plot]"``), or an argument is not valid.
        """
        options, name = cls._split(kwargs), cls._name if name is None else name
        return cls(name=name, **cls._curve(y_true, y_score, **options)).plot(ax, **kwargs)

    @classmethod
    def _split(cls, kwargs):
        """Remove the arguments of `_curve` from `kwargs`. Return these arguments as a dict."""
        return {each: kwargs.pop(each) for each in cls._options if each in kwargs}

    @classmethod
    def _defaults(cls, estimator, X, kwargs):
        """Return a dict of arguments that `from_estimator` passes if the user does not."""
        return {}

    @classmethod
    def _scores(cls, estimator, X, label):
        """Return two values: `pos_label` (or all labels, depending on `_label`), and the scores."""
        if cls._label == "labels":
            labels, y_score = cls._predict(estimator, X)
            if label is not None and not np.array_equal(label, labels):
                raise ValueError(f"labels must be None or the classes {labels}; got {label!r}")
            return labels, y_score
        pos_label, y_score = positive_scores(estimator, X, label)
        if y_score is None:
            raise ValueError(f"estimator must have two classes; got one class from {estimator!r}")
        return pos_label, y_score


class CurveDisplay(ScoreDisplay):
    """Base class of displays of curves. The method `_join` combines the curves of all folds."""

    @classmethod
    def from_cv_results(
        cls,
        cv_results: dict[str, Any],
        X: RowsLike,
        y: ArrayLike,
        *,
        name: str | None = None,
        ax: "Axes | None" = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the curve of each test fold of a cross-validation.

        Parameters
        ----------
        cv_results : dict
            Result of ``cross_validate`` with ``return_estimator=True``, ``return_indices=True``.
        X, y : array-like of shape (n_samples, n_features) and (n_samples,)
            Samples and labels that were passed to ``cross_validate``.
        name, ax, **kwargs
            Arguments of `from_estimator`, except `groups`, which raises an error here.

        Returns
        -------
        display : object
            This display, drawn on `ax_`. Its arrays and `line_` are lists with one entry per fold.
        """
        if not {"estimator", "indices"} <= set(cv_results):
            raise ValueError(
                "cv_results must come from cross_validate with return_estimator=True and "
                f"return_indices=True; got the keys {sorted(cv_results)}"
            )
        options = cls._split(kwargs)
        if options.get("groups") is not None:
            raise ValueError("groups must be None for from_cv_results; got groups")
        label = options.pop(cls._label, None)
        arrays = {
            each: check_nonnegative(options.pop(each), each, len(y), "one per row of X")
            for each in ("sample_weight", "value")
            if options.get(each) is not None
        }
        X, y = indexable(on_host(X, "X"), np.asarray(on_host(y, "y")))
        rows = np.asarray(X) if isinstance(X, list | tuple) else getattr(X, "iloc", X)
        folds, estimators = [], cv_results["estimator"]
        for estimator, test in zip(estimators, cv_results["indices"]["test"], strict=True):
            own, y_score = cls._scores(estimator, rows[test], label)
            parts = {each: values[test] for each, values in arrays.items()}
            folds.append(cls._curve(y[test], y_score, **{cls._label: own}, **options, **parts))
        name = type(estimators[0]).__name__ if name is None else name
        name = f"{name} ({len(estimators)} folds)"
        return cls(name=name, **cls._join(folds)).plot(ax, **kwargs)


def draw_curves(ax, x, y, kwargs, **single):
    """Draw one curve with the style `single`, or one curve per fold. Return the line or lines."""
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
    """Draw bars at x = 0, 1, ... next to the bars that are already there. Return the new bars."""
    bars = ax.bar(np.arange(len(height)), height, **kwargs)
    series = [each for each in ax.containers if hasattr(each, "patches")]
    width = _GROUP_WIDTH / len(series)
    for i, each in enumerate(series):
        for position, bar in enumerate(each.patches):
            bar.set(x=position - _GROUP_WIDTH / 2 + i * width, width=width)
    return bars


def draw_reference(ax, x, y, label, shown, *, zorder=1.9):
    """Draw a gray line, and return it. If the axes have this line already, return the old line."""
    if not shown or y is None:
        return None
    points = np.c_[x, y]
    for line in ax.lines:
        known = line.get_xydata()
        if line.get_label() == label and known.shape == points.shape and np.allclose(known, points):
            return line
    # With an explicit color and marker, this line does not advance the color cycle of the axes.
    style = {"color": "0.45", "linestyle": _REFERENCE_STYLES[label], "marker": "", "markevery": 1}
    return ax.plot(x, y, label=label, zorder=zorder, **style)[0]


def draw_once(artists, draw, *levels, label, **style):
    """Draw an artist with this label, unless one is in `artists` already. Return the artist."""
    known = (artist for artist in artists if artist.get_label() == label)
    return next(known, None) or draw(*levels, label=label, **style)


def draw_legend(ax, loc="best", **kwargs):
    """Draw a legend, in which curves come before reference lines."""
    entries = list(zip(*ax.get_legend_handles_labels(), strict=True))
    curves = [entry for entry in entries if entry[1] not in _REFERENCE_STYLES]
    handle_of = {label: handle for handle, label in entries}
    curves += [(handle_of[label], label) for label in _REFERENCE_STYLES if label in handle_of]
    if sum(len(line.get_xdata()) for line in ax.lines) <= _MAX_POINTS_FOR_BEST:
        loc = "best"
    if curves:
        ax.legend(*zip(*curves, strict=True), loc=loc, fontsize="small", **kwargs)
