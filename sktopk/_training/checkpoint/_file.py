"""Arrays and plain values in one file that is written whole or not at all.

A line that names the format, the SHA-256 of all that follows, the length of a JSON text, the
text, and the bytes of the arrays in the order in which the text names them. Reading runs no
code.
"""

import hashlib
import json
from collections import Counter, OrderedDict

import numpy as np
import torch

from sktopk._common._atomic_file import (
    write_atomically,
)

MAGIC = b"sktopk checkpoint 1\n"
HEAD_BYTES = len(MAGIC) + 65
PLAIN = (type(None), bool, int, float, str)
MAPPINGS = {"dict": dict, "OrderedDict": OrderedDict, "Counter": Counter}
SEQUENCES = {"tuple": tuple, "set": set, "Size": torch.Size}
# Lists of so many numbers are as bulky as arrays.
_LONG = 16


def write_state(path, state):
    """Write `state` in the place of the file `path`; return the first bytes of the new file.

    Raises
    ------
    TypeError
        If the state holds anything but arrays and plain values.
    OSError
        If the file cannot be written; the old one is then as it was.
    """
    blobs = []
    tree = _encode(state, blobs)
    text = json.dumps({"state": tree, "sizes": [len(blob) for blob in blobs]}).encode()
    parts = [len(text).to_bytes(8, "little"), text, *blobs]
    checksum = hashlib.sha256()
    for part in parts:
        checksum.update(part)
    head = MAGIC + checksum.hexdigest().encode() + b"\n"
    write_atomically(path, (head, *parts), one_writer=True)
    return head


def read_state(path):
    """Return what `write_state` wrote, and the first bytes of the file.

    Raises
    ------
    ValueError
        If the file is of another kind or version, cut off or altered.
    OSError
        If it cannot be read.
    """
    with open(path, "rb") as file:
        head, data = file.read(HEAD_BYTES), file.read()
    if not head.startswith(MAGIC):
        known = head.startswith(MAGIC.split(b" ")[0] + b" ")
        raise ValueError("is of another version of sktopk" if known else "is no checkpoint")
    if head != MAGIC + hashlib.sha256(data).hexdigest().encode() + b"\n":
        raise ValueError("is damaged: its checksum is not that of its contents")
    end = 8 + int.from_bytes(data[:8], "little")
    content = json.loads(data[8:end])
    blobs, bytes_left = [], memoryview(data)[end:]
    for size in content["sizes"]:
        blobs.append(bytes_left[:size])
        bytes_left = bytes_left[size:]
    return _decode(content["state"], blobs), head


def read_head(path):
    """The first bytes of a file, which tell it from others; None if there is no file."""
    try:
        with open(path, "rb") as file:
            return file.read(HEAD_BYTES)
    except FileNotFoundError:
        return None


def is_plain(value):
    """Tell whether a file can hold the value."""
    try:
        _encode(value, [])
    except TypeError:
        return False
    return True


def _encode(value, blobs):
    """The value as JSON, with its arrays appended to `blobs`."""
    kind = type(value)
    if kind in PLAIN:
        return value
    if isinstance(value, torch.Tensor):
        flat = value.detach().cpu().contiguous().flatten().view(torch.uint8)
        form = [str(value.dtype).removeprefix("torch."), list(value.shape), str(value.device)]
        return {"tensor": [_store(flat.numpy(), blobs), *form]}
    if isinstance(value, np.ndarray | np.generic) and not value.dtype.hasobject:
        array = np.asarray(value)
        form = [array.dtype.str, list(array.shape), isinstance(value, np.generic)]
        return {"array": [_store(array, blobs), *form]}
    if kind is list and len(value) >= _LONG and all(type(item) is float for item in value):
        return {"floats": _store(np.array(value), blobs)}
    if kind is list:
        return [_encode(item, blobs) for item in value]
    for name, sequence in SEQUENCES.items():
        if kind is sequence:
            return {name: [_encode(item, blobs) for item in value]}
    for name, mapping in MAPPINGS.items():
        if kind is mapping:
            return {name: [[_encode(k, blobs), _encode(v, blobs)] for k, v in value.items()]}
    raise TypeError(f"{kind.__module__}.{kind.__qualname__} is no array and no plain value")


def _store(array, blobs):
    blobs.append(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return len(blobs) - 1


def _decode(tree, blobs):
    if isinstance(tree, list):
        return [_decode(item, blobs) for item in tree]
    if not isinstance(tree, dict):
        return tree
    ((name, value),) = tree.items()
    if name == "tensor":
        number, dtype, shape, device = value
        tensor = torch.empty(shape, dtype=getattr(torch, dtype))
        tensor.flatten().view(torch.uint8).numpy()[:] = np.frombuffer(blobs[number], np.uint8)
        return tensor.to(device)
    if name == "array":
        number, dtype, shape, is_scalar = value
        array = np.frombuffer(blobs[number], np.dtype(dtype)).reshape(shape).copy()
        return array[()] if is_scalar else array
    if name == "floats":
        return np.frombuffer(blobs[value], np.float64).tolist()
    if name in SEQUENCES:
        return SEQUENCES[name](_decode(item, blobs) for item in value)
    pairs = [(_decode(k, blobs), _decode(v, blobs)) for k, v in value]
    return MAPPINGS[name](dict(pairs))
