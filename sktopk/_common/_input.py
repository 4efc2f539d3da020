"""Checks of X in all supported formats, and of labels and sample weights."""

import sys
from collections.abc import Iterator, Mapping, Set
from contextlib import suppress
from enum import Enum
from numbers import Real

import numpy as np
from scipy.sparse import issparse
from sklearn.exceptions import DataConversionWarning
from sklearn.utils import column_or_1d
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import validate_data

from ._frames import TAKES_TABLES, Categories, check_columns, explain
from ._samples import LazyRows, Samples, present_groups
from ._scalars import on_host, place_of, refuse_missing, refuse_times_and_complex
from ._warnings import is_of, warn, warn_of_order

# Largest sum of sample weights: its products with n_samples and n_classes are finite in float64.
_LARGEST = 1e150
_SHOWN = 5  # number of classes that a message shows
_NUMBERS = bool, int, float, np.bool_, np.number


def check_rows(estimator, X):
    """Check X for a method such as `predict`. Return X with encoded categories."""
    check_table(X)
    X = _coded_rows(estimator, as_lazy(X), reset=False)
    if hasattr(estimator, "categories_"):
        X = estimator.categories_.with_statistics(X)
    _check_shape(estimator, X)
    return X


def _check_shape(estimator, X):
    if X.shape[1:] != estimator.input_shape_:
        raise ValueError(
            f"X must have samples of shape {estimator.input_shape_}, as in fit; got {X.shape[1:]}"
        )


def _coded_rows(estimator, X, *, reset, takes_tables=False, takes_images=True, sample_weight=None):
    """Return X as either a float array, a canonical CSR matrix or an object of type `LazyRows`.

    Integers replace categories. With `reset`, as in `fit`, `estimator` stores properties of X.
    `takes_tables` allows missing values and categories, `takes_images` more than two dimensions.
    """
    n_dim = getattr(X, "ndim", 2)
    if hasattr(X, "iloc") and n_dim == 1:
        raise ValueError(
            f"X must have two dimensions; got a {type(X).__name__}. For one sample, pass "
            "X.iloc[[i]]; for one column, X[['name']]"
        )
    if n_dim > 2 and not takes_images:
        raise ValueError(
            f"X must have shape (n_samples, n_features); found array with dim {n_dim}. For images "
            "of shape (n_samples, channels, height, width), set module to a network for images"
        )
    if reset:
        estimator._missing_ = () if takes_tables else None
    takes_missing = getattr(estimator, "_missing_", None) is not None and n_dim == 2
    if isinstance(X, LazyRows):
        # Check only the shape of a Dataset. The values are checked when they are read.
        if n_dim < 2:
            raise ValueError(f"X must have at least 2 dimensions; got a Dataset of shape {X.shape}")
        X = _encode(estimator, X, is_frame=False)
    else:
        X = X.to_pandas() if is_of(X, "pyarrow") and hasattr(X, "to_pandas") else on_host(X, "X")
        is_frame = hasattr(X, "columns") and hasattr(X, "dtypes")
        if is_frame:
            # If X has unknown columns, skip our check: scikit-learn's error will list them.
            names = getattr(estimator, "feature_names_in_", None)
            if names is None or {*X.columns} <= {*names}:
                check_columns(X)
            if reset and takes_missing:
                weight = check_weight(sample_weight, X.shape[0])
                if (categories := Categories.of(X, weight)) is not None:
                    estimator.categories_ = categories
        else:
            refuse_times_and_complex(X, "X")
        if not reset and len(estimator.input_shape_) > 1 and n_dim == 2 and hasattr(X, "shape"):
            # scikit-learn's error would call the channels features.
            _check_shape(estimator, X)
        X = _validate(estimator, _encode(estimator, X, is_frame), reset, n_dim, takes_missing)
    if reset:
        _warn_of_channels_last(X.shape)
        # scikit-learn sets n_features_in_ only if X has two dimensions.
        estimator.n_features_in_ = X.shape[1]
    return X


def _validate(estimator, X, reset, n_dim, takes_missing):
    """Check X with `validate_data`. For data frames, error messages name the invalid column."""
    if issparse(X) and X.dtype == bool:
        X = X.tocsr(copy=True)
        X.sum_duplicates()  # as booleans, because the sum of 1 and 1 would be 2
    # Images of 8 or 16 bits become float32, which has all their values.
    is_small = n_dim > 2 and X.dtype.kind in "biuf" and X.dtype.itemsize <= 2
    try:
        checked = validate_data(
            estimator,
            X,
            reset=reset,
            accept_sparse="csr",
            dtype=[np.float32, np.float64] if is_small else [np.float64, np.float32],
            allow_nd=n_dim > 2,
            ensure_2d=n_dim <= 2,
            ensure_all_finite="allow-nan" if takes_missing else True,
        )
    except (OverflowError, RuntimeError, TypeError, ValueError) as error:
        if hasattr(X, "columns") and hasattr(X, "dtypes") and "feature names" not in str(error):
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
    if issparse(checked) and not checked.has_canonical_format:
        checked = checked.copy()
        checked.sum_duplicates()
    return checked


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


