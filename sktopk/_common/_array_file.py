"""Arrays and a JSON text in one file, in the layout of safetensors, with a checksum.

The length of a header, the header, and the bytes of the arrays one after another. Any program
that reads safetensors reads these files. Reading runs no code, and whatever the bytes, it takes
no more memory than a few times the file.
"""

import hashlib
import json
import math

import numpy as np

from ._atomic_file import write_atomically

# Of the header: what a small file can make the reader allocate has to end somewhere.
MAX_HEADER = 2**24
# Of objects and lists in JSON, which take far more memory than text, and of the long sides of
# arrays without elements, which take none.
MAX_PARTS = 2**19
MAX_EMPTY = 2**20
_START = b'{"__metadata__":{"sha256":"'
_HEX = 64
# What tells a file from others of its kind.
_HEAD = 8 + len(_START) + _HEX
DTYPES = {
    "BOOL": "|b1", "U8": "|u1", "I8": "|i1", "U16": "<u2", "I16": "<i2", "U32": "<u4",
    "I32": "<i4", "U64": "<u8", "I64": "<i8", "F16": "<f2", "F32": "<f4", "F64": "<f8",
}  # fmt: skip
_NAMES = {dtype: name for name, dtype in DTYPES.items()}


class ForeignError(ValueError):
    """A file that is none of ours."""


def can_hold(dtype):
    """Tell whether arrays of this dtype are kept as they are."""
    return dtype.newbyteorder("<").str in _NAMES


def write_arrays(path, kind, version, versions, content, arrays, *, one_writer=False):
    """Write a file whole or not at all, and return its first bytes, which tell it from others.

    Parameters
    ----------
    path : path-like
    kind : str
        What the file is, "model" for example.
    version : int
        Of the format of such files.
    versions : dict
        Those of the packages, for a reader.
    content : object
        What JSON can hold.
    arrays : dict of ndarray
        By name; of dtypes that `can_hold` accepts.
    one_writer : bool, default=False
        As in `write_atomically`.

    Raises
    ------
    ValueError
        If the description is longer than what would be read again.
    """
    arrays = {key: _little(array) for key, array in arrays.items()}
    metadata = {
        "sha256": "0" * _HEX,
        "format": f"sktopk {kind}",
        "format_version": str(version),
        "versions": json.dumps(versions),
        "content": json.dumps(content, separators=(",", ":")),
    }
    header, end = {"__metadata__": metadata}, 0
    for key, array in arrays.items():
        begin, end = end, end + array.nbytes
        entry = {"dtype": _NAMES[array.dtype.str], "shape": array.shape}
        header[key] = entry | {"data_offsets": [begin, end]}
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    if len(text) > MAX_HEADER:
        raise ValueError(
            f"what describes it must fit into {MAX_HEADER} bytes; got {len(text)}: shorten "
            "history_ or the list of classes"
        )
    parts = [len(text).to_bytes(8, "little") + text]
    parts += [array.reshape(-1).view(np.uint8).data for array in arrays.values()]
    checksum = hashlib.sha256()
    for part in parts:
        checksum.update(part)
    place = _HEAD - _HEX
    parts[0] = parts[0][:place] + checksum.hexdigest().encode() + parts[0][_HEAD:]
    write_atomically(path, parts, one_writer=one_writer)
    return parts[0][:_HEAD]


def read_head(path):
    """The first bytes of a file; None if there is no file."""
    try:
        with open(path, "rb") as file:
            return file.read(_HEAD)
    except FileNotFoundError:
        return None


def read_arrays(path, kind, version):
    """Return content, arrays and first bytes of what `write_arrays` wrote.

    Raises
    ------
    ForeignError
        If it is another kind of file.
    ValueError
        If it is of a newer format, cut off, altered, or of no possible shape.
    """
    with open(path, "rb") as file:
        data = file.read()
    size, metadata, entries = _header(data, kind)
    number = metadata.get("format_version")
    if number != str(version):
        newer = str(number).isdecimal() and int(number) > version
        raise ValueError(
            f"its format {number!r:.20} is {'newer than' if newer else 'not'} what this sktopk "
            f"reads ({version}): it was written with {metadata.get('versions')!r:.300}; "
            + ("upgrade sktopk" if newer else "write it again")
        )
    checked = hashlib.sha256(data[: _HEAD - _HEX])
    checked.update(b"0" * _HEX)
    checked.update(memoryview(data)[_HEAD:])
    if checked.hexdigest().encode() != data[_HEAD - _HEX : _HEAD]:
        raise ValueError("it is truncated or was altered: its checksum does not fit")
    if not isinstance(metadata.get("content"), str):
        raise ValueError("its description is missing")
    content = _parse(metadata["content"], "description")
    try:
        arrays = _arrays(entries, memoryview(data)[8 + size :])
    except (KeyError, TypeError) as error:
        raise ValueError(f"its arrays cannot be read: {error!r:.80}") from error
    return content, arrays, data[:_HEAD]


