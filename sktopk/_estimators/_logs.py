"""Logs of queues in `fit`: rows of which some have a label, each with a known chance."""

from typing import NamedTuple

import numpy as np
from sklearn.utils import indexable

from sktopk._common._input import as_lazy, check_given, take_params, take_rows
from sktopk._common._scalars import on_host
from sktopk._common._warnings import warn

# Rounding of a share such as 1 / 3 that was written to a file and read.
_ROUNDING = 1e-12


def labelled_rows(propensity, n_samples, of="X"):
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


class Log(NamedTuple):
    """The rows of known label among the `n_samples` of a log, and what belongs to them."""

    n_samples: int
    X: object
    y: object
    propensity: np.ndarray
    params: dict


def labelled(X, y, propensity, params):
    """Return the `Log` of rows given to `fit`, with its parameters for the rows that are left."""
    check_given(y)
    X, y = indexable(as_lazy(X))[0], on_host(y, "y")
    n_samples = len(y)
    known, propensity = labelled_rows(propensity, n_samples, "X")
    if len(known) < n_samples and propensity.min() == 1:
        warn(
            f"every known label has propensity 1, and {n_samples - len(known)} of {n_samples} rows "
            "have none: what fit learns and promises is for rows like the known ones. Draw some "
            "of the others, as BudgetClassifier(explore=) does"
        )
    y = take_rows(y, known)
    if np.asarray(y).dtype.kind == "O":
        # Labels that stood beside a missing one: numbers are no objects any more.
        y = np.array(list(y))
    params = take_params(params, known, n_samples)
    return Log(n_samples, take_rows(X, known), y, propensity, params)


def weighed(sample_weight, propensity):
    """Return the weights of rows that stand for 1 / propensity rows each."""
    return (1.0 if sample_weight is None else on_host(sample_weight, "sample_weight")) / propensity


def rows_to_train_with(X, y, sample_weight, groups, propensity):
    """Return X, y, weights and groups of the rows of known label in a log."""
    log = labelled(X, y, propensity, {"sample_weight": sample_weight, "groups": groups})
    return log.X, log.y, weighed(log.params["sample_weight"], log.propensity), log.params["groups"]
