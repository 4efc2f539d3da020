"""Checkpoint files, from which `fit` continues after a crash."""

import inspect
import io
import os
import platform
import warnings
from functools import partial

import joblib
import numpy as np
import skorch
import torch
from skorch.callbacks import Callback, LRScheduler

from sktopk import __version__
from sktopk._common._atomic_file import read_file, write_atomically
from sktopk._common._process import check_single_process
from sktopk._common._samples import LazyRows, SomeRows
from sktopk._common._warnings import warn

from ._net_state import check_like, check_net_state, load_net_state, mapped, net_state, to_tensor

# Increase this number if old versions cannot continue from the files of new versions.
FORMAT = 3
# Names and types of the values in a checkpoint file.
KINDS = {"seed": int, "n_epochs": int, "stopped": bool, "hard": torch.Tensor}
KINDS |= dict.fromkeys(("call", "net", "average", "callbacks"), dict)


class Checkpoint:
    """Checkpoint file of one call of `fit`. `call` is the result of `describe_call`.

    The file contains tensors and plain values. ``torch.load(weights_only=True)`` reads the file
    without running code. Parameters of the estimator are never read from the file. The attribute
    `seed` is the seed in the file or, for a new file, the argument `seed`.
    """

    def __init__(self, path, call, seed):
        check_single_process("checkpoint")
        check_path(path)
        self.name, self.path, self.call = path, os.path.realpath(path), call
        self.found, self.seed = None, int(seed)
        try:
            # `end_epoch` compares `mark` with the file's mark, to detect writes by other processes.
            self.mark = self._mark()
            content = None if self.mark is None else read_file(self.path)
        except OSError as error:
            raise OSError(
                f"checkpoint={path!r} cannot be read ({error.strerror}): give permission or pass "
                "another path"
            ) from error
        if content is None:
            return
        try:
            with warnings.catch_warnings(action="ignore"):
                found = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
        except Exception as error:  # a damaged file can raise any type of error
            name = type(error).__name__
            raise self._refused(f"is damaged or not a checkpoint ({name})") from error
        if not isinstance(found, dict):
            raise self._refused("is not a checkpoint")
        if found.get("format") != FORMAT:
            writer = found.get("sktopk", "of an older version")
            raise self._refused(f"has the format of sktopk {writer!s:.80}, not of {__version__}")
        if any(type(found.get(key)) is not kind for key, kind in KINDS.items()):
            raise self._refused("is not a checkpoint")
        if not 0 <= found["seed"] < 2**31:
            raise self._refused("is not a checkpoint: its seed is not between 0 and 2**31")
        self.found, self.seed, then = found, found["seed"], found["call"]
        keys = then.keys() | call.keys()
        if changed := sorted(key for key in keys if then.get(key) != call.get(key)):
            raise self._refused(f"belongs to another fit, with other {', '.join(changed)}")

    def begin(self, net):
        """Restore the net from the file. Return the number of epochs that are already trained."""
        if self.found is None:
            # Write the file before the training, so that write errors are raised early.
            self.end_epoch(net, 0)
            return 0
        found, self.found = self.found, None
        try:
            check_net_state(net, found["net"])
            load_net_state(net, found["net"])
            check_like(net.run.average.state_dict(), found["average"], "average", {})
            net.run.average.load_state_dict(found["average"])
            if (n := len(net.history_)) != (came := found["n_epochs"]):
                raise ValueError(f"n_epochs must be {n}, the length of the history; got {came}")
            if net.own_generator is None:
                torch.set_rng_state(net.rng_state[0])
                if len(net.rng_state) > 1:
                    torch.cuda.set_rng_state(net.rng_state[1], torch.device(net.device))
            for name, callback in net.callbacks_:
                if name in found["callbacks"]:
                    part, state = _part(callback), found["callbacks"][name]
                    # Check the entries of known types. A user's callback may save any state.
                    is_known = isinstance(part, torch.optim.lr_scheduler.LRScheduler)
                    is_known |= type(part).__module__.startswith("sktopk.")
                    expected = mapped(part.state_dict(), _plain) if is_known else None
                    check_like(expected, state, f"callbacks.{name}", net.module_.state_dict())
                    part.load_state_dict(state)
            net.stop_training = found["stopped"]
            net.run.batches.load(found["hard"])
            return found["n_epochs"]
        except Exception as error:
            said = " ".join(str(error).split())
            raise self._refused(f"does not fit this network and its callbacks ({said})") from error

    def end_epoch(self, net, n_epochs):
        """Write the state of the net after `n_epochs` epochs to the file."""
        net.keep_rng_state()
        state = {
            "format": FORMAT,
            "sktopk": __version__,
            "call": self.call,
            "seed": self.seed,
            "n_epochs": n_epochs,
            "stopped": bool(net.stop_training),
            "net": mapped(net_state(net), _plain),
            "average": net.run.average.state_dict(),
            "hard": net.run.batches.hard.cpu(),
            "callbacks": {
                name: mapped(part.state_dict(), _plain)
                for name, callback in net.callbacks_
                if (part := _part(callback)) is not None
            },
        }
        content = io.BytesIO()
        torch.save(state, content)
        if self._mark() not in (None, self.mark):
            raise OSError(f"checkpoint={self.name!r} was written by another fit: use another path")
        try:
            write_atomically(self.path, [content.getbuffer()])
        except OSError as error:
            raise OSError(
                f"checkpoint={self.name!r} cannot be written after epoch {n_epochs} "
                f"({error.strerror}): free space or pass another path"
            ) from error
        self.mark = self._mark()

    def remove(self):
        try:
            if self._mark() == self.mark is not None:
                os.unlink(self.path)
        except OSError as error:
            warn(
                f"checkpoint={self.name!r} could not be removed after the fit ({error.strerror}): "
                "delete it before the next fit"
            )

    def _mark(self):
        try:
            found = os.stat(self.path)
        except FileNotFoundError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size

    def _refused(self, reason):
        return ValueError(
            f"checkpoint={self.name!r} {reason}. Delete the file to train anew, or pass another "
            "path: each fit needs its own file"
        )