def _header(data, kind):
    """The length of the header, what it says of the file, and of each array."""
    if not data[8:].startswith(_START[: max(0, len(data) - 8)]):
        raise ForeignError(_what(data))
    if len(data) < _HEAD:
        raise ValueError(f"it is truncated: {len(data)} bytes are no header")
    size = int.from_bytes(data[:8], "little")
    if size > MAX_HEADER:
        raise ValueError(f"its header must have at most {MAX_HEADER} bytes; it claims {size}")
    if 8 + size > len(data):
        raise ValueError(f"it is truncated: header of {size} bytes, but only {len(data)} in all")
    header = _parse(data[8 : 8 + size], "header")
    metadata = header.pop("__metadata__", None) if isinstance(header, dict) else None
    if not isinstance(metadata, dict) or not str(metadata.get("format")).startswith("sktopk"):
        raise ForeignError(_what(data))
    if metadata["format"] != f"sktopk {kind}":
        raise ForeignError(f"it is no {kind} but holds a {metadata['format']!r:.40}")
    return size, metadata, header


def _what(data):
    """What a file that is none of ours looks like."""
    if data[:1] == b"\x80" or data[:2] == b"x\x9c":
        what = "a pickle, or a file of joblib"
    elif data[:2] == b"PK":
        what = "a zip archive, such as skops and torch write"
    elif data[8:9] == b"{":
        what = "a safetensors file of another program"
    else:
        what = "none of its files"
    return f"it was not written by sktopk: it is {what}"


def _parse(text, name):
    """What a JSON text says, if that is not far more than it is long."""
    try:
        text = text.decode() if isinstance(text, bytes) else text
        if text.count("[") + text.count("{") > MAX_PARTS:
            raise ValueError(f"more than {MAX_PARTS} parts")
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"its {name} cannot be read: {error}") from error


def _arrays(entries, data):
    """The arrays of a file, which have to lie one after another and fill it."""
    arrays, places = {}, []
    for key, entry in entries.items():
        shape = check_shape(entry["shape"])
        begin, end = entry["data_offsets"]
        dtype = np.dtype(DTYPES[entry["dtype"]])
        if type(begin) is not int or end - begin != math.prod(shape) * dtype.itemsize:
            raise ValueError(f"its arrays cannot be read: {key!r:.40} has {begin!r:.40} bytes")
        places.append((begin, end))
        if 0 <= begin <= end <= len(data):
            arrays[key] = np.frombuffer(data[begin:end], dtype).reshape(shape)
    places.sort()
    ends = [0, *(end for _, end in places)]
    if len(arrays) < len(entries) or [begin for begin, _ in places] != ends[:-1]:
        raise ValueError("its arrays cannot be read: they do not lie one after another")
    if ends[-1] != len(data):
        raise ValueError("its arrays cannot be read: they do not fill it")
    return arrays


def check_shape(shape):
    """Return a shape as a tuple, if arrays of it take their room from the file."""
    if not isinstance(shape, list) or any(type(n) is not int or n < 0 for n in shape):
        raise ValueError(f"its arrays cannot be read: {shape!r:.40} is no shape")
    # Nothing in them, but much to do for whoever goes through the rows.
    if 0 in shape and math.prod(n or 1 for n in shape) > MAX_EMPTY:
        raise ValueError(f"its arrays cannot be read: {shape!r:.40} holds nothing, and is large")
    return tuple(shape)


def _little(array):
    return np.ascontiguousarray(array, array.dtype.newbyteorder("<")).reshape(array.shape)
