"""Results on disk, a small JSON file each, named by a fingerprint of all they depend on."""

import hashlib
import json
import os
import platform
from importlib.metadata import version
from numbers import Integral, Real
from pathlib import Path

import numpy as np
import torch
from scipy.sparse import issparse
from sklearn.base import BaseEstimator

from sktopk._common._atomic_file import write_atomically


def versions():
    """What a score depends on besides data and parameters."""
    packages = ("sktopk", "torch", "scikit-learn", "skorch", "numpy")
    return {name: version(name) for name in packages} | {"python": platform.python_version()}


def digest(value):
    """SHA-256 of `value`, the same in every process, in hexadecimal.

    Parameters
    ----------
    value : object
        Numbers, strings, arrays, sparse matrices, frames, estimators, classes and functions,
        torch modules, and containers or objects made of them.

    Raises
    ------
    TypeError
        If the value cannot be told from another one by what it holds.
    """
    state = hashlib.sha256()
    _update(state, value)
    return state.hexdigest()


def _update(state, value):
    """Feed type and content; each part says how long it is, so that none runs into the next."""

    def feed(kind, data=b""):
        state.update(f"{kind}:{len(data)}:".encode())
        state.update(data)

    if value is None or isinstance(value, bool | np.bool_):
        feed("constant", str(value).encode())
    elif isinstance(value, Integral):
        feed("int", str(int(value)).encode())
    elif isinstance(value, Real):
        feed("float", float(value).hex().encode())
    elif isinstance(value, str):
        feed("str", value.encode())
    elif isinstance(value, bytes):
        feed("bytes", value)
    elif isinstance(value, dict):
        feed(f"dict {len(value)}")
        for key in sorted(value, key=repr):
            _update(state, key)
            _update(state, value[key])
    elif isinstance(value, list | tuple):
        feed(f"list {len(value)}")
        for each in value:
            _update(state, each)
    elif isinstance(value, set | frozenset):
        _update(state, sorted(digest(each) for each in value))
    elif isinstance(value, np.ndarray):
        if value.dtype.hasobject:
            feed(f"array {value.shape}")
            _update(state, value.tolist())
        else:
            content = np.ascontiguousarray(value).reshape(-1).view(np.uint8)
            feed(f"array {value.dtype.str} {value.shape}", content)
    elif isinstance(value, torch.Tensor):
        _update(state, value.detach().cpu().numpy())
    elif issparse(value):
        value = value.tocsr()
        _update(state, [value.shape, value.data, value.indices, value.indptr])
    elif hasattr(value, "columns") and hasattr(value, "dtypes"):
        feed("frame")
        columns = list(value.columns)
        _update(state, [str(column) for column in columns])
        for column in columns:
            _update(state, value[column].to_numpy())
    elif hasattr(value, "to_numpy"):
        _update(state, value.to_numpy())
    elif isinstance(value, BaseEstimator):
        feed("estimator", f"{type(value).__module__}.{type(value).__qualname__}".encode())
        _update(state, value.get_params(deep=False))
    elif isinstance(value, type):
        feed("class", f"{value.__module__}.{value.__qualname__}".encode())
    elif isinstance(value, torch.nn.Module):
        # Its representation has the layers, its state their weights.
        feed("module", f"{type(value).__module__} {value!r}".encode())
        _update(state, dict(value.state_dict()))
    elif hasattr(value, "__code__"):
        feed("function", f"{value.__module__}.{value.__qualname__}".encode())
        cells = [cell.cell_contents for cell in value.__closure__ or ()]
        owner = getattr(value, "__self__", None)
        _update(state, [value.__code__, value.__defaults__, value.__kwdefaults__, cells, owner])
    elif hasattr(value, "co_code"):
        _update(state, ["code", value.co_code, value.co_names, value.co_consts])
    elif hasattr(value, "func") and hasattr(value, "keywords"):
        _update(state, ["partial", value.func, value.args, value.keywords])
    elif hasattr(value, "__dict__"):
        feed("object", f"{type(value).__module__}.{type(value).__qualname__}".encode())
        _update(state, vars(value))
    elif " at 0x" not in repr(value):
        feed("other", f"{type(value).__qualname__} {value!r}".encode())
    else:
        raise TypeError(f"cache needs parameters that can be told apart; got {value!r}")


class RunCache:
    """A folder of results, or nothing at all.

    A kill leaves no file half written. One that cannot be read counts as missing.

    Parameters
    ----------
    folder : str, Path or None
        Made if it is missing. None keeps nothing.
    """

    def __init__(self, folder):
        self.versions = versions()
        if not isinstance(folder, str | os.PathLike | None):
            raise TypeError(f"cache must be a folder, str or Path, or None; got {folder!r}")
        self.folder = None if folder is None else Path(folder)
        if self.folder is None:
            return
        if self.folder.is_file():
            raise ValueError(f"cache must be a folder; got the file {folder}")
        self.folder.mkdir(parents=True, exist_ok=True)

    def get(self, key):
        """Return what was stored under `key`, a dict, or None."""
        if self.folder is None:
            return None
        try:
            entry = json.loads((self.folder / f"{key}.json").read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            return None
        return entry["result"] if isinstance(entry, dict) and entry.get("key") == key else None

    def put(self, key, result, about):
        """Store `result` with a note for readers `about` what it is; both plain dicts."""
        if self.folder is None:
            return
        entry = {"key": key, "result": result, "about": about}
        content = json.dumps(entry, indent=1, default=str).encode()
        write_atomically(self.folder / f"{key}.json", [content])
