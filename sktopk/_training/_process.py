"""What of torch belongs to the process: its generators, and its threads after a fork."""

import os
import threading
from contextlib import contextmanager

import torch

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
