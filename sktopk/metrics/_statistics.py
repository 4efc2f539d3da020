"""Statistics of scores on splits that share samples."""

from bisect import bisect_left
from itertools import count, takewhile
from math import inf, sqrt
from typing import NamedTuple

import numpy as np
from scipy.special import stdtr, stdtrit

from sktopk._common._scalars import check_number

# What may be concluded from an interval of a difference.
BETTER, WORSE, AS_GOOD, CANNOT_TELL = "better", "worse", "as good", "cannot tell"
# Nobody trains more than so many more runs to know.
_MOST_RUNS = 1000


class PairedDifference(NamedTuple):
    """Mean difference of two scores on the same splits, with the corrected resampled t-test.

    `error` is the standard error of the mean, the square root in the interval of
    `LossComparisonDisplay`; `overlap` is the number of test samples per training sample.
    """

    mean: float
    error: float
    n_runs: int
    overlap: float = 0.0

    @classmethod
    def of(cls, scores, baseline, test_fraction):
        """Return it for scores that are paired: at least two, on `test_fraction` of the rows."""
        runs = np.subtract(scores, baseline)
        overlap = test_fraction / (1 - test_fraction)
        error = np.sqrt((1 / len(runs) + overlap) * runs.var(ddof=1))
        return cls(float(runs.mean()), float(error), len(runs), float(overlap))

    def half_width(self, confidence):
        """Return half the length of the confidence interval."""
        check_number(confidence, "confidence", 0, 1, bounds="neither")
        return _t_quantile(self.n_runs, confidence) * self.error

    def p_value(self):
        """Return the p-value; of runs that all differ by one number 0, or 1 where that is 0."""
        if self.error > 0:
            return 2 * float(stdtr(self.n_runs - 1, -abs(self.mean) / self.error))
        return float(self.mean == 0)

    def verdict(self, confidence, margin):
        """Return BETTER, WORSE, AS_GOOD or CANNOT_TELL, as `verdict_of` the interval."""
        return verdict_of(self.mean, self.half_width(confidence), margin)

    def more_runs(self, confidence, margin):
        """Return about how many more runs would tell, if their mean and spread stay.

        It is 0 if the runs tell already, and infinite if a thousand more would not.
        """
        if self.verdict(confidence, margin) != CANNOT_TELL:
            return 0.0
        allowed = _telling_half_width(self.mean, margin)
        spread = self.error / sqrt(1 / self.n_runs + self.overlap)

        def tells(more):
            n_runs = self.n_runs + more
            error = spread * sqrt(1 / n_runs + self.overlap)
            return _t_quantile(n_runs, confidence) * error <= allowed

        # The half width falls with every run.
        more = bisect_left(range(_MOST_RUNS + 1), True, key=tells)
        return float(more) if more <= _MOST_RUNS else inf

    def times_rows(self, confidence, margin):
        """Return how many times the samples would tell, if the mean difference stays.

        The spread of scores falls with the square root of the number of samples. It is 1 if these
        samples tell already, and infinite for a difference and a margin of 0.
        """
        if self.verdict(confidence, margin) != CANNOT_TELL:
            return 1.0
        allowed = _telling_half_width(self.mean, margin)
        return (self.half_width(confidence) / allowed) ** 2 if allowed > 0 else inf


def _t_quantile(n_runs, confidence):
    """Half the width of an interval of the mean of so many runs, in standard errors."""
    return float(stdtrit(n_runs - 1, (1 + float(confidence)) / 2))


def _telling_half_width(difference, margin):
    """The half width at which a difference begins to be clear, or clearly within the margin."""
    return max(abs(difference), margin - abs(difference))


def verdict_of(difference, half_width, margin):
    """Return what an interval says: BETTER, WORSE, AS_GOOD or CANNOT_TELL.

    An interval that holds zero is AS_GOOD if all of it lies within the margin.
    """
    check_number(margin, "margin", 0)
    if sign := clear_sign(difference, half_width):
        return BETTER if sign > 0 else WORSE
    return AS_GOOD if abs(difference) + half_width <= margin else CANNOT_TELL


def best_runs(cv_results, param, metric):
    """Return the runs of each value of a searched parameter, at its best other parameters."""
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
    # What failed on a fold is the last to be chosen, and refused if there is nothing else.
    mean = np.nan_to_num(runs.mean(axis=1), nan=-np.inf)
    best = {}
    for candidate, value in enumerate(cv_results[param]):
        # A candidate without the parameter belongs to another grid of the search.
        if value is not np.ma.masked:
            other = best.setdefault(str(value), candidate)
            best[str(value)] = max(other, candidate, key=lambda i: mean[i])
    return {loss: runs[candidate] for loss, candidate in best.items()}


def paired_differences(scores, baseline, test_fraction):
    """Return the `PairedDifference` of each other loss from the baseline, by name."""
    check_number(test_fraction, "test_fraction", 0, 1, bounds="left")
    test_fraction = float(test_fraction)
    if baseline not in scores or len(scores) < 2:
        raise ValueError(
            f"scores must hold baseline={baseline!r} and another loss; got {list(scores)}"
        )
    scores = {loss: _checked_runs(loss, each) for loss, each in scores.items()}
    lengths = {loss: len(each) for loss, each in scores.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"scores must be as many for each loss, in pairs; got {lengths}")
    base = scores.pop(baseline)
    return {loss: PairedDifference.of(each, base, test_fraction) for loss, each in scores.items()}


def _checked_runs(loss, scores):
    scores = np.asarray(scores)
    if scores.dtype.kind not in "fiu" or scores.ndim != 1 or len(scores) < 2:
        raise ValueError(
            f"scores[{loss!r}] must be the numbers of at least two runs; "
            f"got dtype {scores.dtype} and shape {scores.shape}"
        )
    if not np.isfinite(scores).all():
        run = int(np.flatnonzero(~np.isfinite(scores))[0])
        raise ValueError(f"scores[{loss!r}] must be finite; got {scores[run]} in run {run}")
    return scores.astype(np.float64)


def clear_sign(difference, half_width):
    """Return the sign of a difference that exceeds the half width, 0 where it may be chance."""
    return int(np.sign(difference)) if abs(difference) > half_width else 0


def intervals_in_words(difference, half_width):
    """Return "+0.048 ± 0.016" for each interval, all with the same number of digits."""
    widest = max(half_width)
    # Two digits of the widest interval say all; three of nothing.
    digits = max(0, 1 - int(np.floor(np.log10(widest)))) if widest > 0 else 3
    return [
        f"{each:+.{digits}f} ± {half:.{digits}f}"
        for each, half in zip(difference, half_width, strict=True)
    ]
