"""Iterables of pieces: data that come one table after another."""

import math

from ._input import as_lazy, is_dataset, is_memory_map, is_stream, is_tensor
from ._lazy_rows import LazyRows

# What of a table on disk is read at a time.
_PART_ROWS, _PART_BYTES = 1 << 16, 1 << 26


def labelled_pieces(stream):
    """Yield ``(X, y, sample_weight)`` of the pieces of a stream, tensors as arrays."""
    number = 0
    for number, piece in enumerate(stream, start=1):
        if not isinstance(piece, tuple | list) or len(piece) not in (2, 3):
            came = type(piece).__name__
            if isinstance(piece, tuple | list):
                came = f"a {came} of {len(piece)}"
            raise ValueError(
                "X, a stream, must have pieces (X, y) or (X, y, sample_weight); "
                f"piece {number} is {came}"
            )
        X, y, weight = (*map(_as_array, piece), None)[:3]
        if y is None:
            raise ValueError(
                f"X, a stream, must have labels in every piece; piece {number} has none"
            )
        yield X, y, weight
    if number == 0:
        raise ValueError("X, a stream, must have pieces; it has none, or was used up before")


def partial_fit_pieces(estimator, stream, y, classes, sample_weight):
    """Call partial_fit for each piece of a stream; return the estimator."""
    for name, value in {"y": y, "sample_weight": sample_weight}.items():
        if value is not None:
            raise ValueError(f"{name} must be None if X is a stream, whose pieces have their own")
    for number, piece in enumerate(labelled_pieces(stream), start=1):
        X, y, weight = piece
        try:
            estimator.partial_fit(X, y, classes, weight)
        except Exception as error:
            error.add_note(f"This was piece {number} of the stream; those before it are learnt.")
            raise
    return estimator


def has_parts(X):
    """Tell whether `parts` cuts X: a stream, a Dataset or a table on disk."""
    return is_stream(X) or is_dataset(X) or isinstance(X, LazyRows) or is_memory_map(X)


def parts(X):
    """Yield X in parts: pieces of a stream, blocks of a table on disk, anything else whole."""
    if not has_parts(X):
        yield X
        return
    if is_stream(X):
        for piece in X:
            # A list may be a table, whose first is a row.
            first = piece[0] if isinstance(piece, tuple | list) and len(piece) else None
            has_more = isinstance(piece, tuple) or getattr(first, "ndim", 0) > 1
            yield _as_array(first if has_more else piece)
        return
    X = as_lazy(X)
    row_bytes = math.prod(X.shape[1:]) * X.dtype.itemsize
    step = max(1, min(_PART_ROWS, _PART_BYTES // max(1, row_bytes)))
    for start in range(0, len(X), step):
        yield X[start : start + step]


def _as_array(values):
    return values.detach().cpu().numpy() if is_tensor(values) else values
