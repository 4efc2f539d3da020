"""Many fits leave behind no memory, no open files, no threads and no processes."""

import copy
import gc
import os
import pickle
import threading
from pathlib import Path

import numpy as np
import pytest
import torch

from sktopk import AUCClassifier, DeepTopPushClassifier, TopKClassifier
from sktopk.modules import MLP
from tests.crashing import X, Y

pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")

SMALL = {"hidden_layer_sizes": (3,), "batch_size": 64, "max_epochs": 2, "n_estimators": 2}


def fits(folder):
    table = np.memmap(folder / "table", np.float64, "w+", shape=X.shape)
    table[:] = X
    table.flush()
    parts = DeepTopPushClassifier(batch_size=32, buffer_size=3, hidden_layer_sizes=(), module=MLP)
    while True:
        clf = TopKClassifier(k=2, n_iter_no_change=1, **SMALL)
        yield clf.fit(np.memmap(folder / "table", np.float64, "r", shape=X.shape), Y)
        yield pickle.loads(pickle.dumps(clf.fit(X, Y, checkpoint=folder / "checkpoint")))
        yield AUCClassifier(calibration="sigmoid", **SMALL).fit(X, Y == 0)
        yield copy.deepcopy(parts.partial_fit(X[:60], Y[:60] == 0))
        del parts.net_.history_[:]
        with pytest.raises(ValueError, match="diverged"):
            TopKClassifier(k=2, max_epochs=5, learning_rate=1e300, n_estimators=1).fit(X, Y)
        yield TopKClassifier("noised_topk", k=1, loss_params={"n_noise": 3}, **SMALL).fit(X, Y)


def held():
    """Count the open files, children, threads and tensors of this process."""
    children = [p.read_text().split() for p in Path("/proc/self/task").glob("*/children")]
    # Compare types, because attribute access of deprecated objects gives warnings.
    n_tensors = sum(issubclass(type(each), torch.Tensor) for each in gc.get_objects())
    n_files, n_tasks = len(os.listdir("/proc/self/fd")), len(os.listdir("/proc/self/task"))
    return [n_files, sum(map(len, children)), threading.active_count(), n_tasks, n_tensors]


def test_many_fits_keep_no_memory_files_threads_or_processes(tmp_path):
    loop = fits(tmp_path)

    def rounds(n):
        for _ in range(n * 5):
            next(loop).decision_function(X)
        gc.collect()
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return np.array([*held(), pages * os.sysconf("SC_PAGE_SIZE")])

    # The first fits fill caches and import modules.
    first = rounds(3)
    *counts, physical = rounds(6) - first
    # Objects of other tests may be deleted meanwhile, and the memory varies by megabytes.
    assert max(counts) <= 0
    assert physical < 10e6
