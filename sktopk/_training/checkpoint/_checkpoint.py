"""Training that goes on after a crash: what of a fit is saved, and to which call it belongs."""

import copy
import inspect
import os
import reprlib
import tempfile
import types

import numpy as np
import torch

from sktopk._common._array_file import read_head
from sktopk._common._fingerprints import describe, describe_table, shortened, versions
from sktopk._common._scalars import check_random
from sktopk._common._warnings import warn
from sktopk._training._process import check_device, rng_state, set_rng_state, world_size
from sktopk._training._state import load_net_state, net_state

from ._file import is_plain, read_state, write_state

# What changes nothing of what is trained.
IMMATERIAL = ("checkpoint", "checkpoint_every", "verbose")
# What a file holds beside the state of the net.
_PARTS = {
    "call": dict,
    "random": np.random.RandomState,
    "n_epochs": int,
    "stopped": bool,
    "trainable": list,
    "callbacks": list,
}
# What code is, rather than what it has counted.
_STATELESS = (type, types.FunctionType, types.BuiltinFunctionType, types.MethodType)


class CheckpointError(OSError):
    """A checkpoint could not be read or written."""


class Checkpoint:
    """The file in which one call of fit keeps its progress.

    Parameters
    ----------
    path : str or os.PathLike
    every : int
        Epochs from one writing to the next.
    call : dict of str
        What the call consists of, see `describe_call`.

    Raises
    ------
    CheckpointError
        If the file, or its folder, cannot be read or written.
    ValueError
        If the file is damaged or belongs to another call.
    """

    def __init__(self, path, every, call):
        if world_size() > 1:
            raise ValueError(
                "checkpoint is for one process: processes that train together would each have "
                f"to go on from the same epoch; got {world_size()} processes"
            )
        # What a link points to, wherever a callback changes to.
        self.name, self.path = path, os.path.realpath(path)
        self.every, self.call = every, call
        self.head, self.found = None, None
        doing = "read"
        try:
            if os.path.lexists(self.path):
                self.found, self.head = read_state(self.path)
                _check_parts(self.found)
            doing = "written"
            # Under no name that somebody may have given.
            with tempfile.TemporaryFile(dir=os.path.dirname(self.path)):
                pass
        except OSError as error:
            raise CheckpointError(
                f"checkpoint={self.name!r} cannot be {doing} ({error.strerror}): give its folder "
                "and the file the permissions, or pass another path"
            ) from error
        except ValueError as error:
            raise self._refused(str(error)) from error
        if self.found is not None:
            self._check_call()

    def random(self, random_state):
        """The generator of a fit, where this fit began."""
        random = check_random(random_state)
        if random_state is None and self.found is not None:
            random = copy.deepcopy(self.found["random"])
        # A copy, as it draws from here on. That of the process is no RandomState of its own.
        self.random_at_start = np.random.RandomState()
        self.random_at_start.set_state(random.get_state(legacy=False))
        return random

    def begin(self, net):
        """Put a net that starts to train where the file left it; return the epochs done."""
        if self.found is None:
            # Whatever makes writing impossible shows before hours of training.
            self._save(net, 0)
            return 0
        found, self.found = self.found, None
        try:
            self._load(net, found)
        except Exception as error:  # what a file that lies can make fail has many kinds
            raise self._refused(f"does not fit the network and its callbacks ({error})") from error
        return found["n_epochs"]

    def end_epoch(self, net, n_epochs):
        """Write the file after every so many epochs."""
        if n_epochs % self.every == 0:
            self._save(net, n_epochs)

    def remove(self):
        """Delete the file of a fit that has ended."""
        try:
            if read_head(self.path) == self.head:
                os.unlink(self.path)
        except OSError as error:
            warn(
                f"checkpoint={self.name!r} could not be removed after the fit ({error.strerror}): "
                "delete it before the next one",
            )

    def _save(self, net, n_epochs):
        if net.draws:
            net.rng_state = rng_state(torch.device(net.device))
        state = net_state(net) | {
            "call": self.call,
            "random": self.random_at_start,
            "n_epochs": n_epochs,
            "stopped": net.stop_training,
            "trainable": [p.requires_grad for p in net.module_.parameters()],
            "callbacks": [[name, _callback_state(name, each)] for name, each in net.callbacks_],
        }
        try:
            if read_head(self.path) not in (None, self.head):
                raise CheckpointError(
                    f"checkpoint={self.name!r} was written by another fit in the meantime: each "
                    "fit needs a path of its own (the clones of a search share theirs)"
                )
            self.head = write_state(self.path, state)
        except TypeError as error:
            raise ValueError(
                f"checkpoint={self.name!r} cannot hold the state of this training: {error}. Let "
                "module, loss and callbacks keep arrays and plain values, or set checkpoint=None"
            ) from error
        except CheckpointError:
            raise
        except OSError as error:
            kept = "nothing was trained yet"
            if n_epochs:
                kept = (
                    "the weights of the last epoch (the best so far with early_stopping=True) are "
                    "kept, and the file, if any, is that of an epoch before: fit goes on from it"
                )
            raise CheckpointError(
                f"checkpoint={self.name!r} cannot be written after epoch {n_epochs} "
                f"({error.strerror}): make room or pass another path; {kept}"
            ) from error

    def _load(self, net, found):
        then, now = [name for name, _ in found["callbacks"]], [name for name, _ in net.callbacks_]
        if then != now:
            raise ValueError(f"callbacks {then}, now {now}")
        load_net_state(net, found)
        for parameter, trainable in zip(net.module_.parameters(), found["trainable"], strict=True):
            parameter.requires_grad_(trainable)
        if net.draws:
            set_rng_state(torch.device(net.device), net.rng_state)
        for (_, callback), (_, state) in zip(net.callbacks_, found["callbacks"], strict=True):
            _load_callback_state(callback, state)
        net.stop_training = found["stopped"]

    def _check_call(self):
        then, now = self.found["call"], self.call
        changed = [
            f"{name} was {then.get(name, 'absent')}, is {now.get(name, 'absent')}"
            for name in sorted(then.keys() | now.keys())
            if then.get(name) != now.get(name)
        ]
        if changed:
            raise self._refused(f"belongs to another call of fit ({'; '.join(changed)})")

    def _refused(self, reason):
        return ValueError(
            f"checkpoint={self.name!r} {reason}. Delete the file to train anew, or pass another "
            "path: each fit needs its own"
        )


