"""What users pass in, checked: rows, labels, weights, validation rows."""

from contextlib import contextmanager
from numbers import Real

import numpy as np
from scipy.sparse import issparse
from sklearn.utils.validation import validate_data

from ._labels import check_labels, check_length
from ._lazy_rows import (
    LazyRows,
    SomeRows,
    as_lazy,
    check_table,
    is_memory_map,
    own_labels,
)

FLOATS = {"auto": [np.float64, np.float32], "float32": np.float32, "float64": np.float64}


def check_rows(estimator, X, *, reset):
    """Return X as a float array, CSR or lazy rows, images only where a `module` can take them."""
    check_table(X)
    X = as_lazy(X, estimator.dtype)
    n_dim = getattr(X, "ndim", 2)
    if n_dim > 2 and estimator.module is None:
        raise ValueError(
            f"X must have shape (n_samples, n_features); got {n_dim} dimensions: found array "
            f"with dim {n_dim}. Images (n_samples, channels, height, width) need module="
        )
    if isinstance(X, LazyRows):
        # Numbers are checked when they are read.
        if n_dim < 2:
            raise ValueError(f"X must have rows of numbers; got a Dataset of shape {X.shape}")
        if reset:
            vars(estimator).pop("feature_names_in_", None)
    else:
        X = validate_data(
            estimator,
            X,
            reset=reset,
            accept_sparse="csr",
            dtype=FLOATS[estimator.dtype],
            allow_nd=n_dim > 2,
            ensure_2d=n_dim <= 2,
        )
    if reset:
        # Which scikit-learn counts in tables only.
        estimator.n_features_in_ = X.shape[1]
        estimator.input_shape_ = X.shape[1:]
    elif X.shape[1:] != estimator.input_shape_:
        raise ValueError(
            f"X must have rows of shape {estimator.input_shape_}, as in fit; got {X.shape[1:]}"
        )
    return X


def check_validation(estimator, X_val, y_val):
    """Return validation rows, their labels, and weights of 1."""
    y_val = own_labels(X_val, y_val)
    if X_val is None or y_val is None:
        missing = "X_val" if X_val is None else "y_val"
        raise ValueError(f"X_val and y_val must be passed together; {missing} is None")
    try:
        X_val = check_rows(estimator, X_val, reset=False)
    except ValueError as error:
        raise ValueError(f"X_val is not allowed: {error}") from error
    y_val = check_labels(y_val, "y_val")
    check_length(y_val, X_val.shape[0], "y_val")
    return X_val, y_val, np.ones(len(y_val))


def check_weight(sample_weight, n_samples):
    """Return finite nonnegative weights as float64 of shape (n_samples,), not all 0."""
    if sample_weight is None:
        return np.ones(n_samples)
    if isinstance(sample_weight, Real):
        sample_weight = np.full(n_samples, sample_weight)
    try:
        weight = np.array(sample_weight, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"sample_weight must hold numbers; got {sample_weight!r}") from error
    if weight.shape != (n_samples,):
        raise ValueError(
            f"sample_weight must be 1D with one weight per row of X, shape ({n_samples},); "
            f"got shape {weight.shape}"
        )
    refused = weight[~(np.isfinite(weight) & (weight >= 0))]
    if len(refused):
        raise ValueError(f"sample_weight must be finite and nonnegative; got {refused[0]:g}")
    if not weight.any():
        raise ValueError("sample_weight must be positive for at least one row; all are zero")
    return weight


def take(X, mask):
    """Rows of X where `mask` is true; looked up later where a copy of them would be large."""
    if isinstance(X, np.ndarray) and not is_memory_map(X):
        return X[mask]
    index = np.flatnonzero(mask)
    few = issparse(X) and 2 * len(index) < X.shape[0]
    return X[index] if few else SomeRows(X, index)


def take_rows(values, index):
    """Return the rows of an array, a sparse matrix, a frame or a list; all of them for None."""
    if index is None:
        return values
    if isinstance(values, LazyRows):
        return SomeRows(values, index)
    if hasattr(values, "iloc"):
        return values.iloc[index]
    if isinstance(values, list | tuple):
        return [values[i] for i in index]
    return values[index]


def take_params(params, index, n_samples):
    """Return fit parameters for some rows: of those with `n_samples` values, these rows."""

    def length(value):
        shape = getattr(value, "shape", ())
        return shape[0] if shape else len(value) if isinstance(value, list | tuple) else None

    return {
        name: take_rows(value, index) if length(value) == n_samples else value
        for name, value in params.items()
    }


COLUMNS = ("n_features_in_", "feature_names_in_", "input_shape_")


def columns_of(estimator):
    """What an estimator knows of the columns of X, by attribute."""
    return {name: value for name, value in vars(estimator).items() if name in COLUMNS}


@contextmanager
def columns_kept(estimator):
    """Take back what a refused table has changed of the columns that predictions expect."""
    before = columns_of(estimator)
    try:
        yield
    except BaseException:
        for name in columns_of(estimator):
            delattr(estimator, name)
        vars(estimator).update(before)
        raise
