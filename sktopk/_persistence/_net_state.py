"""Conversion of a trained net to arrays and plain values, and back, with checks of the values."""

import copy
import math
import struct

import numpy as np
import torch

# Layout of the state of torch's CPU generator: seed, `left`, `seeded`, `next`, then 624 numbers.
_GENERATOR = struct.Struct("=QiiQ")
_GENERATOR_SIZE, _GENERATOR_NUMBERS = 5056, 624


def net_state(net):
    """Return a dict with weights, optimizer state, random state and history of a net."""
    noise = net.criterion_.generator
    return {
        "weights": net.module_.state_dict(),
        "trainable": [each.requires_grad for each in net.module_.parameters()],
        "optimizer": net.optimizer_.state_dict(),
        "generator": net.generator.get_state(),
        "rng_state": net.rng_state,
        "noise": None if noise is None else noise.get_state(),
        "criterion": dict(net.criterion_.state_dict()),
        "history": net.history_.to_list(),
    }


def check_net_state(net, state):
    """Raise ValueError if `state`, which was read from a file, does not fit the untrained `net`.

    torch does not check loaded states. A wrong state could access memory outside its tensors.
    """
    own = net_state(net) | {"optimizer": _after_a_step(net), "history": []}
    check_like(own, state, "net", own["weights"])
    groups = zip(own["optimizer"]["param_groups"], state["optimizer"]["param_groups"], strict=True)
    for expected, found in groups:
        if found["params"] != expected["params"]:
            raise ValueError("param_groups must list the params of this optimizer, in its order")
        for name, value in found.items():
            # Callbacks may change or add numbers in param_groups, such as learning rates.
            if not _is_number(value) and not _same(value, expected.get(name)):
                raise ValueError(f"optimizer {name} must be {expected.get(name)!r}; got {value!r}")


def check_like(expected, found, name, weights):
    """Raise ValueError unless `found` has the keys, types, shapes and dtypes of `expected`.

    Training can replace values that are None, empty or infinite in `expected`, so `found` may have
    other values in their place. A dict of weights in such a place is checked against `weights`.
    """
    if isinstance(expected, torch.Tensor):
        return _check_tensor(expected, found, name)
    if isinstance(expected, dict) and expected:
        if not isinstance(found, dict):
            raise ValueError(f"{name} must be a dict; got {type(found).__name__}")
        partial = name == "net.optimizer.state"  # parameters without a gradient have no state
        added = name.startswith("net.optimizer.param_groups")  # learning-rate schedules add entries
        lost, new = expected.keys() - found.keys(), found.keys() - expected.keys()
        if (lost and not partial) or (new and not added):
            raise ValueError(f"{name} must have {[*expected]}; got {[*found]}".replace("'", ""))
        for key, value in found.items():
            check_like(expected.get(key), value, f"{name}.{key}", weights)
    elif isinstance(expected, list | tuple) and expected:
        if not isinstance(found, list | tuple):
            raise ValueError(f"{name} must be a list; got {type(found).__name__}")
        for i, value in enumerate(found):
            # `found` may have more items: random states of more devices, or past steps of LBFGS.
            check_like(expected[i] if i < len(expected) else None, value, f"{name}.{i}", weights)
    elif _is_number(expected):
        if not _is_number(found) or (math.isfinite(expected) and not math.isfinite(found)):
            raise ValueError(f"{name} must be a finite number; got {found!r:.80}")
    elif isinstance(expected, bool | str) and type(found) is not type(expected):
        raise ValueError(f"{name} must be a {type(expected).__name__}; got {found!r:.80}")
    elif isinstance(found, torch.Tensor):
        _check_tensor(found, found, name)
    elif isinstance(found, dict) and weights.keys() & found.keys():
        check_like(weights, found, name, {})
    elif isinstance(found, dict | list | tuple):
        for key, value in found.items() if isinstance(found, dict) else enumerate(found):
            check_like(None, value, f"{name}.{key}", weights)


