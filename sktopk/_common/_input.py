"""What users pass to fit and predict, checked: rows, labels, weights."""

import sys
from contextlib import contextmanager
from numbers import Real
from typing import NamedTuple

import numpy as np
from scipy.sparse import issparse
from sklearn.exceptions import DataConversionWarning
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import validate_data

from ._categories import Categories
from ._frames import TAKES_TABLES, check_columns, explain
from ._groups import several_groups
from ._lazy_rows import LazyRows, SomeRows
from ._scalars import on_host
from ._warnings import warn

# Of a table, what is looked at together.
_BLOCK_NUMBERS = 1 << 22
FLOATS = [np.float64, np.float32]


def check_rows(estimator, X, *, reset, takes_tables=False, takes_images=True, sample_weight=None):
    """Return X as a float array, CSR or lazy rows, images only where a `module` can take them.

    With `reset` the columns become those that the estimator knows, and `takes_tables` says
    whether its network takes missing values and, of frames, columns of categories. These have an
    order by what their rows weigh.
    """
    check_table(X)
    X = as_lazy(X)
    n_dim = getattr(X, "ndim", 2)
    if n_dim > 2 and not takes_images:
        raise ValueError(
            f"X must have shape (n_samples, n_features); got {n_dim} dimensions: found array "
            f"with dim {n_dim}. Images (n_samples, channels, height, width) need module="
        )
    if reset:
        vars(estimator).pop("categories_", None)
        estimator._missing_ = () if takes_tables else None
    # A fit of before these were known refused them.
    takes_missing = getattr(estimator, "_missing_", None) is not None and n_dim == 2
    if isinstance(X, LazyRows):
        # Numbers are checked when they are read.
        if n_dim < 2:
            raise ValueError(f"X must have rows of numbers; got a Dataset of shape {X.shape}")
        if reset:
            vars(estimator).pop("feature_names_in_", None)
        X = _encode(estimator, X, is_frame=False)
    else:
        X = X if isinstance(X, np.ndarray) else on_host(X, "X")
        is_frame = hasattr(X, "columns") and hasattr(X, "dtypes")
        if is_frame:
            # Of columns that fit did not see scikit-learn says so.
            names = None if reset else getattr(estimator, "feature_names_in_", None)
            if names is None or {*X.columns} <= {*names}:
                check_columns(X)
            if reset and takes_missing:
                weight = check_weight(sample_weight, X.shape[0])
                if (categories := Categories.of(X, weight)) is not None:
                    vars(estimator).pop("feature_names_in_", None)
                    estimator.categories_ = categories
        X = _encode(estimator, X, is_frame)
        try:
            X = validate_data(
                estimator,
                X,
                reset=reset,
                accept_sparse="csr",
                dtype=FLOATS,
                allow_nd=n_dim > 2,
                ensure_2d=n_dim <= 2,
                ensure_all_finite="allow-nan" if takes_missing else True,
            )
        except (RuntimeError, TypeError, ValueError) as error:
            if is_frame and "feature names" not in str(error):
                explain(X, error, takes_missing)
            if str(error).startswith("could not convert string"):
                raise ValueError(
                    f"X must hold numbers; {error}. Categories are taken from frames of pandas or "
                    "polars, in their own columns; of texts make columns first, for example by "
                    "TfidfVectorizer and TruncatedSVD"
                ) from error
            if str(error).startswith("Input X contains NaN"):
                takes = TAKES_TABLES.format(what="missing values")
                raise ValueError(f"Input X contains NaN: impute it first; {takes}") from error
            raise
    if reset:
        _warn_of_channels_last(X.shape)
        # Which scikit-learn counts in tables only.
        estimator.n_features_in_ = X.shape[1]
        estimator.input_shape_ = X.shape[1:]
    elif X.shape[1:] != estimator.input_shape_:
        raise ValueError(
            f"X must have rows of shape {estimator.input_shape_}, as in fit; got {X.shape[1:]}"
        )
    return X


def _encode(estimator, X, is_frame):
    """X with numbers in the place of the categories that the estimator knows, if any."""
    categories = getattr(estimator, "categories_", None)
    if categories is None:
        return X
    if not is_frame and getattr(X, "ndim", 2) == 2:
        raise TypeError(
            "X must be a frame, as in fit, where columns "
            f"{', '.join(map(str, categories.values))} (from 0) held categories; got "
            f"{type(X).__name__}"
        )
    names = getattr(estimator, "feature_names_in_", None)
    # Of other columns scikit-learn says which are missing.
    known = is_frame and (names is None or list(X.columns) == list(names))
    return categories.encode(X) if known else X


