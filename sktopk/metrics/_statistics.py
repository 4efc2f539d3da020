"""Statistics of scores on splits that share rows."""

import numpy as np


def corrected_standard_error(runs, test_fraction):
    """Standard error of the mean difference of runs that share training rows.

    Parameters
    ----------
    runs : ndarray of shape (..., n_runs)
        Differences, n_runs >= 2.
    test_fraction : float
        Share of the rows that each run tests on, in [0, 1).

    Returns
    -------
    error : ndarray of shape (...)
        The square root in the interval of :class:`LossComparisonDisplay`.
    """
    correction = test_fraction / (1 - test_fraction)
    return np.sqrt((1 / runs.shape[-1] + correction) * runs.var(axis=-1, ddof=1))


def intervals_in_words(difference, half_width):
    """Return "+0.048 ± 0.016" for each interval, all with the same number of digits."""
    widest = max(half_width)
    # Two digits of the widest interval say all; three of nothing.
    digits = max(0, 1 - int(np.floor(np.log10(widest)))) if widest > 0 else 3
    return [
        f"{each:+.{digits}f} ± {half:.{digits}f}"
        for each, half in zip(difference, half_width, strict=True)
    ]
