"""What a GPU has to show; skipped where there is none. `benchmarks/gpu.py` runs these first."""

from contextlib import contextmanager

import pytest
import torch

DEVICE = "cuda"
needs_gpu = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU"),
]


@contextmanager
def no_waiting():
    """Raise where the CPU waits for the GPU."""
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")