def check_path(path):
    if not isinstance(path, str | os.PathLike):
        raise TypeError(f"checkpoint must be the path of a file or None; got {path!r}")
    name = os.fspath(path)
    if "\0" in str(name):
        raise ValueError(f"checkpoint must be a path without NUL characters; got {path!r}")
    if os.path.isdir(name) or not os.path.basename(name):
        raise IsADirectoryError(f"checkpoint must be the path of a file; {path!r} is a folder")
    folder = os.path.dirname(os.path.realpath(name))
    if not os.path.isdir(folder):
        raise FileNotFoundError(f"checkpoint={path!r} must be in a folder; there is no {folder!r}")


def describe_call(estimator, data, validation):
    """Return a dict that identifies a call of fit: hashes of parameters and data, and versions."""
    params = estimator.get_params(deep=False)
    params.pop("verbose", None)
    # Hash functions and classes by name, callbacks by their parameters, other objects by content.
    call = {name: _hash(value) for name, value in params.items()}
    packages = (each.__version__ for each in (np, torch, skorch))
    call["versions"] = " ".join((__version__, platform.python_version(), *packages))
    call["estimator"] = type(estimator).__qualname__
    for which, part in {"": data, "_val": validation}.items():
        if part is not None:
            names = "X", "y", "weight", "groups"
            call |= {f"{name}{which}": _hash(getattr(part, name)) for name in names}
    return call


def _hash(value):
    if isinstance(value, SomeRows):
        value = value.table, value.index
    elif isinstance(value, LazyRows):
        value = value.shape  # hashing would read all samples of a torch Dataset
    elif isinstance(value, dict):
        value = sorted(value.items(), key=str)
    elif isinstance(value, partial):
        value = value.func, value.args, value.keywords
    if isinstance(value, list | tuple):
        return joblib.hash([_hash(each) for each in value])
    if isinstance(value, torch.nn.Module):
        # Hash own attributes too, because `repr` shows only some of them.
        plain = int | float | str | np.generic | np.ndarray | torch.Tensor
        own = [v for part in value.modules() for v in vars(part).items() if v[0][0] != "_"]
        own = [(name, each) for name, each in own if isinstance(each, plain)]
        value = joblib.hash([repr(value), _hash(own), _hash(dict(value.state_dict()))])
    if isinstance(value, torch.Tensor) and value.layout is torch.strided and not value.is_meta:
        # The pickle of a tensor differs from call to call.
        content = value.detach().cpu().resolve_conj().resolve_neg().reshape(-1)
        content = content.clone(memory_format=torch.contiguous_format).view(torch.uint8)
        value = str(value.dtype), tuple(value.shape), content.numpy()
    if isinstance(value, Callback):
        # Hash only the constructor parameters, because training changes other attributes.
        names = inspect.signature(type(value)).parameters
        params = [(name, _hash(getattr(value, name, None))) for name in names]
        value = (type(value).__qualname__, params)
    try:
        return joblib.hash(value)
    except Exception:  # objects that cannot be pickled, such as lambdas, are hashed by name
        return f"{type(value).__qualname__} {getattr(value, '__qualname__', '')}"


def _part(callback):
    """Return the object whose state a checkpoint saves for a callback, or None if there is none."""
    if isinstance(callback, LRScheduler):
        callback = getattr(callback, "lr_scheduler_", None)
    has_state = hasattr(callback, "state_dict") and hasattr(callback, "load_state_dict")
    return callback if has_state or callback is None else Attributes(callback)


class Attributes:
    """Wrapper that adds `state_dict` and `load_state_dict` to a callback without these methods."""

    names = "misses_", "dynamic_threshold_", "best_epoch_", "best_model_weights_", "best_score_"

    def __init__(self, callback):
        self.own = vars(callback)

    def state_dict(self):
        return {name: self.own[name] for name in self.names if name in self.own}

    def load_state_dict(self, state):
        self.own.update(state)


def _plain(value):
    """Return `value` in a type that ``torch.load(weights_only=True)`` can read."""
    value = value.item() if isinstance(value, np.generic) else value
    if value is None or isinstance(value, torch.Tensor | int | float | str):
        return value
    if isinstance(value, np.ndarray) and value.dtype.kind in "biufc":
        return to_tensor(value)
    return None if callable(value) else str(value)
