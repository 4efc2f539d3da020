"""Files that say something else than `dump` wrote, with a checksum that fits."""

import hashlib
import json
import struct


def parts(path):
    """Header, what it describes, and the arrays of a file."""
    data = path.read_bytes()
    end = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:end])
    return header, json.loads(header["__metadata__"]["content"]), data[end:]


def write(path, header, content, body):
    """Write a file of these parts."""
    metadata = header["__metadata__"] | {"content": json.dumps(content), "sha256": "0" * 64}
    text = json.dumps(header | {"__metadata__": metadata}, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    data = struct.pack("<Q", len(text)) + text + body
    digest = hashlib.sha256(data).hexdigest().encode()
    path.write_bytes(data.replace(b'"sha256":"' + b"0" * 64, b'"sha256":"' + digest, 1))


def edit(path, change):
    """Rewrite a file after `change(header, content)`."""
    header, content, body = parts(path)
    change(header, content)
    write(path, header, content, body)


def replace_array(path, key, array):
    """Rewrite a file with another array under a key."""
    header, content, body = parts(path)
    first, last = header[key]["data_offsets"]
    grown = array.nbytes - (last - first)
    for name, entry in header.items():
        if name != "__metadata__" and entry["data_offsets"][0] >= last:
            entry["data_offsets"] = [place + grown for place in entry["data_offsets"]]
    names = {"b1": "BOOL", "f8": "F64", "f4": "F32", "f2": "F16"}
    kind = array.dtype.str[1:]
    dtype = names.get(kind) or f"{kind[0].upper()}{8 * int(kind[1])}"
    shape = list(array.shape)
    header[key] |= {"dtype": dtype, "shape": shape, "data_offsets": [first, last + grown]}
    write(path, header, content, body[:first] + array.tobytes() + body[last:])
