"""Two hundred fits leave behind no memory, no open files, no threads and no processes."""

import copy
import gc
import os
import pickle
import threading
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from sktopk import AUCClassifier, DeepTopPushClassifier, TopKClassifier
from sktopk.modules import MLP

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc"),
]

rng = np.random.default_rng(0)
X = rng.standard_normal((120, 4))
Y = (X[:, :3] + rng.standard_normal((120, 3))).argmax(axis=1)


class WithDropout(nn.Sequential):
    def __init__(self, n_features, n_outputs):
        super().__init__(nn.Linear(n_features, 9), nn.Dropout(0.5), nn.Linear(9, n_outputs))


def fits(folder):
    """One of each kind, over and over."""
    table = np.memmap(folder / "table", np.float64, "w+", shape=X.shape)
    table[:] = X
    table.flush()
    small = {"module": MLP, "hidden_layer_sizes": (3,), "batch_size": 64, "max_epochs": 2}
    refitted = TopKClassifier(k=2, early_stopping=True, **small)
    stream = DeepTopPushClassifier(batch_size=32, buffer_size=3, hidden_layer_sizes=())
    while True:
        yield refitted.fit(np.memmap(folder / "table", np.float64, "r", shape=X.shape), Y)
        checkpointed = TopKClassifier(k=2, checkpoint=folder / "checkpoint", **small)
        checkpointed.set_params(module=WithDropout).fit(X, Y)
        yield pickle.loads(pickle.dumps(checkpointed))
        yield AUCClassifier(calibration="sigmoid", **small).fit(X, Y == 0)
        yield DeepTopPushClassifier(scoring="f1", early_stopping=True, **small).fit(X, Y == 0)
        yield copy.deepcopy(stream.partial_fit(X[:60], Y[:60] == 0))
        # What a stream remembers of its epochs is meant to grow.
        del stream.net_.history_[:]
        failing = TopKClassifier(k=2, max_epochs=5, optimizer="sgd", learning_rate=1e300)
        with pytest.raises(ValueError, match="diverged"):
            failing.fit(X, Y)
        yield TopKClassifier("noised_topk", k=1, loss_params={"n_noise": 3}, **small).fit(X, Y)


def held():
    """What this process holds: open files, children, threads."""
    children = [p.read_text().split() for p in Path("/proc/self/task").glob("*/children")]
    return (
        len(os.listdir("/proc/self/fd")),
        sum(map(len, children)),
        threading.active_count(),
        len(os.listdir("/proc/self/task")),
    )


def resident():
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def n_tensors():
    # By type: deprecated objects warn of being looked at.
    return sum(issubclass(type(each), torch.Tensor) for each in gc.get_objects())


def test_two_hundred_fits_leave_nothing_behind(tmp_path):
    loop, n_kinds = fits(tmp_path), 6

    def rounds(n):
        for _ in range(n * n_kinds):
            next(loop).decision_function(X)
        gc.collect()
        return np.array([*held(), n_tensors(), resident()])

    # The first fits fill caches and import what is imported late.
    first = rounds(4)
    files, children, threads, tasks, tensors, physical = rounds(30) - first
    # What others left may go meanwhile.
    assert max(files, children, threads, tasks) <= 0
    assert tensors <= 0
    # Pages come and go by megabytes.
    assert physical < 10e6
    tracemalloc.start()
    try:
        rounds(1)
        traced = [tracemalloc.get_traced_memory()[0]]
        # A leak grows every time; what other tests have left to fill does not.
        for _ in range(3):
            rounds(4)
            traced.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    # A leaked net is some 20 kB of Python objects; torch leaves some hundred bytes a fit.
    assert min(np.diff(traced)) < 4 * n_kinds * 4_000
