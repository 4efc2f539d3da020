"""Scores from logs: labels of rows that were looked at with a known probability."""

from typing import NamedTuple

import numpy as np
from scipy.special import chdtri

from sktopk._common._scalars import on_host
from sktopk._common._warnings import warn

# Rounding of a share such as 1 / 3 that was written to a file and read.
_ROUNDING = 1e-12


def one_per_row(y_true):
    """Return the labels as an array of one per row; a column is taken as scikit-learn takes it."""
    y_true = np.asarray(on_host(y_true, "y_true"))
    if y_true.ndim == 2 and y_true.shape[1] == 1:
        y_true = y_true[:, 0]
    if y_true.ndim != 1:
        raise ValueError(f"y_true must have shape (n_samples,); got shape {y_true.shape}")
    return y_true


def labelled_rows(propensity, n_samples, of="y_score"):
    """Return the numbers of the rows of known label, and the propensity of each.

    Raises
    ------
    ValueError
        Unless it is a probability in (0, 1] or NaN for each row, and not NaN for all.
    """
    values = np.asarray(on_host(propensity, "propensity"))
    values = values.astype(np.float64) if values.dtype.kind in "fiub" else values
    if values.dtype != np.float64 or values.shape != (n_samples,):
        raise ValueError(
            f"propensity must be {n_samples} numbers, one per row of {of}, NaN where the label is "
            f"not known; got dtype {values.dtype} and shape {values.shape}"
        )
    known = np.flatnonzero(~np.isnan(values))
    refused = values[known][~((values[known] > 0) & (values[known] <= 1 + _ROUNDING))]
    if len(refused):
        raise ValueError(
            f"propensity must be in (0, 1], or NaN where the label is not known; got {refused[0]:g}"
        )
    if not len(known):
        raise ValueError("propensity must be known for at least one row; got NaN for all")
    return known, np.minimum(values[known], 1.0)


class Estimated(NamedTuple):
    """What labels of some rows say of all: their sums over rows have the right mean.

    `positive` is 1 / propensity of a row known to be positive, `known` that of a row of known
    label, 0 for all others.
    """

    positive: np.ndarray
    known: np.ndarray

    @classmethod
    def of(cls, y_true, propensity, is_positive):
        """Make it of labels, which are not looked at where the propensity is NaN."""
        y_true = one_per_row(y_true)
        rows, propensity = labelled_rows(propensity, len(y_true), "y_true")
        positive, known = np.zeros((2, len(y_true)))
        known[rows] = 1 / propensity
        positive[rows] = is_positive(y_true[rows]) / propensity
        return cls(positive, known)

    def warn_if_blind(self, score):
        """Warn the user of `score` if some rows had no chance: none of them was drawn."""
        if (self.known == 0).any() and self.known.max() == 1:
            warn(
                f"{score}: every known label has propensity 1, and some rows have none: what "
                "these hold is taken for nothing. Draw some of them, as BudgetClassifier(explore=) "
                "does"
            )


def poisson_interval(weight, level, largest):
    r"""Return an interval of the mean of :math:`\sum_i w_i`, over which independent rows count.

    The gamma interval of Fay and Feuer (1997) for weighted sums of Poisson counts: with equal
    weights the exact one of Garwood. `largest` is the weight that one more row may have.

    Parameters
    ----------
    weight : ndarray of shape (n_found,)
        Of the rows found.
    level : float
        That of both ends together, in (0, 1).
    largest : float
        At least 0.
    """
    tail = (1 - level) / 2
    total, variance = weight.sum(), (weight**2).sum()
    low = 0.0
    if total > 0:
        low = variance / (2 * total) * chdtri(2 * total**2 / variance, 1 - tail)
    total, variance = total + largest, variance + largest**2
    high = variance / (2 * total) * chdtri(2 * total**2 / variance, tail) if total > 0 else 0.0
    return low, high


def recall_interval(found, missed, level, largest_found, largest_missed):
    """Return an interval of a recall, of the weights of positives found and of those missed.

    The ends are those of both sums at half the error each (Bonferroni), so that it is
    a little wide; (0, 1) where nothing is known.
    """
    half = (1 + level) / 2
    found_low, found_high = poisson_interval(found, half, largest_found)
    missed_low, missed_high = poisson_interval(missed, half, largest_missed)
    low = found_low / (found_low + missed_high) if found_low + missed_high > 0 else 0.0
    high = found_high / (found_high + missed_low) if found_high + missed_low > 0 else 1.0
    return low, high
