"""Global state of torch in a process: random generators, devices and process groups."""

import os
import threading
from contextlib import contextmanager

import numpy as np
import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel

# All threads share torch's global random generators. Only one thread may use them at a time.
_RNG_LOCK = threading.RLock()
_USED_THREADS = threading.Event()  # set if torch may have started threads in this process


def note_threads():
    if torch.get_num_threads() > 1:
        _USED_THREADS.set()


def _begin_child():
    """Prepare a forked process: replace the inherited lock, and restrict torch to one thread."""
    global _RNG_LOCK
    _RNG_LOCK = threading.RLock()
    if _USED_THREADS.is_set():
        torch.set_num_threads(1)


# A fork copies only the calling thread. In the child process, locks of other threads stay locked,
# and OpenMP would wait forever for its threads.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_child)


@contextmanager
def isolated_rng(device, seed=None, state=None):
    """Context manager that temporarily sets torch's random generators to `seed` or `state`."""
    on_gpu = device.type == "cuda"
    with _RNG_LOCK, torch.random.fork_rng(devices=[device] if on_gpu else []):
        if seed is not None:
            torch.default_generator.manual_seed(seed)
            if on_gpu:
                with torch.cuda.device(device):
                    torch.cuda.manual_seed(seed)
        if state is not None:
            torch.set_rng_state(state[0])
            if on_gpu and len(state) > 1:
                torch.cuda.set_rng_state(state[1], device)
        yield


@contextmanager
def unused_rng():
    """Context manager that tries to lock torch's random generators. It yields True on success."""
    is_free = _RNG_LOCK.acquire(blocking=False)
    try:
        yield is_free
    finally:
        if is_free:
            _RNG_LOCK.release()


def rng_state(device):
    """Return the state of the random generators that torch uses for a module on `device`."""
    gpu = [torch.cuda.get_rng_state(device)] if device.type == "cuda" else []
    return [torch.get_rng_state(), *gpu]


def is_parallel():
    """Return whether several processes train together, with `torch.distributed`."""
    is_used = distributed.is_available() and distributed.is_initialized()
    return is_used and distributed.get_world_size() > 1


def all_objects(value):
    """Return a list with the `value` of each process, in the order of the ranks."""
    if not is_parallel():
        return [value]
    values = [None] * distributed.get_world_size()
    distributed.all_gather_object(values, value)
    return values


def total(value):
    """Return the sum of `value`, a number or an array, over all processes."""
    return sum(all_objects(value))


def joined(*arrays):
    """Return a tuple of the arrays, each concatenated over all processes."""
    if not is_parallel():
        return arrays
    return tuple(map(np.concatenate, zip(*all_objects(arrays), strict=True)))


def apart(codes):
    """Shift the integer codes (>= 0) such that no two processes share a code."""
    numbers = all_objects(codes.max(initial=-1) + 1)
    return codes + sum(numbers[: distributed.get_rank()]) if is_parallel() else codes


def in_parallel(module):
    """Return a module whose backward pass averages the gradients over all processes."""
    if not is_parallel() or isinstance(module, DistributedDataParallel):
        return module
    device = next(module.parameters()).device
    return DistributedDataParallel(module, [device] if device.type == "cuda" else None)


def share_buffers(module):
    """Copy the module's buffers, such as batch statistics, from the first to all processes."""
    if is_parallel():
        for buffer in module.buffers():
            distributed.broadcast(buffer, 0)


def check_single_process(name):
    if is_parallel():
        n = distributed.get_world_size()
        raise ValueError(f"{name} needs a single process; got {n} that train together")


def check_equal_batches(n_batches):
    """Raise an error if processes have different numbers of minibatches: training would hang."""
    if len({*(lengths := all_objects(n_batches))}) != 1:
        raise ValueError(
            "every process must have the same number of batches in an epoch; got "
            f"{lengths}: give each process equally many samples (for rankers, of each class)"
        )


def joined_samples(*tensors):
    """Concatenate each tensor over all processes, along axis 1 (the samples). None stays None."""
    if not is_parallel():
        return tensors
    sizes = all_objects(tensors[0].shape[1])

    def joined(own):
        shape = own.shape[0], max(sizes), *own.shape[2:]
        padded = own.new_zeros(shape, dtype=torch.uint8 if own.dtype == torch.bool else None)
        padded[:, : own.shape[1]] = own.detach()
        parts = [torch.empty_like(padded) for _ in sizes]
        distributed.all_gather(parts, padded)
        parts = [part[:, :size].to(own.dtype) for part, size in zip(parts, sizes, strict=True)]
        if own.requires_grad:
            # `in_parallel` divides gradients by the number of processes. `len(sizes)` cancels this.
            parts[distributed.get_rank()] = len(sizes) * own + (1 - len(sizes)) * own.detach()
        return torch.cat(parts, 1)

    return tuple(None if each is None else joined(each) for each in tensors)
