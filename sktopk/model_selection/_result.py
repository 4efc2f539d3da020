"""The class `LossComparison`, the result of `compare_losses`."""

import reprlib
from dataclasses import KW_ONLY, dataclass
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from sktopk.metrics import LossComparisonDisplay, _statistics
from sktopk.metrics._statistics import EQUIVALENT, INCONCLUSIVE

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_COLUMNS = ("loss", "split", "score", "n_train", "n_test")


@dataclass(eq=False, repr=False)
class LossComparison:
    r"""Scores of losses on the same splits, with intervals, tests and a verdict.

    :class:`sktopk.metrics.LossComparisonDisplay` explains the intervals. The p-value is

    .. math::
        p = 2\, P\Bigl(t_{J - 1} > |\bar d| \Big/
        \sqrt{\bigl(\tfrac{1}{J} + \tfrac{\rho}{1 - \rho}\bigr) S^2}\Bigr)

    where :math:`\bar d` and :math:`S^2` are the mean and the variance of the differences between a
    loss and the baseline on J splits, and :math:`\rho` is `overlap`. If a loss has several runs on
    one split, their mean score is used. If S = 0, p is 1 for :math:`\bar d = 0`, else 0.

    Parameters
    ----------
    frame : DataFrame
        One row per run. The columns are loss, split, score (of the test samples), n_train and
        n_test. `compare_losses` adds repeat, fold, seed, fit_seconds and run_seconds. It also adds
        the selected setting (params, validation_score), and the numbers of settings that were
        compared (n_candidates) and that diverged (n_diverged).
    losses : list of str, default=None
        The verdict compares the best of these with `baseline`. None means all except `baseline`.
    baseline : str, default="cross_entropy"
        Loss with which all other losses are compared. The attribute can be changed later.
    metric : str, default="score"
        Name of the score.
    confidence : float, default=0.95
        Confidence level of the intervals, in (0, 1).
    margin : float, default=0.01
        Largest difference of scores that is negligible.
    omitted : dict of str to str, default=None
        Names of omitted baselines, with the reason for each.
    overlap : float, default=None
        Correlation of the scores of two splits. None means `test_fraction` (Nadeau, Bengio, 2003).

    Attributes
    ----------
    scores : dict of str to ndarray of shape (n_splits,)
        Scores of each loss on all splits. The first key is the baseline.
    test_fraction : float
        Mean share of test samples in a split.
    verdict : str
        Sentence that compares the best of the m losses in `losses` with the baseline. The interval
        of their difference has the Bonferroni level :math:`1 - (1 - \text{confidence}) / m`.

    Examples
    --------
    >>> import pandas as pd
    >>> from sktopk.model_selection import LossComparison
    >>> frame = pd.DataFrame({"loss": ["cross_entropy", "focal"] * 3, "n_train": 80, "n_test": 20})
    >>> frame["split"] = [0, 0, 1, 1, 2, 2]
    >>> frame["score"] = [0.80, 0.80, 0.82, 0.81, 0.79, 0.80]
    >>> LossComparison(frame, margin=0.05).verdict
    'focal is equivalent to cross_entropy within 0.05: difference +0.000 ± 0.033'
    """

    frame: pd.DataFrame
    _: KW_ONLY
    losses: list[str] | None = None
    baseline: str = "cross_entropy"
    metric: str = "score"
    confidence: float = 0.95
    margin: float = 0.01
    omitted: dict[str, str] | None = None
    overlap: float | None = None

    def __post_init__(self):
        is_frame = isinstance(self.frame, pd.DataFrame)
        columns = self.frame.columns.tolist() if is_frame else []
        if not set(_COLUMNS) <= set(columns):
            came = f"the columns {columns}" if is_frame else reprlib.repr(self.frame)
            raise (ValueError if is_frame else TypeError)(
                f"frame must be a DataFrame with the columns {', '.join(_COLUMNS)}; got {came}. "
                "With cross_val_score, use sktopk.metrics.LossComparisonDisplay.from_scores"
            )
        if missing := [name for name in _COLUMNS if self.frame[name].isna().any()]:
            raise ValueError(f"frame must have no missing values; got NaN in {', '.join(missing)}")
        kinds = self.frame[list(_COLUMNS[2:])].dtypes.astype(str).to_dict()
        if self.frame.empty or not all(map(pd.api.types.is_numeric_dtype, kinds.values())):
            raise ValueError(f"frame must hold numbers; got {len(self.frame)} rows of {kinds}")
        if short := [loss for loss, each in self.scores.items() if np.isnan(each).any()]:
            raise ValueError(f"frame must have all splits for each loss; got too few for {short}")
        names = self.frame["loss"].unique().tolist()
        if isinstance(self.losses, str) or any(loss not in names for loss in self.losses or ()):
            raise ValueError(f"losses must be a list of names from {names}; got {self.losses!r}")
        self.overlap = self.test_fraction if self.overlap is None else self.overlap

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
        found = self.summary(1 - (1 - self.confidence) / (len(asked) or 1))
        best, highest = found["mean"][asked].idxmax(), found["mean"].idxmax()
        row = found.loc[best]
        words = {EQUIVALENT: "equivalent to", INCONCLUSIVE: "not significantly different from"}
        words = words.get(row["verdict"], f"{row['verdict']} than")
        which = f"{best}, the best of {len(asked)} models, is" if len(asked) > 1 else f"{best} is"
        within = f" within {self.margin:g}" if row["verdict"] == EQUIVALENT else ""
        verdict = f"{which} {words} {self.baseline}{within}: difference {_in_words(row)}"
        if row["verdict"] == INCONCLUSIVE:
            verdict += f". A conclusive result needs {_missing_in_words(row)}"
        if highest not in (best, self.baseline):
            difference = _in_words(self.summary().loc[highest])
            verdict += f". {highest} scores highest: difference {difference}"
        return verdict

    def summary(self, confidence: float | None = None) -> pd.DataFrame:
        """Return the mean score of each loss, and its difference from the baseline.

        Parameters
        ----------
        confidence : float, default=None
            Confidence level of the intervals, in (0, 1). None means the attribute `confidence`.

        Returns
        -------
        summary : DataFrame
            One row per loss, the baseline first. Columns: mean, difference with its interval (low,
            high), p_value, verdict, more_folds, times_rows. An inconclusive verdict becomes
            conclusive with about `more_folds` additional folds, or with `times_rows` times as many
            samples. Both numbers can be infinite. For a conclusive verdict, they are 0 and 1.
        """
        confidence = self.confidence if confidence is None else confidence
        scores, rows = self.scores, {}
        found = _statistics.paired_differences(scores, self.baseline, self.overlap)
        for loss, each in found.items():
            half = each.half_width(confidence)
            more, times = each.until_conclusive(confidence, self.margin)
            rows[loss] = {
                "difference": each.mean,
                "low": each.mean - half,
                "high": each.mean + half,
                "p_value": each.p_value(),
                "verdict": _statistics.verdict_of(each.mean, half, self.margin),
                "more_folds": more,
                "times_rows": times,
            }
        table = pd.DataFrame.from_dict(rows, orient="index").reindex(list(scores))
        table["verdict"] = table["verdict"].astype(object).fillna("baseline")
        table.insert(0, "mean", [float(each.mean()) for each in scores.values()])
        table.index.name = "loss"
        return table

    def plot(self, ax: "Axes | None" = None, **kwargs: Any) -> LossComparisonDisplay:
        """Draw the intervals with :meth:`sktopk.metrics.LossComparisonDisplay.from_scores`."""
        names = ("overlap", "baseline", "metric", "confidence", "margin")
        kwargs = {name: getattr(self, name) for name in names} | kwargs
        return LossComparisonDisplay.from_scores(self.scores, ax=ax, **kwargs)

    def __repr__(self):
        summary = self.summary()
        others = summary[summary["difference"].notna()]
        half = (others["high"] - others["low"]) / 2
        # The baseline has no row in `others`. In the columns added here, pandas gives it NaN.
        shown = summary["mean"].map("{:.4f}".format).to_frame()
        words = _statistics.intervals_in_words(others["difference"], half)
        shown["difference"] = pd.Series(words, index=others.index)
        shown["p"] = others["p_value"].map("{:.3f}".format)
        shown[""] = summary["verdict"]
        shown = shown.fillna("").rename_axis(None)
        n_runs, n_splits = len(self.frame) // len(summary), self.frame["split"].nunique()
        title = f"LossComparison by {self.metric}: {n_runs} runs per model on {n_splits} splits"
        omitted = [f"Omitted: {name}: {why}" for name, why in (self.omitted or {}).items()]
        return "\n".join([title, shown.to_string(), f"Verdict: {self.verdict}", *omitted])


def _in_words(row):
    half = (row["high"] - row["low"]) / 2
    return _statistics.intervals_in_words([row["difference"]], [half])[0]


def _missing_in_words(row):
    more, times = row["more_folds"], row["times_rows"]
    if times == inf:
        return "a margin above 0"
    folds = f"{more:.0f} more {'fold' if more == 1 else 'folds'} or " if more < inf else ""
    return f"about {folds}{times:.1f} times the samples"
