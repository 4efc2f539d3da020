"""Parquet files, a piece at a time."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from sktopk._common._extras import import_extra
from sktopk._common._scalars import check_count

# Of the labels of a piece: a text takes 4 bytes a character in each row, however often it comes.
MOST_BYTES = 64 * 2**20


def parquet_batches(
    path: str | os.PathLike | Sequence[str | os.PathLike],
    *,
    target: str | None = None,
    columns: list[str] | None = None,
    sample_weight: str | None = None,
    batch_rows: int = 65536,
    filters: Any = None,
) -> ParquetBatches:
    """Read Parquet files as a stream of pieces ``(X, y)``.

    A stream for `partial_fit`, or without labels for `predict_top`. Each loop over it reads the
    files again; no more than a piece, and what pyarrow reads ahead of it, is in memory.

    Parameters
    ----------
    path : str, path or list of them
        Of files, or of folders of them, which are read in this order; in a folder by name. A
        folder called ``year=2025`` gives the rows below it a column `year`. A piece does not go
        across files.
    target : str, default=None
        The column with the labels: integers, booleans, floats or strings, also as a dictionary.
        None: pieces are X alone.
    columns : list of str, default=None
        The columns of X, in this order. None: all but `target` and `sample_weight`, in the order
        of the first file.
    sample_weight : str, default=None
        The column with weights: pieces are ``(X, y, sample_weight)``. Needs `target`.
    batch_rows : int, default=65536
        Rows of a piece; the last of a file may have fewer, and one whose labels are so long that
        their array would take more than 64 MiB comes in several.
    filters : pyarrow.compute.Expression or list, default=None
        Which rows to read, as ``pyarrow.parquet.read_table`` takes them, for example
        ``[("year", ">", 2023)]``. Files and row groups without any are passed over.

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
    if filters is not None:
        filters = parquet.filters_to_expression(filters)
    dataset = import_extra("pyarrow.dataset", "parquet_batches", "parquet").dataset
    schemas = [dataset(each, format="parquet", partitioning="hive").schema for each in paths]
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
    return ParquetBatches(paths, columns, others, dtype, batch_rows, filters)


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

    def __init__(self, paths, columns, others, dtype, batch_rows, filters=None):
        self.paths, self.columns, self.others = paths, columns, others
        self.dtype, self.batch_rows, self.filters = dtype, batch_rows, filters

    def __iter__(self):
        names = [*self.columns, *self.others]
        for path in self.paths:
            found = self._dataset(path)
            for file in found.get_fragments(self.filters):
                batches = file.to_batches(
                    schema=found.schema,
                    columns=names,
                    filter=self.filters,
                    batch_size=self.batch_rows,
                    batch_readahead=1,
                    fragment_readahead=1,
                )
                for table in _of_length(batches, self.batch_rows):
                    yield from self._pieces(file.path, table)

    def _dataset(self, path):
        dataset = import_extra("pyarrow.dataset", "parquet_batches", "parquet")
        options = {"partitioning": "hive", "format": "parquet"}
        texts = _text_columns(dataset.dataset(path, **options).schema, self.others)
        # Each text once, and numbers for the rows.
        read = dataset.ParquetReadOptions(dictionary_columns=texts)
        options["format"] = dataset.ParquetFileFormat(read_options=read)
        return dataset.dataset(path, **options)

    def _pieces(self, path, table):
        """Cut a table where its texts would take too much as NumPy arrays."""
        texts = [table.column(name) for name in _text_columns(table.schema, self.others)]
        n_rows = max(1, MOST_BYTES // max(map(_bytes_of_row, texts), default=1))
        for start in range(0, len(table), n_rows):
            yield self._piece(path, table.slice(start, n_rows))

    def _piece(self, path, table):
        for name in (*self.columns, *self.others):
            if n_missing := table.column(name).null_count:
                raise ValueError(
                    f"column {name!r} must have no missing values; got {n_missing} of them in a "
                    f"piece of {os.fspath(path)}"
                )
        X = np.empty((len(table), len(self.columns)), self.dtype)
        for j, name in enumerate(self.columns):
            X[:, j] = _as_array(table.column(name))
        if not self.others:
            return X
        return X, *(_as_array(table.column(name)) for name in self.others)


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
    column = column.combine_chunks()
    if hasattr(column, "dictionary"):
        # Decoded here: Arrow would make a copy of the text for each row.
        texts = column.dictionary.to_numpy(zero_copy_only=False)
        codes = column.indices.to_numpy(zero_copy_only=False)
        used, codes = np.unique(codes, return_inverse=True)
        texts = texts[used]
        return (texts.astype(str) if texts.dtype == object else texts)[codes]
    values = column.to_numpy(zero_copy_only=False)
    return values.astype(str) if values.dtype == object else values


def _of_length(batches, n_rows):
    """Tables of `n_rows` rows from batches of any length; the last has what is left."""
    from pyarrow import Table

    waiting = []
    for batch in batches:
        waiting.append(batch)
        while sum(map(len, waiting)) >= n_rows:
            table = Table.from_batches(waiting)
            # Row groups have texts of their own.
            yield table.slice(0, n_rows).unify_dictionaries()
            waiting = table.slice(n_rows).to_batches()
    if any(map(len, waiting)):
        yield Table.from_batches(waiting).unify_dictionaries()


def _text_columns(schema, names):
    from pyarrow import types

    kinds = [(name, schema.field(name).type) for name in names]
    kinds = [(name, kind.value_type if types.is_dictionary(kind) else kind) for name, kind in kinds]
    return [name for name, kind in kinds if types.is_string(kind) or types.is_large_string(kind)]


def _bytes_of_row(column):
    """What a row of a column of text takes in a NumPy array: as much as the longest."""
    from pyarrow import compute

    longest = 0
    for chunk in column.chunks:
        texts = getattr(chunk, "dictionary", chunk)
        longest = max(longest, compute.max(compute.utf8_length(texts)).as_py() or 0)
    return max(1, 4 * longest)
