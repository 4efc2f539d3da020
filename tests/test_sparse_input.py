"""CSR matrices are fed batch by batch, and multiplied as they are where that is faster."""

import json
import subprocess
import sys
import threading
import tracemalloc

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array, vstack
from skorch.callbacks import Callback, LRScheduler
from torch import nn

from sktopk import AUCClassifier, DeepTopPushClassifier, PatMatClassifier, TopKClassifier
from sktopk.modules import MLP

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.skipif(not torch.backends.mkl.is_available(), reason="needs MKL"),
]

SMALL = {
    "module": MLP,
    "hidden_layer_sizes": (7,),
    "batch_size": 64,
    "max_epochs": 3,
    "device": "cpu",
}


def csr_table():
    """CSR of 300 rows at 2 %, among them an empty one, with labels that it tells something of."""
    rng = np.random.default_rng(0)
    X = rng.random((300, 1_200), dtype=np.float32)
    X[rng.random(X.shape) > 0.02] = 0
    X[5] = 0
    X = csr_array(X)
    return X, (X[:, :400] @ rng.normal(size=400) > 0).astype(int) + (X[:, 400:].sum(axis=1) > 10)


@pytest.fixture
def table():
    return csr_table()


@pytest.fixture
def dense_way(monkeypatch):
    return lambda: monkeypatch.setattr("sktopk._training._batches.SPARSE_SHARE", -1.0)


def trains_sparse(clf, X, **how):
    """Whether the network of a fitted classifier takes rows of X as they are."""
    return not isinstance(clf.net_.rows(X, **how)[:2], torch.Tensor)


@pytest.mark.parametrize("hidden_layer_sizes", [(), (7,)])
@pytest.mark.parametrize(
    "make",
    [
        lambda **p: TopKClassifier(k=1, **p),
        lambda **p: TopKClassifier(k=1, early_stopping=True, calibration="temperature", **p),
        lambda **p: DeepTopPushClassifier(buffer_size=3, **p),
        lambda **p: PatMatClassifier(tau=0.2, early_stopping=True, **p),
        lambda **p: AUCClassifier(**p),
    ],
)
def test_fit_and_predictions_equal_the_dense_way(table, dense_way, make, hidden_layer_sizes):
    X, y = table
    y = y if isinstance(make(), TopKClassifier) else y == 0
    params = SMALL | {"hidden_layer_sizes": hidden_layer_sizes, "random_state": 0}
    sparse = [make(**params).fit(X, y) for _ in range(2)]
    assert trains_sparse(sparse[0], X)
    scores = [clf.decision_function(X) for clf in sparse]
    np.testing.assert_array_equal(*scores)
    dense_way()
    dense = make(**params).fit(X, y)
    assert not trains_sparse(dense, X)
    np.testing.assert_allclose(scores[0], dense.decision_function(X), rtol=1e-3, atol=2e-5)
    np.testing.assert_allclose(dense.predict(X) == sparse[0].predict(X), 1)


def test_pieces_with_hard_rows_equal_the_dense_way(table, dense_way):
    X, y = table

    def trained():
        clf = DeepTopPushClassifier(buffer_size=3, random_state=0, **SMALL)
        clf.fit(X[:150], y[:150] == 0)
        for start in (0, 150):
            clf.partial_fit(X[start : start + 150], y[start : start + 150] == 0)
        return clf.decision_function(X)

    found = trained()
    dense_way()
    np.testing.assert_allclose(found, trained(), rtol=1e-3, atol=2e-5)


@pytest.mark.parametrize(
    "params",
    [
        {"module": lambda n, m: nn.Sequential(nn.Linear(n, m))},
        {"precision": "bfloat16"},
        {"net_params": {"module__normalize": True}, "hidden_layer_sizes": ()},
    ],
    ids=["module", "precision", "normalize"],
)
def test_what_takes_no_sparse_rows_gets_dense_ones(table, params):
    X, y = table
    clf = TopKClassifier(k=1, **SMALL | params).fit(X, y)
    assert not trains_sparse(clf, X)
    assert np.isfinite(clf.decision_function(X)).all()


class Looking(Callback):
    def __init__(self):
        self.kinds = set()


def look(self, net, batch=None, **kwargs):
    self.kinds.add(type(batch[0]))


