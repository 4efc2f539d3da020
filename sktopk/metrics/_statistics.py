"""Statistics of scores on splits that share rows."""

from typing import NamedTuple

import numpy as np
from scipy.special import stdtr, stdtrit

from sktopk._common._scalars import check_number


class PairedDifference(NamedTuple):
    """Mean difference of two scores on the same splits, with the corrected resampled t-test.

    Parameters
    ----------
    mean : float
    error : float
        Standard error of the mean, the square root in the interval of
        :class:`LossComparisonDisplay`.
    n_runs : int
    """

    mean: float
    error: float
    n_runs: int

    @classmethod
    def of(cls, scores, baseline, test_fraction):
        """Return it for scores that are paired: at least two, on `test_fraction` of the rows."""
        runs = np.subtract(scores, baseline)
        correction = test_fraction / (1 - test_fraction)
        error = np.sqrt((1 / len(runs) + correction) * runs.var(ddof=1))
        return cls(float(runs.mean()), float(error), len(runs))

    def half_width(self, confidence):
        """Return half the length of the confidence interval."""
        check_number(confidence, "confidence", 0, 1, bounds="neither")
        return float(stdtrit(self.n_runs - 1, (1 + float(confidence)) / 2)) * self.error

    def p_value(self):
        """Return the p-value; of runs that all differ by one number 0, or 1 where that is 0."""
        if self.error > 0:
            return 2 * float(stdtr(self.n_runs - 1, -abs(self.mean) / self.error))
        return float(self.mean == 0)


def paired_differences(scores, baseline, test_fraction):
    """Return the `PairedDifference` of each other loss from the baseline, by name.

    Parameters
    ----------
    scores : dict of str to array-like of shape (n_runs,)
    baseline : str
    test_fraction : float

    Raises
    ------
    TypeError, ValueError
        As `LossComparisonDisplay.from_scores`, whose parameters these are.
    """
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