def columns_with_missing(X):
    """The numbers of the columns of a table, as it was checked, that have missing values."""
    table = X
    while isinstance(table, SomeRows):
        table = table.table
    if len(X.shape) != 2 or isinstance(table, LazyRows):
        # Rows of a Dataset have none.
        return ()
    found, step = np.zeros(X.shape[1], dtype=bool), max(1, _BLOCK_NUMBERS // X.shape[1])
    for start in range(0, X.shape[0], step):
        rows = X[np.arange(start, min(start + step, X.shape[0]))]
        if issparse(rows):
            found[rows.indices[np.isnan(rows.data)]] = True
        else:
            found |= np.isnan(rows).any(axis=0)
    return tuple(np.flatnonzero(found).tolist())


def _warn_of_channels_last(shape):
    """Warn of images (n_samples, height, width, channels), whose rows would pass for channels."""
    n_dim, colours = len(shape), (1, 3, 4)
    if n_dim == 4 and shape[3] in colours and min(shape[1:3]) > max(colours):
        warn(
            f"X of shape {tuple(shape)} looks like images with channels last, and is read as "
            f"(n_samples, channels, height, width), with {shape[1]} channels: pass "
            "X.transpose(0, 3, 1, 2), of a tensor X.permute(0, 3, 1, 2)"
        )


def check_validation(estimator, X_val, y_val, classes):
    """Return validation rows with their labels, some of them among `classes`, and weights of 1."""
    y_val = own_labels(X_val, y_val)
    if X_val is None or y_val is None:
        missing = "X_val" if X_val is None else "y_val"
        raise ValueError(f"X_val and y_val must be passed together; {missing} is None")
    frame = X_val if hasattr(estimator, "categories_") else None
    try:
        X_val = check_rows(estimator, X_val, reset=False)
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"X_val is not allowed: {error}") from error
    y_val = check_labels(y_val, "y_val")
    check_length(y_val, X_val.shape[0], "y_val")
    unknown = np.unique(y_val[encode_labels(classes, y_val, "y_val") < 0])
    if len(unknown) == len(np.unique(y_val)):
        raise ValueError(
            f"y_val must have labels of y, {_shown(classes)}; got none of them but "
            f"{_shown(unknown)}"
        )
    if len(unknown):
        warn(
            f"y_val has labels that y has not, {_shown(unknown)}: no row of them can be "
            "predicted right"
        )
    return Labelled(X_val, y_val, np.ones(len(y_val)), frame=frame)


def check_weight(sample_weight, n_samples):
    """Return finite nonnegative weights as float64 of shape (n_samples,), not all 0."""
    if sample_weight is None:
        return np.ones(n_samples)
    if isinstance(sample_weight, Real):
        sample_weight = np.full(n_samples, sample_weight)
    sample_weight = on_host(sample_weight, "sample_weight")
    try:
        weight = np.array(sample_weight, dtype=np.float64)
    except (RuntimeError, TypeError, ValueError) as error:
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
    if not isinstance(values, np.ndarray) and hasattr(values, "__array_namespace__"):
        # An array of another library, whose standard has no index of NumPy's.
        xp = values.__array_namespace__()
        return xp.take(values, xp.asarray(index, device=values.device), axis=0)
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


COLUMNS = ("n_features_in_", "feature_names_in_", "input_shape_", "categories_", "_missing_")


def columns_of(estimator):
    """What an estimator knows of the columns of X, by attribute."""
    return {name: value for name, value in vars(estimator).items() if name in COLUMNS}


@contextmanager
def columns_kept(estimator):
    """Take back what a refused table has changed of the columns; yields all attributes before."""
    before = dict(vars(estimator))
    try:
        yield before
    except BaseException:
        for name in columns_of(estimator):
            delattr(estimator, name)
        vars(estimator).update({name: before[name] for name in COLUMNS if name in before})
        raise


def _of_own_kind(y):
    """Nullable integers and booleans of pandas, none missing, as those of NumPy, not as floats."""
    column = y.iloc[:, 0] if hasattr(y, "iloc") and y.shape[1:] == (1,) else y
    dtype = getattr(getattr(column, "dtype", None), "numpy_dtype", np.dtype(object))
    return y.to_numpy(dtype) if dtype.kind in "biu" and not column.isna().any() else y


def _refuse_mixed(y, name, error=None):
    """Raise if labels of an array are of several kinds, texts among them."""
    kinds = {type(label) for label in y.tolist()}
    if len(kinds) == 1 or not any(issubclass(kind, str) for kind in kinds):
        return
    kinds = sorted(kind.__name__ for kind in kinds)
    raise ValueError(
        f"{name} must hold labels of one kind, all strings or all numbers, and none missing; "
        f"got {kinds}"
    ) from error


