"""Checks of paths."""

import errno
import os


def check_path(path):
    """Return `path` as a string. Raise an error if `path` is not path-like."""
    text = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    if not isinstance(text, str):
        raise TypeError(f"path must be a str or an os.PathLike of str; got {path!r:.80}")
    if "\0" in text:
        raise ValueError(f"path must not contain NUL characters; got {text!r:.200}")
    if os.path.basename(text) in ("", os.curdir, os.pardir):
        raise IsADirectoryError(errno.EISDIR, "path must be the path of a file", text)
    return text
