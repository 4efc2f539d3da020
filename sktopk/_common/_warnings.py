"""Warnings that point to the line of the user's code, each shown once."""

import contextlib
import inspect
import multiprocessing
import os
import warnings

import joblib
import sklearn

# Paths of code that is not the user's: sktopk, and packages that call sktopk, such as joblib.
_INSIDE = (
    os.path.dirname(os.path.dirname(__file__)) + os.sep,
    contextlib.__file__,
    *(os.path.dirname(package.__file__) + os.sep for package in (sklearn, joblib, multiprocessing)),
)
# Warnings that were shown. Python shows a warning of a line once, but again after `catch_warnings`,
# which scikit-learn uses in each parallel call. Without this set, a search would warn per fold.
_SHOWN = set()


def warn(message, category=UserWarning):
    """Issue a warning that points to the line of the user's code."""
    frame, level = inspect.currentframe(), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_INSIDE):
        frame, level = frame.f_back, level + 1
    shown = message, category, frame.f_code.co_filename, frame.f_lineno
    if _action(message, category, frame) in ("default", "module", "once"):
        if shown in _SHOWN:
            return
        _SHOWN.add(shown)
    warnings.warn(message, category, stacklevel=level)


def _action(message, category, frame):
    """Return what Python's warning filters do with a warning, such as "ignore" or "default"."""
    module = frame.f_globals.get("__name__", "")
    for action, text, kind, of_module, line in warnings.filters:
        if (
            (text is None or text.match(message))
            and issubclass(category, kind)
            and (of_module is None or of_module.match(module))
            and line in (0, frame.f_lineno)
        ):
            return action
    return "default"


def warn_of_order(X, name="X", **others):
    """Warn if pandas objects have the index of X in another order. Positions match them to X."""
    for other, given in others.items():
        indexed = all(is_of(each, "pandas") and hasattr(each, "index") for each in (X, given))
        if indexed and not X.index.equals(given.index) and {*X.index} == {*given.index}:
            order = f"{name} and {other} have the same index in different orders, but are matched"
            warn(f"{order} by position. To match by index, pass {other}.loc[{name}.index]")


def is_of(X, library):
    """Return whether X is an object of a library, without importing the library."""
    return type(X).__module__.partition(".")[0] == library
