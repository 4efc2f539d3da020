"""Warnings at the line of the user, however deep inside they arise."""

import inspect
import os
import warnings

# Two folders up.
_PACKAGE = os.path.dirname(os.path.dirname(__file__)) + os.sep


def warn(message, category=UserWarning):
    """Warn at the first line outside of this package."""
    frame, level = inspect.currentframe(), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