def _check_parts(found):
    """Raise unless a file holds what a checkpoint consists of."""
    wrong = [name for name, kind in _PARTS.items() if type(found.get(name)) is not kind]
    if wrong or found["n_epochs"] < 0:
        raise ValueError(f"is damaged: it has no {' and no '.join(wrong) or 'number of epochs'}")


def _check_callback(name, callback):
    """Refuse a callback that has state beside arrays and plain values."""
    if type(callback).__module__.split(".")[0] in ("skorch", "sktopk"):
        return
    given = inspect.signature(type(callback).__init__).parameters
    for attribute, value in vars(callback).items():
        stateless = attribute in given or isinstance(value, _STATELESS)
        if not (stateless or _has_state_dict(value) or is_plain(value)):
            raise ValueError(
                f"callbacks: {name}.{attribute} is a {type(value).__name__}, which a checkpoint "
                "cannot hold: give the callback methods state_dict and load_state_dict, or set "
                "checkpoint=None"
            )


def _has_state_dict(value):
    methods = hasattr(value, "state_dict") and hasattr(value, "load_state_dict")
    return methods and not isinstance(value, type)


def _callback_state(name, callback):
    """What a callback remembers: a learning-rate schedule, how long it has been waiting."""
    if _has_state_dict(callback):
        return {"own": callback.state_dict()}
    _check_callback(name, callback)
    values = {k: v for k, v in vars(callback).items() if is_plain(v)}
    parts = {k: v.state_dict() for k, v in vars(callback).items() if _has_state_dict(v)}
    # Such as the bound methods that some schedules of torch keep.
    parts = {k: {n: v for n, v in part.items() if is_plain(v)} for k, part in parts.items()}
    return {"values": values, "parts": parts}


def _load_callback_state(callback, state):
    if "own" in state:
        callback.load_state_dict(state["own"])
        return
    shadows = [name for name in state["values"] if callable(getattr(type(callback), name, None))]
    if shadows:
        raise ValueError(f"{type(callback).__name__} has methods {shadows}, and no such values")
    vars(callback).update(state["values"])
    for name, part in state["parts"].items():
        getattr(callback, name).load_state_dict(part)


def describe_call(estimator, after, given, validation):
    """What makes a call of fit the same: parameters, data, versions, as short texts by name.

    Of tables see `describe_table`; labels, weights and groups are known by all of them. `after`
    is the net that the training goes on from, or None.
    """
    X, y, weight, groups = given[:4]
    call = {"estimator": type(estimator).__qualname__} | versions()
    for name, value in estimator.get_params(deep=False).items():
        if name not in IMMATERIAL:
            call[name] = shortened(describe(value))
    call["device"] = str(check_device(estimator.device))
    call["X"], call["y"], call["sample_weight"] = describe_table(X), _labels(y), describe(weight)
    if hasattr(estimator, "categories_"):
        call["categories"] = shortened(describe(estimator.categories_))
    if groups is not None:
        call["groups"] = describe(groups)
    if validation is not None:
        call["X_val"], call["y_val"] = describe_table(validation[0]), _labels(validation[1])
    call["start"] = "with a new network"
    if after is not None:
        state = net_state(after)
        n_epochs = len(state.pop("history"))
        call["start"] = f"after {n_epochs} epochs, {shortened(describe(state))}"
    return call


def _labels(y):
    labels, index = np.unique(y, return_inverse=True)
    return f"labels {reprlib.repr(labels.tolist())}, {describe_table(index)}"
