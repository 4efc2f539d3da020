"""How much likelier a row is among new rows than among those that calibrate."""

import numpy as np
from scipy.sparse import issparse, vstack
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils import indexable

from sktopk._common._input import take_rows
from sktopk._common._scalars import check_nonnegative, on_host

# Shares that a classifier of some thousand rows can tell from 0 and 1.
_SURE = 1e-4


def check_likelihood_ratio(value):
    """Raise unless a ratio may come from `value`: None, a function or a classifier."""
    if value is None or (hasattr(value, "predict_proba") and not isinstance(value, type)):
        return
    if not callable(value) or isinstance(value, type):
        raise TypeError(
            "likelihood_ratio must be None, a function of X or a classifier with predict_proba; "
            f"arrays are passed to fit and predict; got {value!r}"
        )


def check_new_rows(value, X_new):
    """Raise unless there are new rows where the ratio is a classifier that learns them."""
    if _learns(value) == (X_new is None):
        raise ValueError(
            "X_new must be passed where likelihood_ratio is a classifier to train, and only then; "
            f"got likelihood_ratio={value!r} and {'no X_new' if X_new is None else 'X_new'}"
        )


def _learns(value):
    return hasattr(value, "fit") and not isinstance(value, FrozenEstimator)


def fit_likelihood_ratio(value, X, X_new, train):
    """Return what gives the ratio of rows: a classifier trained to tell `X_new` from `X`.

    Of X it sees the rows `train`, so that others calibrate; None for all. A function and a
    fitted classifier, which is frozen, need no new rows.
    """
    if not _learns(value):
        return value
    X = take_rows(indexable(X)[0], train)
    n_old, n_new = n_rows(X), n_rows(X_new)
    is_new = np.repeat([False, True], [n_old, n_new])
    return clone(value).fit(stacked(X, X_new), is_new)


def ratio_of_rows(source, X, given, n_samples):
    """Return the ratio of each row, from an array that was `given` or else by `source`.

    That is a function or a fitted classifier, whose odds are the ratio but for a factor, which
    cancels. None where there is neither.
    """
    if source is None and given is None:
        return None
    if source is not None and given is not None:
        raise ValueError(
            "likelihood_ratio must be passed as an array or be a parameter; got both an array "
            f"and {source!r}"
        )
    if given is None and hasattr(source, "predict_proba"):
        share = np.asarray(on_host(source.predict_proba(X), "likelihood_ratio"), dtype=np.float64)
        if share.shape != (n_samples, 2):
            raise ValueError(
                "likelihood_ratio must be a classifier of two classes, the second of them new "
                f"rows; got probabilities of shape {share.shape}"
            )
        share = np.clip(share[:, 1], _SURE, 1 - _SURE)
        given = share / (1 - share)
    elif given is None:
        given = source(X)
    return check_nonnegative(given, "likelihood_ratio", n_samples, "one per row of X")


def n_rows(X):
    """Return how many rows there are."""
    return X.shape[0] if hasattr(X, "shape") else len(X)


def stacked(X, X_new):
    """Return the rows of both: of two frames, two sparse matrices, two lists or arrays."""
    if issparse(X) or issparse(X_new):
        return vstack([X, X_new], format="csr")
    if hasattr(X, "iloc") and hasattr(X_new, "iloc"):
        # Imported where it is needed: the package without it starts much faster.
        import pandas as pd

        return pd.concat([X, X_new])
    if isinstance(X, list | tuple) and isinstance(X_new, list | tuple):
        return [*X, *X_new]
    return np.concatenate([np.asarray(on_host(X, "X")), np.asarray(on_host(X_new, "X_new"))])


def calibration_ratio(source, given, trained, n_samples):
    """Return the ratio of the rows that calibrate, of `n_samples` given to fit; None for none."""
    if given is not None:
        which = "one per row given to fit"
        given = check_nonnegative(given, "likelihood_ratio", n_samples, which)
        given = take_rows(given, trained.held_out)
    ratio = ratio_of_rows(source, trained.X, given, len(trained.y))
    if ratio is not None and not ratio.any():
        raise ValueError(
            "likelihood_ratio must be positive for at least one row that calibrates; all are zero"
        )
    return ratio