@pytest.mark.parametrize("method", ["on_batch_begin", "on_batch_end", "on_grad_computed"])
def test_callbacks_of_users_see_dense_batches_and_those_of_skorch_cost_nothing(table, method):
    kind = type("Kind", (Looking,), {method: look})
    clf = TopKClassifier(k=1, callbacks=[kind(), LRScheduler()], **SMALL).fit(*table)
    assert dict(clf.net_.callbacks_)["Kind"].kinds == {torch.Tensor}
    assert trains_sparse(clf, table[0])
    clf.set_params(callbacks=[LRScheduler()]).fit(*table)
    assert trains_sparse(clf, table[0], resident=True)


def test_compiled_networks_get_dense_rows(table, monkeypatch):
    # Compiling takes a minute, and is asked elsewhere.
    monkeypatch.setattr(nn.Module, "compile", lambda module, *args, **kwargs: None)
    clf = TopKClassifier(k=1, **SMALL).fit(*table)
    assert trains_sparse(clf, table[0])
    assert not trains_sparse(clf.set_params(compile=True).fit(*table), table[0])


def test_threads_fit_the_same(table):
    X, y = table
    scores = [None] * 3

    def fit(i):
        clf = TopKClassifier(k=1, random_state=0, **SMALL).fit(X, y)
        scores[i] = clf.decision_function(X)

    threads = [threading.Thread(target=fit, args=(i,)) for i in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    np.testing.assert_array_equal(scores[0], scores[1])
    np.testing.assert_array_equal(scores[0], scores[2])


def peak(function, *args):
    """The most memory that arrays took while it ran, in bytes."""
    tracemalloc.start()
    try:
        function(*args)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("kind", ["sparse", "memory map"])
def test_rows_that_are_left_out_are_not_copied(table, tmp_path, kind):
    X, y = vstack([table[0]] * 20, format="csr"), np.tile(table[1], 20)
    if kind == "memory map":
        np.save(tmp_path / "X.npy", X.toarray())
        X = np.load(tmp_path / "X.npy", mmap_mode="r")
    weight = np.arange(len(y)) % 5 > 0
    one = SMALL | {"max_epochs": 1}
    clf, expected = (
        TopKClassifier(k=1, early_stopping=True, random_state=0, **one) for _ in range(2)
    )
    chosen = X[weight]
    size = chosen.nbytes if kind == "memory map" else chosen.data.nbytes + chosen.indices.nbytes
    expected.fit(chosen, y[weight])
    # A copy of the rows that train would be 0.9 of them, beside what any fit takes.
    assert peak(clf.fit, X, y, weight) < 0.9 * size
    np.testing.assert_array_equal(clf.decision_function(X), expected.decision_function(X))


MEMORY = """
import json, sys
import numpy as np
from pathlib import Path
from scipy.sparse import csr_matrix
from sktopk import TopKClassifier
from sktopk.modules import MLP

def status(name):
    line = next(line for line in open("/proc/self/status") if line.startswith(name))
    return int(line.split()[1]) * 1024

def table(n_rows, n_columns, each):
    columns = np.sort(np.random.default_rng(0).integers(0, n_columns, (n_rows, each), np.int32))
    start = np.arange(0, columns.size + 1, each, dtype=np.int32)
    values = np.ones(columns.size, dtype=np.float32)
    return csr_matrix((values, columns.reshape(-1), start), (n_rows, n_columns))

params = dict(k=1, hidden_layer_sizes=(10,), max_epochs=1, device="cpu", early_stopping=True)
params |= dict(batch_size=1000, module=MLP)
TopKClassifier(**params).fit(table(400, 2_000, 40), np.arange(400) % 3)
X = table(30_000, 4_000, 160)
before = status("VmRSS")
Path("/proc/self/clear_refs").write_text("5")
TopKClassifier(**params).fit(X, np.arange(30_000) % 3)
size = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
print(json.dumps([status("VmHWM") - before, size]))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_memory_of_a_fit_with_rows_held_out():
    command = [sys.executable, "-W", "ignore", "-c", MEMORY]
    result = subprocess.run(command, check=True, capture_output=True, text=True)
    above, size = json.loads(result.stdout)
    # The rows held out are a tenth; a copy of the others would be 0.9 of X, dense ones 12.
    assert size > 38e6
    assert above < 0.6 * size


def test_a_checkpoint_of_sparse_rows_some_of_weight_zero(tmp_path):
    dense = np.random.default_rng(0).random((600, 2000))
    X = csr_array(np.where(dense < 0.02, dense, 0.0))
    y = np.arange(600) % 4
    params = {"module": MLP, "max_epochs": 1, "random_state": 0}
    clf = TopKClassifier(k=2, checkpoint=tmp_path / "progress", **params)
    clf.fit(X, y, sample_weight=np.arange(600) > 0)
    assert clf.n_iter_ == 1
