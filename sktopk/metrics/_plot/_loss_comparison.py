"""Display of differences between losses, with confidence intervals."""

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from sktopk.metrics import _statistics

from ._base import LEVEL_STYLE, Display, draw_legend, draw_once

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SERIES_DISTANCE = 0.25
# The intervals take this share of the axes' width. The rest is for the numbers and the verdicts.
_SHARE_OF_INTERVALS = 0.66


@dataclass(eq=False, repr=False)
class LossComparisonDisplay(Display):
    r"""Plot the score differences between losses and a baseline, with confidence intervals.

    In run j of J (a fold or a random split), :math:`d_j` is the score of a loss minus the score of
    the baseline. The interval of a corrected t-test for the mean difference :math:`\bar d` is

    .. math::
        \bar d \pm t_{J - 1} \sqrt{\left(\frac{1}{J} + \frac{\rho}{1 - \rho}\right) S^2},
        \qquad S^2 = \frac{1}{J - 1} \sum_j (d_j - \bar d)^2

    where :math:`\rho` is `overlap` (see `from_scores`) and :math:`t_{J - 1}` is the two-sided
    quantile of Student's t distribution [1]_. There is no correction for multiple comparisons.

    A loss is "better" or "worse" if the interval of its difference excludes zero. Otherwise, it is
    "equivalent" if the interval is within the shaded margin, and "inconclusive" if not.

    Parameters
    ----------
    names : array-like of str of shape (n_losses,)
        Names of the losses that are compared with the baseline.
    difference, half_width : array-like of shape (n_losses,)
        Mean score difference of each loss from the baseline, and half the width of its interval.
    baseline : str, default="cross_entropy"
        Name of the loss with which the other losses are compared.
    metric : str, default="score"
        Name of the score in the label of the x axis.
    confidence : float, default=0.95
        Level of the intervals, in (0, 1).
    margin : float, default=0.01
        Largest negligible difference of the score, at least 0.
    name : str, default=None
        Text in the legend for the points and intervals. None means no legend entry.

    Attributes
    ----------
    ax_, figure_, line_, errorbar_, zero_, margin_, texts_ : matplotlib artists
        `ax_` are the axes of `figure_`. `line_` has the points, `errorbar_` the intervals and
        `texts_` the texts next to them. `zero_` is the line at zero, `margin_` the shaded margin.

    References
    ----------
    .. [1] C. Nadeau, Y. Bengio. Inference for the generalization error. Machine Learning 52, 2003.

    Examples
    --------
    >>> from sktopk.metrics import LossComparisonDisplay
    >>> scores = {"cross_entropy": [0.80, 0.82, 0.79, 0.81], "focal": [0.85, 0.86, 0.85, 0.86]}
    >>> LossComparisonDisplay.from_scores(scores, overlap=0).texts_[0].get_text()
    '+0.050 ± 0.013: better'
    """

    names: Sequence[str]
    difference: ArrayLike
    half_width: ArrayLike
    _: KW_ONLY
    baseline: str = "cross_entropy"
    metric: str = "score"
    confidence: float = 0.95
    margin: float = 0.01
    name: str | None = None

    _figure: ClassVar = {"figsize": (8.0, 4.0), "layout": "constrained"}  # wide, for long names

    @classmethod
    def from_scores(
        cls,
        scores: dict[str, ArrayLike],
        *,
        overlap: float,
        baseline: str = "cross_entropy",
        metric: str = "score",
        confidence: float = 0.95,
        margin: float = 0.01,
        name: str | None = None,
        ax: "Axes | None" = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the score differences between each loss and the baseline.

        Parameters
        ----------
        scores : dict of str to array-like of shape (n_runs,)
            Finite scores of each loss (the key) in the same runs; larger is better. n_runs >= 2.
        overlap : float
            Correlation of the differences (loss - baseline) of two runs. Nadeau and Bengio use the
            share of samples in a test set: 0.2 for five folds, or `test_size` of random splits.
        baseline, metric, confidence, margin, name, ax, **kwargs
            `ax` and `kwargs` go to `plot`. The others are parameters of `LossComparisonDisplay`.

        Returns
        -------
        display : LossComparisonDisplay
            This display, drawn on `ax_`.

        Raises
        ------
        TypeError, ValueError
            If a value is out of range, or if `scores` lacks `baseline` or contains no other loss.
        """
        found = _statistics.paired_differences(scores, baseline, overlap)
        mean = np.array([each.mean for each in found.values()])
        half_width = np.array([each.half_width(confidence) for each in found.values()])
        options = {"metric": metric, "confidence": confidence, "margin": margin, "name": name}
        return cls(list(found), mean, half_width, baseline=baseline, **options).plot(ax, **kwargs)

    @classmethod
    def from_cv_results(
        cls,
        cv_results: dict[str, Any],
        *,
        overlap: float,
        param: str = "param_loss",
        metric: str = "score",
        **kwargs: Any,
    ) -> Self:
        """Plot the score differences between a baseline and the other losses of a search.

        Only the best setting of each loss counts, which favors losses with many settings.

        Parameters
        ----------
        cv_results : dict
            The ``cv_results_`` of scikit-learn's ``GridSearchCV`` or ``RandomizedSearchCV``.
        overlap, **kwargs
            Arguments of `from_scores`. For a search with n folds, pass ``overlap=1 / n``.
        param : str, default="param_loss"
            Key of the losses in `cv_results`, such as ``"param_clf__loss"`` for a pipeline.
        metric : str, default="score"
            Name of a metric of the search; "score" if the search has a single metric.

        Returns
        -------
        display : LossComparisonDisplay
            This display, drawn on `ax_`.
        """
        scores = _statistics.best_runs(cv_results, param, metric)
        return cls.from_scores(scores, overlap=overlap, metric=metric, **kwargs)

    def _plot(self, ax, label, **kwargs):
        others = [each for each in ax.containers if hasattr(each, "has_xerr")]
        rows = [text.get_text() for text in ax.get_yticklabels()] if others else []
        rows += [loss for loss in self.names if loss not in rows]
        below = _SERIES_DISTANCE * len(others)
        y = np.array([rows.index(loss) for loss in self.names]) + below
        style = {"label": label, "linestyle": "", "capsize": 3, **kwargs}
        self.errorbar_ = ax.errorbar(self.difference, y, xerr=self.half_width, **style)
        self.line_ = self.errorbar_.lines[0]
        self.zero_ = draw_once(ax.lines, ax.axvline, 0.0, label="_zero", **LEVEL_STYLE)
        where = {"transform": ax.get_yaxis_transform(), "va": "center", "ha": "right"}
        self.texts_ = []
        words = _statistics.intervals_in_words(self.difference, self.half_width)
        shown = zip(self.difference, self.half_width, y, words, strict=True)
        for difference, half_width, height, text in shown:
            text += f": {_statistics.verdict_of(difference, half_width, self.margin)}"
            self.texts_.append(ax.text(0.985, height, text, fontsize="small", **where))
        style = {"color": "0.93", "zorder": 0.5, "lw": 0, "label": f"_margin {self.margin:g}"}
        self.margin_ = draw_once(ax.patches, ax.axvspan, -self.margin, self.margin, **style)
        low, high = ax.dataLim.intervalx
        low, high = low - 0.05 * (high - low), high + 0.05 * (high - low)
        ax.set_xlim(low, low + (high - low) / _SHARE_OF_INTERVALS)
        middle = below / 2
        ax.set_yticks(np.arange(len(rows)) + middle, rows)
        ax.set_ylim(len(rows) - 0.5 + middle, middle - 0.5)
        shown = f"{100 * self.confidence:g} % interval; shaded: ±{self.margin:g}"
        ax.set_xlabel(f"Gain in {self.metric} over {self.baseline} ({shown})")
        draw_legend(ax)
