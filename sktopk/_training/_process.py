"""What of torch belongs to the process: its generators, and its threads after a fork."""

import os
import threading
from contextlib import contextmanager

import numpy as np
import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

_RNG_LOCK = threading.RLock()
# Whether a network of ours may have started torch's threads in this process.
_USED_THREADS = threading.Event()


def note_threads():
    """Note that a network is about to run."""
    if torch.get_num_threads() > 1:
        _USED_THREADS.set()


def _begin_child():
    global _RNG_LOCK
    _RNG_LOCK = threading.RLock()
    if _USED_THREADS.is_set():
        torch.set_num_threads(1)


# A fork copies no thread but the one that forks: a lock that another one held stays locked, and
# OpenMP waits for ever for those that it had started.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_child)


@contextmanager
def isolated_rng(device, seed=None, state=None):
    """Run a block with torch's generators at `seed` or `state`, and leave them as they were.

    The generators belong to the process, so that fits in threads take turns.
    """
    on_gpu = device.type == "cuda"
    with _RNG_LOCK, torch.random.fork_rng(devices=[device] if on_gpu else []):
        if seed is not None:
            torch.default_generator.manual_seed(seed)
            if on_gpu:
                with torch.cuda.device(device):
                    torch.cuda.manual_seed(seed)
        if state is not None:
            set_rng_state(device, state)
        yield


def rng_state(device):
    """State of torch's generators that a module on `device` draws from."""
    gpu = [torch.cuda.get_rng_state(device)] if device.type == "cuda" else []
    return [torch.get_rng_state(), *gpu]


def set_rng_state(device, state):
    """Put back what `rng_state` returned, perhaps on a machine with another device."""
    torch.set_rng_state(state[0])
    if device.type == "cuda" and len(state) > 1:
        torch.cuda.set_rng_state(state[1], device)


@contextmanager
def trainable():
    """Build and train nets as ever, also inside a caller's no_grad or inference_mode."""
    with torch.inference_mode(False), torch.enable_grad():
        yield


def check_device(device):
    """Return the torch.device that `device` names; "auto" is a GPU if there is one."""
    if isinstance(device, str) and device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        checked = torch.device(device)
    except (RuntimeError, TypeError, ValueError, OverflowError) as error:
        raise ValueError(
            f'device must be "auto" or a torch device such as "cpu" or "cuda:0"; got {device!r}'
        ) from error
    if checked.type == "cuda" and not torch.cuda.is_available():
        raise ValueError(f"device={device!r}, but this torch sees no GPU; use 'cpu' or 'auto'")
    try:
        torch.zeros(1, device=checked).item()
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        raise ValueError(f"device={device!r} cannot be used here: {error}") from error
    return checked


def world_size():
    """Number of processes that train together, 1 where `torch.distributed` is not in use."""
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_world_size()
    return 1


def all_objects(value):
    """The value of each process, in the order of their ranks."""
    if world_size() == 1:
        return [value]
    values = [None] * world_size()
    distributed.all_gather_object(values, value)
    return values


def total(value):
    """Sum of the numbers or arrays of each process."""
    return sum(all_objects(value))


def joined(*arrays):
    """Each of the arrays with the rows of all processes."""
    if world_size() == 1:
        return arrays
    return tuple(map(np.concatenate, zip(*all_objects(arrays), strict=True)))


def in_parallel(module):
    """The module with gradients averaged over all processes."""
    if world_size() == 1 or isinstance(module, DistributedDataParallel):
        return module
    device = next(module.parameters()).device
    return DistributedDataParallel(module, [device] if device.type == "cuda" else None)


def share_buffers(module):
    """Give every process the buffers of the first, such as those of batch normalisation."""
    if world_size() > 1:
        for buffer in module.buffers():
            distributed.broadcast(buffer, 0)


def all_rows(rows, sizes):
    """Tensor (n,) of this process as the rows of all, without a gradient.

    Parameters
    ----------
    rows : Tensor of shape (sizes[rank],)
    sizes : list of int
        Number of rows of each process.
    """
    # By hand: gathering needs equal lengths, also by torch.distributed.nn.functional.all_gather.
    padded = rows.new_zeros(max(sizes))
    padded[: len(rows)] = rows
    gathered = [torch.empty_like(padded) for _ in sizes]
    distributed.all_gather(gathered, padded)
    return torch.cat([each[:size] for each, size in zip(gathered, sizes, strict=True)])
