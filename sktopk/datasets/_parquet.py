"""Parquet files, a piece at a time."""

from __future__ import annotations

import os
from collections.abc import Sequence

import numpy as np

from sktopk._common._extras import import_extra
from sktopk._common._scalars import check_count


def parquet_batches(
    path: str | os.PathLike | Sequence[str | os.PathLike],
    *,
    target: str | None = None,
    columns: list[str] | None = None,
    sample_weight: str | None = None,
    batch_rows: int = 65536,
) -> ParquetBatches:
    """Read Parquet files as a stream of pieces ``(X, y)``.

    A stream for `partial_fit`, or without labels for `predict_top`. Each loop over it reads the
    files again; no more than a piece, and what pyarrow reads ahead of it, is in memory.

    Parameters
    ----------
    path : str, path or list of them
        Of the files, which are read in this order. A piece does not go across files.
    target : str, default=None
        The column with the labels: integers, booleans, floats or strings, also as a dictionary.
        None: pieces are X alone.
    columns : list of str, default=None
        The columns of X, in this order. None: all but `target` and `sample_weight`, in the order
        of the first file.
    sample_weight : str, default=None
        The column with weights: pieces are ``(X, y, sample_weight)``. Needs `target`.
    batch_rows : int, default=65536
        Rows of a piece; the last of a file may have fewer.

    Returns
    -------
    batches : ParquetBatches
        An iterable. X is an ndarray of shape (n, n_columns), float32 if all its columns are
        float32, else float64; y and sample_weight are ndarrays of shape (n,).

    Raises
    ------
    ImportError
        If pyarrow is not there, which the extra "parquet" installs.
    FileNotFoundError
        If a file does not exist.
    TypeError, ValueError
        If an argument is not allowed, or a file lacks a column or has one of another type:
        before anything is read. In the loop, if a value is missing.

    See Also
    --------
    sktopk.TopKClassifier.partial_fit : Trains on such a stream.
    sktopk.DeepTopPushClassifier.predict_top : Finds the best rows of one.

    Examples
    --------
    >>> import tempfile
    >>> import pandas as pd
    >>> from sktopk.datasets import parquet_batches
    >>> table = pd.DataFrame({"width": [1.0, 2.0, 3.0], "kind": ["a", "b", "b"]})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table.to_parquet(f"{folder}/boxes.parquet")
    ...     for X, y in parquet_batches(f"{folder}/boxes.parquet", target="kind", batch_rows=2):
    ...         print(X.tolist(), y)
    [[1.0], [2.0]] ['a' 'b']
    [[3.0]] ['b']
    """
    parquet = import_extra("pyarrow.parquet", "parquet_batches", "parquet")
    paths = [path] if isinstance(path, str | os.PathLike) else list(path)
    if not paths:
        raise ValueError("path must be a Parquet file or a list of them; got an empty list")
    check_count(batch_rows, "batch_rows")
    if sample_weight is not None and target is None:
        raise ValueError(f"sample_weight={sample_weight!r} needs a target, whose rows it weighs")
    schemas = [parquet.read_schema(each) for each in paths]
    others = [name for name in (target, sample_weight) if name is not None]
    if columns is None:
        columns = [name for name in schemas[0].names if name not in others]
    elif isinstance(columns, str):
        raise TypeError(f"columns must be a list of names; got the string {columns!r}")
    columns = list(columns)
    if not columns:
        raise ValueError("columns must have a name at least; there is none beside the target")
    for name in set(columns) & set(others):
        raise ValueError(f"columns must be others than target and sample_weight; got {name!r}")
    for each, schema in zip(paths, schemas, strict=True):
        _check_schema(each, schema, [*columns, *others], target)
    types = {schema.field(name).type for schema in schemas for name in columns}
    dtype = np.float32 if {str(each) for each in types} == {"float"} else np.float64
    return ParquetBatches(paths, columns, others, dtype, batch_rows)


class ParquetBatches:
    """What `parquet_batches` returns: an iterable that can be looped over again.

    Parameters
    ----------
    paths : list of path
    columns : list of str
        Of X.
    others : list of str
        The column of labels and that of weights, as far as they are asked for.
    dtype : dtype
        Of X.
    batch_rows : int
    """

    def __init__(self, paths, columns, others, dtype, batch_rows):
        self.paths, self.columns, self.others = paths, columns, others
        self.dtype, self.batch_rows = dtype, batch_rows

    def __iter__(self):
        parquet = import_extra("pyarrow.parquet", "parquet_batches", "parquet")
        for path in self.paths:
            with parquet.ParquetFile(path) as file:
                names = [*self.columns, *self.others]
                for batch in file.iter_batches(self.batch_rows, columns=names):
                    yield self._piece(path, batch)

    def _piece(self, path, batch):
        for name in (*self.columns, *self.others):
            if n_missing := batch.column(name).null_count:
                raise ValueError(
                    f"column {name!r} must have no missing values; got {n_missing} of them in a "
                    f"piece of {os.fspath(path)}"
                )
        X = np.empty((batch.num_rows, len(self.columns)), self.dtype)
        for j, name in enumerate(self.columns):
            X[:, j] = _as_array(batch.column(name))
        if not self.others:
            return X
        return X, *(_as_array(batch.column(name)) for name in self.others)


def _check_schema(path, schema, names, target):
    """Raise unless a file has the columns, each of a type that means something."""
    from pyarrow import types

    def is_number(kind):
        return types.is_floating(kind) or types.is_integer(kind) or types.is_boolean(kind)

    for name in names:
        if schema.names.count(name) != 1:
            raise ValueError(
                f"column {name!r} must be there, once; {os.fspath(path)} has {schema.names}"
            )
        kind = schema.field(name).type
        own = kind.value_type if types.is_dictionary(kind) else kind
        is_text = types.is_string(own) or types.is_large_string(own)
        if name == target and not (is_text or is_number(own)):
            raise TypeError(f"column {name!r} must hold labels; {os.fspath(path)} has {kind}")
        if name != target and not is_number(kind):
            raise TypeError(
                f"column {name!r} must hold numbers, or be left out of columns; "
                f"{os.fspath(path)} has {kind}"
            )


def _as_array(column):
    """A column of Arrow without missing values, its text as a NumPy string array."""
    if hasattr(column, "dictionary_decode"):
        column = column.dictionary_decode()
    values = column.to_numpy(zero_copy_only=False)
    return values.astype(str) if values.dtype == object else values
