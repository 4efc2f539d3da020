"""Paired t-test for scores on cross-validation splits, whose training samples overlap."""

from bisect import bisect_left
from itertools import count, takewhile
from math import inf, sqrt
from typing import NamedTuple

import numpy as np
from scipy.special import stdtr, stdtrit

from sktopk._common._scalars import check_number

BETTER, WORSE, EQUIVALENT, INCONCLUSIVE = "better", "worse", "equivalent", "inconclusive"
_MOST_RUNS = 1000  # `until_conclusive` returns infinity if more additional runs are necessary.


class PairedDifference(NamedTuple):
    """Mean difference of scores (loss minus baseline) over runs, and its standard error."""

    mean: float
    error: float
    n_runs: int
    overlap: float = 0.0  # assumed correlation of two runs

    @classmethod
    def of(cls, scores, baseline, overlap):
        runs = np.subtract(scores, baseline)
        found = np.array([runs.mean(), runs.std(ddof=1)])
        found[abs(found) < 1e-12 * np.abs([scores, baseline]).max()] = 0  # rounding errors
        error = sqrt(_variance_of_mean(len(runs), overlap)) * found[1]
        return cls(float(found[0]), float(error), len(runs), overlap)

    def half_width(self, confidence):
        check_number(confidence, "confidence", 0, 1, bounds="neither")
        return _t_quantile(self.n_runs, confidence) * self.error

    def p_value(self):
        """Return the p-value for the hypothesis that the expected difference is 0."""
        if self.error > 0:
            return 2 * float(stdtr(self.n_runs - 1, -abs(self.mean) / self.error))
        return float(self.mean == 0)  # all runs have the same difference

    def until_conclusive(self, confidence, margin):
        """Estimate how many more runs, or times the samples, a conclusive verdict needs."""
        half_width = self.half_width(confidence)
        if verdict_of(self.mean, half_width, margin) != INCONCLUSIVE:
            return 0.0, 1.0
        allowed = max(abs(self.mean), margin - abs(self.mean))
        # The length of the interval is assumed to be proportional to ``n_samples ** -0.5``.
        times_rows = (half_width / allowed) ** 2 if allowed > 0 else inf
        spread = self.error / sqrt(_variance_of_mean(self.n_runs, self.overlap))

        def is_conclusive(more):
            error = spread * sqrt(_variance_of_mean(self.n_runs + more, self.overlap))
            return _t_quantile(self.n_runs + more, confidence) * error <= allowed

        # More runs give a shorter interval, so bisection finds the smallest sufficient number.
        more = bisect_left(range(_MOST_RUNS + 1), True, key=is_conclusive)
        return float(more) if more <= _MOST_RUNS else inf, times_rows


def _variance_of_mean(n_runs, overlap):
    """Return the variance of the mean of runs, divided by the sample variance of the runs."""
    # Let runs have variance v and correlation r = `overlap`. Their mean then has the variance
    # v (1 + (n_runs - 1) r) / n_runs, and their sample variance has the expectation v (1 - r).
    return 1 / n_runs + overlap / (1 - overlap)


def _t_quantile(n_runs, confidence):
    return float(stdtrit(n_runs - 1, (1 + float(confidence)) / 2))


def verdict_of(difference, half_width, margin):
    """Return the verdict on an interval `difference` ± `half_width` (see LossComparisonDisplay)."""
    check_number(margin, "margin", 0)
    if abs(difference) > half_width:
        return BETTER if difference > 0 else WORSE
    return EQUIVALENT if abs(difference) + half_width <= margin else INCONCLUSIVE


def best_runs(cv_results, param, metric):
    """Return a dict from each value of `param` to the fold scores of its best candidate."""
    if param not in cv_results:
        known = [key for key in cv_results if key.startswith("param_")]
        raise ValueError(f"param must be one of {known}; got {param!r}")
    splits = (f"split{i}_test_{metric}" for i in count())
    columns = [cv_results[key] for key in takewhile(cv_results.__contains__, splits)]
    if not columns:
        means = [key for key in cv_results if key.startswith("mean_test_")]
        known = [key.removeprefix("mean_test_") for key in means]
        raise ValueError(f"metric must be one of {known}; got {metric!r}")
    runs = np.transpose(columns)
    # A candidate with a failed fit has the mean NaN. Rank this candidate last.
    mean = np.nan_to_num(runs.mean(axis=1), nan=-np.inf)
    best = {}
    for candidate, value in enumerate(cv_results[param]):
        # scikit-learn masks the value if the candidate is from a grid without this parameter.
        if value is not np.ma.masked:
            other = best.setdefault(str(value), candidate)
            best[str(value)] = max(other, candidate, key=lambda i: mean[i])
    return {loss: runs[candidate] for loss, candidate in best.items()}


def paired_differences(scores, baseline, overlap):
    """Return a dict that maps each loss to its `PairedDifference` from the baseline."""
    check_number(overlap, "overlap", 0, 1, bounds="left")
    if baseline not in scores or len(scores) < 2:
        raise ValueError(f"scores must have the key {baseline!r} and another; got {[*scores]}")
    scores = {loss: _checked_runs(loss, each) for loss, each in scores.items()}
    lengths = {loss: len(each) for loss, each in scores.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"scores must have the same length for each loss; got {lengths}")
    base = scores.pop(baseline)
    return {loss: PairedDifference.of(each, base, float(overlap)) for loss, each in scores.items()}


def _checked_runs(loss, scores):
    scores = np.asarray(scores)
    if scores.dtype.kind not in "fiu" or scores.ndim != 1 or len(scores) < 2:
        raise ValueError(
            f"scores[{loss!r}] must have shape (n_runs,) with at least two numbers; "
            f"got dtype {scores.dtype} and shape {scores.shape}"
        )
    if not np.isfinite(scores).all():
        run = int(np.flatnonzero(~np.isfinite(scores))[0])
        raise ValueError(f"scores[{loss!r}] must be finite; got {scores[run]} in run {run}")
    return scores.astype(np.float64)


def intervals_in_words(difference, half_width):
    """Return a text such as "+0.048 ± 0.016" for each interval, all with equally many decimals."""
    widest = max(half_width)
    # The widest interval gets two significant digits. If all widths are 0, show three decimals.
    digits = int(np.clip(1 - np.floor(np.log10(widest)), 0, 12)) if widest > 0 else 3
    pairs = zip(difference, half_width, strict=True)
    return [f"{each:+.{digits}f} ± {half:.{digits}f}" for each, half in pairs]
