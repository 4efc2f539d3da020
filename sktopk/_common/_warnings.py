"""Warnings at the line of the user, however deep inside they arise."""

import contextlib
import inspect
import os
import warnings

import joblib
import sklearn

# Two folders up; those who call us for a user, pipelines, searches, cross-validations; and what
# stands between a function of ours and a context that it runs in.
_INSIDE = (
    os.path.dirname(os.path.dirname(__file__)) + os.sep,
    contextlib.__file__,
    *(os.path.dirname(package.__file__) + os.sep for package in (sklearn, joblib)),
)


def warn(message, category=UserWarning):
    """Warn at the first line outside of this package, scikit-learn, joblib and contextlib."""
    frame, level = inspect.currentframe(), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_INSIDE):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
