"""Time and memory of every multi-class loss, forward and backward, against cross-entropy.

A loss and torch's cross_entropy run in turns on the same scores, so that a slow minute of the
machine touches both; a ratio is the median over these pairs. Cases too slow for the wanted
number of pairs within --limit seconds carry the number they got in brackets.

Memory is the high-water mark of a process made for the case alone: warm code, then VmHWM reset
to the resident memory, then one forward and backward. The gradient counts, the scores do not.
"""

import argparse
import contextlib
import gc
import inspect
import io
import multiprocessing
import os
import shutil
import statistics
import sys
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from time import perf_counter

import torch
from torch.nn import functional as F

from sktopk import losses

BATCH = 256
N_CLASSES = (100, 1_000, 10_000, 100_000)
KS = (1, 5, 10, 50)
# The published losses take minutes, and gigabytes, on more classes.
MAX_PEER_CLASSES = 10_000
# (n_classes, k) -> most that smooth_topk_loss may cost, in units of cross-entropy.
BOUNDS = {(1_000, 5): 10, (10_000, 5): 6, (100_000, 5): 5, (1_000, 50): 40}
COMPILED_BOUNDS = {(1_000, 5): 4, (10_000, 5): 3, (100_000, 5): 2}
SPEEDUP_AIM, MEMORY_AIM = 50, 8
SMOOTH = "smooth_topk_loss"
PEER_SMOOTH = "difftopk SmoothHardTopKLoss"
SIGMA, N_NOISE = 0.2, 10


def our_losses(n_classes, k):
    """Every loss by name; those without a k only for k=None."""
    counts = torch.arange(1.0, n_classes + 1)
    noise = {"sigma": SIGMA, "n_noise": N_NOISE}
    parameters = {
        "cross_entropy_loss": {},
        "focal_loss": {},
        "ldam_loss": {"class_counts": counts},
        "logit_adjusted_loss": {"class_counts": counts},
        SMOOTH: {},
        "topk_hinge_loss": {},
        "topk_hinge_convex_loss": {},
        "topk_hinge_calibrated_loss": {},
        "topk_grouping_loss": {},
        "topk_transition_loss": {},
        "noised_topk_loss": noise,
        "noised_topk_imbalanced_loss": {"class_counts": counts, **noise},
    }
    found = {}
    for name, values in parameters.items():
        function = getattr(losses, name)
        if ("k" in inspect.signature(function).parameters) == (k is not None):
            found[name] = partial(function, **values, **({} if k is None else {"k": k}))
    return found


def peer_losses(n_classes, k):
    """Published implementations that are installed, by name."""
    if k is None or n_classes > MAX_PEER_CLASSES:
        return {}
    found = {}
    with contextlib.suppress(ImportError):
        with contextlib.redirect_stdout(io.StringIO()):  # it prints what it lacks
            import difftopk
        if k > 1:  # its recursion starts there
            found[PEER_SMOOTH] = difftopk.SmoothHardTopKLoss(n_classes, k)
        m = max(16, 2 * k)
        if m < n_classes:
            for method in ("softsort", "bitonic__non_sparse"):
                name = f"difftopk TopKCrossEntropyLoss, {method}, m = {m}"
                found[name] = difftopk.TopKCrossEntropyLoss(
                    method, 1.0, [0.0] * (k - 1) + [1.0], n_classes, m, "cauchy"
                )
    with contextlib.suppress(ImportError):
        import pytopk

        found["pytopk BalNoisedTopK"] = pytopk.BalNoisedTopK(k, SIGMA, N_NOISE)
        found["pytopk ImbalNoisedTopK"] = pytopk.ImbalNoisedTopK(
            k, SIGMA, 0.2, list(range(1, n_classes + 1)), n_sample=N_NOISE
        )
    return found


def missing_peers():
    return [name for name in ("difftopk", "pytopk") if not importlib_finds(name)]


def batch(n_classes):
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(BATCH, n_classes, generator=generator)
    return scores.requires_grad_(), torch.randint(n_classes, (BATCH,), generator=generator)
