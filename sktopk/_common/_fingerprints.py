"""Fingerprints: short texts that two values share if they mean the same to a fit or a score."""

import contextlib
import functools
import hashlib
import platform
import re
import sys
import types
import zlib
from importlib.metadata import PackageNotFoundError, version
from numbers import Integral, Real

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator

from ._lazy_rows import LazyRows

# Of larger tables as many rows as fit, evenly spaced, go into the SHA-256; all into the CRC-32.
_HASHED_BYTES = 1 << 26
_BLOCK_BYTES = 1 << 22
# What NumPy's scalars are described as, too.
_PLAIN = (((bool, np.bool_), bool), (str, str), (Integral, int), (Real, float))


def versions():
    """The versions of all that takes part in training, scoring and saving, and is installed."""
    found = {"python": platform.python_version()}
    for name in ("sktopk", "torch", "skorch", "scikit-learn", "numpy"):
        # Metrics and decisions do without torch and skorch.
        with contextlib.suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def digest(value):
    """SHA-256 of what `describe` tells of a value, the same in every process, in hexadecimal.

    Raises
    ------
    TypeError
        If the value cannot be told from another one by what it holds.
    """
    return hashlib.sha256(describe(value, unknown=_refuse).encode()).hexdigest()


def describe(value, above=(), unknown=None):
    """A text that two values have in common if they are the same, in every process.

    Parameters
    ----------
    value : object
        Numbers, strings, arrays, sparse matrices, frames, estimators, classes and functions,
        torch modules, and containers or objects made of them. Classes go by their name,
        functions by name and code, other objects by their attributes.
    above : tuple of int
        The ids of the objects that hold it.
    unknown : callable, default=None
        What to do with an object of which nothing is known but where it lies in memory. None
        takes its representation without that.
    """
    if id(value) in above:
        return "..."
    inner = functools.partial(describe, above=(*above, id(value)), unknown=unknown)
    kind = f"{type(value).__module__}.{type(value).__qualname__}"
    if value is None or isinstance(value, bytes):
        return repr(value)
    for kinds, plain in _PLAIN:
        if isinstance(value, kinds):
            return repr(plain(value))
    torch = sys.modules.get("torch")  # which has made its objects, if there are any
    if torch is not None and isinstance(value, torch.Tensor):
        value = value.detach().cpu()
        value = value.numpy() if value.dtype != torch.bfloat16 else value.float().numpy()
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        return describe_table(value) if value.ndim else repr(value.item())
    if isinstance(value, np.ndarray):
        return f"array of shape {value.shape} {inner(value.tolist())}"
    if isinstance(value, dict):
        return "{" + ", ".join(sorted(f"{inner(k)}: {inner(v)}" for k, v in value.items())) + "}"
    if isinstance(value, set | frozenset):
        return "{" + ", ".join(sorted(map(inner, value))) + "}"
    if isinstance(value, list | tuple):
        return "(" + ", ".join(map(inner, value)) + ")"
    if issparse(value):
        return f"sparse {describe_table(value.tocsr())}"
    if hasattr(value, "columns") and hasattr(value, "dtypes"):
        columns = [(str(name), value[name].to_numpy()) for name in value.columns]
        return f"frame {inner(columns)}"
    if hasattr(value, "to_numpy"):
        return inner(value.to_numpy())
    if isinstance(value, np.random.RandomState):
        return f"RandomState {_hash(inner(value.get_state()))}"
    if isinstance(value, BaseEstimator):
        return f"{kind} {inner(value.get_params(deep=False))}"
    if torch is not None and isinstance(value, torch.nn.Module):
        # Its representation has the layers, its state their weights.
        return f"{_placeless(value)} {kind} {inner(dict(value.state_dict()))}"
    if isinstance(value, types.CodeType):
        parts = value.co_code, value.co_names, value.co_consts
        return f"code {_hash(inner(parts))}"
    if isinstance(value, types.MethodType):
        return f"{inner(value.__func__)} of {inner(value.__self__)}"
    if isinstance(value, types.FunctionType):
        empty = types.CellType()
        cells = [cell.cell_contents for cell in value.__closure__ or () if cell != empty]
        known = value.__code__, value.__defaults__, value.__kwdefaults__, cells
        return f"{value.__module__}.{value.__qualname__} {_hash(inner(known))}"
    if isinstance(value, functools.partial):
        return f"partial{inner([value.func, value.args, value.keywords])}"
    if hasattr(value, "__qualname__"):
        return f"{value.__module__}.{value.__qualname__}"
    if hasattr(value, "__dict__"):
        return f"{kind} {inner(vars(value))}"
    return f"{kind} {_placeless(value)}" if unknown is None else unknown(value)


def describe_table(X):
    """Shape, dtype and a hash of a table of rows.

    Of an array, CSR matrix or memory map every byte is looked at: up to 64 MiB by SHA-256, the
    bytes of a larger one by CRC-32, beside the SHA-256 of 64 MiB of evenly spaced rows. Of rows
    that have to be made one by one (of a Dataset) only those 64 MiB are.
    """
    n_rows = X.shape[0]
    stored = X.nnz * X.dtype.itemsize if hasattr(X, "nnz") else X.nbytes
    row_bytes = max(1, stored // max(1, n_rows))
    n_hashed = n_rows if X.ndim == 1 else min(n_rows, max(1, _HASHED_BYTES // row_bytes))
    rows = np.linspace(0, max(0, n_rows - 1), n_hashed).astype(np.intp)
    step = max(1, _BLOCK_BYTES // row_bytes)
    sha, crc = hashlib.sha256(), 0
    for start in range(0, n_hashed, step):
        for part in _parts(X[rows[start : start + step]]):
            sha.update(part)
    text = f"{X.dtype} of shape {tuple(X.shape)}, sha256 {sha.hexdigest()[:16]}"
    if n_hashed == n_rows or isinstance(X, LazyRows):
        return text
    for start in range(0, n_rows, step):
        for part in _parts(X[start : start + step]):
            crc = zlib.crc32(part, crc)
    return f"{text}, crc32 {crc:08x}"


def _parts(block):
    """The bytes of some rows."""
    parts = (block.data, block.indices, block.indptr) if issparse(block) else (block,)
    return [np.ascontiguousarray(part).reshape(-1).view(np.uint8).data for part in parts]


def _refuse(value):
    text = repr(value)
    if " at 0x" in text:
        raise TypeError(f"cache needs parameters that can be told apart; got {text}")
    return f"{type(value).__qualname__} {text}"


def _placeless(value):
    """The representation of a value, without where in memory it happens to lie."""
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(value))


def _hash(text):
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def shortened(text):
    """A text for a message, at most about 100 characters long."""
    return text if len(text) <= 100 else f"{text[:60]}... sha256 {_hash(text)}"