def _warn_of_channels_last(shape):
    n_dim, colours = len(shape), (1, 3, 4)
    if n_dim == 4 and shape[3] in colours and min(shape[1:3]) > max(colours):
        warn(
            f"X of shape {tuple(shape)} looks like images with channels last, but is used as "
            f"(n_samples, channels, height, width) with {shape[1]} channels: pass "
            "X.transpose(0, 3, 1, 2), or X.permute(0, 3, 1, 2) for tensors"
        )


def check_labelled(estimator, X, y, sample_weight, groups=None, *, reset, **options):
    """Check X, y, weights and groups. Return the samples of positive weight as `Samples`."""
    check_table(X)
    warn_of_order(X, y=y, sample_weight=sample_weight, groups=groups)
    X, y = as_lazy(X), check_labels(own_labels(X, y))
    X = _coded_rows(estimator, X, reset=reset, sample_weight=sample_weight, **options)
    check_length(y, X.shape[0])
    weight = check_weight(sample_weight, X.shape[0])
    groups = None if groups is None else present_groups(groups, weight)
    rows, mask = Samples(X, y, weight, groups), weight > 0
    rows = rows if mask.all() else rows.take(mask)._replace(present=mask)
    categories = getattr(estimator, "categories_", None)
    rows = rows._replace(only_cells=categories is not None and categories.only_cells)
    if categories is not None and categories.many:
        rows = rows._replace(coded=rows.X)
        if reset:
            estimator.categories_, X = categories.fit(rows, rows.order(0))
        else:
            X = categories.with_statistics(rows.X)
        rows = rows._replace(X=X)
    if reset:
        estimator.input_shape_ = rows.X.shape[1:]
    _check_shape(estimator, rows.X)
    return rows


def own_labels(X, y, *, needed=False):
    """Return y, or the labels of the Dataset X if y is None."""
    if y is None and isinstance(rows := as_lazy(X), LazyRows):
        y = rows.labels()
    if needed:
        check_given(y)
    return y


def is_dataset(X, kind="Dataset"):
    """Return whether X is a torch Dataset, without importing torch."""
    return isinstance(X, getattr(sys.modules.get("torch.utils.data"), kind, ()))


def as_lazy(X):
    """Return `LazyRows` for a Dataset, SliceDataset or list of Dataset items, else X unchanged."""
    # skorch's SliceDataset is a sequence of samples for searches of scikit-learn.
    sliced = getattr(sys.modules.get("skorch.helper"), "SliceDataset", ())
    # In cross-validation, scikit-learn converts a Dataset to a list of its items.
    first = X[0] if isinstance(X, list) and X else None
    sample = first[0] if isinstance(first, tuple) and first else None
    are_items = hasattr(sample, "dtype") and sample.ndim > 0
    if not (is_dataset(X) or are_items or isinstance(X, sliced)):
        return X
    from ._dataset_rows import DatasetRows

    return DatasetRows(X)


def check_table(X):
    """Raise TypeError if X is a lazy frame, a stream, a dict, a set or a sparse tensor."""
    came = type(X).__name__
    if hasattr(X, "collect_schema") and hasattr(X, "collect"):
        raise TypeError(f"X must be in memory; got a {came}: pass X.collect()")
    if hasattr(X, "dask") and hasattr(X, "columns"):
        raise TypeError(f"X must be in memory; got a {came} of dask. Pass X.compute()")
    if is_dataset(X, "IterableDataset"):
        raise TypeError(
            f"X must be an array, table or map-style Dataset; got {came}: call partial_fit and "
            "predict for each batch"
        )
    if is_dataset(X, "DataLoader"):
        raise TypeError(f"X must be an array, table or Dataset; got a {came}: pass X.dataset")
    if isinstance(X, Iterator):
        raise TypeError(f"X must be a table in memory; got a {came}: pass list(X)")
    if isinstance(X, Mapping) and not hasattr(X, "shape"):  # scipy.sparse.dok_array has a shape
        raise TypeError(
            f"X must be a table; got a {came}: pass pandas.DataFrame(X), or pandas.DataFrame([X]) "
            "for one sample"
        )
    if isinstance(X, Set):
        raise TypeError(f"X must have samples in an order; got a {came}: pass a list or array")
    layout = str(getattr(X, "layout", "torch.strided"))
    if layout.startswith("torch.") and layout != "torch.strided":
        raise TypeError(
            f"X must be a dense tensor or a scipy sparse matrix; got a tensor of layout {layout}: "
            "pass X.to_dense(), or scipy.sparse.coo_array((values, indices), shape=X.shape) with "
            "the values and indices of X.to_sparse_coo().coalesce()"
        )


