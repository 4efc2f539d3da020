"""Checks of parameters. Errors state a parameter's name, its allowed values and its value."""

import inspect
import math
from datetime import date, time, timedelta
from numbers import Integral, Real

import numpy as np
from scipy.sparse import issparse
from sklearn import get_config
from sklearn.utils import check_random_state, check_scalar

from ._warnings import warn

# A label with less than this share of all sample weights is rare. Positives are usually rare.
_RARE = 0.25
_LARGEST = 2**63 - 1  # NumPy's indices are integers up to this limit
# Prefixes of the names of time dtypes in pandas, polars and pyarrow.
_TIMES = ("date", "time", "period", "duration")
_OF_TIMES = "convert it to numbers, such as the hour, the weekday or the days since a date"
_OF_COMPLEX = "pass the real and the imaginary part as two columns"
# Values of these types raise an error. Otherwise, NumPy would convert some of them to numbers.
_TIME_TYPES = (date, time, timedelta, np.datetime64, np.timedelta64)
_COMPLEX_TYPES = (complex, np.complexfloating)


def check_option(value, name, allowed):
    """Check that `value`, a string or None, is one of the `allowed` values."""
    if not (value is None or isinstance(value, str)) or value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(map(repr, allowed))}; got {value!r}")


def check_size(value, name):
    """Check that `value` fits in int64 if it is an integer."""
    if isinstance(value, Integral) and abs(value) > _LARGEST:
        raise ValueError(f"{name} must be less than 2**63; got {_about(value)}")


def _about(value):
    # By default, Python cannot print integers of more than 4300 digits.
    power = int(int(abs(value)).bit_length() * math.log10(2))
    return f"about {'-' * (value < 0)}1e{power}"


def check_count(value, name):
    """Check that `value` is an integer of at least 1."""
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise TypeError(f"{name} must be an integer; got {value!r}")
    check_size(value, name)
    if value < 1:
        raise ValueError(f"{name} must be at least 1; got {value!r}")


def check_k(k, name="k"):
    """Check that `k` is an integer of at least 1 or a fraction in (0, 1)."""
    allowed = f"{name} must be an integer >= 1 or a fraction in (0, 1)"
    if isinstance(k, bool) or not isinstance(k, Real):
        raise TypeError(f"{allowed}; got {k!r}")
    check_size(k, name)
    if not (k >= 1 if isinstance(k, Integral) else 0 < k < 1):
        raise ValueError(f"{allowed}; got {k!r}")


def n_kept(k, n):
    """Return `k`, or k * n rounded up if `k` is a fraction."""
    check_k(k)
    if isinstance(k, Integral):
        return int(k)
    # Decrease before ceil: in floating point, 0.07 * 100 is above 7.
    return math.ceil(float(k * n) * (1 - 1e-12))


def check_nonnegative(values, name, length, which):
    """Check that `values` are finite and nonnegative. Return them as an array of floats."""
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
            raise ValueError(f"{name} must have a finite sum; got values up to {values.max():g}")
    return values


def check_number(value, name, low=None, high=None, bounds="both", integer=False):
    """Check that `value` is finite and in a range. `bounds` says which ends are in the range."""
    if isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be {'an integer' if integer else 'a number'}; got {value!r}")
    if integer:
        check_size(value, name)
    kind = Integral if integer else Real
    check_scalar(value, name, kind, min_val=low, max_val=high, include_boundaries=bounds)
    try:
        finite = integer or math.isfinite(value)
    except OverflowError as error:  # integers and fractions can exceed the range of float
        raise ValueError(f"{name} must be finite as a float; got {_about(value)}") from error
    if not finite:
        raise ValueError(f"{name} must be finite; got {value!r}")


def number(low=None, high=None, bounds="both", *, integer=False, auto=False, none=False):
    """Return a function that checks a number. `auto` also allows "auto", `none` allows None."""

    def check(value, name):
        if (auto and isinstance(value, str) and value == "auto") or (none and value is None):
            return
        try:
            check_number(value, name, low, high, bounds, integer)
        except (TypeError, ValueError) as error:
            if not auto:
                raise
            said = str(error).rstrip(".")
            got = "" if "; got " in said or " == " in said else f"; got {value!r}"
            raise type(error)(f"{said}{got}. {name} may also be 'auto'") from None

    return check


def option(*allowed):
    """Return a function that checks that a value is one of `allowed`: strings or None."""
    return lambda value, name: check_option(value, name, allowed)


def check_sizes(sizes, name):
    """Check that `sizes` is a sequence of integers of at least 1."""
    is_array = isinstance(sizes, np.ndarray) and sizes.ndim == 1
    if not is_array and not isinstance(sizes, list | tuple):
        raise TypeError(f"{name} must be a tuple of integers; got {sizes!r}")
    for size in sizes:
        check_number(size, name, 1, integer=True)


