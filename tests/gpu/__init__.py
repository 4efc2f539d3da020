"""Tests that need a GPU and are skipped otherwise. `benchmarks/gpu.py` runs them first."""

from contextlib import contextmanager

import pytest
import torch

DEVICE = "cuda"
needs_gpu = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")]


@contextmanager
def no_waiting():
    """Raise an error where the CPU waits for the GPU."""
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")
