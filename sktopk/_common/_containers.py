"""Which objects can be X: checks of the container, before any value is read."""

import sys
from collections.abc import Iterator, Mapping, Set


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
        raise TypeError(f"X must be a table; got a {came}: pass pandas.DataFrame(X)")
    if isinstance(X, Set):
        raise TypeError(f"X must be a table with an order; got a {came}: pass a list or array")
    layout = str(getattr(X, "layout", "torch.strided"))
    if layout.startswith("torch.") and layout != "torch.strided":
        raise TypeError(
            f"X must be a dense tensor or a scipy sparse matrix; got a tensor of layout {layout}: "
            "pass X.to_dense(), or scipy.sparse.coo_array((values, indices), shape=X.shape) with "
            "the values and indices of X.to_sparse_coo().coalesce()"
        )
