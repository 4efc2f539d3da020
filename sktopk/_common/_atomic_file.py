"""Atomic file writes."""

import errno
import os
import re
import secrets
import stat
from contextlib import suppress


def write_atomically(path, parts, *, one_writer=False):
    """Write a file atomically: after a crash, the file has either its old or its new content.

    Parameters
    ----------
    path : path-like
        File to replace. Its mode is kept, and links are followed.
    parts : iterable of bytes
        Content of the file.
    one_writer : bool, default=False
        Whether no other process writes this file. If True, temporary files of interrupted writes
        are deleted first.

    Raises
    ------
    OSError
        If the file cannot be written, or `path` is not a regular file.
    """
    path = os.path.realpath(path)
    folder, name = os.path.split(path)
    mode = _mode(path, folder)
    # Use the same folder, because renaming a file works only within a file system.
    temporary = os.path.join(folder, f".{name}.{secrets.token_hex(8)}.tmp")
    # With O_EXCL, opening fails if a file or a link with this name exists.
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
    # Write the new directory entry to disk, on systems where folders can be synchronized.
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _mode(path, folder):
    """Return the permissions of the file at `path`; None if it does not exist."""
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        if not os.path.isdir(folder):
            raise FileNotFoundError(errno.ENOENT, "Folder does not exist", folder) from None
        return None
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "path must be a regular file", path)
    return stat.S_IMODE(mode)


def _clear(folder, name):
    """Delete the temporary files of the file `name` that interrupted writes left behind."""
    left = re.compile(rf"\.{re.escape(name)}\.[0-9a-f]{{16}}\.tmp")
    for entry in os.listdir(folder):
        if left.fullmatch(entry):
            with suppress(OSError):
                os.unlink(os.path.join(folder, entry))