def _check_tensor(expected, found, name):
    if not isinstance(found, torch.Tensor) or found.layout != torch.strided:
        raise ValueError(f"{name} must be a dense tensor; got {type(found).__name__}")
    if not _fills_its_memory(found):
        raise ValueError(f"strides of {name} must leave no gaps or overlaps; got {found.stride()}")
    if expected.dtype == torch.uint8 and expected.shape == (_GENERATOR_SIZE,):
        return _check_generator(found, name)
    # Counts of optimizer steps have torch's default dtype, and may have another dtype in the file.
    same = found.dtype == expected.dtype
    same |= found.ndim == expected.ndim == 0 and found.is_floating_point()
    is_set = expected.numel() and bool(expected.isfinite().all())
    if not same or (is_set and found.shape != expected.shape):
        raise ValueError(
            f"{name} must have shape {tuple(expected.shape)} and {expected.dtype}; got "
            f"{tuple(found.shape)} and {found.dtype}"
        )
    if is_set and not found.isfinite().all():
        raise ValueError(f"{name} must be finite")
    if name.endswith(".step") and not bool(((found >= 0) & (found == found.round())).all()):
        raise ValueError(f"{name} must be a nonnegative integer; got {found}")


def _check_generator(found, name):
    """Raise ValueError for a damaged random state: torch could read memory outside of it."""
    if found.dtype != torch.uint8 or found.ndim != 1:
        raise ValueError(f"{name} must be a 1D uint8 random state; got {found.ndim}D {found.dtype}")
    if len(found) == _GENERATOR_SIZE:  # only a CPU generator has `left` and `next`
        _, left, seeded, following = _GENERATOR.unpack(bytes(found[: _GENERATOR.size].tolist()))
        # A new generator has left = 1 and next = 0. After the first draw, left + next is constant.
        is_new = (left, following) == (1, 0)
        counts = 1 <= left <= _GENERATOR_NUMBERS and left + following == _GENERATOR_NUMBERS + 1
        if seeded != 1 or not (is_new or counts):
            raise ValueError(f"{name} must be a random state of torch; got a damaged state")


def seed_of(state):
    """Return the seed of a CPU generator, given its state as an array; 0 for any other `state`."""
    is_state = isinstance(state, np.ndarray) and state.nbytes == _GENERATOR_SIZE
    return _GENERATOR.unpack(state.tobytes()[: _GENERATOR.size])[0] if is_state else 0


def _fills_its_memory(tensor):
    """Return whether the elements of a tensor fill its memory without gaps or overlaps."""
    step = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size > 1 and stride != step:
            return tensor.numel() == 0
        step *= size
    return True


def _after_a_step(net):
    """Return the optimizer's state dict after one step of a copy. The net does not change."""
    optimizer = copy.deepcopy(net.optimizer_)

    def closure():
        for group in optimizer.param_groups:
            for each in group["params"]:
                each.grad = each.detach().clamp(-1, 1)
        return torch.ones(())

    try:
        optimizer.step(closure)
    except Exception:  # some optimizers need other gradients, such as sparse ones
        return net.optimizer_.state_dict()
    return optimizer.state_dict()


def _is_number(value):
    return isinstance(value, int | float) and not isinstance(value, bool)


def _same(found, expected):
    """Return whether `found` equals `expected`, has as many numbers, or is a scalar tensor."""
    if isinstance(found, list | tuple) and isinstance(expected, list | tuple):
        numbers = all(map(_is_number, found)) and len(found) == len(expected)
        return numbers or [*found] == [*expected]
    if isinstance(found, torch.Tensor):
        return found.ndim == 0
    return type(found) is type(expected) and found == expected


def load_net_state(net, state):
    """Load the result of `net_state` into an initialized net of the same architecture."""
    net.module_.load_state_dict(state["weights"])
    for each, learns in zip(net.module_.parameters(), state["trainable"], strict=True):
        each.requires_grad_(learns)
    net.optimizer_.load_state_dict(state["optimizer"])
    net.generator.set_state(state["generator"])
    if net.own_generator is None:
        net.shared_state = state["rng_state"]
    else:
        net.own_generator.set_state(state["rng_state"][0])
    noise = net.criterion_.generator
    # Ignore the state of a generator on another device, because its format is different.
    if noise is not None and len(state["noise"]) == len(noise.get_state()):
        noise.set_state(state["noise"].cpu())
    net.criterion_.load_state_dict(state["criterion"])
    net.history_[:] = state["history"]


def mapped(value, change):
    """Return a copy of nested dicts and lists. Replace each value in them by ``change(value)``."""
    if isinstance(value, dict):
        return {key: mapped(item, change) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [mapped(item, change) for item in value]
    return change(value)


def to_array(value):
    """Return a tensor as an array, and other values unchanged."""
    return value.detach().cpu().numpy().copy() if isinstance(value, torch.Tensor) else value


def to_tensor(value):
    """Return an array as a CPU tensor, and other values unchanged."""
    return torch.from_numpy(value.copy()) if isinstance(value, np.ndarray) else value
