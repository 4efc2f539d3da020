"""Checks of X in all supported formats, and of labels and sample weights."""

import sys
from collections.abc import Iterator, Mapping, Set
from typing import NamedTuple

import numpy as np
from scipy.sparse import issparse
from sklearn.utils.validation import validate_data

from ._folds import shuffled_order
from ._frames import TAKES_TABLES, Categories, check_columns, explain
from ._groups import several_groups
from ._labels import check_given, check_labels, check_length, check_weight, encode_labels
from ._lazy_rows import LazyRows, SomeRows
from ._scalars import on_host, refuse_times_and_complex
from ._warnings import warn

# Numbers per chunk in the search for missing values.
_BLOCK_NUMBERS = 1 << 22
FLOATS = [np.float64, np.float32]


def check_rows(estimator, X):
    """Return X as a float array, canonical CSR or lazy rows, with encoded categories."""
    X = _coded_rows(estimator, X, reset=False)
    if hasattr(estimator, "categories_"):
        X = estimator.categories_.with_statistics(X)
    return _check_shape(estimator, X, reset=False)


def _check_shape(estimator, X, reset):
    if reset:
        estimator.input_shape_ = X.shape[1:]
    elif X.shape[1:] != estimator.input_shape_:
        raise ValueError(
            f"X must have samples of shape {estimator.input_shape_}, as in fit; got {X.shape[1:]}"
        )
    return X


def _coded_rows(estimator, X, *, reset, takes_tables=False, takes_images=True, sample_weight=None):
    """Return X as a float array, canonical CSR or lazy rows. Categories are integers.

    `reset` says whether to set attributes of the estimator such as `n_features_in_`, instead of
    comparing X with them. `takes_tables` allows missing values and categories of data frames,
    which are ordered by `sample_weight`. `takes_images` allows more than two dimensions.
    """
    check_table(X)
    X = as_lazy(X)
    n_dim = getattr(X, "ndim", 2)
    if hasattr(X, "iloc") and n_dim == 1:
        raise ValueError(
            f"X must have two dimensions; got a {type(X).__name__}. For one sample, pass "
            "X.iloc[[i]]; for one column, X[['name']]"
        )
    if n_dim > 2 and not takes_images:
        raise ValueError(
            f"X must have shape (n_samples, n_features); got {n_dim} dimensions: found array "
            f"with dim {n_dim}. For images (n_samples, channels, height, width), set module"
        )
    if reset:
        vars(estimator).pop("categories_", None)
        estimator._missing_ = () if takes_tables else None
    takes_missing = getattr(estimator, "_missing_", None) is not None and n_dim == 2
    if isinstance(X, LazyRows):
        # Check only the shape of lazy rows. The values are checked when they are read.
        if n_dim < 2:
            raise ValueError(f"X must have at least 2 dimensions; got a Dataset of shape {X.shape}")
        if reset:
            vars(estimator).pop("feature_names_in_", None)
        X = _encode(estimator, X, is_frame=False)
    else:
        X = on_host(X, "X")
        is_frame = hasattr(X, "columns") and hasattr(X, "dtypes")
        if is_frame:
            # If X has unknown columns, skip our check: scikit-learn's error will list them.
            names = None if reset else getattr(estimator, "feature_names_in_", None)
            if names is None or {*X.columns} <= {*names}:
                check_columns(X)
            if reset and takes_missing:
                weight = check_weight(sample_weight, X.shape[0])
                if (categories := Categories.of(X, weight)) is not None:
                    vars(estimator).pop("feature_names_in_", None)
                    estimator.categories_ = categories
        else:
            refuse_times_and_complex(X, "X")
        X = _validate(estimator, _encode(estimator, X, is_frame), reset, n_dim, takes_missing)
    if reset:
        _warn_of_channels_last(X.shape)
        # scikit-learn sets n_features_in_ only if X has two dimensions.
        estimator.n_features_in_ = X.shape[1]
    return X


