"""What a trained net consists of, as arrays and plain values, and back."""

import copy

import numpy as np
import torch

# The states of torch.Generator on a CPU: today's and one of older versions.
_GENERATOR_BYTES = (5056, 5048)
_MERSENNE = 624
# What LBFGS remembers once it has curvature.
_OF_LBFGS = ("old_dirs", "old_stps", "ro", "al")


def copied_weights(module):
    """A snapshot that `load_state_dict` takes."""
    return {name: value.clone() for name, value in module.state_dict().items()}


def net_state(net):
    """Weights, optimizer state and random states of a net: arrays and plain values only."""
    return {
        "dtype": str(net.dtype).removeprefix("torch."),
        "weights": to_arrays(net.module_.state_dict()),
        "optimizer": to_arrays(net.optimizer_.state_dict()),
        "generator": to_arrays(net.generator.get_state()),
        "rng_state": to_arrays(net.rng_state),
        "criterion": to_arrays(net.criterion_.state_dict()),
        "history": net.history_.to_list(),
    }


def load_net_state(net, state):
    """Put what `net_state` returned into an initialised net of the same shape."""
    device = torch.device(net.device)
    net.module_.load_state_dict(to_tensors(state["weights"], device))
    # Torch knows which of the optimizer's numbers belong on the device.
    net.optimizer_.load_state_dict(to_tensors(state["optimizer"], torch.device("cpu")))
    net.generator.set_state(to_tensors(state["generator"], torch.device("cpu")))
    net.rng_state = to_tensors(state["rng_state"], torch.device("cpu"))
    net.criterion_.load_state_dict(to_tensors(state["criterion"], device))
    net.history_[:] = state["history"]


def check_net_state(net, state):
    """Raise unless a state, of whatever origin, is one that `net` could have got into.

    Torch takes moments of any shape and generators at any position, and then writes and reads
    where they end.

    Parameters
    ----------
    net : Net
        Initialised, and not trained yet or with this state.
    state : dict
        See `net_state`.
    """
    missing = sorted(net_state(net).keys() - state.keys())
    if missing:
        raise ValueError(f"the net lacks a part of its state, {', '.join(missing)}")
    history = state["history"]
    if not isinstance(history, list) or not all(isinstance(row, dict) for row in history):
        raise ValueError("its history is no list of epochs")
    _check_generators(state)
    _check_optimizer(net.optimizer_, state["optimizer"])


def _check_generators(value):
    """Check the state of every generator of a CPU, wherever it is kept.

    So many numbers are left of those made last as have not been drawn: torch reads on at `next`
    until `left` is 1, however far that is.
    """
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            _check_generators(item)
    elif isinstance(value, np.ndarray) and value.nbytes in _GENERATOR_BYTES:
        if value.dtype != np.uint8:
            return
        data = value.tobytes()
        left, after = (int.from_bytes(data[i : i + n], "little") for i, n in ((8, 4), (16, 8)))
        drawn = 1 <= left <= _MERSENNE and left + after == _MERSENNE + 1
        if not drawn and (left, after) != (1, 0):
            raise ValueError(f"a generator is at no possible position: {left} left at {after}")


def _check_optimizer(optimizer, state):
    """Check what an optimizer is to remember against what it remembers after one step."""
    groups, moments = state["param_groups"], state["state"]
    if len(groups) != len(optimizer.param_groups):
        raise ValueError("the optimizer has other groups of weights")
    numbers = []
    for group, own in zip(groups, optimizer.param_groups, strict=True):
        for name, value in own.items():
            if name == "params":
                numbers += group[name]
            elif not _alike(group[name], value):
                raise ValueError(f"{name} of the optimizer is {group[name]!r:.40}")
    twin = copy.deepcopy(optimizer)
    twin.load_state_dict({"state": {}, "param_groups": to_tensors(groups, torch.device("cpu"))})
    parameters = [p for group in twin.param_groups for p in group["params"]]
    for parameter in parameters:
        parameter.grad = torch.ones_like(parameter)
    if isinstance(twin, torch.optim.LBFGS):
        # Copies of it lack what only its constructor sets.
        twin._params, twin._numel_cache = parameters, None
    twin.step(lambda: torch.zeros(()))
    if len(numbers) != len(parameters) or not set(moments) <= set(numbers):
        raise ValueError("the optimizer remembers of weights that there are not")
    n_weights = sum(parameter.numel() for parameter in parameters)
    for number, parameter in zip(numbers, parameters, strict=True):
        found, expected = moments.get(number, {}), twin.state[parameter]
        missing = [name for name in expected if found and name not in found]
        if missing:
            raise ValueError(f"the optimizer remembers no {missing[0]} of a weight")
        for name, value in found.items():
            _check_moment(name, value, expected.get(name), parameter, n_weights)


def _check_moment(name, value, expected, parameter, n_weights):
    """Check one thing that the optimizer remembers of a weight."""
    if isinstance(value, list):
        # LBFGS keeps the steps of all weights together, as vectors.
        for item in value:
            _check_moment(name, item, None, parameter, n_weights)
        return
    shape, like = np.shape(value), parameter if expected is None else expected
    shapes = [tuple(getattr(like, "shape", ()))]
    if expected is None:
        shapes += [(n_weights,), ()] if name in _OF_LBFGS else []
    dtype = getattr(value, "dtype", None)
    right = str(getattr(like, "dtype", "")).removeprefix("torch.")
    if shape not in shapes or (shape and str(dtype) != right):
        raise ValueError(
            f"{name} of the optimizer has shape {shape} and dtype {dtype}; the weight has "
            f"{tuple(parameter.shape)} and {right}"
        )
    if name == "step" and not 0 <= float(value) < float("inf"):
        raise ValueError(f"step of the optimizer is {value!r:.40}")


def _alike(value, own):
    """Whether a setting of an optimizer is of the kind that the optimizer itself has."""
    if isinstance(own, bool | str | type(None)):
        return value is None or type(value) is type(own) or own is None
    if isinstance(own, list | tuple):
        return isinstance(value, list) and len(value) == len(own) and all(map(_alike, value, own))
    return np.shape(value) == () and isinstance(value, int | float | np.ndarray)


def to_arrays(value):
    """Copy nested dicts and lists with tensors replaced by arrays."""
    if isinstance(value, torch.Tensor):
        return value.detach().cpu().numpy().copy()
    if isinstance(value, dict):
        return {key: to_arrays(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_arrays(item) for item in value]
    return value


def to_tensors(value, device):
    """The reverse of `to_arrays`."""
    if isinstance(value, np.ndarray):
        return torch.from_numpy(value.copy()).to(device)
    if isinstance(value, dict):
        return {key: to_tensors(item, device) for key, item in value.items()}
    if isinstance(value, list):
        return [to_tensors(item, device) for item in value]
    return value
