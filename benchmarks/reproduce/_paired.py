"""Paired differences from a baseline, with confidence intervals and verdicts."""

from dataclasses import dataclass

from _protocol import mean_and_half

from sktopk.metrics._statistics import verdict_of

# Differences of at most one point do not matter.
MARGIN = 1.0
# With fewer runs there is no verdict.
LEAST = 3
RULE = (
    "Better: the 95 % confidence interval of the difference lies above 0; worse: below 0. "
    f"Equivalent: the interval contains 0 and lies within {MARGIN:g} point. Inconclusive: the "
    "interval contains 0 and is wider."
)


def verdict(mean, half):
    """Return the verdict on a mean difference in points; `half` is half its interval's width."""
    return verdict_of(mean, half, MARGIN)


@dataclass
class Gain:
    """The mean difference of a method from the better of its baselines, in units of the metric."""

    baseline: str
    of_baseline: float
    value: float
    mean: float
    half: float
    n: int

    @property
    def verdict(self):
        """The verdict by the 95 % confidence interval, or "too few runs"."""
        if self.n < LEAST:
            return "too few runs"
        return verdict(self.mean, self.half)

    @property
    def difference(self):
        return f"{self.mean:+.2f}" + (f" ± {self.half:.2f}" if self.n > 1 else "")

    def __str__(self):
        return f"{self.difference}, {self.verdict}"


def gain(runs, method, metric, *, baselines, column, pair, overlap=0.0):
    """Compare a method with the baseline of the larger mean, over the runs that both have.

    Parameters
    ----------
    runs : DataFrame
        The runs of one setting.
    method, metric : str
        A value of `column`, and the name of the column of the metric. Larger values are better.
    baselines : sequence of str
        Values of `column`. The baseline is the one with the largest mean among those that were run.
    column : str
        The column with the names of the methods.
    pair : list of str
        Two runs are a pair if they have the same values in these columns.
    overlap : float, default=0.0
        Number of test samples per training sample, if runs are folds of the same samples. The
        interval then has the correction of Nadeau and Bengio.

    Returns
    -------
    Gain or None
        None if no run has a pair with a baseline.
    """
    table = runs.pivot_table(index=pair, columns=column, values=metric)
    found = [name for name in baselines if name in table and name != method]
    if method not in table or not found:
        return None
    table = table[[method, *found]].dropna()
    if table.empty:
        return None
    best = max(found, key=lambda name: table[name].mean())
    mean, half = mean_and_half(table[method] - table[best])
    half *= (1 + len(table) * overlap) ** 0.5
    return Gain(best, table[best].mean(), table[method].mean(), mean, half, len(table))
