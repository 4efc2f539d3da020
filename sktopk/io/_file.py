"""One safetensors file: arrays, a description of what they belong to, a checksum over the whole."""

import hashlib
import json
import platform
from importlib.metadata import version
from pathlib import Path

from sktopk._common._atomic_file import (
    write_atomically,
)
from sktopk._common._extras import import_extra

FORMAT_VERSION = 1
# Of the description: what a small file can make the reader allocate has to end somewhere.
MAX_HEADER = 2**24
_FIELD = b'"sha256":"'
_BLANK = b"0" * 64


def write_file(path, content, arrays):
    """Write a description of plain values and the arrays that it names; all of it or nothing."""
    metadata = {
        "format": "sktopk",
        "format_version": str(FORMAT_VERSION),
        "versions": json.dumps(_versions()),
        "content": json.dumps(content, separators=(",", ":")),
        "sha256": _BLANK.decode(),
    }
    data = bytearray(import_extra("safetensors.numpy", "dump", "io").save(arrays, metadata))
    n_header = int.from_bytes(data[:8], "little")
    if n_header > MAX_HEADER:
        raise ValueError(
            f"what describes the estimator must fit into {MAX_HEADER} bytes; got {n_header}: "
            "shorten history_ or the list of classes"
        )
    start = data.index(_FIELD + _BLANK, 8, 8 + n_header) + len(_FIELD)
    data[start : start + 64] = hashlib.sha256(data).hexdigest().encode()
    write_atomically(path, [data])


def read_file(path):
    """Return the description and the arrays of an undamaged file of this format."""
    numpy = import_extra("safetensors.numpy", "load", "io")
    data = Path(path).read_bytes()
    header = _header(data)
    metadata = header.get("__metadata__")
    if not isinstance(metadata, dict) or metadata.get("format") != "sktopk":
        raise ValueError("it was not written by sktopk.io.dump")
    number = metadata.get("format_version")
    if not str(number).isdecimal():
        raise ValueError(f"its format version {number!r} is no number")
    if int(number) > FORMAT_VERSION:
        raise ValueError(
            f"its format {number} is newer than what this sktopk reads ({FORMAT_VERSION}): it "
            f"was written with {metadata.get('versions')}; upgrade sktopk"
        )
    _check_sum(data, metadata)
    try:
        content = json.loads(metadata["content"])
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"its description cannot be read: {error}") from error
    try:
        return content, numpy.load(data)
    except Exception as error:  # of safetensors' own kind, or a dtype that NumPy lacks
        raise ValueError(f"its arrays cannot be read: {error}") from error


def _versions():
    """The versions of all that takes part in training and saving."""
    packages = ("sktopk", "numpy", "scikit-learn", "skorch", "torch")
    return {"python": platform.python_version()} | {name: version(name) for name in packages}


def _header(data):
    if len(data) < 8:
        raise ValueError(f"it is truncated: {len(data)} bytes are no header")
    size = int.from_bytes(data[:8], "little")
    if size > MAX_HEADER:
        raise ValueError(f"its header must have at most {MAX_HEADER} bytes; it claims {size}")
    if 8 + size > len(data):
        raise ValueError(f"it is truncated: header of {size} bytes, but only {len(data)} in all")
    try:
        # As UTF-8: json would guess the encoding of bytes, and import what reads it.
        header = json.loads(data[8 : 8 + size].decode())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"its header cannot be read: {error}") from error
    if not isinstance(header, dict):
        raise ValueError("its header is no JSON object")
    return header


def _check_sum(data, metadata):
    digest = metadata.get("sha256")
    field = _FIELD + str(digest).encode()
    end = 8 + int.from_bytes(data[:8], "little")
    start = data.find(field, 8, end) + len(_FIELD)
    if len(field) != len(_FIELD) + 64 or start < len(_FIELD):
        raise ValueError("it has no checksum")
    checked = hashlib.sha256(data[:start])
    checked.update(_BLANK)
    checked.update(memoryview(data)[start + 64 :])
    if checked.hexdigest() != digest:
        raise ValueError("it is truncated or was altered: its checksum does not fit")
