"""Errors that name the column of a frame that is no column of numbers."""

import numpy as np

# What other networks cannot take.
TAKES_TABLES = "the default network takes {what} as they are (module=TabularMLP)"
# First letters of the dtypes of times, in pandas, polars and pyarrow.
_TIMES = ("date", "time", "period", "duration")
_OF_TIMES = "turn it into what counts, such as the hour, the weekday or the days since a date"


def check_columns(X):
    """Raise if two columns of a frame have the same name, or if a column holds times.

    Some versions and frames read the first as one column, the second as nanoseconds.
    """
    seen = set()
    for name in X.columns:
        if name in seen:
            raise ValueError(
                f"X must have columns of different names; got {name!r} more than once: rename or "
                "drop it"
            )
        seen.add(name)
    for name in X.columns:
        dtype = str(X[name].dtype)
        if dtype.lower().startswith(_TIMES):
            raise TypeError(
                f"X must hold numbers; column {name!r} holds times ({dtype}): {_OF_TIMES}"
            )


def holds_numbers(values):
    """Whether all values of a column, or a single value, can be read as numbers."""
    try:
        np.asarray(values).astype(np.float64)
    except (TypeError, ValueError):
        return False
    return True


def explain(X, error, takes_missing=False):
    """Raise an error that names the first column that is no column of finite numbers.

    Returns if there is no such column. NaN is allowed if the network takes missing values.
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
    """Raise for the first value of a column that is no number."""
    missing = np.zeros(len(values), bool)
    for row, value in enumerate(values.tolist()):
        try:
            is_none = value is None or type(value).__name__ in ("NAType", "NaTType")
            missing[row] = is_none or np.isnan(float(value))
        except (TypeError, ValueError) as reason:
            kind = ValueError if isinstance(value, str) else TypeError
            advice = f": {_OF_TIMES}" if hasattr(value, "isoformat") else ""
            if isinstance(value, str) and takes_missing:
                advice = (
                    ". A column is one of categories if it holds nothing but texts in fit: make "
                    "numbers of them, or texts of all"
                )
            elif isinstance(value, str):
                advice = (
                    ". Encode it first, for example by scikit-learn's OneHotEncoder in a "
                    f"ColumnTransformer; {TAKES_TABLES.format(what='columns of texts')}"
                )
            text = repr(value)
            text = text if len(text) <= 40 else f"{text[:37]}..."
            raise kind(
                f"X must hold numbers; column {name!r} has {text} in row {row}: {reason}{advice}"
            ) from error
    if missing.any() and not takes_missing:
        raise ValueError(_missing(name, missing, "NaN")) from error


def _missing(name, wrong, what):
    takes = TAKES_TABLES.format(what="missing values")
    advice = f"impute them first, or drop the rows; {takes}" if what == "NaN" else "clip them first"
    return (
        f"Input X contains {what}: column {name!r}, in {int(wrong.sum())} of {len(wrong)} rows, "
        f"the first of them row {int(wrong.argmax())}. X must hold finite numbers: {advice}"
    )