def check_parameters(estimator):
    checks = {}
    for cls in reversed(type(estimator).__mro__):
        checks |= vars(cls).get("_checks", {})
    for name, check in checks.items():
        check(getattr(estimator, name), name)


def check_flag(value, name):
    """Check that `value` is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be True or False; got {value!r}")


def check_random(random_state, name="random_state"):
    """Return the random generator for the parameter `random_state`."""
    try:
        return check_random_state(random_state)
    except (TypeError, ValueError) as error:
        is_generator = isinstance(random_state, np.random.Generator)
        hint = ": pass np.random.RandomState(generator.bit_generator)" if is_generator else ""
        raise ValueError(
            f"{name} must be None, an integer from 0 to 2**32 - 1 or a numpy RandomState; "
            f"got {random_state!r}{hint}"
        ) from error


def check_call(function, name, *places, **params):
    """Check that ``function(*places, **params)`` is a valid call."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some builtins have no signature
        return
    try:
        signature.bind(*places, **params)
    except TypeError as error:
        raise TypeError(
            f"{name} needs arguments ({', '.join([*places, *params])}); got {signature}: {error}"
        ) from error


def refuse_masked(**arrays):
    """Check that no array has masked entries, because most NumPy functions ignore the mask."""
    for name, values in arrays.items():
        if isinstance(values, np.ma.MaskedArray) and np.ma.is_masked(values):
            raise ValueError(
                f"{name} must have no masked entries; got {np.ma.count_masked(values)} of "
                f"{values.size}. Drop these samples, or fill them with {name}.filled()"
            )


def refuse_missing(values, name, what_held="labels"):
    """Check that no value is NaN, NaT, None or infinite."""
    if values.dtype.kind == "f":
        is_nan, infinite = np.isnan(values), np.isinf(values)
        what, wrong = ("NaN", is_nan) if is_nan.any() else ("infinity", infinite)
    elif values.dtype.kind in "mM":
        what, wrong = "NaT", np.isnat(values)
    elif values.dtype.kind == "O" and values.ndim:
        # Find None, pandas' NA, NaN and NaT. Only NaN and NaT are not equal to themselves.
        absent = [type(v).__name__ in ("NoneType", "NAType") or v != v for v in values.flat]
        what, wrong = "missing values", np.array(absent, dtype=bool)
    else:
        return
    if wrong.any():
        raise ValueError(
            f"Input {name} contains {what}: {name} must not have missing {what_held}; got "
            f"{np.count_nonzero(wrong)} of {values.size}, first in row {np.flatnonzero(wrong)[0]}. "
            "Drop these samples, or replace the missing values"
        )


def check_order(scores, classes, name):
    """Raise an error if the columns of a frame are the given classes in another order."""
    columns = getattr(scores, "column_names", getattr(scores, "columns", ()))  # pyarrow, or frames
    # The labels 0.0 and 1.0 may be the columns 0 and 1.
    known, columns = ([str(c).removesuffix(".0") for c in each] for each in (classes, columns))
    if columns != known and sorted(columns) == sorted(known):
        raise ValueError(f"{name} must have its columns in the order {known}; got {columns}")


def on_host(values, name):
    """Convert arrays of other libraries, and lists that mix strings and other types, to NumPy.

    Arrays on a GPU or with a gradient need scikit-learn's option array_api_dispatch=True.
    """
    refuse_masked(**{name: values})
    if isinstance(values, list | tuple):
        is_text = {issubclass(kind, str) for kind in {*map(type, values)}}
        # Without dtype=object, NumPy would convert all items to strings, such as "nan" and "None".
        values = np.array(values, dtype=object) if len(is_text) == 2 else values
    first = values[0] if isinstance(values, list | tuple) and values else values
    if isinstance(first, np.ndarray) or not hasattr(first, "__dlpack__"):
        return values
    is_tensor = hasattr(first, "requires_grad")
    try:
        array = _read(first, copies=first is values and get_config()["array_api_dispatch"])
    except (AttributeError, BufferError, RuntimeError, TypeError) as error:
        other_way = "or set scikit-learn's array_api_dispatch=True"
        if not is_tensor:
            raise TypeError(
                f"{name} must be an array that NumPy can read; got a {type(first).__module__} "
                f"array on {first.device}: copy it to the CPU first, {other_way}"
            ) from error
        came = "a gradient, " if first.requires_grad else ""
        raise TypeError(
            f"{name} must be an array or tensor that NumPy can read; got a tensor with {came}"
            f"{first.dtype}, on {first.device}: pass {name}.detach().cpu().float(), {other_way}"
        ) from error
    return array if first is values else values


def _read(values, copies):
    """Return an array of another library as a NumPy array. `copies` allows copies to the CPU."""
    if hasattr(values, "requires_grad"):
        return values.numpy(force=copies)
    try:
        return np.asarray(values)
    except (RuntimeError, TypeError):
        if not copies:
            raise
    # CuPy copies to the CPU by `get`, other libraries by DLPack (array API standard 2023.12).
    return values.get() if hasattr(values, "get") else np.from_dlpack(values, device="cpu")


