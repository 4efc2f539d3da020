"""Files that are written whole or not at all."""

import errno
import os
import re
import secrets
import stat
from contextlib import suppress


def write_atomically(path, parts, *, one_writer=False):
    """Write a file so that at any moment, and after any crash, the old or the new one is there.

    Parameters
    ----------
    path : path-like
        File that is replaced, and keeps its mode; where it is a link, its target.
    parts : iterable of bytes
        Its content.
    one_writer : bool, default=False
        Whether nobody else writes this file. Then the next writing clears what a killed one
        left behind.

    Raises
    ------
    OSError
        If the file cannot be written, or `path` names something else than a file.
    """
    path = os.path.realpath(path)
    folder, name = os.path.split(path)
    mode = _mode(path, folder)
    # In the same folder, as a rename does not cross file systems; hidden, and never read.
    temporary = os.path.join(folder, f".{name}.{secrets.token_hex(8)}.tmp")
    # Nobody can have put a link there before: the name is random, and has to be new.
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
    flags |= getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)
    if one_writer:
        _clear(folder, name)
    try:
        with open(os.open(temporary, flags, 0o666 if mode is None else mode), "wb") as file:
            if mode is not None and hasattr(os, "fchmod"):
                os.fchmod(file.fileno(), mode)
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


def _mode(path, folder):
    """The permissions of the file at `path`; None if there is none yet."""
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        if not os.path.isdir(folder):
            raise FileNotFoundError(errno.ENOENT, "There is no such folder", folder) from None
        return None
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "It is no regular file, and would be replaced by one", path)
    return stat.S_IMODE(mode)


def _clear(folder, name):
    """Delete what writers of a file that were killed have left behind."""
    left = re.compile(rf"\.{re.escape(name)}\.[0-9a-f]{{16}}\.tmp")
    for entry in os.listdir(folder):
        if left.fullmatch(entry):
            with suppress(OSError):
                os.unlink(os.path.join(folder, entry))
