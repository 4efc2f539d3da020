"""Training that goes on after a crash: what of a fit is saved, and to which call it belongs."""

import functools
import hashlib
import inspect
import os
import re
import reprlib
import tempfile
import types
from importlib.metadata import version

import numpy as np
import torch
from scipy.sparse import issparse
from sklearn.utils import check_random_state

from sktopk._common._warnings import (
    warn,
)
from sktopk._training._distributed import world_size
from sktopk._training._process import rng_state, set_rng_state
from sktopk._training._state import load_net_state, net_state
from sktopk._training._torch_names import (
    check_device,
)

from ._file import is_plain, read_head, read_state, write_state

# What changes nothing of what is trained.
IMMATERIAL = ("checkpoint", "checkpoint_every", "verbose")
# Of larger tables as many rows as fit are looked at, evenly spaced.
_HASHED_BYTES = 1 << 26
_BLOCK_BYTES = 1 << 22
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
        random = check_random_state(random_state)
        if random_state is None and self.found is not None:
            random = np.random.RandomState()
            random.set_state(self.found["random"])
        self.random_at_start = random.get_state()
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
        except (AttributeError, KeyError, RuntimeError, TypeError, ValueError) as error:
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
        then, now = self.found.get("call", {}), self.call
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


def _check_callback(name, callback):
    """Refuse a callback that has state beside arrays and plain values."""
    known = type(callback).__module__.split(".")[0] in ("skorch", "sktopk")
    if known or _has_state_dict(callback):
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
    _check_callback(name, callback)
    if _has_state_dict(callback):
        return {"own": callback.state_dict()}
    values = {k: v for k, v in vars(callback).items() if is_plain(v)}
    parts = {k: v.state_dict() for k, v in vars(callback).items() if _has_state_dict(v)}
    # Such as the bound methods that some schedules of torch keep.
    parts = {k: {n: v for n, v in part.items() if is_plain(v)} for k, part in parts.items()}
    return {"values": values, "parts": parts}


def _load_callback_state(callback, state):
    if "own" in state:
        callback.load_state_dict(state["own"])
        return
    vars(callback).update(state["values"])
    for name, part in state["parts"].items():
        getattr(callback, name).load_state_dict(part)


def describe_call(estimator, after, X, y, weight, validation):
    """What makes a call of fit the same: parameters, data, versions, as short texts by name.

    Tables are known by shape, dtype and the SHA-256 of up to 64 MiB of evenly spaced rows;
    labels and weights by that of all of them. `after` is the net that the training goes on
    from, or None.
    """
    call = {"estimator": type(estimator).__qualname__}
    packages = ("sktopk", "torch", "skorch", "scikit-learn", "numpy")
    call |= {name: version(name) for name in packages}
    for name, value in estimator.get_params(deep=False).items():
        if name not in IMMATERIAL:
            call[name] = _shortened(describe(value))
    call["device"] = str(check_device(estimator.device))
    call["X"], call["y"], call["sample_weight"] = describe_table(X), _labels(y), describe(weight)
    if validation is not None:
        call["X_val"], call["y_val"] = describe_table(validation[0]), _labels(validation[1])
    call["start"] = "with a new network"
    if after is not None:
        state = net_state(after)
        n_epochs = len(state.pop("history"))
        call["start"] = f"after {n_epochs} epochs, {_shortened(describe(state))}"
    return call


def describe(value, above=()):
    """A text that two values have in common if they make the same fit.

    Functions and classes go by their name, other objects by their attributes.
    """
    if id(value) in above:
        return "..."
    inner = functools.partial(describe, above=(*above, id(value)))
    if isinstance(value, np.random.RandomState):
        return f"RandomState {_hash(inner(value.get_state()))}"
    if isinstance(value, np.generic):
        return repr(value.item())
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu()
        value = value.numpy() if value.dtype != torch.bfloat16 else value.float().numpy()
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        return describe_table(value) if value.ndim else repr(value.item())
    if isinstance(value, dict):
        return "{" + ", ".join(f"{inner(k)}: {inner(v)}" for k, v in value.items()) + "}"
    if isinstance(value, set):
        return "{" + ", ".join(sorted(map(inner, value))) + "}"
    if isinstance(value, list | tuple | np.ndarray):
        return "(" + ", ".join(map(inner, value)) + ")"
    if isinstance(value, torch.nn.Module):
        return f"{_placeless(value)} {inner(dict(value.state_dict()))}"
    if isinstance(value, types.MethodType):
        return f"{inner(value.__func__)} of {inner(value.__self__)}"
    if hasattr(value, "__qualname__"):
        return f"{value.__module__}.{value.__qualname__}"
    if isinstance(value, functools.partial):
        return f"partial{inner([value.func, value.args, value.keywords])}"
    if hasattr(value, "__dict__"):
        return f"{type(value).__qualname__} {inner(vars(value))}"
    return _placeless(value)


def _placeless(value):
    """The representation of a value, without where in memory it happens to lie."""
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(value))


def describe_table(X):
    """Shape, dtype and a hash of an array or CSR matrix, or of a sample of the rows of a table."""
    n_rows = X.shape[0]
    row_bytes = max(1, _stored_bytes(X) // max(1, n_rows))
    n_hashed = n_rows if X.ndim == 1 else min(n_rows, max(1, _HASHED_BYTES // row_bytes))
    rows = np.linspace(0, max(0, n_rows - 1), n_hashed).astype(np.intp)
    step = max(1, _BLOCK_BYTES // row_bytes)
    checksum = hashlib.sha256()
    for start in range(0, n_hashed, step):
        block = X[rows[start : start + step]]
        parts = (block.data, block.indices, block.indptr) if issparse(block) else (block,)
        for part in parts:
            checksum.update(np.ascontiguousarray(part).reshape(-1).view(np.uint8).data)
    return f"{X.dtype} of shape {tuple(X.shape)}, sha256 {checksum.hexdigest()[:16]}"


def _stored_bytes(X):
    return X.nnz * X.dtype.itemsize if hasattr(X, "nnz") else X.nbytes


def _labels(y):
    labels, index = np.unique(y, return_inverse=True)
    return f"labels {reprlib.repr(labels.tolist())}, {describe_table(index)}"


def _shortened(text):
    return text if len(text) <= 100 else f"{text[:60]}... sha256 {_hash(text)}"


def _hash(text):
    return hashlib.sha256(text.encode()).hexdigest()[:16]