def check_given(y, name="y"):
    if y is None:
        raise ValueError(
            f"This function requires {name} to be passed, but the target {name} is None: pass one "
            "class label per sample"
        )


def check_labels(y, name="y"):
    """Return class labels as an array of shape (n_samples,)."""
    check_given(y, name)
    y = on_host(y, name)
    values = np.asarray(y)
    if values.size == 0:
        raise ValueError(f"{name} must have at least one label; got 0 samples")
    refuse_missing(values, name)
    refuse_times_and_complex(
        values, name, what="class labels", advice="convert them to strings, such as by astype(str)"
    )
    if values.dtype.kind == "O" and all(isinstance(v, _NUMBERS) for v in values.flat):
        y = values = np.array(values.tolist())
    _refuse_other_types(values, name)
    try:
        # scikit-learn warns if most labels occur once, as in `classes`. Repeat these labels.
        kind = type_of_target(np.tile(values, 2) if name == "classes" else y, input_name=name)
    except ValueError as error:
        if not str(error).startswith("Expected array-like"):
            raise
        raise ValueError(f"{name} must be an array or list of labels: {error}") from error
    except TypeError as error:
        if values.ndim < 2:
            _refuse_mixed(np.atleast_1d(values), name, error)
            raise
        raise ValueError(
            f"{name} must hold one class label per sample; got shape {values.shape}"
        ) from error
    if kind.startswith(("multilabel", "multiclass-multioutput")):
        raise ValueError(f"{name} must hold one class label per sample; got a {kind} target")
    if kind.startswith("continuous") and values.ndim == 2 and values.shape[1] > 1:
        raise ValueError(
            f"{name} must hold one class label per sample; got shape {values.shape}. If a "
            "sample has n labels, repeat it with each label, and divide its sample_weight by n"
        )
    if kind.startswith("continuous"):
        raise ValueError(
            f"Unknown label type: {name} must hold class labels; got {len(np.unique(values))} "
            f"continuous values. Make {name} discrete, for example {name} >= "
            f"{np.quantile(values, 0.9):.4g}"
        )
    y = column_or_1d(y if issparse(y) else values)
    if values.ndim == 2:
        # Warn here, because scikit-learn's warning would not point to the user's code.
        warn(
            f"A column-vector {name} was passed when a 1d array was expected: "
            f"pass {name}.ravel(), or the column of a data frame",
            DataConversionWarning,
        )
    if kind not in ("binary", "multiclass"):
        _refuse_mixed(y, name)
        raise ValueError(
            f"Unknown label type: {name} must hold strings, booleans or integers of at most 64 "
            f"bits; got labels of type {type(y.tolist()[0]).__name__}"
        )
    several = kind == "multiclass" and name != "classes" and len(y) > 20
    if several and 2 * (n_classes := len(np.unique(y))) > len(y):
        warn(
            f"The number of unique classes ({n_classes}) is greater than 50% of the number of "
            f"samples ({len(y)}). For a numerical target, use a regressor"
        )
    return y


def _refuse_other_types(values, name):
    if values.dtype.kind != "O" or values.ndim != 1:
        return
    # Allow sequences here, such as lists of labels: scikit-learn raises its own error for them.
    known = str, bytes, list, tuple, np.ndarray, *_NUMBERS
    other = next((label for label in values if not isinstance(label, known)), None)
    if other is not None:
        text = "label.name" if isinstance(other, Enum) else "str(label)"
        raise ValueError(
            f"{name} must hold labels that are strings, numbers or booleans; got "
            f"{type(other).__name__}. Pass [{text} for label in {name}]"
        )


def _refuse_mixed(y, name, error=None):
    """Check that the labels are not a mixture of strings and other types."""
    kinds = {type(label) for label in y.tolist()}
    if len(kinds) == 1 or not any(issubclass(kind, str) for kind in kinds):
        return
    kinds = sorted(kind.__name__ for kind in kinds)
    raise ValueError(
        f"{name} must hold only strings or only numbers, without missing labels; got {kinds}"
    ) from error


def check_length(y, n_samples, name="y"):
    if len(y) != n_samples:
        raise ValueError(
            f"{name} must have one label per sample ({n_samples}); got inconsistent length {len(y)}"
        )


