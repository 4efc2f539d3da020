"""LossComparison: the scores of all runs, and what may be concluded from them."""

from __future__ import annotations

import reprlib
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from sktopk.metrics import LossComparisonDisplay
from sktopk.metrics._statistics import (
    AS_GOOD,
    BETTER,
    CANNOT_TELL,
    WORSE,
    intervals_in_words,
    paired_differences,
    verdict_in_words,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class LossComparison:
    r"""Scores of losses on the same splits, with intervals, tests and a verdict.

    Over J splits with differences :math:`d_j` between a loss and the baseline, the p-value is
    that of the corrected resampled t-test [1]_, the interval of which
    :class:`sktopk.metrics.LossComparisonDisplay` documents:

    .. math::
        p = 2\, P\Bigl(t_{J - 1} > |\bar d| \Big/
        \sqrt{\bigl(\tfrac{1}{J} + \tfrac{n_\text{test}}{n_\text{train}}\bigr) S^2}\Bigr)

    Seeds that share a split are averaged first: they are no new rows. If all differences are
    the same number, the p-value is 0, or 1 where that number is zero.

    Of a difference with the interval :math:`\bar d \pm h` and a `margin` m it says

    - "better", of one of the two, where the interval does not hold zero, :math:`|\bar d| > h`;
    - "as good", where it holds zero and lies within the margin, :math:`|\bar d| + h \le m`;
    - "cannot tell" else, with the number of folds, or of rows, that would be about enough for one
      of the others if the mean and the spread of the differences stay as they are. Repeated
      folds share their rows: of rows that are too few no number of folds makes enough.

    Parameters
    ----------
    frame : DataFrame
        A row per run, with the columns loss, repeat, fold, split, seed, score (of the test
        rows), validation_score and params (of the setting chosen), n_candidates, n_diverged
        (settings whose training diverged), settled (no warning that training could go on),
        fit_seconds, run_seconds, n_train and n_test.
    losses : list of str, default=None
        The losses that were asked for; None is all but the baseline.
    baseline : str, default="cross_entropy"
        What they are compared with.
    metric : str, default="score"
        Name of the score.
    confidence : float, default=0.95
        Level of the intervals, in (0, 1).
    margin : float, default=0.01
        The difference that does not matter, in units of the score and at least 0: one point of
        an accuracy.
    omitted : dict of str to str, default=None
        Baselines that were left out, and why.

    Raises
    ------
    TypeError, ValueError
        If `frame` is no DataFrame of runs.

    Attributes
    ----------
    scores : dict of str to ndarray of shape (n_splits,)
        Score of each loss on each split, the baseline first.
    test_fraction : float
        Mean share of the rows that a split tests on.
    verdict : str
        The conclusion in words, about the best of `losses`. It allows for their number m: its
        interval has level :math:`1 - (1 - \text{confidence}) / m`.

    See Also
    --------
    compare_losses : Makes it.
    sktopk.metrics.LossComparisonDisplay : Draws it.

    References
    ----------
    .. [1] C. Nadeau, Y. Bengio. Inference for the generalization error. Machine Learning
       52(3), 239-281, 2003.

    Examples
    --------
    >>> import pandas as pd
    >>> from sktopk.model_selection import LossComparison
    >>> scores = {"cross_entropy": [0.80, 0.82, 0.79], "focal": [0.80, 0.81, 0.80]}
    >>> rows = [
    ...     {"loss": loss, "split": i, "score": score, "n_train": 80, "n_test": 20}
    ...     for loss, each in scores.items()
    ...     for i, score in enumerate(each)
    ... ]
    >>> LossComparison(pd.DataFrame(rows), margin=0.05).verdict
    'cross_entropy is as good: difference +0.000 ± 0.033, within 0.05 (focal)'
    >>> LossComparison(pd.DataFrame(rows)).summary().loc["focal", "verdict"]
    'cannot tell'
    """

    def __init__(
        self,
        frame: pd.DataFrame,
        *,
        losses: list[str] | None = None,
        baseline: str = "cross_entropy",
        metric: str = "score",
        confidence: float = 0.95,
        margin: float = 0.01,
        omitted: dict[str, str] | None = None,
    ) -> None:
        _check_frame(frame)
        self.frame = frame
        self.losses = losses
        self.baseline = baseline
        self.metric = metric
        self.confidence = confidence
        self.margin = margin
        self.omitted = omitted

    @property
    def scores(self) -> dict[str, np.ndarray]:
        order = sorted(dict.fromkeys(self.frame["loss"]), key=lambda loss: loss != self.baseline)
        table = self.frame.pivot_table(index="split", columns="loss", values="score")
        return {loss: table[loss].to_numpy() for loss in order}

    @property
    def test_fraction(self) -> float:
        return float((self.frame["n_test"] / (self.frame["n_train"] + self.frame["n_test"])).mean())

    @property
    def verdict(self) -> str:
        summary = self.summary()
        others = [loss for loss in summary.index if loss != self.baseline]
        asked = [loss for loss in self.losses or others if loss != self.baseline] or others
        best = summary.loc[asked, "mean"].idxmax()
        found = paired_differences(self.scores, self.baseline, self.test_fraction)
        level = 1 - (1 - self.confidence) / len(asked)
        difference = f"difference {_in_words(found[best], level)}"
        which = best if len(asked) == 1 else f"{best}, the best of {len(asked)} losses"
        said = found[best].verdict(level, self.margin)
        if said == BETTER:
            verdict = f"{best} is better than {self.baseline}: {difference}"
            verdict += f" (the best of {len(asked)} losses)" if len(asked) > 1 else ""
        elif said == WORSE:
            verdict = f"{self.baseline} is better: {difference} ({which})"
        elif said == AS_GOOD:
            verdict = f"{self.baseline} is as good: {difference}, within {self.margin:g} ({which})"
        else:
            missing = found[best].missing_in_words(level, self.margin)
            verdict = (
                f"cannot tell {self.baseline} from {which}: {difference} is neither clear nor "
                f"within {self.margin:g}; it would take {missing}"
            )
        highest = summary["mean"].idxmax()
        if highest not in (best, self.baseline):
            words = _in_words(found[highest], self.confidence)
            verdict += f". {highest} scores highest: difference {words}"
        return verdict

    def summary(self, confidence: float | None = None) -> pd.DataFrame:
        """Return a row per loss: its mean score, and its difference from the baseline.

        Parameters
        ----------
        confidence : float, default=None
            Level of the intervals, in (0, 1). None: that of the comparison.

        Returns
        -------
        summary : DataFrame
            Indexed by loss, the baseline first; with the columns mean, difference, low and
            high (ends of the interval of the difference), p_value, verdict, more_folds (how
            many it would take to tell, 0 where the verdict tells already, infinite where no
            number would), times_rows (how many times the rows it would take, else 1), and
            unsettled (share of the runs that stopped while training could go on). NaN where
            the baseline would be compared with itself.

        Raises
        ------
        TypeError, ValueError
            If `confidence` is not in (0, 1), if `margin` is not a number of at least 0, or if
            the scores are not finite and as many for each loss.
        """
        confidence = self.confidence if confidence is None else confidence
        scores = self.scores
        found = paired_differences(scores, self.baseline, self.test_fraction)
        rows = {}
        for loss, each in found.items():
            half = each.half_width(confidence)
            said = each.verdict(confidence, self.margin)
            rows[loss] = {
                "difference": each.mean,
                "low": each.mean - half,
                "high": each.mean + half,
                "p_value": each.p_value(),
                "verdict": verdict_in_words(said, loss, self.baseline),
                "more_folds": each.more_runs(confidence, self.margin),
                "times_rows": each.times_rows(confidence, self.margin),
            }
        table = pd.DataFrame.from_dict(rows, orient="index").reindex(list(scores))
        table["verdict"] = table["verdict"].astype(object).fillna("baseline")
        table.insert(0, "mean", [float(each.mean()) for each in scores.values()])
        table.index.name = "loss"
        return table

    def plot(self, ax: Axes | None = None, **kwargs: Any) -> LossComparisonDisplay:
        """Draw the differences and their intervals.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw on. None: a new figure.
        **kwargs : dict
            Passed to :meth:`sktopk.metrics.LossComparisonDisplay.plot`.

        Returns
        -------
        display : LossComparisonDisplay
        """
        return LossComparisonDisplay.from_scores(
            self.scores,
            test_fraction=self.test_fraction,
            baseline=self.baseline,
            metric=self.metric,
            confidence=self.confidence,
            margin=self.margin,
            ax=ax,
            **kwargs,
        )

    def __repr__(self):
        summary = self.summary()
        n_runs = len(self.frame) // len(summary)
        n_splits = self.frame["split"].nunique()
        head = f"LossComparison by {self.metric}: {n_runs} runs on {n_splits} splits of each loss"
        half = (summary["high"] - summary["low"]) / 2
        others = half.index[half.notna()]
        words = intervals_in_words(summary.loc[others, "difference"], half[others])
        found = paired_differences(self.scores, self.baseline, self.test_fraction)
        verdicts = summary["verdict"].copy()
        for loss in verdicts.index[verdicts == CANNOT_TELL]:
            missing = found[loss].missing_in_words(self.confidence, self.margin)
            verdicts[loss] += f" without {missing}"
        shown = pd.DataFrame(
            {
                "mean": [f"{each:.4f}" for each in summary["mean"]],
                "difference": pd.Series(words, index=others).reindex(summary.index).fillna(""),
                "p": [f"{p:.3f}" if p >= 0 else "" for p in summary["p_value"]],
                "": verdicts,
            }
        )
        shown.index.name = None
        lines = [head, shown.to_string(), f"Verdict: {self.verdict}"]
        lines += [f"Left out: {name}: {why}" for name, why in (self.omitted or {}).items()]
        return "\n".join(lines)


_COLUMNS = ("loss", "split", "score", "n_train", "n_test")


def _check_frame(frame):
    """Raise unless `frame` is a table of runs."""
    came = reprlib.repr(frame)
    if isinstance(frame, pd.DataFrame):
        if set(_COLUMNS) <= set(frame.columns):
            return
        came = f"the columns {frame.columns.tolist()}"
    raise (ValueError if isinstance(frame, pd.DataFrame) else TypeError)(
        f"frame must be a DataFrame with a row per run and the columns {', '.join(_COLUMNS)}, as "
        f"compare_losses makes it; got {came}. Scores of any other estimators, as "
        "cross_val_score returns them, are compared by "
        "sktopk.metrics.LossComparisonDisplay.from_scores"
    )


def _in_words(difference, confidence):
    (words,) = intervals_in_words([difference.mean], [difference.half_width(confidence)])
    return words
