"""Warnings that point to the line of the user's code."""

import contextlib
import inspect
import os
import warnings

import joblib
import sklearn

# Paths of code that can be between the user's line and the warning: this package, context managers,
# and scikit-learn and joblib, which call the package from pipelines and searches.
_INSIDE = (
    os.path.dirname(os.path.dirname(__file__)) + os.sep,
    contextlib.__file__,
    *(os.path.dirname(package.__file__) + os.sep for package in (sklearn, joblib)),
)


def warn(message, category=UserWarning):
    """Warn at the first line outside this package, scikit-learn, joblib and contextlib."""
    frame, level = inspect.currentframe(), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_INSIDE):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
