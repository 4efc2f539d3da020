"""Hash values of samples."""

import math
from hashlib import blake2b
from itertools import pairwise
from numbers import Real
from struct import pack

import numpy as np
from scipy.sparse import csr_array, issparse

from ._input import as_lazy

# Numbers per chunk.
_CHUNK_SIZE = 2**20


def row_keys(X, seed):
    """Return a 64-bit hash of each sample, which depends on the seed (nonnegative, below 2**64).

    The hash is the same for arrays, sparse matrices, data frames and lists, for 0.0 and -0.0, and
    for equal numbers in float32 and float64. None is equal to NaN.
    """
    key = int(seed).to_bytes(8, "little")
    digests = [blake2b(each, digest_size=8, key=key).digest() for each in _contents(as_lazy(X))]
    return np.frombuffer(b"".join(digests), dtype="<u8")


def _contents(X):
    """Yield the bytes of each sample, from which the hash is computed."""
    if isinstance(X, list | tuple):
        yield from map(_content, X)
        return
    X = X.tocsr() if issparse(X) else X if hasattr(X, "shape") else np.asarray(X)
    n_rows = max(1, _CHUNK_SIZE // max(1, math.prod(X.shape[1:])))
    for start in range(0, X.shape[0], n_rows):
        part = getattr(X, "iloc", X)[start : start + n_rows]
        if not issparse(part):
            part = np.asarray(part)
            part = part.reshape(len(part), math.prod(part.shape[1:]))
        if part.dtype.kind in "fiub":
            yield from _contents_of_numbers(part)
        else:
            yield from map(_content, part.astype(object).tolist())


def _contents_of_numbers(rows):
    """Yield the same bytes as `_content`, for each row of a numeric array or CSR matrix."""
    rows = csr_array(rows, dtype=np.float64)
    rows.sum_duplicates()
    rows.eliminate_zeros()
    rows.data[np.isnan(rows.data)] = np.nan  # all NaN get the same bits
    columns, values = rows.indices.astype("i8").tobytes(), rows.data.tobytes()
    for start, end in pairwise((8 * rows.indptr.astype(np.int64)).tolist()):
        yield columns[start:end] + values[start:end]


def _content(row):
    """Return the bytes of a row: columns and values of nonzero numbers, then of other objects."""
    row = row.ravel().tolist() if isinstance(row, np.ndarray) else row
    numbers, others = {}, []
    for column, value in enumerate(row if isinstance(row, list | tuple) else [row]):
        if value is None or isinstance(value, Real | np.bool_):
            number = math.nan if value is None or value != value else float(value)
            if number != 0:
                numbers[column] = number
        else:
            others.append((column, str(value) if isinstance(value, str) else repr(value)))
    content = pack(f"={len(numbers)}q{len(numbers)}d", *numbers, *numbers.values())
    return content + repr(others).encode() if others else content
