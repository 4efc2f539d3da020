"""What users pass in, checked: errors name the parameter, what is allowed, what came."""

import inspect
import math
from numbers import Integral, Real

import numpy as np
from sklearn import get_config
from sklearn.utils import check_random_state, check_scalar

from ._warnings import warn

# A label has to be rarer than this share to be taken for the positive one.
_RARE = 0.25


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


def check_k(k, name="k"):
    """Raise unless `k` is an integer of at least 1 or a fraction in (0, 1)."""
    allowed = f"{name} must be an integer >= 1 or a fraction in (0, 1)"
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
    values = np.asarray(on_host(values, name))
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
            f"got {random_state!r}{_in_place_of(random_state)}"
        ) from error


def _in_place_of(generator):
    """What to pass for one of NumPy's new generators, which scikit-learn does not take."""
    if not isinstance(generator, np.random.Generator):
        return ""
    return ": pass np.random.RandomState(generator.bit_generator), which draws from the same bits"


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


def refuse_masked(values, name):
    """Raise for an array with masked entries: NumPy's functions read the numbers below a mask."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
        raise ValueError(
            f"{name} must have no masked entries; got {np.ma.count_masked(values)} of "
            f"{values.size}. Drop these samples, or fill them with {name}.filled()"
        )


def on_host(values, name):
    """Return `values`, those of another library as an array of NumPy in the CPU's memory.

    With scikit-learn's array_api_dispatch on, arrays on another device and tensors with a gradient
    are copied to it; else NumPy cannot read them, and they are refused by `name`.
    """
    refuse_masked(values, name)
    first = values[0] if isinstance(values, list | tuple) and values else values
    if isinstance(first, np.ndarray) or not hasattr(first, "__dlpack__"):
        return values
    is_tensor = hasattr(first, "requires_grad")
    try:
        array = _read(first, copies=first is values and get_config()["array_api_dispatch"])
    except (AttributeError, BufferError, RuntimeError, TypeError) as error:
        other_way = "or set array_api_dispatch=True of scikit-learn, which copies it"
        if not is_tensor:
            raise TypeError(
                f"{name} must be an array that NumPy can read; got one of {type(first).__module__} "
                f"on {first.device}: copy it to the CPU's memory first, {other_way}"
            ) from error
        came = "a gradient, " if first.requires_grad else ""
        raise TypeError(
            f"{name} must be an array or a tensor that NumPy can read; got one with {came}"
            f"{first.dtype}, on {first.device}: pass {name}.detach().cpu(), in a dtype of NumPy, "
            f"{other_way}"
        ) from error
    return array if first is values else values


def _read(values, copies):
    """An array of another library as one of NumPy."""
    if hasattr(values, "requires_grad"):
        return values.numpy(force=copies)
    try:
        return np.asarray(values)
    except (RuntimeError, TypeError):
        if not copies:
            raise
    # CuPy has a copy of its own; DLPack has one since the standard of 2023.
    return values.get() if hasattr(values, "get") else np.from_dlpack(values, device="cpu")


def check_auto(value, name, check, **kwargs):
    """Raise unless `value` is "auto" or passes `check`."""
    if isinstance(value, str) and value == "auto":
        return
    try:
        check(value, name, **kwargs)
    except (TypeError, ValueError) as error:
        said = str(error).rstrip(".")
        got = "" if "; got " in said or " == " in said else f"; got {value!r}"
        raise type(error)(f"{said}{got}. {name} may also be 'auto'") from None


def is_told(labels):
    """Tell whether 1 or True is the positive of at most two labels: beside 0, -1 or False."""
    return labels <= {-1, 0, 1} and labels != {-1, 0}


def check_pos_label(pos_label):
    """Raise unless `pos_label` is None or can be a label."""
    if pos_label is not None and not isinstance(pos_label, str | Real | np.bool_):
        raise TypeError(f"pos_label must be a label or None; got {pos_label!r}")


def place_of(pos_label, classes):
    """Return the index of `pos_label` among two classes."""
    labels = np.asarray(classes).tolist()
    if pos_label not in labels:
        encoded = labels == [0, 1] and pos_label is not None
        hint = ": a meta-estimator may have encoded the labels; set pos_label to 1, 0 or None"
        raise ValueError(
            f"pos_label must be one of {labels}; got {pos_label!r}{hint if encoded else ''}"
        )
    return labels.index(pos_label)


def negative_first(classes, pos_label):
    """Return two classes, or a number of each, in the order negative, positive."""
    return classes[::-1] if place_of(pos_label, classes) == 0 else classes


def positive_label(pos_label, classes, count):
    """Return the positive one of two sorted classes, and warn where that is a guess.

    Parameters
    ----------
    pos_label : label or None
        What the user says. None is 1 or True beside 0, -1 or False. Of other labels it is the rarer
        one if it has less than a quarter of the weight, else the second.
    classes, count : ndarray of shape (2,)
        The labels, and the sums of their sample weights.

    Raises
    ------
    ValueError
        If `pos_label` is not among the labels.
    """
    labels = classes.tolist()
    if pos_label is not None:
        return labels[place_of(pos_label, classes)]
    if is_told(set(labels)):
        return labels[1]
    place = int(not count[0] < _RARE * count.sum())
    warn(
        f"labels {labels[0]!r} and {labels[1]!r} do not tell which is positive: "
        f"{labels[place]!r} is used. Set pos_label={labels[place]!r} or "
        f"pos_label={labels[1 - place]!r}"
    )
    return labels[place]