def _validate(estimator, X, reset, n_dim, takes_missing):
    """Return X after scikit-learn's checks. Error messages name the column."""
    is_frame = hasattr(X, "columns") and hasattr(X, "dtypes")
    try:
        checked = validate_data(
            estimator,
            X,
            reset=reset,
            accept_sparse="csr",
            dtype=FLOATS,
            allow_nd=n_dim > 2,
            ensure_2d=n_dim <= 2,
            ensure_all_finite="allow-nan" if takes_missing else True,
        )
    except (OverflowError, RuntimeError, TypeError, ValueError) as error:
        if is_frame and "feature names" not in str(error):
            explain(X, error, takes_missing)
        if isinstance(error, OverflowError):
            raise ValueError(f"X must hold numbers within the range of float64: {error}") from error
        if isinstance(error, TypeError) and not str(error).startswith("X "):
            raise TypeError(f"X must hold numbers: {error}") from error
        if str(error).startswith("could not convert string"):
            raise ValueError(
                f"X must hold numbers; {error}. Pass categories as columns of a pandas or polars "
                "data frame. Encode text first, for example with TfidfVectorizer and TruncatedSVD"
            ) from error
        if str(error).startswith("Input X contains NaN"):
            takes = TAKES_TABLES.format(what="missing values")
            raise ValueError(f"Input X contains NaN: impute them first; {takes}") from error
        raise
    return canonical(checked)


def canonical(X):
    """Return X. If X is sparse, return a matrix with sorted indices and without duplicates."""
    if issparse(X) and not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return X


def _encode(estimator, X, is_frame):
    """Return X with encoded categories if the estimator has `categories_`, else X unchanged."""
    categories = getattr(estimator, "categories_", None)
    if categories is None:
        return X
    if not is_frame and getattr(X, "ndim", 2) == 2:
        raise TypeError(
            f"X must be a data frame as in fit, because columns {[*categories.values]} had "
            f"categories; got {type(X).__name__}"
        )
    names = getattr(estimator, "feature_names_in_", None)
    # If the columns differ from those in fit, skip the encoding: scikit-learn raises an error.
    known = is_frame and (names is None or list(X.columns) == list(names))
    return categories.encode(X) if known else X


