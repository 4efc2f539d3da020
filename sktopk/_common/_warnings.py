"""Warnings that point to the line of the user's code."""

import contextlib
import inspect
import os
import warnings

import joblib
import sklearn

# Code in these paths is not the user's code. scikit-learn and joblib are included because they
# call this package, for example in pipelines and searches.
_INSIDE = (
    os.path.dirname(os.path.dirname(__file__)) + os.sep,
    contextlib.__file__,
    *(os.path.dirname(package.__file__) + os.sep for package in (sklearn, joblib)),
)


def warn(message, category=UserWarning):
    """Issue a warning that points to the user's line: the first frame not in `_INSIDE`."""
    frame, level = inspect.currentframe(), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_INSIDE):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
