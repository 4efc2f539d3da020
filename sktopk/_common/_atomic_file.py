"""Atomic writes of files, and reads of regular files."""

import errno
import hashlib
import os
import re
import secrets
import stat
from contextlib import suppress

try:
    import fcntl
except ImportError:  # Windows, which does not delete files that are open
    fcntl = None


def read_file(path):
    """Return the content of a regular file. Raise OSError for folders, pipes and devices."""
    # Without this flag, opening a pipe would wait for a writer.
    no_wait = getattr(os, "O_NONBLOCK", 0)
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | no_wait)) as file:
        _check_regular(os.fstat(file.fileno()).st_mode, path)
        return file.read()


def write_atomically(path, parts):
    """Write bytes to a file: after a crash, the file has either its old or its new content.

    Keep the permissions of the file and follow links. Delete temporary files of earlier crashes.
    """
    path = os.path.realpath(path)
    folder, name = os.path.split(path)
    mode = _mode(path, folder)
    # Use a name of fixed length, because the name of the file may have the maximum length.
    start = f".{hashlib.sha256(os.fsencode(name)).hexdigest()[:16]}."
    _clear(folder, start)
    temporary, file = _created(folder, start, 0o666 if mode is None else mode)
    try:
        with file:
            if mode is not None and hasattr(os, "fchmod"):
                os.fchmod(file.fileno(), mode)
            for part in parts:
                file.write(part)
            file.flush()
            os.fsync(file.fileno())
            if fcntl is None:  # Windows does not rename open files
                file.close()
            os.replace(temporary, path)  # while the file is locked
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


def _created(folder, start, mode):
    """Create and lock a temporary file. Return two values: its path and the open file."""
    while True:
        # Use the same folder, because renaming a file works only within a file system.
        path = os.path.join(folder, f"{start}{secrets.token_hex(8)}.tmp")
        # With "x", opening fails if a file or a link with this name exists.
        file = open(path, "xb", opener=lambda name, flags: os.open(name, flags, mode))
        if fcntl is not None:
            with suppress(OSError):  # some file systems have no locks
                fcntl.flock(file, fcntl.LOCK_EX)
        # Another process may have deleted the file before it was locked.
        if os.path.lexists(path):
            return path, file
        file.close()


def _mode(path, folder):
    """Return the permissions of the file at `path`; None if it does not exist."""
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        if not os.path.isdir(folder):
            raise FileNotFoundError(errno.ENOENT, "Folder does not exist", folder) from None
        return None
    _check_regular(mode, path)
    return stat.S_IMODE(mode)


def _check_regular(mode, path):
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "path must be a regular file", path)


def _clear(folder, start):
    """Delete unlocked temporary files. Processes that have ended left these files behind."""
    left = re.compile(rf"{re.escape(start)}[0-9a-f]{{16}}\.tmp")
    for entry in filter(left.fullmatch, os.listdir(folder)):
        path = os.path.join(folder, entry)
        with suppress(OSError):
            if fcntl is None:
                os.unlink(path)
                continue
            descriptor = os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_NOFOLLOW)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.unlink(path)
            finally:
                os.close(descriptor)
