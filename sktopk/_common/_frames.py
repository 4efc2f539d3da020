"""Columns of a frame that are no numbers, in words that name them."""

import numpy as np

# What those who meet missing values or categories with another network can do.
TAKES_TABLES = (
    "the default network takes {what} as they are, in fit (module=None with hidden layers, or "
    "module=sktopk.modules.TabularMLP, in partial_fit as well)"
)
# How the dtypes of pandas, polars and pyarrow begin that stand for moments and durations.
_TIMES = ("date", "time", "period", "duration")
_OF_TIMES = "turn it into what counts, such as the hour, the weekday or the days since a date"


def check_columns(X):
    """Raise if a frame has names that occur twice, or columns of times.

    Some versions and frames read the first as one of the two columns, the second as nanoseconds.
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
    """Whether all values of a column, or a value alone, can be read as numbers."""
    try:
        np.asarray(values).astype(np.float64)
    except (TypeError, ValueError):
        return False
    return True


def explain(X, error, takes_missing=False):
    """Raise an error that names the first column of a frame that is no column of finite numbers.

    Returns if there is none: then the frame was refused for something else. NaN is not the
    reason where the network takes it.
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
    missing = []
    for row, value in enumerate(values.tolist()):
        if value is None or type(value).__name__ in ("NAType", "NaTType"):
            missing.append(row)
            continue
        try:
            is_nan = np.isnan(float(value))
        except (TypeError, ValueError) as reason:
            kind = ValueError if isinstance(value, str) else TypeError
            advice = f": {_OF_TIMES}" if hasattr(value, "isoformat") else ""
            if isinstance(value, str):
                advice = (
                    ". A column is one of categories if it holds nothing but texts in fit: make "
                    "numbers of them, or texts of all"
                )
                if not takes_missing:
                    advice = (
                        ". Encode it first, for example by scikit-learn's OneHotEncoder in a "
                        f"ColumnTransformer; {TAKES_TABLES.format(what='columns of texts')}"
                    )
            raise kind(
                f"X must hold numbers; column {name!r} has {_shortened(value)} in row {row}: "
                f"{reason}{advice}"
            ) from error
        if is_nan:
            missing.append(row)
    if missing and not takes_missing:
        wrong = np.zeros(len(values), bool)
        wrong[missing] = True
        raise ValueError(_missing(name, wrong, "NaN")) from error


def _missing(name, wrong, what):
    count = int(wrong.sum())
    advice = "clip them first"
    if what == "NaN":
        takes = TAKES_TABLES.format(what="missing values")
        advice = f"impute them first, or drop the rows; {takes}"
    return (
        f"Input X contains {what}: column {name!r}, in {count} of {len(wrong)} rows, the first of "
        f"them row {int(wrong.argmax())}. X must hold finite numbers: {advice}"
    )


def _shortened(value):
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
