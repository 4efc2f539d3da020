"""Conversion of a trained net to arrays and plain values, and back."""

import copy

import numpy as np
import torch


def copied_weights(module):
    """Return a copy of the state dict of a module."""
    return copy.deepcopy(dict(module.state_dict()))


def net_state(net):
    """Return a dict with weights, optimizer state, random state and history of a net."""
    return {
        "weights": net.module_.state_dict(),
        "optimizer": net.optimizer_.state_dict(),
        "generator": net.generator.get_state(),
        "rng_state": net.rng_state,
        "criterion": dict(net.criterion_.state_dict()),
        "history": net.history_.to_list(),
    }


def load_net_state(net, state):
    """Load the result of `net_state` into an initialized net of the same architecture."""
    net.module_.load_state_dict(state["weights"])
    net.optimizer_.load_state_dict(state["optimizer"])
    net.generator.set_state(state["generator"])
    net.rng_state = state["rng_state"]
    net.criterion_.load_state_dict(state["criterion"])
    net.history_[:] = state["history"]
    # Restore the smallest loss so far, because skorch's callback `train_loss` needs this loss.
    recorder = dict(net.callbacks_).get("train_loss")
    if recorder is not None:
        losses = (row["train_loss"] for row in state["history"] if "train_loss" in row)
        recorder.best_score_ = min(losses, default=float("inf"))


def to_arrays(value):
    """Return a copy of nested dicts and lists, with tensors converted to arrays."""
    return _changed(value, torch.Tensor, lambda each: each.detach().cpu().numpy().copy())


def to_tensors(value):
    """Return a copy of nested dicts and lists, with arrays converted to CPU tensors."""
    return _changed(value, np.ndarray, lambda each: torch.from_numpy(each.copy()))


def _changed(value, kind, change):
    if isinstance(value, kind):
        return change(value)
    if isinstance(value, dict):
        return {key: _changed(item, kind, change) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_changed(item, kind, change) for item in value]
    return value
