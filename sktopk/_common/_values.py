"""Plain values, arrays and tensors as a tree that JSON can hold beside named arrays, and back."""

import math
import re
import sys
from collections import Counter, OrderedDict

import numpy as np

from ._array_file import MAX_PARTS, can_hold, check_shape

_PLAIN = (type(None), bool, int, str)
_FLOATS = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}
_SEQUENCES = (tuple, set)
_MAPPINGS = (dict, OrderedDict, Counter)
# Longer lists of numbers, such as the losses of all steps, are arrays in the file; of longer
# lists of dicts with the same keys, such as a history, the columns are.
_SHORT = 16
_LISTS = {float: ("<f8", "numbers"), int: ("<i8", "numbers"), np.int64: ("<i8", "scalars"),
          np.float64: ("<f8", "scalars")}  # fmt: skip
# Scalars of NumPy, by dtype.
_SCALARS = {f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)}
_SCALARS |= {"bool", "float16", "float32", "float64", "str"}
# Dtypes of text, times and complex numbers, whose bytes are kept.
_BY_BYTES = re.compile(r"<U[1-9]\d{0,8}|\|S[1-9]\d{0,8}|<c(8|16)|<[mM]8(\[\w+\])?")


def _of_torch(name):
    """Return a class of torch, or () where torch was not loaded and made no objects of it."""
    return getattr(sys.modules.get("torch"), name, ())


class NotPlainError(TypeError):
    """A value that is no array and no plain value."""

    def __init__(self, value):
        kind = type(value)
        super().__init__(f"{kind.__module__}.{kind.__qualname__} is no array and no plain value")
        self.value = value


class Encoder:
    """Turn values into a tree for JSON, with their arrays in `arrays`.

    JSON objects are always tagged, ``{"tuple": [...]}`` for example, so that no value of a user
    can look like something else.
    """

    def __init__(self):
        self.arrays = {}

    def encode(self, value):
        """Return the tree of a value.

        Raises
        ------
        NotPlainError
            If there is something else in it.
        """
        kind = type(value)
        if kind in _PLAIN or (kind is float and math.isfinite(value)):
            return value
        if kind is float:
            return {"float": repr(value)}
        if kind is list:
            return self._list(value)
        if kind in _SEQUENCES or kind is _of_torch("Size"):
            return {kind.__name__: [self.encode(item) for item in value]}
        if kind in _MAPPINGS:
            return {kind.__name__: [self.encode(list(value)), self.encode(list(value.values()))]}
        if isinstance(value, _of_torch("Tensor")):
            return self._tensor(value)
        if kind is np.ndarray:
            return self._array(value)
        if isinstance(value, np.generic):
            name = "str" if value.dtype.kind == "U" else value.dtype.name
            if name in _SCALARS:
                return {"scalar": name, "value": self.encode(value.item())}
        if kind is np.random.RandomState:
            return {"random_state": self.encode(value.get_state(legacy=False))}
        return self.other(value)

    def other(self, value):
        """Encode what is neither an array nor a plain value."""
        raise NotPlainError(value)

    def _list(self, value):
        kinds = set(map(type, value)) if len(value) >= _SHORT else set()
        kind = next(iter(kinds), None) if len(kinds) == 1 else None
        if kind in _LISTS and not (kind is int and max(map(abs, value)) >= 2**63):
            dtype, tag = _LISTS[kind]
            return {tag: self._keep(np.array(value, dtype))}
        if kind is dict and len({tuple(row) for row in value}) == 1 and value[0]:
            columns = [list(column) for column in zip(*map(dict.values, value), strict=True)]
            return {"rows": [self.encode(list(value[0])), [self.encode(c) for c in columns]]}
        return [self.encode(item) for item in value]

    def _keep(self, array):
        key = str(len(self.arrays))
        self.arrays[key] = array
        return key

    def _array(self, value):
        if value.dtype.kind == "O":
            items = [self.encode(item) for item in value.ravel().tolist()]
            return {"objects": items, "shape": list(value.shape)}
        if can_hold(value.dtype):
            if value.flags.f_contiguous and not value.flags.c_contiguous:
                # Column after column, as it lies: products of another order round otherwise.
                return {"array": self._keep(value.T), "order": "F"}
            return {"array": self._keep(value)}
        if value.dtype.itemsize == 0:
            # NumPy's text of no letters.
            value = value.astype(value.dtype.kind + "1")
        value = np.ascontiguousarray(value, value.dtype.newbyteorder("<")).reshape(value.shape)
        if not _BY_BYTES.fullmatch(value.dtype.str):
            raise NotPlainError(value)
        parts = np.frombuffer(value.tobytes(), np.uint8)
        parts = parts.reshape(*value.shape, value.dtype.itemsize)
        return {"bytes": self._keep(parts), "dtype": value.dtype.str}

    def _tensor(self, value):
        import torch

        data, dtype = value.detach().cpu(), str(value.dtype).removeprefix("torch.")
        if value.dtype == torch.bfloat16:
            data = data.view(torch.int16)
        try:
            array = data.numpy()
        except (RuntimeError, TypeError):  # such as sparse and quantised ones
            raise NotPlainError(value) from None
        return {"tensor": self._array(array), "dtype": dtype, "device": str(value.device)}


