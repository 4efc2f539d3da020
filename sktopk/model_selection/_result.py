"""LossComparison: the scores of all runs, and what may be concluded from them."""

from __future__ import annotations

import reprlib
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from sktopk.metrics import LossComparisonDisplay
from sktopk.metrics._statistics import AS_GOOD, CANNOT_TELL, intervals_in_words, paired_differences

if TYPE_CHECKING:
    from matplotlib.axes import Axes

EQUIVALENT, INCONCLUSIVE = "equivalent", "not significantly different"
_COLUMNS = ("loss", "split", "score", "n_train", "n_test")


class LossComparison:
    r"""Scores of losses on the same splits, with intervals, tests and a verdict.

    Over J splits with differences :math:`d_j` between a loss and the baseline, the p-value is
    that of the corrected resampled t-test [1]_, the interval of which
    :class:`sktopk.metrics.LossComparisonDisplay` documents:

    .. math::
        p = 2\, P\Bigl(t_{J - 1} > |\bar d| \Big/
        \sqrt{\bigl(\tfrac{1}{J} + \tfrac{n_\text{test}}{n_\text{train}}\bigr) S^2}\Bigr)

    Seeds that share a split are averaged first, since they add no new samples. If all differences
    are the same number, the p-value is 0, or 1 where that number is 0.

    The verdict on a loss with the interval :math:`\bar d \pm h` is, for a `margin` m,

    - "better" or "worse" if the interval excludes zero, :math:`|\bar d| > h`;
    - "equivalent" if it includes zero and lies within the margin, :math:`|\bar d| + h \le m`;
    - "not significantly different" otherwise.

    Parameters
    ----------
    frame : DataFrame
        A row per run, with the columns loss, repeat, fold, split, seed, score (of the test
        samples), validation_score and params (of the setting chosen), n_candidates, n_diverged
        (settings whose training diverged), fit_seconds, run_seconds, n_train and n_test. Only
        loss, split, score, n_train and n_test are required.
    losses : list of str, default=None
        Losses that the verdict is about. None is all but the baseline.
    baseline : str, default="cross_entropy"
        Loss that the others are compared with.
    metric : str, default="score"
        Name of the score.
    confidence : float, default=0.95
        Level of the intervals, in (0, 1).
    margin : float, default=0.01
        Largest difference of scores that does not matter, at least 0.
    omitted : dict of str to str, default=None
        Baselines that are missing, and why.

    Attributes
    ----------
    scores : dict of str to ndarray of shape (n_splits,)
        Score of each loss on each split, the baseline first.
    test_fraction : float
        Mean share of the samples that a split tests on.
    verdict : str
        Verdict on the best of `losses`. With m losses, its interval has level
        :math:`1 - (1 - \text{confidence}) / m`.

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
    'focal is equivalent to cross_entropy within 0.05: difference +0.000 ± 0.033'
    >>> LossComparison(pd.DataFrame(rows)).summary().loc["focal", "verdict"]
    'not significantly different'
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
        self.frame, self.losses, self.omitted = frame, losses, omitted
        self.baseline, self.metric = baseline, metric
        self.confidence, self.margin = confidence, margin

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
        names = [loss for loss in self.scores if loss != self.baseline]
        asked = [loss for loss in self.losses or names if loss != self.baseline] or names
        level = 1 - (1 - self.confidence) / len(asked)
        found = self.summary(level)
        best, highest = found["mean"][asked].idxmax(), found["mean"].idxmax()
        row = found.loc[best]
        than = {EQUIVALENT: "to", INCONCLUSIVE: "from"}.get(row["verdict"], "than")
        which = f"{best}, the best of {len(asked)} losses, is" if len(asked) > 1 else f"{best} is"
        within = f" within {self.margin:g}" if row["verdict"] == EQUIVALENT else ""
        verdict = f"{which} {row['verdict']} {than} {self.baseline}{within}: "
        verdict += f"difference {_in_words(row)}"
        if row["verdict"] == INCONCLUSIVE:
            verdict += f". It would take {_missing_in_words(row)} to know"
        if highest not in (best, self.baseline):
            difference = _in_words(self.summary().loc[highest])
            verdict += f". {highest} scores highest: difference {difference}"
        return verdict

    def summary(self, confidence: float | None = None) -> pd.DataFrame:
        """Return a row per loss: its mean score, and its difference from the baseline.

        Parameters
        ----------
        confidence : float, default=None
            Level of the intervals, in (0, 1). None is that of the comparison.

        Returns
        -------
        summary : DataFrame
            Indexed by loss, the baseline first, with the columns mean, difference, low and high
            (ends of the interval of the difference), p_value, verdict, more_folds and times_rows.
            The last two are about how many more folds, or how many times the samples, would be
            conclusive if the mean and the spread of the differences stay as they are: 0 and 1 if
            the verdict is conclusive, infinite if no number is enough. The baseline has NaN.

        """
        confidence = self.confidence if confidence is None else confidence
        scores, rows = self.scores, {}
        words = {AS_GOOD: EQUIVALENT, CANNOT_TELL: INCONCLUSIVE}
        for loss, each in paired_differences(scores, self.baseline, self.test_fraction).items():
            half = each.half_width(confidence)
            verdict = each.verdict(confidence, self.margin)
            rows[loss] = {
                "difference": each.mean,
                "low": each.mean - half,
                "high": each.mean + half,
                "p_value": each.p_value(),
                "verdict": words.get(verdict, verdict),
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

        `ax` and `kwargs` are those of :meth:`sktopk.metrics.LossComparisonDisplay.plot`.
        """
        names = ("test_fraction", "baseline", "metric", "confidence", "margin")
        kwargs |= {name: getattr(self, name) for name in names}
        return LossComparisonDisplay.from_scores(self.scores, ax=ax, **kwargs)

    def __repr__(self):
        summary = self.summary()
        others = summary[summary["difference"].notna()]
        half = (others["high"] - others["low"]) / 2
        words = pd.Series(intervals_in_words(others["difference"], half), index=others.index)
        shown = pd.DataFrame(
            {
                "mean": summary["mean"].map("{:.4f}".format),
                "difference": words.reindex(summary.index).fillna(""),
                "p": others["p_value"].map("{:.3f}".format).reindex(summary.index).fillna(""),
                "": summary["verdict"],
            }
        )
        shown.index.name = None
        n_runs, n_splits = len(self.frame) // len(summary), self.frame["split"].nunique()
        return "\n".join(
            [
                f"LossComparison by {self.metric}: {n_runs} runs on {n_splits} splits of each loss",
                shown.to_string(),
                f"Verdict: {self.verdict}",
                *(f"Omitted: {name}: {why}" for name, why in (self.omitted or {}).items()),
            ]
        )


def _check_frame(frame):
    """Raise unless `frame` is a table of runs."""
    is_frame = isinstance(frame, pd.DataFrame)
    if is_frame and set(_COLUMNS) <= set(frame.columns):
        return
    came = f"the columns {frame.columns.tolist()}" if is_frame else reprlib.repr(frame)
    raise (ValueError if is_frame else TypeError)(
        f"frame must be a DataFrame with a row per run and the columns {', '.join(_COLUMNS)}, as "
        f"compare_losses makes it; got {came}. Compare scores of cross_val_score by "
        "sktopk.metrics.LossComparisonDisplay.from_scores"
    )


def _in_words(row):
    """Return the difference of a row of the summary with half its interval."""
    (words,) = intervals_in_words([row["difference"]], [(row["high"] - row["low"]) / 2])
    return words


def _missing_in_words(row):
    """Return what would make a row of the summary conclusive."""
    more, times = row["more_folds"], row["times_rows"]
    if times == inf:
        return "a margin above 0"
    folds = f"{more:.0f} more {'fold' if more == 1 else 'folds'} or " if more < inf else ""
    return f"about {folds}{times:.1f} times the samples"