def columns_with_missing(X):
    """Return a tuple of the indices of all columns of X with missing values."""
    table = X
    while isinstance(table, SomeRows):
        table = table.table
    if len(X.shape) != 2 or isinstance(table, LazyRows):
        return ()  # Datasets with missing values are rejected
    found, step = np.zeros(X.shape[1], dtype=bool), max(1, _BLOCK_NUMBERS // X.shape[1])
    for start in range(0, X.shape[0], step):
        rows = X[np.arange(start, min(start + step, X.shape[0]))]
        if issparse(rows):
            found[rows.indices[np.isnan(rows.data)]] = True
        else:
            found |= np.isnan(rows).any(axis=0)
    return tuple(np.flatnonzero(found).tolist())


def _warn_of_channels_last(shape):
    """Warn if X looks like images of shape (n_samples, height, width, channels)."""
    n_dim, colours = len(shape), (1, 3, 4)
    if n_dim == 4 and shape[3] in colours and min(shape[1:3]) > max(colours):
        warn(
            f"X of shape {tuple(shape)} looks like images with channels last, but is used as "
            f"(n_samples, channels, height, width) with {shape[1]} channels: pass "
            "X.transpose(0, 3, 1, 2), or X.permute(0, 3, 1, 2) for tensors"
        )


class Samples(NamedTuple):
    """Checked samples, labels, weights and group indices (None without groups).

    `target` has class indices or, for rankings, 1 for positives. `count` has sample weights without
    the factors of `class_weight`. Both are None where nobody needs them.
    If samples of weight 0 were dropped, `present` is the mask of the samples that were kept.
    `coded` is None or the table with categories as integers. It determines the folds, because in
    X equal samples can have different target statistics. `only_cells`: see `Categories`.
    """

    X: object
    y: np.ndarray
    weight: np.ndarray
    groups: np.ndarray | None = None
    target: np.ndarray | None = None
    count: np.ndarray | None = None
    present: np.ndarray | None = None
    coded: np.ndarray | None = None
    only_cells: bool = False

    def order(self, seed):
        """Return one random integer per sample, from which folds are made.

        Equal samples and groups get the same integer. In a table of cells, equal samples get
        different integers: if all samples of a cell were held out, no scores would be known for it.
        """
        if self.only_cells and self.groups is None:
            return np.random.RandomState(seed).permutation(len(self.y))
        return shuffled_order(self.X if self.coded is None else self.coded, seed, self.groups)

    def as_given(self, values):
        """Return an array of all samples that the user passed, with NaN for dropped samples."""
        if self.present is None:
            return values
        of_all = np.full((len(self.present), *values.shape[1:]), np.nan, values.dtype)
        of_all[self.present] = values
        return of_all

    def take(self, mask):
        """Return the samples of a mask or of indices."""
        names = "y", "weight", "groups", "target", "count", "coded"
        parts = {name: getattr(self, name) for name in names}
        parts = {name: None if each is None else each[mask] for name, each in parts.items()}
        return Samples(take(self.X, mask), **parts, only_cells=self.only_cells)


def check_labelled(estimator, X, y, sample_weight, groups=None, *, reset, **options):
    """Check X, y, weights and groups. Return the samples of positive weight as `Samples`."""
    y = check_labels(own_labels(X, y))
    X = _coded_rows(estimator, X, reset=reset, sample_weight=sample_weight, **options)
    check_length(y, X.shape[0])
    weight = check_weight(sample_weight, X.shape[0])
    groups = None if groups is None else several_groups(groups, weight)
    rows, mask = Samples(X, y, weight, groups), weight > 0
    rows = rows if mask.all() else rows.take(mask)._replace(present=mask)
    categories = getattr(estimator, "categories_", Categories({}))
    rows = rows._replace(only_cells=categories.only_cells)
    if categories.many:
        rows = rows._replace(coded=rows.X)
        if reset:
            order = rows.order(0)
            estimator.categories_, X = categories.fit(rows, order)
        else:
            X = categories.with_statistics(rows.X)
        rows = rows._replace(X=X)
    _check_shape(estimator, rows.X, reset)
    return rows


def check_validation(estimator, X_val, y_val, classes):
    """Check validation samples. Return them with weights of 1; warn of labels not in `classes`."""
    y_val = own_labels(X_val, y_val)
    if X_val is None or y_val is None:
        missing = "X_val" if X_val is None else "y_val"
        raise ValueError(f"X_val and y_val must be passed together; {missing} is None")
    try:
        X_val = check_rows(estimator, X_val)
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"X_val is not valid: {error}") from error
    y_val = check_labels(y_val, "y_val")
    check_length(y_val, X_val.shape[0], "y_val")
    unknown = np.unique(y_val[encode_labels(classes, y_val, "y_val") < 0])
    if len(unknown) == len(np.unique(y_val)):
        raise ValueError(
            f"y_val must have labels of y, {_shown(classes)}; got only {_shown(unknown)}"
        )
    if len(unknown):
        warn(f"y_val has labels that are not in y, {_shown(unknown)}; they count as errors")
    return Samples(X_val, y_val, np.ones(len(y_val)))


def _shown(labels):
    """Return at most five of the labels as text for an error message."""
    return f"{labels[:5].tolist()}" + (f" and {len(labels) - 5} more" if len(labels) > 5 else "")


def take(X, mask):
    """Return the samples of a mask or of indices. A large X is not copied, see `SomeRows`."""
    if isinstance(X, np.ndarray) and not is_memory_map(X):
        return X[mask]
    index = np.flatnonzero(mask) if mask.dtype == bool else mask
    few = issparse(X) and 2 * len(index) < X.shape[0]
    return X[index] if few else SomeRows(X, index)


def take_rows(values, index):
    """Return the rows `index` of an array, matrix, frame, list or Dataset. None means all rows."""
    if index is None:
        return values
    if is_dataset(values):
        return sys.modules["torch.utils.data"].Subset(values, list(index))
    if is_arrow(values):
        return values.take(index)  # indexing a pyarrow table selects columns
    if hasattr(values, "iloc"):
        return values.iloc[index]
    if isinstance(values, list | tuple):
        return [values[i] for i in index]
    if not isinstance(values, np.ndarray) and hasattr(values, "__array_namespace__"):
        # Use `take`, the only integer indexing in the array API standard.
        xp = values.__array_namespace__()
        return xp.take(values, xp.asarray(index, device=values.device), axis=0)
    return values[index]


