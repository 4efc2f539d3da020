"""Differences to a baseline, paired, and whether they are more than chance."""

from dataclasses import dataclass

from _protocol import mean_and_half

from sktopk.metrics._statistics import verdict_of

# What an interval of a difference can say, and the difference that does not matter: a point.
VERDICTS = ("won", "as good", "cannot tell", "lost")
MARGIN = 1.0
# Fewer runs say nothing.
LEAST = 3
RULE = (
    "a 95 % confidence interval above 0 is won, below 0 lost; one that holds 0 is as good if all "
    f"of it lies within {MARGIN:g} point, and else cannot tell"
)


def verdict(mean, half):
    """One of VERDICTS on a mean difference in points and half the width of its interval."""
    said = verdict_of(mean, half, MARGIN)
    return {"better": "won", "worse": "lost"}.get(said, said)


@dataclass
class Gain:
    """A method's mean difference to the better of its baselines, in units of the metric."""

    baseline: str
    of_baseline: float
    value: float
    mean: float
    half: float
    n: int

    @property
    def verdict(self):
        """One of VERDICTS, by the 95 % confidence interval, or that runs are too few for it."""
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
        A value of `column`, and the column of the metric, the larger the better.
    baselines : sequence of str
        Those of them that were run compete to be the baseline.
    column : str
        The column that names methods.
    pair : list of str
        Columns whose values pair two runs.
    overlap : float, default=0.0
        Test rows per training row where runs are folds of the same rows: the interval then
        has the correction of Nadeau and Bengio.

    Returns
    -------
    Gain or None
        None where no run pairs with a baseline.
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
