"""Serialization of estimators, and restoration of their state after errors."""

import copy
import math
from contextlib import contextmanager

import numpy as np
import torch
from torch.overrides import TorchFunctionMode

from sktopk._training._process import usable_device
from sktopk._training._state import (
    check_net_state,
    load_net_state,
    net_state,
    to_arrays,
    to_tensors,
)

# Entries of the serialized state that `unpacked` uses to build the network.
BUILT = ("dtypes", "own_rows")
DTYPES = ("float32", "float64")
# Numbers that a network may create in addition to its weights, such as columns of categories.
_MORE_NUMBERS = 1 << 22


def packed(net):
    """Return the state of a net as a dict of arrays and plain values, to pickle it."""
    return to_arrays(net_state(net)) | {
        "dtypes": [str(each).removeprefix("torch.") for each in (net.dtype, net.row_dtype)],
        "own_rows": net.own_rows,
    }


def unpacked(estimator, net):
    """Return the net and the head of an estimator. `net` is the dict that `packed` returned."""
    if not isinstance(net, dict) or not net.keys() >= {*BUILT}:
        raise ValueError("net_ must be the state of a network, of this version of sktopk")
    if len(net["dtypes"]) != 2 or not {*net["dtypes"]} <= {*DTYPES}:
        raise ValueError(f"net_ must have dtypes among {DTYPES}; got {net['dtypes']!r:.80}")
    if not isinstance(net["own_rows"], bool):
        raise ValueError(f"net_ must have own_rows of type bool; got {net['own_rows']!r:.80}")
    before = dict(vars(estimator))
    attributes = {k: v for k, v in before.items() if k.endswith("_")}
    # Use the parameters from the last `fit`, because `set_params` may have changed them since.
    vars(estimator).update(vars(type(estimator)(**estimator._fit_params)))
    try:
        head = estimator._head = estimator._make_head()
        # Attributes such as `k_` depend on the samples of the first `partial_fit`.
        vars(estimator).update(attributes)
        with torch.inference_mode(False), torch.enable_grad():
            with _NoLargerThan(net.get("weights")):
                device = usable_device(estimator.device)
                estimator._make_net(net["dtypes"], 0, net["own_rows"], device)
            built = estimator.net_
            state = to_tensors({k: net[k] for k in net if k not in BUILT})
            check_net_state(built, state)
            load_net_state(built, state)
            built.module_.eval()
    finally:
        vars(estimator).clear()
        vars(estimator).update(before)
    return built, head


class _NoLargerThan(TorchFunctionMode):
    """Context manager that raises ValueError before torch creates more numbers than `weights`.

    The parameters of an estimator from a file could otherwise build a network of any size.
    """

    factories = (torch.empty, torch.zeros, torch.ones, torch.full, torch.rand, torch.randn)

    def __init__(self, weights):
        super().__init__()
        weights = weights.values() if isinstance(weights, dict) else ()
        self.left = _MORE_NUMBERS + 2 * sum(np.size(each) for each in weights)

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func in self.factories:
            size = kwargs.get("size", args[0] if args else ())
            size = size if isinstance(size, list | tuple) else [n for n in args if type(n) is int]
            self.left -= math.prod(size)
            if self.left < 0:
                raise ValueError("network must not be larger than its weights in the file")
        return func(*args, **kwargs)


@contextmanager
def unchanged_on_error(estimator, resumed=False):
    """Return a context that restores the attributes of an estimator after an error in the block.

    With `resumed`, it also restores the weights of the network, which the block trains further.
    """
    before = dict(vars(estimator))
    net_before = copy.deepcopy(net_state(estimator.net_)) if resumed else None
    try:
        yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        if resumed:
            load_net_state(estimator.net_, net_before)
        raise