def is_arrow(X):
    """Return whether X is a pyarrow object."""
    return type(X).__module__.partition(".")[0] == "pyarrow"


def take_params(params, index, n_samples):
    """Return a dict of fit parameters. Arrays with one entry per sample keep only rows `index`."""

    def length(value):
        shape = getattr(value, "shape", ())
        return shape[0] if shape else len(value) if isinstance(value, list | tuple) else None

    return {
        name: take_rows(value, index) if length(value) == n_samples else value
        for name, value in params.items()
    }


def in_memory(X):
    """Return X as an array or matrix. All samples of lazy rows are read."""
    return X[:] if isinstance(X, LazyRows) else X


def is_memory_map(X):
    """Return whether an array is a memory map, or a view of one."""
    while X is not None:
        if isinstance(X, np.memmap):
            return True
        X = getattr(X, "base", None)
    return False


def own_labels(X, y, *, needed=False):
    """Return y, or the labels of the Dataset X if y is None."""
    check_table(X)
    if y is None:
        X = as_lazy(X)
        y = X.labels() if isinstance(X, LazyRows) else None
    if needed:
        check_given(y)
    return y


def is_dataset(X, kind="Dataset"):
    """Return whether X is a torch Dataset, without importing torch."""
    known = getattr(sys.modules.get("torch.utils.data"), kind, ())
    return isinstance(X, known)


def as_lazy(X):
    """Return a Dataset, or a list of its items, as lazy rows, and any other X unchanged."""
    # skorch's SliceDataset is a sequence of samples for searches of scikit-learn.
    sliced = getattr(sys.modules.get("skorch.helper"), "SliceDataset", ())
    if not (is_dataset(X) or _are_items(X) or isinstance(X, sliced)):
        return X
    from ._dataset_rows import DatasetRows

    return DatasetRows(X)


def _are_items(X):
    """Return whether X is a list of Dataset items, as scikit-learn's cross-validation makes."""
    if not isinstance(X, list) or not X or not isinstance(X[0], tuple) or not X[0]:
        return False
    return hasattr(X[0][0], "dtype") and X[0][0].ndim > 0


def check_table(X):
    """Check that X is a table, and not an object that only produces or describes one."""
    came = type(X).__name__
    if hasattr(X, "collect_schema") and hasattr(X, "collect"):
        raise TypeError(f"X must be in memory; got a {came}: pass X.collect()")
    if hasattr(X, "dask") and hasattr(X, "columns"):
        raise TypeError(f"X must be in memory; got a {came} of dask. Pass X.compute()")
    if is_dataset(X, "IterableDataset"):
        raise TypeError(
            f"X must be a map-style Dataset or in memory; got {came}: call partial_fit and predict "
            "for each batch"
        )
    if is_dataset(X, "DataLoader"):
        raise TypeError(f"X must be a Dataset or in memory; got a {came}: pass its dataset")
    if isinstance(X, Iterator):
        raise TypeError(f"X must be a table in memory; got a {came}: pass list(X)")
    if isinstance(X, Mapping) and not hasattr(X, "shape"):  # scipy.sparse.dok_array has a shape
        raise TypeError(
            f"X must be a table; got a {came}: pass pandas.DataFrame(X), or [X] for one sample"
        )
    if isinstance(X, Set):
        raise TypeError(f"X must be a table with an order; got a {came}: pass a list or array")
    layout = str(getattr(X, "layout", "torch.strided"))
    if layout.startswith("torch.") and layout != "torch.strided":
        raise TypeError(
            f"X must be a dense tensor or a scipy sparse matrix; got a tensor of layout {layout}: "
            "pass X.to_dense(), or scipy.sparse.coo_array((values, indices), shape=X.shape) with "
            "the values and indices of X.to_sparse_coo().coalesce()"
        )
