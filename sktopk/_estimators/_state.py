"""Serialization of estimators, and restoration of their state after errors."""

import copy
from contextlib import contextmanager

import torch

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
    # Use the parameters from the last `fit`, because `set_params` may have changed them since.
    fitted = type(estimator)(**estimator._fit_params)
    vars(fitted).update({k: v for k, v in vars(estimator).items() if k.endswith("_")})
    fitted._fit_params = estimator._fit_params
    fitted._head = fitted._make_head()
    with torch.inference_mode(False), torch.enable_grad():
        fitted._make_net(net["dtypes"], 0, net["own_rows"], usable_device(fitted.device))
        state = to_tensors({k: net[k] for k in net if k not in BUILT})
        check_net_state(fitted.net_, state)
        load_net_state(fitted.net_, state)
        fitted.net_.module_.eval()
    return fitted.net_, fitted._head


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
