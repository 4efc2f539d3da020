"""What a trained net consists of, as arrays and plain values, and back."""

import numpy as np
import torch


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
