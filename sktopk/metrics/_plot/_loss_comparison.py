"""Differences between losses, and whether they are more than chance."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from sktopk.metrics._statistics import (
    best_runs,
    intervals_in_words,
    paired_differences,
    verdict_of,
)

from ._base import Display, draw_legend, draw_level

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_SERIES_DISTANCE = 0.25
# Of the width of the axes; the rest is for the numbers and the verdicts.
_SHARE_OF_INTERVALS = 0.66


@dataclass(eq=False, repr=False)
class LossComparisonDisplay(Display):
    r"""Differences of a score between losses and a baseline, with confidence intervals.

    Each run (a fold, or a random split) trains all losses on the same samples and gives
    a difference :math:`d_j` between a loss and the baseline. Over J runs the point is their mean,
    and the interval comes from the corrected resampled t-test [1]_:

    .. math::
        \bar d \pm t_{J - 1} \sqrt{\left(\frac{1}{J}
        + \frac{n_\text{test}}{n_\text{train}}\right) S^2},
        \qquad S^2 = \frac{1}{J - 1} \sum_j (d_j - \bar d)^2

    The second term accounts for training samples that runs share. Each loss gets a verdict:
    better or worse if the interval does not hold zero; as good if the interval lies within the
    shaded margin; else the runs cannot tell. Each interval is about one loss: among twenty losses
    equivalent to the baseline, one is expected to have an interval of level 0.95 without zero.

    Make it with `from_scores` or `from_cv_results`; the constructor only stores arrays.

    Parameters
    ----------
    names : array-like of str of shape (n_losses,)
        The losses compared with the baseline.
    difference, half_width : array-like of shape (n_losses,)
        Mean difference of each loss from the baseline (positive is better), and half the length
        of its confidence interval.
    baseline, metric : str, default="cross_entropy" and "score"
        Names of the baseline and of the score.
    confidence : float, default=0.95
        Level of the intervals, in (0, 1).
    margin : float, default=0.01
        Difference that does not matter, in units of the score and at least 0.
    name : str, default=None
        Name of these differences in the legend. None: no legend entry.

    Attributes
    ----------
    ax_, figure_, line_, errorbar_, zero_, margin_ : matplotlib artists
        Axes, figure, points, points with intervals, line at zero and shaded margin.
    texts_ : list of matplotlib Text
        The number and the verdict of each loss.

    References
    ----------
    .. [1] C. Nadeau, Y. Bengio. Inference for the generalization error. Machine Learning
       52(3), 239-281, 2003.

    Examples
    --------
    >>> from sktopk.metrics import LossComparisonDisplay
    >>> scores = {
    ...     "cross_entropy": [0.80, 0.82, 0.79, 0.81, 0.80],
    ...     "smooth_topk": [0.85, 0.86, 0.85, 0.86, 0.84],
    ... }
    >>> display = LossComparisonDisplay.from_scores(scores, test_fraction=0.2)
    >>> display.texts_[0].get_text()
    '+0.048 ± 0.016: better'
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

    # With room for long names.
    _figure: ClassVar = {"figsize": (8.0, 4.0), "layout": "constrained"}

    @classmethod
    def from_scores(
        cls,
        scores: dict[str, ArrayLike],
        *,
        test_fraction: float,
        baseline: str = "cross_entropy",
        metric: str = "score",
        confidence: float = 0.95,
        margin: float = 0.01,
        name: str | None = None,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> Self:
        """Draw the differences of given scores.

        Parameters
        ----------
        scores : dict of str to array-like of shape (n_runs,)
            Scores of each loss, larger is better; run j of all losses has the same training and
            test samples. At least two runs.
        test_fraction : float
            Share of the samples that each run tests on, in [0, 1): 0.2 for 5 folds. 0 if no two
            runs share samples.
        baseline, metric, confidence, margin, name
            As in the constructor.
        ax, **kwargs
            As in `plot`.

        Returns
        -------
        display : LossComparisonDisplay
            This display, drawn on `ax_`.

        Raises
        ------
        TypeError, ValueError
            If a number is out of its range, `baseline` is not among the losses or alone, or the
            scores are not finite numbers, as many for each loss.
        """
        found = paired_differences(scores, baseline, test_fraction)
        mean = np.array([each.mean for each in found.values()])
        half_width = np.array([each.half_width(confidence) for each in found.values()])
        options = {"baseline": baseline, "metric": metric, "confidence": confidence}
        options |= {"margin": margin, "name": name}
        return cls(list(found), mean, half_width, **options).plot(ax, **kwargs)

    @classmethod
    def from_cv_results(
        cls,
        cv_results: dict[str, Any],
        *,
        test_fraction: float,
        param: str = "param_loss",
        metric: str = "score",
        **kwargs: Any,
    ) -> Self:
        """Draw the differences found by a search over losses.

        Each loss is compared at the best mean over the other parameters. A loss that was tried
        more often has an advantage: compare the winners on new samples.

        Parameters
        ----------
        cv_results : dict
            The ``cv_results_`` of scikit-learn's ``GridSearchCV`` or ``RandomizedSearchCV``.
        test_fraction, **kwargs
            As in `from_scores`.
        param : str, default="param_loss"
            The key of `cv_results` with the losses, such as ``"param_clf__loss"`` for the step
            "clf" of a pipeline. Values are named by ``str``.
        metric : str, default="score"
            Name of the score; with several metrics one of them.

        Returns
        -------
        display : LossComparisonDisplay
            This display, drawn on `ax_`.

        Raises
        ------
        TypeError, ValueError
            If `param` or `metric` is not in `cv_results`, or as in `from_scores`.
        """
        scores = best_runs(cv_results, param, metric)
        return cls.from_scores(scores, test_fraction=test_fraction, metric=metric, **kwargs)

    def _plot(self, ax, label, **kwargs):
        others = [each for each in ax.containers if hasattr(each, "has_xerr")]
        rows = [text.get_text() for text in ax.get_yticklabels()] if others else []
        rows += [loss for loss in self.names if loss not in rows]
        below = _SERIES_DISTANCE * len(others)
        y = np.array([rows.index(loss) for loss in self.names]) + below
        style = {"label": label, "linestyle": "", "capsize": 3, **kwargs}
        self.errorbar_ = ax.errorbar(self.difference, y, xerr=self.half_width, **style)
        self.line_ = self.errorbar_.lines[0]
        self.zero_ = draw_level(ax, ax.axvline, 0.0, "_zero")
        # At the right edge of the axes, at the height of the points.
        where = {"transform": ax.get_yaxis_transform(), "va": "center", "ha": "right"}
        self.texts_ = []
        words = intervals_in_words(self.difference, self.half_width)
        rows_shown = zip(self.difference, self.half_width, y, words, strict=True)
        for difference, half_width, height, text in rows_shown:
            text += f": {verdict_of(difference, half_width, self.margin)}"
            self.texts_.append(ax.text(0.985, height, text, fontsize="small", **where))
        self.margin_ = _draw_margin(ax, self.margin)
        low, high = ax.dataLim.intervalx
        low, high = low - 0.05 * (high - low), high + 0.05 * (high - low)
        ax.set_xlim(low, low + (high - low) / _SHARE_OF_INTERVALS)
        middle = below / 2
        ax.set_yticks(np.arange(len(rows)) + middle, rows)
        ax.set_ylim(len(rows) - 0.5 + middle, middle - 0.5)
        level = f"{100 * self.confidence:g} % interval"
        ax.set_xlabel(
            f"Gain in {self.metric} over {self.baseline} ({level}; shaded: ±{self.margin:g})"
        )
        draw_legend(ax)


def _draw_margin(ax, margin):
    """Return the shaded margin, drawn unless it is there."""
    label = f"_margin {margin:g}"
    for patch in ax.patches:
        if patch.get_label() == label:
            return patch
    return ax.axvspan(-margin, margin, color="0.93", zorder=0.5, linewidth=0, label=label)