def check_labels(y, name="y"):
    """Return class labels of shape (n_samples,)."""
    check_given(y, name)
    y = y if isinstance(y, np.ndarray) else _of_own_kind(on_host(y, name))
    values = np.asarray(y)
    if values.dtype.kind == "f" and not np.isfinite(values).all():
        is_nan = np.isnan(values).any()
        wrong = np.flatnonzero(np.isnan(values) if is_nan else np.isinf(values))
        way = ": drop these rows, or label them" if is_nan else ""
        raise ValueError(
            f"Input {name} contains {'NaN' if is_nan else 'infinity'}: {name} must hold class "
            f"labels; {len(wrong)} of {values.size} are none, the first of them in row "
            f"{wrong[0]}{way}"
        )
    if values.dtype.kind == "O" and values.ndim == 1:
        import pandas as pd

        missing = np.flatnonzero(pd.isna(values))
        if len(missing):
            raise ValueError(
                f"{name} must hold class labels, none missing; {len(missing)} of {len(values)} "
                f"are, the first of them in row {missing[0]}: drop these rows, or label them"
            )
    try:
        kind = type_of_target(y, input_name=name)
    except TypeError as error:
        if values.ndim < 2:
            _refuse_mixed(np.atleast_1d(values), name, error)
            raise
        raise ValueError(
            f"{name} must hold one class label per row; got shape {values.shape}"
        ) from error
    if kind.startswith(("multilabel", "multiclass-multioutput")):
        raise ValueError(f"{name} must hold one class label per row; got a {kind} target")
    if kind.startswith("continuous"):
        raise ValueError(
            f"Unknown label type: {name} is continuous ({len(np.unique(values))} values); it must "
            f"hold class labels: make it discrete, for example "
            f"{name} >= {np.quantile(values, 0.9):.4g}"
        )
    y = column_or_1d(y)
    if values.ndim == 2:
        # What scikit-learn says, who would point at this line.
        warn(
            f"A column-vector {name} was passed when a 1d array was expected: "
            f"pass {name}.ravel(), of a frame its only column",
            DataConversionWarning,
        )
    if kind not in ("binary", "multiclass"):
        _refuse_mixed(y, name)
        check_classification_targets(y)  # raises
    try:
        n_classes = len(np.unique(y))
    except TypeError as error:
        _refuse_mixed(y, name, error)
        raise
    if kind == "multiclass" and len(y) > 20 and n_classes > round(0.5 * len(y)):
        warn(
            f"The number of unique classes ({n_classes}) is greater than 50% of the number of "
            f"samples ({len(y)}): is {name} a number to predict, not a label?"
        )
    return y


def check_length(y, n_samples, name="y"):
    """Raise unless there is a label for each of `n_samples` rows."""
    if len(y) != n_samples:
        raise ValueError(
            f"{name} must have one label per row of X: X has {n_samples} rows, "
            f"{name} has inconsistent length {len(y)}"
        )


def check_classes(y, name="y"):
    """Return the sorted distinct labels, at least two of them."""
    classes = np.unique(y)
    if len(classes) < 2:
        raise ValueError(f"{name} must have at least 2 classes; got 1 class: {classes.tolist()}")
    return classes


def encode(classes, y):
    """Return the index of each label among the sorted `classes`, -1 where it is none."""
    index = np.searchsorted(classes, y).clip(max=len(classes) - 1)
    return np.where(classes[index] == y, index, -1)


def class_weights(class_weight, classes, count):
    """Return the weight of each class; "balanced" counts rows by their sample weight."""
    if isinstance(class_weight, str) and class_weight == "balanced":
        # A class announced to partial_fit may have no rows yet: any weight does.
        return count.sum() / (len(classes) * np.where(count > 0, count, 1.0))
    if class_weight is None:
        return np.ones(len(classes))
    if not isinstance(class_weight, dict):
        raise ValueError(
            f'class_weight must be a dict {{label: weight}}, "balanced" or None; '
            f"got {class_weight!r}"
        )
    known = set(classes.tolist())
    unknown = [label for label in class_weight if label not in known]
    if unknown:
        raise ValueError(
            f"class_weight must have labels of y as keys, {classes.tolist()}; got {unknown}"
        )
    try:
        weights = np.array([float(class_weight.get(label, 1.0)) for label in classes.tolist()])
    except (OverflowError, TypeError, ValueError):
        weights = None
    if weights is None or not (np.isfinite(weights).all() and (weights >= 0).all()):
        raise ValueError(f"class_weight must be finite and nonnegative; got {class_weight!r}")
    return weights


