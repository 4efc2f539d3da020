"""Files that are written whole or not at all."""

import os
import secrets
from contextlib import suppress


def write_atomically(path, parts, *, one_writer=False):
    """Write a file so that at any moment, and after any crash, the old or the new one is there.

    Parameters
    ----------
    path : path-like
        File that is replaced; where it is a link, its target.
    parts : iterable of bytes
        Its content.
    one_writer : bool, default=False
        Whether nobody else writes this file. Then the next writing clears what a killed one
        left behind.
    """
    path = os.path.realpath(path)
    folder, name = os.path.split(path)
    # In the same folder, as a rename does not cross file systems; hidden, and never read.
    unique = "part" if one_writer else f"{secrets.token_hex(8)}.tmp"
    temporary = os.path.join(folder, f".{name}.{unique}")
    try:
        with open(temporary, "wb") as file:
            for part in parts:
                file.write(part)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
    # The new name has to reach the disk too, where folders can be synchronised.
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
