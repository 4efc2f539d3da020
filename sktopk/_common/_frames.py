"""Errors that name the first column of a data frame whose values are not valid numbers."""

from datetime import date, time, timedelta

import numpy as np
from scipy.sparse import issparse

# End of error messages about input that only TabularMLP accepts.
TAKES_TABLES = "the default network accepts {what} (module=TabularMLP)"
# Prefixes of the names of time dtypes in pandas, polars and pyarrow.
_TIMES = ("date", "time", "period", "duration")
_OF_TIMES = "convert it to numbers, such as the hour, the weekday or the days since a date"
_OF_COMPLEX = "pass the real and the imaginary part as two columns"
# Types of objects that NumPy or float() could convert to numbers, or that need advice.
_TIME_TYPES = (date, time, timedelta, np.datetime64, np.timedelta64)
_COMPLEX_TYPES = (complex, np.complexfloating)


def check_columns(X):
    """Check that the column names of a data frame are distinct, and that no column has times.

    Otherwise some libraries would merge equally named columns, and convert times to nanoseconds.
    """
    seen = set()
    for name in X.columns:
        if name in seen:
            raise ValueError(
                f"X must have distinct column names; got {name!r} more than once: rename or drop it"
            )
        seen.add(name)
    for name in X.columns:
        refuse_times_and_complex(X[name], "X", f" in column {name!r}")


def refuse_times_and_complex(values, name, where="", what="numbers", advice=_OF_TIMES):
    """Check that there are no times and no complex numbers, which NumPy would convert silently."""
    if isinstance(values, list | tuple):
        try:
            values = np.asarray(values)
        except (RuntimeError, TypeError, ValueError):
            return  # the caller converts the values and gets the same error
    dtype = str(getattr(values, "dtype", ""))
    first, is_complex = None, dtype.startswith("complex")
    is_time = dtype.lower().startswith(_TIMES)
    if dtype == "object" and not issparse(values):
        objects = np.asarray(values).flat
        first = next((v for v in objects if isinstance(v, _TIME_TYPES + _COMPLEX_TYPES)), None)
        is_time, is_complex = (isinstance(first, each) for each in (_TIME_TYPES, _COMPLEX_TYPES))
    came = f"times ({dtype})" if is_time and first is None else dtype if first is None else first
    came = came if isinstance(came, str) else repr(came)
    if is_time:
        raise TypeError(f"{name} must hold {what}; got {came}{where}: {advice}")
    if is_complex:
        # scikit-learn requires the first words.
        raise ValueError(
            f"Complex data not supported: {name} must hold {what}; got {came}{where}: {_OF_COMPLEX}"
        )


def explain(X, error, takes_missing=False):
    """Raise an error that names the first column with a value that is not a finite number.

    Return None if all columns are valid. If `takes_missing` is True, NaN is allowed.
    """
    for name in X.columns:
        values = np.asarray(X[name])
        if values.dtype.kind not in "fiub":
            _explain_objects(name, values, error, takes_missing)
            continue
        wrong = np.isinf(values) if takes_missing else ~np.isfinite(values)
        if wrong.any():
            is_nan = np.isnan(values[wrong]).any()
            wrong = np.isnan(values) if is_nan else wrong
            raise ValueError(_missing(name, wrong, "NaN" if is_nan else "infinity")) from error


def _explain_objects(name, values, error, takes_missing):
    """Raise an error that names the first value of the column that is not a number."""
    missing = np.zeros(len(values), bool)
    for row, value in enumerate(values.tolist()):
        try:
            is_none = value is None or type(value).__name__ in ("NAType", "NaTType")
            missing[row] = is_none or np.isnan(float(value))
        except (OverflowError, TypeError, ValueError) as reason:
            kind = TypeError if isinstance(reason, TypeError) else ValueError
            advice = ""
            if isinstance(value, str) and takes_missing:
                advice = (
                    ". A column of categories must have only strings in fit: convert all values to "
                    "numbers, or all values to strings"
                )
            elif isinstance(value, str):
                advice = (
                    ". Encode it first, for example with scikit-learn's OneHotEncoder in a "
                    f"ColumnTransformer; {TAKES_TABLES.format(what='columns of strings')}"
                )
            text = repr(value)
            text = text if len(text) <= 40 else f"{text[:37]}..."
            raise kind(
                f"X must hold numbers; got {text} in column {name!r}, row {row}: {reason}{advice}"
            ) from error
    if missing.any() and not takes_missing:
        raise ValueError(_missing(name, missing, "NaN")) from error


def _missing(name, wrong, what):
    takes = TAKES_TABLES.format(what="missing values")
    advice = f"impute them first, or drop the rows; {takes}" if what == "NaN" else "clip them first"
    return (
        f"Input X contains {what}: {int(wrong.sum())} of {len(wrong)} rows of column {name!r}, "
        f"first row {int(wrong.argmax())}. X must hold finite numbers: {advice}"
    )