def is_told(labels):
    """Return True if 1 is clearly the positive label, because the other label is 0 or -1."""
    return labels <= {-1, 0, 1} and labels != {-1, 0}


def check_pos_label(pos_label, name="pos_label"):
    """Check that `pos_label` is None or can be a label."""
    if pos_label is not None and not isinstance(pos_label, str | Real | np.bool_):
        raise TypeError(f"{name} must be a label or None; got {pos_label!r}")


def place_of(pos_label, classes):
    """Return the index of `pos_label` among two classes."""
    labels = np.asarray(classes).tolist()
    if pos_label not in labels:
        hint = ""
        if labels == [0, 1] and pos_label is not None:
            hint = f": set pos_label={labels[1]} if y is {labels[1]} for {pos_label!r}"
            if not isinstance(labels[1], bool):
                hint += (
                    ". Meta-estimators such as VotingClassifier number sorted labels: inside them, "
                    f"set pos_label=0 if {pos_label!r} sorts before the other label, else 1"
                )
        raise ValueError(f"pos_label must be one of {labels}; got {pos_label!r}{hint}")
    return labels.index(pos_label)


def negative_first(classes, pos_label):
    """Return the two `classes` in the order negative, positive."""
    return classes[::-1] if place_of(pos_label, classes) == 0 else classes


def positive_label(pos_label, classes, count):
    """Return the positive label of two sorted classes. Warn if `pos_label` should be set."""
    labels = classes.tolist()
    if pos_label is not None:
        return labels[place_of(pos_label, classes)]
    first_is_rare = count[0] < _RARE * count.sum()
    if is_told(set(labels)):
        if first_is_rare:
            share = 100 * count[1] / count.sum()
            warn(
                f"pos_label=None: the positive label is {labels[1]!r}, the label of {share:.3g} % "
                f"of the samples. Set pos_label={labels[0]!r} if the rarer label is positive, else "
                f"pos_label={labels[1]!r}. If y has other labels, VotingClassifier or a similar "
                "classifier has changed the first label in sorted order to 0, and the second to 1"
            )
        return labels[1]
    place = 0 if first_is_rare else 1
    warn(
        f"pos_label=None is ambiguous for the labels {labels[0]!r} and {labels[1]!r}; using "
        f"{labels[place]!r}. Set pos_label={labels[place]!r} or pos_label={labels[1 - place]!r}"
    )
    return labels[place]


def class_weights(class_weight, classes, count):
    """Return the weight of each class. `count` has the sum of sample weights of each class."""
    if isinstance(class_weight, str) and class_weight == "balanced":
        # In partial_fit, a class may have no samples so far. Avoid a division by 0.
        return count.sum() / (len(classes) * np.where(count > 0, count, 1.0))
    if class_weight is None:
        return np.ones(len(classes))
    if not isinstance(class_weight, dict):
        raise ValueError(
            f'class_weight must be a dict {{label: weight}}, "balanced" or None; '
            f"got {class_weight!r}"
        )
    known = set(classes.tolist())
    unknown = [label for label in class_weight if label not in known]
    # As in scikit-learn, ignore other keys if all labels of y have a weight: folds may lack labels.
    if unknown and not known <= class_weight.keys():
        raise ValueError(f"keys of class_weight must be in {classes.tolist()}; got {unknown}")
    try:
        weights = np.array([float(class_weight.get(label, 1.0)) for label in classes.tolist()])
    except (OverflowError, TypeError, ValueError):
        weights = None
    if weights is None or not ((weights <= 1e100) & (weights >= 0)).all():
        raise ValueError(
            f"class_weight must have weights of at least 0 and at most 1e+100; got {class_weight!r}"
        )
    return weights


def refuse_times_and_complex(values, name, where="", what="numbers", advice=_OF_TIMES):
    """Raise an error for times and complex numbers, because NumPy would convert them silently."""
    if isinstance(values, list | tuple):
        try:
            values = np.asarray(values)
        except (RuntimeError, TypeError, ValueError):
            return  # the caller converts the values and gets the same error
    dtype = str(getattr(values, "dtype", ""))
    is_complex, is_time = dtype.startswith("complex"), dtype.lower().startswith(_TIMES)
    came = f"times ({dtype})" if is_time else dtype
    if dtype == "object" and not issparse(values):
        objects = np.asarray(values).flat
        first = next((v for v in objects if isinstance(v, _TIME_TYPES + _COMPLEX_TYPES)), None)
        is_time, is_complex = isinstance(first, _TIME_TYPES), isinstance(first, _COMPLEX_TYPES)
        came = repr(first)
    if is_time:
        raise TypeError(f"{name} must hold {what}; got {came}{where}: {advice}")
    if is_complex:
        # scikit-learn's checks require the words "Complex data not supported" in the message.
        raise ValueError(
            f"Complex data not supported: {name} must hold {what}; got {came}{where}: {_OF_COMPLEX}"
        )
