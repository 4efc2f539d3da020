"""Checks and changes that `dump` and `load` make in an estimator and the objects within."""

import copy
import inspect

import numpy as np
from scipy.sparse import issparse
from sklearn.utils.metadata_routing import MetadataRequest

from sktopk._common._warnings import warn

# `load` resets these parameters, which concern files, parallelism and output.
DROPPED = ("checkpoint", "compile", "memory", "n_jobs", "verbose")
# The state of a fitted estimator has the parameters of its fit under this key.
_PARAMS_OF_FIT = "_fit_params_"
# Largest position in the state of a NumPy generator. NumPy does not check this position.
_LARGEST = {"MT19937": ("pos", 624), "Philox": ("buffer_pos", 4)}


def check_and_reset(loaded):
    """Check sparse matrices and random states in `loaded`. Reset the parameters in `DROPPED`."""
    for value in _within(loaded):
        if issparse(value) and hasattr(value, "check_format"):
            value.check_format(full_check=True)  # wrong indices would read foreign memory
        elif isinstance(value, np.random.RandomState):
            _check_generator(value.get_state(legacy=False))
        elif isinstance(value, np.random.Generator):
            _check_generator(value.bit_generator.state)
    for value in _within(loaded):
        if hasattr(value, "get_params") and hasattr(value, "__dict__"):
            _reset_own(value)


def writable(estimator):
    """Return the estimator or, if it has metadata requests or Boolean keys, a copy without them."""
    within = [*_within(estimator)]
    keys = {type(key) for value in within if isinstance(value, dict) for key in value}
    if any(isinstance(value, MetadataRequest) for value in within):
        warn("Metadata requests are not saved: if you called set_fit_request, call it after load")
    elif not keys & {bool, np.bool_}:
        return estimator
    estimator = copy.deepcopy(estimator)
    for value in list(_within(estimator)):
        for name, each in [*getattr(value, "__dict__", {}).items()]:
            if isinstance(each, MetadataRequest):
                delattr(value, name)
        if isinstance(value, dict):
            # skops would read the key False as True. Replace Boolean keys by 0 and 1, their equals.
            items = [(int(k) if isinstance(k, bool | np.bool_) else k, v) for k, v in value.items()]
            value.clear()
            value.update(items)
    return estimator


def _check_generator(state):
    name, largest = _LARGEST.get(state["bit_generator"], ("", 0))
    position = (state | state["state"]).get(name, 0)
    if not 0 <= position <= largest:
        raise ValueError(f"NumPy random state must have {name} in [0, {largest}]; got {position}")


def _within(loaded):
    """Yield an object, and all objects in its attributes and containers, except types."""
    # Use a stack, because recursion could exceed the recursion limit.
    stack, seen = [loaded], set()
    while stack:
        value = stack.pop()
        if id(value) in seen or isinstance(value, type):
            continue
        seen.add(id(value))
        yield value
        if isinstance(value, dict):
            stack.extend(value.values())
        elif isinstance(value, list | tuple | set):
            stack.extend(value)
        elif isinstance(value, np.ndarray):
            stack.extend(value.flat if value.dtype == object else ())
        if hasattr(value, "__dict__"):
            # Skip the network `net_`: `__setstate__` of its estimator has checked `net_`.
            stack.extend(each for name, each in vars(value).items() if name != "net_")


def _reset_own(estimator):
    parameters = inspect.signature(type(estimator)).parameters
    defaults = {name: parameters[name].default for name in DROPPED if name in parameters}
    for name, default in defaults.items():
        setattr(estimator, name, None if default is inspect.Parameter.empty else default)
    if isinstance(given := getattr(estimator, "net_params", None), dict):
        defaults["net_params"] = {k: v for k, v in given.items() if k not in DROPPED} or None
        estimator.net_params = defaults["net_params"]
    state = estimator.__getstate__() if hasattr(estimator, "net_") else {}
    of_fit = state.get(_PARAMS_OF_FIT, {})
    changed = {k: v for k, v in defaults.items() if k in of_fit and of_fit[k] != v}
    if changed:
        # Rebuild the network.
        estimator.__setstate__(state | {_PARAMS_OF_FIT: of_fit | changed})