def check_classes(y, name="y"):
    """Return the sorted distinct labels, and check that there are at least two."""
    classes = np.unique(y)
    if len(classes) < 2:
        raise ValueError(f"{name} must have at least 2 classes; got 1 class: {classes.tolist()}")
    return classes


def check_two_classes(y, pos_label, name="y"):
    """Return the two sorted labels, and check that `pos_label` is None or one of them."""
    classes = check_classes(y, name)
    if len(classes) > 2:
        raise ValueError(
            "Only binary classification is supported. The type of the target is multiclass: "
            f"{name} must have 2 classes; got {listed(classes)}"
        )
    if pos_label is not None:
        place_of(pos_label, classes)  # raises if pos_label is not one of the classes
    return classes


def listed(classes):
    """Return the number of classes and the first few labels as a text, for a message."""
    more = ", ..." if len(classes) > _SHOWN else ""
    return f"{len(classes)} ({', '.join(map(repr, classes[:_SHOWN].tolist()))}{more})"


def check_weight(sample_weight, n_samples):
    """Return float64 weights. Check that they are finite and nonnegative with a positive sum."""
    if sample_weight is None:
        return np.ones(n_samples)
    if isinstance(sample_weight, Real):
        sample_weight = np.full(n_samples, sample_weight)
    sample_weight = on_host(sample_weight, "sample_weight")
    refuse_times_and_complex(sample_weight, "sample_weight")
    try:
        weight = np.array(sample_weight, dtype=np.float64)
    except (OverflowError, RuntimeError, TypeError, ValueError) as error:
        raise ValueError(f"sample_weight must hold numbers; got {sample_weight!r:.80}") from error
    if weight.shape != (n_samples,):
        raise ValueError(
            f"sample_weight must be 1D with one weight per sample, shape ({n_samples},); "
            f"got shape {weight.shape}"
        )
    refused = weight[~(np.isfinite(weight) & (weight >= 0))]
    if len(refused):
        raise ValueError(f"sample_weight must be finite and nonnegative; got {refused[0]:g}")
    if not weight.any():
        raise ValueError("sample_weight must be positive for at least one sample; got only zeros")
    if not weight.max() <= _LARGEST / n_samples:
        raise ValueError(
            f"sample_weight must have a sum of at most {_LARGEST:g}; got weights up to "
            f"{weight.max():g}: divide all weights by their mean"
        )
    return weight


def encode(classes, y):
    """Return the index of each label in the sorted `classes`; -1 if `classes` lacks the label."""
    if np.result_type(classes, y).kind not in classes.dtype.kind + y.dtype.kind:
        # Compare int64 and uint64 as Python integers: NumPy would round both to float64.
        classes, y = classes.astype(object), y.astype(object)
    index = np.searchsorted(classes, y).clip(max=len(classes) - 1)
    return np.where(classes[index] == y, index, -1)


def encode_labels(classes, y, name="y"):
    """Return `encode(classes, y)`. Raise ValueError if only `classes` or only `y` has strings."""
    known, given = np.asarray(classes).tolist()[0], y.tolist()[0]
    with suppress(TypeError):  # raised if labels cannot be compared
        if isinstance(known, str) == isinstance(given, str):
            return encode(classes, y)
    raise ValueError(f"{name} must have the same type as in fit, such as {known!r}; got {given!r}")


def known_codes(classes, y):
    """Return the index of each label in `classes`. Check that `classes` contains all labels."""
    code = encode_labels(classes, y)
    if (code < 0).any():
        known, other = np.asarray(classes).tolist(), y[code < 0].tolist()[0]
        raise ValueError(f"y must hold labels that the classifier knows, {known}; got {other!r}")
    return code


def class_counts(classes, y):
    """Return the number of labels of each class in the sorted `classes`."""
    index = encode_labels(classes, y)
    return np.bincount(index[index >= 0], minlength=len(classes))


def take_rows(values, index):
    """Return the rows of `values` at the positions in `index`, or all rows if `index` is None."""
    if index is None:
        return values
    if is_dataset(values):
        return sys.modules["torch.utils.data"].Subset(values, list(index))
    if is_of(values, "pyarrow"):
        return values.take(index)  # `values[index]` would select columns of a pyarrow table
    if hasattr(values, "iloc"):
        return values.iloc[index]
    if isinstance(values, list | tuple):
        return [values[i] for i in index]
    if not isinstance(values, np.ndarray) and hasattr(values, "__array_namespace__"):
        # Use `take`, the only integer indexing in the array API standard.
        xp = values.__array_namespace__()
        return xp.take(values, xp.asarray(index, device=values.device), axis=0)
    return values[index]
