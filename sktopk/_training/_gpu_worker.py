"""One fit per GPU: workers of a search that meet on one are told so."""

import multiprocessing
import os
import sys
import tempfile
from contextlib import contextmanager

import torch

from ._distributed import world_size

try:
    import fcntl
except ImportError:  # Windows, which has no such locks
    fcntl = None


def is_worker():
    """Whether another process started this one to work for it, as joblib, dask and ray do."""
    if multiprocessing.parent_process() is not None:
        return True
    ray = sys.modules.get("ray")
    if ray is None or not ray.is_initialized():
        return False
    return ray.get_runtime_context().get_actor_id() is not None


def gpu_name(device):
    """What identifies a GPU in every process, whatever CUDA_VISIBLE_DEVICES calls it."""
    return str(torch.cuda.get_device_properties(device).uuid)


@contextmanager
def one_worker(device):
    """Hold the GPU for a fit of this worker while it trains.

    Processes that train one network together may share.

    Raises
    ------
    RuntimeError
        If a fit of another worker, or of another thread of this one, trains on it: both would
        be slower than one after the other, and may run out of memory together.
    """
    if device.type != "cuda" or fcntl is None or world_size() > 1 or not is_worker():
        yield
        return
    name = f"sktopk-{os.getuid()}-{gpu_name(device)}.lock"
    # The lock goes with its process, however that ends; the file stays.
    with open(os.path.join(tempfile.gettempdir(), name), "a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            file.seek(0)
            raise RuntimeError(
                f"device={str(device)!r} is the GPU on which another worker trains (process "
                f"{file.read() or 'unknown'}; this one is {os.getpid()}): use as many workers as "
                "GPUs, each with one thread and a GPU of its own in CUDA_VISIBLE_DEVICES "
                "(dask-cuda and ray's num_gpus see to that), or n_jobs=1, or device='cpu'"
            ) from error
        file.truncate(0)
        file.write(str(os.getpid()))
        file.flush()
        try:
            yield
        finally:
            # A child of this process may have the file open for longer.
            fcntl.flock(file, fcntl.LOCK_UN)
