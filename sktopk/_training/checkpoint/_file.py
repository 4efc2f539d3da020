"""The file of a checkpoint: arrays and plain values, written whole or not at all."""

from sktopk._common._array_file import ForeignError, read_arrays, write_arrays
from sktopk._common._fingerprints import versions
from sktopk._common._values import Decoder, Encoder, NotPlainError

_VERSION = 2


def write_state(path, state):
    """Write `state` in the place of the file `path`; return the first bytes of the new file.

    Raises
    ------
    TypeError
        If the state holds anything but arrays and plain values.
    OSError
        If the file cannot be written; the old one is then as it was.
    """
    encoder = Encoder()
    content, kind = encoder.encode(state), "checkpoint"
    return write_arrays(path, kind, _VERSION, versions(), content, encoder.arrays, one_writer=True)


def read_state(path):
    """Return what `write_state` wrote, and the first bytes of the file.

    Raises
    ------
    ValueError
        If the file is of another kind or version, cut off or altered, or no dict.
    OSError
        If it cannot be read.
    """
    try:
        content, arrays, head = read_arrays(path, "checkpoint", _VERSION)
        state = Decoder(arrays).decode(content)
    except ForeignError as error:
        raise ValueError(f"is no checkpoint: {error}") from error
    except OSError:
        raise
    except Exception as error:  # what a file that lies can make fail has many kinds
        raise ValueError(f"is damaged: {error}") from error
    if not isinstance(state, dict):
        raise ValueError(f"is damaged: it holds {state!r:.40}")
    return state, head


def is_plain(value):
    """Tell whether a file can hold the value."""
    try:
        Encoder().encode(value)
    except NotPlainError:
        return False
    return True