def encode_labels(classes, y, name="y"):
    """Return the column of each label, -1 for a label that the classifier does not know."""
    known, given = np.asarray(classes).tolist()[0], y.tolist()[0]
    if isinstance(known, str) != isinstance(given, str):
        raise ValueError(
            f"{name} must hold labels of the kind that estimator knows, such as {known!r}; got "
            f"{given!r}"
        )
    return encode(classes, y)


def class_counts(classes, y):
    """Return the number of labels of each of the sorted `classes`."""
    index = encode_labels(classes, y)
    return np.bincount(index[index >= 0], minlength=len(classes))


def _shown(labels):
    """At most five labels in words."""
    return f"{labels[:5].tolist()}" + (f" and {len(labels) - 5} more" if len(labels) > 5 else "")


def is_dataset(X, kind="Dataset"):
    """Tell whether X is a Dataset of torch, which is not loaded to find out: X would have been."""
    known = getattr(sys.modules.get("torch.utils.data"), kind, ())
    return isinstance(X, known)


def is_tensor(X):
    """Tell whether X is a tensor, without loading torch."""
    return isinstance(X, getattr(sys.modules.get("torch"), "Tensor", ()))


def check_table(X):
    """Raise if X is an iterable Dataset, or a query that was not run."""
    if hasattr(X, "collect_schema") and hasattr(X, "collect"):
        raise TypeError(f"X must be a table; got a {type(X).__name__}: pass X.collect()")
    if is_dataset(X, "IterableDataset"):
        raise TypeError(
            f"X must be a table; got {type(X).__name__}, whose parts come one after another: call "
            "partial_fit and predict for each"
        )


def own_labels(X, y, *, needed=False):
    """y or, for None and a Dataset or rows of one, the labels that this has."""
    check_table(X)
    if y is None:
        X = as_lazy(X)
        y = X.labels() if isinstance(X, LazyRows) else None
    if needed:
        check_given(y)
    return y


def check_given(y, name="y"):
    """Raise if there are no labels."""
    if y is None:
        raise ValueError(
            f"requires {name} to be passed, but the target {name} is None: "
            f"{name} must hold a class label per row"
        )


def as_lazy(X):
    """A Dataset as its rows; anything else as it is."""
    if not is_dataset(X):
        return X
    from ._dataset_rows import DatasetRows

    return DatasetRows(X)


def is_memory_map(X):
    """Tell whether an array, or what it is a view of, lies in a file."""
    while X is not None:
        if isinstance(X, np.memmap):
            return True
        X = getattr(X, "base", None)
    return False


class Labelled(NamedTuple):
    """Rows with their labels and weights, and numbers of their groups or None, checked.

    A frame with categories, of which `X` has the numbers, is there as it was given, too. Where
    some of the rows given are left out for their weight of 0, `present` says which are not.
    """

    X: object
    y: np.ndarray
    weight: np.ndarray
    groups: np.ndarray | None = None
    frame: object = None
    present: np.ndarray | None = None

    def as_given(self, values):
        """Values of the rows, with NaN for those that were left out."""
        if self.present is None:
            return values
        of_all = np.full((len(self.present), *values.shape[1:]), np.nan, values.dtype)
        of_all[self.present] = values
        return of_all

    def take(self, mask):
        """The rows where `mask` is true."""
        groups = None if self.groups is None else self.groups[mask]
        frame = None if self.frame is None else take_rows(self.frame, np.flatnonzero(mask))
        return Labelled(take(self.X, mask), self.y[mask], self.weight[mask], groups, frame)


def check_labelled(
    estimator, X, y, sample_weight, groups=None, *, reset, takes_tables=False, takes_images=True
):
    """Return the rows of positive weight with their labels, weights and groups, checked.

    See `check_rows`.
    """
    y = check_labels(own_labels(X, y))
    frame = X
    X = check_rows(
        estimator,
        X,
        reset=reset,
        takes_tables=takes_tables,
        takes_images=takes_images,
        sample_weight=sample_weight,
    )
    frame = frame if hasattr(estimator, "categories_") else None
    check_length(y, X.shape[0])
    weight = check_weight(sample_weight, X.shape[0])
    groups = None if groups is None else several_groups(groups, weight)
    rows, mask = Labelled(X, y, weight, groups, frame), weight > 0
    return rows if mask.all() else rows.take(mask)._replace(present=mask)
