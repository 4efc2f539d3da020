"""What a trained net consists of, as arrays and plain values, and back."""

import copy

import numpy as np
import torch

# The states of torch.Generator on a CPU: today's and one of older versions.
_GENERATOR_BYTES = (5056, 5048)
_MERSENNE = 624


def copied_weights(module):
    """A snapshot that `load_state_dict` takes."""
    return {
        # The extra state of a module may be anything.
        name: value.clone() if isinstance(value, torch.Tensor) else copy.deepcopy(value)
        for name, value in module.state_dict().items()
    }


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
    """Put what `net_state` returned into an initialised net of the same shape.

    Raises
    ------
    ValueError
        If no net of this shape gets into such a state.
    """
    _check_state(net, state)
    cpu, device = torch.device("cpu"), torch.device(net.device)
    net.module_.load_state_dict(to_tensors(state["weights"], device))
    # Torch knows which of the optimizer's numbers belong on the device.
    net.optimizer_.load_state_dict(to_tensors(state["optimizer"], cpu))
    _keep_scalars(net.optimizer_, state["optimizer"])
    net.generator.set_state(to_tensors(state["generator"], cpu))
    net.rng_state = to_tensors(state["rng_state"], cpu)
    net.criterion_.load_state_dict(to_tensors(state["criterion"], device))
    net.history_[:] = state["history"]
    # Which epoch was the best so far, skorch keeps in the callback that records the loss.
    recorder = dict(net.callbacks_).get("train_loss")
    if recorder is not None:
        losses = (row["train_loss"] for row in state["history"] if "train_loss" in row)
        recorder.best_score_ = min(losses, default=float("inf"))


def _check_state(net, state):
    """Raise unless a state, of whatever origin, is one that `net` could have got into.

    Torch takes moments of any shape and generators at any position, and then writes and reads
    where they end.
    """
    for name, value in net.module_.state_dict().items():
        found = np.shape(state["weights"].get(name))
        if isinstance(value, torch.Tensor) and found != tuple(value.shape):
            raise ValueError(
                f"size mismatch: {name} has shape {found}, in the network {tuple(value.shape)}"
            )
    history = state["history"]
    if not isinstance(history, list) or not all(isinstance(row, dict) for row in history):
        raise ValueError("its history is no list of epochs")
    bytes_of = [np.size(each) if _are_bytes(each) else 0 for each in state["rng_state"]]
    if bytes_of[:1] != [torch.get_rng_state().numel()] or 0 in bytes_of:
        raise ValueError("the state of torch's generators has a wrong shape or size")
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
    elif _are_bytes(value) and value.nbytes in _GENERATOR_BYTES:
        data = value.tobytes()
        left, after = (int.from_bytes(data[i : i + n], "little") for i, n in ((8, 4), (16, 8)))
        drawn = 1 <= left <= _MERSENNE and left + after == _MERSENNE + 1
        if not drawn and (left, after) != (1, 0):
            raise ValueError(f"a generator is at no possible position: {left} left at {after}")


def _are_bytes(value):
    return isinstance(value, np.ndarray) and value.dtype == np.uint8 and value.ndim == 1


def _keep_scalars(optimizer, state):
    """Give single numbers back their dtype, which torch makes that of the weights."""
    for number, parameter in zip(_numbers(state), _parameters(optimizer), strict=True):
        for name, value in optimizer.state[parameter].items() if number in state["state"] else ():
            if isinstance(value, torch.Tensor) and value.shape == ():
                then = state["state"][number][name]
                optimizer.state[parameter][name] = to_tensors(then, value.device)


def _numbers(state):
    """The numbers of the weights in the state of an optimizer."""
    return [number for group in state["param_groups"] for number in group["params"]]


def _parameters(optimizer):
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def _check_optimizer(optimizer, state):
    """Check what an optimizer is to remember against what it remembers after one step."""
    groups, moments = state["param_groups"], state["state"]
    if len(groups) != len(optimizer.param_groups):
        raise ValueError("the optimizer has other groups of weights")
    for group, own in zip(groups, optimizer.param_groups, strict=True):
        for name, value in own.items():
            if name != "params" and not _alike(group[name], value):
                raise ValueError(f"{name} of the optimizer is {group[name]!r:.40}")
    numbers = _numbers(state)
    if len(numbers) != len(_parameters(optimizer)) or not set(moments) <= set(numbers):
        raise ValueError("the optimizer remembers of weights that there are not")
    kinds = [each for each in type(optimizer).__mro__ if each is not torch.optim.Optimizer]
    if not any(kind.__module__.startswith("torch.optim") for kind in kinds):
        # Of somebody else, in Python, where torch looks at every shape.
        return
    twin = copy.deepcopy(optimizer)
    twin.load_state_dict({"state": {}, "param_groups": to_tensors(groups, torch.device("cpu"))})
    parameters = _parameters(twin)
    for parameter in parameters:
        parameter.grad = torch.ones_like(parameter)
    if isinstance(twin, torch.optim.LBFGS):
        # Copies of it lack what only its constructor sets.
        twin._params, twin._numel_cache = parameters, None
    try:
        twin.step(lambda: torch.zeros(()))
        if not all(torch.isfinite(parameter).all() for parameter in parameters):
            raise ArithmeticError("a step leads to weights that are not finite")
    except (ArithmeticError, RuntimeError, TypeError, ValueError) as error:
        raise ValueError(f"the optimizer fails with its settings ({error})") from error
    n_weights = sum(parameter.numel() for parameter in parameters)
    for number, parameter in zip(numbers, parameters, strict=True):
        found, expected = moments.get(number, {}), twin.state[parameter]
        missing = [name for name in expected if found and name not in found]
        if missing:
            raise ValueError(f"the optimizer remembers no {missing[0]} of a weight")
        for name, value in found.items():
            like, right = tuple(parameter.shape), parameter.dtype
            if name in expected:
                like = tuple(getattr(expected[name], "shape", ()))
                right = getattr(expected[name], "dtype", right)
            # LBFGS keeps the steps of all weights together, as vectors, and numbers of each.
            like = {"old_dirs": (n_weights,), "old_stps": (n_weights,), "ro": (), "al": ()}.get(
                name, like
            )
            for each in value if isinstance(value, list) else [value]:
                _check_moment(name, each, like, right)


def _check_moment(name, value, like, right):
    """Check one thing that the optimizer remembers of a weight."""
    shape, dtype = np.shape(value), getattr(value, "dtype", None)
    right = str(right).removeprefix("torch.")
    is_number = value is None or np.asarray(value).dtype.kind in "biuf"
    if not is_number or shape != like or (str(dtype) != right and (shape or dtype is not None)):
        raise ValueError(
            f"{name} of the optimizer has shape {shape} and dtype {dtype}; the weight has "
            f"{like} and {right}"
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
