"""What users pass in, checked: errors name the parameter, what is allowed, what came."""

import inspect
import math
from numbers import Integral, Real

import numpy as np
from sklearn.utils import check_random_state, check_scalar


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
    check_readable(values, name)
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
    if integer:
        return
    try:
        finite = math.isfinite(value)
    except OverflowError as error:  # whole numbers and fractions know no bound
        raise ValueError(f"{name} must be finite as a float; got {value!r}") from error
    if not finite:
        raise ValueError(f"{name} must be finite; got {value!r}")


def check_flag(value, name):
    """Raise unless `value` is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False; got {value!r}")


def check_random(random_state):
    """Return the generator that the parameter `random_state` stands for."""
    try:
        return check_random_state(random_state)
    except (TypeError, ValueError) as error:
        raise ValueError(
            "random_state must be None, an integer from 0 to 2**32 - 1 or a numpy RandomState; "
            f"got {random_state!r}"
        ) from error


def check_call(function, name, *places, **params):
    """Raise unless `function` takes arguments in these places and parameters of these names."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # as of some builtins
        return
    try:
        signature.bind(*places, **params)
    except TypeError as error:
        raise TypeError(
            f"{name} must take ({', '.join([*places, *params])}); got one that takes {signature}: "
            f"{error}"
        ) from error


def check_readable(values, name):
    """Raise if `values` are tensors that NumPy cannot read, such as those with a gradient."""
    first = values[0] if isinstance(values, list | tuple) and values else values
    if not hasattr(first, "requires_grad"):
        return
    try:
        first.numpy()
    except (RuntimeError, TypeError) as error:
        came = "a gradient, " if first.requires_grad else ""
        raise TypeError(
            f"{name} must be an array or a tensor that NumPy can read; got one with {came}"
            f"{first.dtype}, on {first.device}: pass {name}.detach().cpu(), in a dtype of NumPy"
        ) from error


def check_auto(value, name, check, **kwargs):
    """Raise unless `value` is "auto" or passes `check`."""
    if isinstance(value, str):
        check_option(value, name, ("auto",))
    else:
        check(value, name, **kwargs)