class Decoder:
    """Undo what `Encoder` did.

    Each array is taken once, so that a small file makes no large objects.

    Parameters
    ----------
    arrays : dict of ndarray
    """

    def __init__(self, arrays):
        self.arrays, self._n_rows = dict(arrays), 0
        self.kinds = {
            "array": self._any_array,
            "bytes": self._bytes,
            "float": lambda text: _FLOATS[text],
            "numbers": lambda key: self._flat(key).tolist(),
            "objects": self._objects,
            "random_state": self._random_state,
            "rows": self._rows,
            "scalar": self._scalar,
            "scalars": lambda key: list(self._flat(key)),
            "Size": self._size,
            "tensor": self._tensor,
        }
        for sequence in _SEQUENCES:
            self.kinds[sequence.__name__] = lambda items, make=sequence: make(self._items(items))
        for mapping in _MAPPINGS:
            self.kinds[mapping.__name__] = lambda pairs, make=mapping: make(self._dict(pairs))

    def decode(self, value):
        """Return what a tree stands for."""
        if isinstance(value, list):
            return [self.decode(item) for item in value]
        if not isinstance(value, dict):
            return value
        kind = next(iter(value), None)
        if kind not in self.kinds:
            raise ValueError(f"it holds a value of unknown kind {kind!r:.40}")
        content = value[kind]
        return self.kinds[kind](content if len(value) == 1 else value)

    def _items(self, value):
        if not isinstance(value, list | dict):
            raise ValueError(f"it holds {value!r:.40} in the place of a list")
        return self.decode(value)

    def _dict(self, pairs):
        keys, values = map(self._items, pairs)
        return dict(zip(keys, values, strict=True))

    def _array(self, key):
        if key not in self.arrays:
            raise ValueError(f"its array {key!r:.40} is missing or used twice")
        # A copy, as the values of the file are read-only.
        return np.array(self.arrays.pop(key))

    def _any_array(self, node):
        return self._array(node["array"]).T if isinstance(node, dict) else self._array(node)

    def _flat(self, key):
        array = self._array(key)
        if array.ndim != 1 or array.dtype.itemsize != 8:
            raise ValueError(f"its array {key!r:.40} is no list of numbers")
        return array

    def _rows(self, table):
        keys, columns = table
        keys, columns = self.decode(keys), [self._items(column) for column in columns]
        n_rows = len(columns[0])
        self._n_rows += n_rows
        # Each of them a dict, which takes far more memory than what it holds in the file.
        if self._n_rows > MAX_PARTS or len(set(keys)) != len(columns):
            raise ValueError(f"it holds tables of more than {MAX_PARTS} rows, or of no columns")
        return [dict(zip(keys, row, strict=True)) for row in zip(*columns, strict=True)]

    def _bytes(self, node):
        parts, name = self._array(node["bytes"]), node["dtype"]
        if parts.dtype != np.uint8 or not parts.ndim or not _BY_BYTES.fullmatch(name):
            raise ValueError(f"its array {node['bytes']!r:.40} holds no {name!r:.40}")
        *shape, size = parts.shape
        dtype = np.dtype(name)
        if size != dtype.itemsize:
            raise ValueError(f"its array {node['bytes']!r:.40} holds no {name}")
        if dtype.kind == "U" and parts.reshape(-1).view("<u4").max(initial=0) > 0x10FFFF:
            raise ValueError(f"its array {node['bytes']!r:.40} holds no text")
        return parts.reshape(-1).view(dtype).reshape(shape)

    def _objects(self, node):
        shape, items = check_shape(node["shape"]), self._items(node["objects"])
        array = np.empty(len(items), dtype=object)
        for i, item in enumerate(items):
            array[i] = item
        return array.reshape(shape)

    def _scalar(self, node):
        name = node["scalar"]
        if name not in _SCALARS:
            raise ValueError(f"it holds a number of unknown kind {name!r:.40}")
        value = self.decode(node["value"])
        if not isinstance(value, str if name == "str" else bool | int | float):
            raise ValueError(f"it holds a {name} of {value!r:.40}")
        return np.str_(value) if name == "str" else np.dtype(name).type(value)

    def _random_state(self, state):
        state = self.decode(state)
        key, position = state["state"]["key"], state["state"]["pos"]
        # NumPy would read on behind the end of the key.
        if key.dtype != np.uint32 or key.shape != (624,) or position not in range(625):
            raise ValueError("its RandomState is at no possible position")
        random = np.random.RandomState()
        random.set_state(state)
        return random

    def _size(self, items):
        import torch

        return torch.Size(self._items(items))

    def _tensor(self, node):
        import torch

        tensor = torch.from_numpy(np.asarray(self.decode(node["tensor"])))
        if node["dtype"] == "bfloat16" and tensor.dtype == torch.int16:
            tensor = tensor.view(torch.bfloat16)
        return tensor.to(node["device"])
