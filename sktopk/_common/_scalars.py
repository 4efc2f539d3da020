"""Scalars that users pass in, checked: errors name the parameter, what is allowed, what came."""

import math
from numbers import Integral, Real

import numpy as np
from sklearn.utils import check_scalar


def check_option(value, name, allowed):
    """Raise unless `value` is among `allowed`, strings or None."""
    if not (value is None or isinstance(value, str)) or value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}; got {value!r}")


def check_count(value, name):
    """Raise unless `value` is an integer of at least 1."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be an integer; got {value!r}")
    if value < 1:
        raise ValueError(f"{name} must be at least 1; got {value!r}")


def check_k(k):
    """Raise unless `k` is an integer of at least 1 or a fraction in (0, 1)."""
    allowed = "k must be an integer >= 1 or a fraction in (0, 1)"
    if isinstance(k, bool) or not isinstance(k, Real):
        raise TypeError(f"{allowed}; got {k!r}")
    if not (k >= 1 if isinstance(k, Integral) else 0 < k < 1):
        raise ValueError(f"{allowed}; got {k!r}")


def n_kept(k, n):
    """Return `k`, or the number of `n` items that the fraction `k` stands for, rounded up."""
    check_k(k)
    if isinstance(k, Integral):
        return int(k)
    # Rounded first: 0.07 * 100 is a little more than 7, and must not become 8; nor a little 0.
    size = float(k * n)
    return math.ceil(round(size, 9) or size)


def check_nonnegative(values, name, length, which):
    """Return `values` as `length` finite nonnegative floats; `which` says what they belong to."""
    values = np.asarray(values)
    if values.dtype.kind not in "fiub" or values.shape != (length,):
        raise ValueError(
            f"{name} must be {length} numbers, {which}; "
            f"got dtype {values.dtype} and shape {values.shape}"
        )
    values = values.astype(np.float64)
    refused = values[~(np.isfinite(values) & (values >= 0))]
    if len(refused):
        raise ValueError(f"{name} must be finite and nonnegative; got {refused[0]:g}")
    with np.errstate(over="ignore"):
        if not np.isfinite(values.sum()):
            raise ValueError(f"{name} must have a finite sum; got up to {values.max():g}")
    return values


def check_number(value, name, low=None, high=None, bounds="both", integer=False):
    """Raise unless `value` is a finite number from `low` to `high`, `bounds` included."""
    if isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be {'an integer' if integer else 'a number'}; got {value!r}")
    kind = Integral if integer else Real
    check_scalar(value, name, kind, min_val=low, max_val=high, include_boundaries=bounds)
    if not integer and not np.isfinite(value):
        raise ValueError(f"{name} must be finite; got {value!r}")


def check_flag(value, name):
    """Raise unless `value` is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False; got {value!r}")


def check_auto(value, name, check, **kwargs):
    """Raise unless `value` is "auto" or passes `check`."""
    if isinstance(value, str):
        check_option(value, name, ("auto",))
    else:
        check(value, name, **kwargs)
