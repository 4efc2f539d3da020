"""Displays of the top-k accuracy against k, and of recall against the share of selected samples."""

from dataclasses import KW_ONLY, dataclass

import numpy as np
from numpy.typing import ArrayLike

from sktopk._common._scalars import check_count, check_option
from sktopk.metrics._ranking import Ranking, undefined
from sktopk.metrics._topk import LabelRanks

from ._base import CurveDisplay, draw_curves, draw_legend, draw_reference


@dataclass(eq=False, repr=False)
class TopKCurveDisplay(CurveDisplay):
    """Curve of the top-k accuracy against k.

    Create the display with `from_estimator`, `from_predictions` or `from_cv_results`. All three
    accept `max_k` (the largest k, default 10, at most n_classes), and `labels`, `average`, `ties`
    and `sample_weight` as in `topk_accuracy_score`. `plot` accepts ``plot_chance_level=False``.

    Parameters
    ----------
    k, accuracy : array-like of shape (n_points,) or list of arrays
        Numbers k of predicted labels, and their top-k accuracies. A list has one array per fold.
    name : str, default=None
        Name of the curve in the legend. None means no legend entry.
    chance : array-like of shape (n_points,), default=None
        Accuracy k / n_classes of random guesses at each k. None draws no line.
    average : {"micro", "macro"}, default="micro"
        Whether `accuracy` is a mean over samples or over classes. This only sets the axis label.

    Attributes
    ----------
    ax_, figure_, line_, chance_level_ : matplotlib artists
        `ax_` are the axes of `figure_`. `line_` is the curve (a list for folds), and
        `chance_level_` is the line of random guesses (None if not drawn).

    Examples
    --------
    >>> from sktopk.metrics import TopKCurveDisplay
    >>> y_true, y_score = [0, 1, 2, 2], [[3, 2, 1], [3, 2, 1], [3, 2, 1], [1, 2, 3]]
    >>> TopKCurveDisplay.from_predictions(y_true, y_score).accuracy
    array([0.5 , 0.75, 1.  ])
    """

    k: ArrayLike
    accuracy: ArrayLike
    _: KW_ONLY
    name: str | None = None
    chance: ArrayLike | None = None
    average: str = "micro"

    _options = ("labels", "max_k", "average", "ties", "sample_weight")
    _label = "labels"

    @classmethod
    def _curve(cls, y_true, y_score, labels=None, max_k=10, sample_weight=None, **options):
        check_count(max_k, "max_k")
        ranks = LabelRanks.from_predictions(y_true, y_score, labels, sample_weight)
        k = np.arange(1, min(max_k, ranks.n_classes) + 1)
        accuracy = np.array([ranks.accuracy(j, **options) for j in k])
        average = options.get("average", "micro")
        return {"k": k, "accuracy": accuracy, "chance": k / ranks.n_classes, "average": average}

    @classmethod
    def _join(cls, folds):
        joined = {name: [fold[name] for fold in folds] for name in ("k", "accuracy")}
        # Extend the chance levels of all folds to the same k. From n_classes on, the level is 1.
        longest = max(joined["k"], key=len)
        chances = [np.minimum(1.0, longest * fold["chance"][0]) for fold in folds]
        return joined | {"chance": np.mean(chances, axis=0), "average": folds[0]["average"]}

    def _plot(self, ax, label, *, plot_chance_level=True, **kwargs):
        style = {"label": label, **kwargs}
        # Draw at most about 20 markers, so that they do not hide the curve.
        self.line_ = draw_curves(ax, self.k, self.accuracy, style, markevery=1 + len(self.k) // 20)
        k = max(self.k, key=len) if np.ndim(self.k[0]) else self.k
        self.chance_level_ = draw_reference(ax, k, self.chance, "Chance", plot_chance_level)
        ax.locator_params(axis="x", integer=True, nbins=10)
        ylabel = "Macro top-k accuracy" if self.average == "macro" else "Top-k accuracy"
        ax.set(xlabel="k (number of labels)", ylabel=ylabel, ylim=(0, 1.02))
        draw_legend(ax)


@dataclass(eq=False, repr=False)
class EnrichmentDisplay(CurveDisplay):
    r"""Curve of the share of positives found, against the share of selected samples.

    If a share f of samples is selected, a random order finds a share f of the positives. A perfect
    order finds :math:`\min(1, f / \pi)`, where :math:`\pi` is the share of positives in the data.

    Create the display with `from_estimator`, `from_predictions` or `from_cv_results`. All three
    accept `pos_label`, `ties` and `sample_weight`, as in `precision_at_k_score`. `plot` accepts
    ``xscale`` ("log" or "linear", default "log"), ``plot_chance_level`` and ``plot_ideal`` (both
    True by default).

    Parameters
    ----------
    fraction, recall : array-like of shape (n_points,) or list of arrays
        Share of the samples that are selected, and share of all positives that are among the
        selected samples. Both are in [0, 1]. A list has one array per fold.
    prevalence : float, default=None
        Share of positives in all samples. None draws neither the chance nor the ideal line.
    name : str, default=None
        Name of the curve in the legend. None means no legend entry.

    Attributes
    ----------
    ax_, figure_, line_, chance_level_, ideal_ : matplotlib artists
        `ax_` are the axes of `figure_`. `line_` is the curve (a list for folds). `chance_level_`
        and `ideal_` are the lines of a random and a perfect order (None if not drawn).

    Examples
    --------
    >>> from sktopk.metrics import EnrichmentDisplay
    >>> EnrichmentDisplay.from_predictions([1, 0, 0, 0, 1], [5, 4, 3, 2, 1]).recall
    array([0. , 0.5, 0.5, 0.5, 0.5, 1. ])
    """

    fraction: ArrayLike
    recall: ArrayLike
    _: KW_ONLY
    prevalence: float | None = None
    name: str | None = None

    _markevery = 0.12
    _options = ("pos_label", "ties", "sample_weight")

    @classmethod
    def _curve(cls, y_true, y_score, pos_label=None, sample_weight=None, ties="expected"):
        selected, found = Ranking.of(y_true, y_score, pos_label, sample_weight, ties=ties).curve()
        fraction = selected / selected[-1] if selected[-1] else selected
        total = found[-1] or undefined("EnrichmentDisplay", "no positives")
        prevalence = float(total / selected[-1])
        return {"fraction": fraction, "recall": found / total, "prevalence": prevalence}

    @classmethod
    def _join(cls, folds):
        joined = {name: [fold[name] for fold in folds] for name in ("fraction", "recall")}
        known = [fold["prevalence"] for fold in folds if fold["prevalence"] > 0] or [np.nan]
        return joined | {"prevalence": float(np.mean(known))}

    def _plot(self, ax, label, *, xscale="log", plot_chance_level=True, plot_ideal=True, **kwargs):
        check_option(xscale, "xscale", ("linear", "log"))
        self.line_ = draw_curves(ax, self.fraction, self.recall, {"label": label, **kwargs})
        self.chance_level_ = self.ideal_ = None
        if self.prevalence is not None and self.prevalence > 0:
            x = np.concatenate(self.fraction if np.ndim(self.fraction[0]) else [self.fraction])
            # Add the prevalence to the grid, because the ideal line has a corner there.
            grid = np.union1d(np.geomspace(x[x > 0].min(), 1.0, 200), self.prevalence)
            ideal = np.minimum(1.0, grid / self.prevalence)
            self.chance_level_ = draw_reference(ax, grid, grid, "Chance", plot_chance_level)
            self.ideal_ = draw_reference(ax, grid, ideal, "Ideal", plot_ideal)
        # Mask the share 0, which a logarithmic axis cannot show.
        ax.set_xscale(xscale, **({"nonpositive": "mask"} if xscale == "log" else {}))
        ax.xaxis.set_major_formatter(lambda share, _: f"{100 * share:.6g}%")
        ax.xaxis.set_minor_formatter("")
        if xscale == "log":
            low, high = ax.get_xlim()
            # A short axis has few powers of ten, so add ticks at 2 and 5 times these powers.
            ax.xaxis.get_major_locator().set_params(subs=(1, 2, 5) if high < 30 * low else (1,))
        ax.set(xlabel="Share of selected samples", ylabel="Share of the positives found")
        ax.set_ylim(-0.02, 1.04)
        draw_legend(ax, "upper left" if xscale == "log" else "lower right")
