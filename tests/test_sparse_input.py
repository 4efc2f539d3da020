"""Minibatches of CSR matrices become dense, or stay sparse where that is faster."""

import tracemalloc

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from sktopk import AUCClassifier, DeepTopPushClassifier, TopKClassifier
from sktopk._training import _batches
from sktopk.modules import MLP
from tests.crashing import hook

RNG = np.random.default_rng(0)
SMALL = {"hidden_layer_sizes": (7,), "batch_size": 100, "max_epochs": 2, "random_state": 0}
ESTIMATORS = {
    "labels": lambda **p: TopKClassifier(k=1, **SMALL | p),
    "rankings": lambda **p: DeepTopPushClassifier(buffer_size=3, **SMALL | p),
    "all pairs": lambda **p: AUCClassifier(**SMALL | p),
    "a linear model": lambda **p: TopKClassifier(k=1, **SMALL | {"hidden_layer_sizes": ()} | p),
}


def csr_table(n=300, n_columns=300):
    """A CSR matrix (2 % nonzero entries, each stored in two parts; one zero row) and labels."""
    rng = np.random.default_rng(0)
    X = rng.random((n, n_columns), dtype=np.float32)
    X[rng.random(X.shape) > 0.02] = 0
    X[5] = 0
    y = (X[:, :150] @ rng.normal(size=150) > 0).astype(int) + (X[:, 150:].sum(axis=1) > 1.5)
    whole = csr_array(X)
    halves, columns = np.repeat(whole.data / 2, 2)[::-1], np.repeat(whole.indices, 2)[::-1]
    # The reversed arrays have the samples in the opposite order.
    parts = csr_array((halves, columns, 2 * (whole.nnz - whole.indptr[::-1])), shape=X.shape)
    return parts, y[::-1]


X, Y = csr_table()


def labels(case):
    return Y == 0 if case in ("rankings", "all pairs") else Y


@pytest.mark.parametrize("case", ESTIMATORS)
@pytest.mark.parametrize("module", [None, MLP], ids=["default", "MLP"])
def test_sparse_and_dense_samples_give_nearly_equal_scores(case, module, monkeypatch):
    monkeypatch.setattr(_batches, "SPARSE_COLUMNS", 200)
    params = {"n_estimators": 2} if module is None else {"n_estimators": 1, "module": module}
    y = labels(case)
    found = ESTIMATORS[case](**params).fit(X, y)
    again = ESTIMATORS[case](**params).fit(X, y)
    dense = ESTIMATORS[case](**params).fit(X.toarray(), y)
    scores = found.decision_function(X)
    np.testing.assert_array_equal(again.decision_function(X), scores)
    close = {"rtol": 1e-3, "atol": 2e-3 * np.abs(scores).max()}
    np.testing.assert_allclose(dense.decision_function(X), scores, **close)
    np.testing.assert_allclose(found.decision_function(X.toarray()), scores, **close)
    for start in (0, 150):
        part = slice(start, start + 150)
        found.partial_fit(X[part], y[part])
        dense.partial_fit(X[part].toarray(), y[part])
    np.testing.assert_allclose(dense.decision_function(X), found.decision_function(X), **close)
    assert not X.has_canonical_format  # X is unchanged


def test_callbacks_and_networks_of_a_user_see_dense_minibatches():
    kinds = set()
    callback = hook(on_batch_begin=lambda self, net, batch, **_: kinds.add(type(batch[0])))
    ESTIMATORS["labels"](n_estimators=1, module=MLP, callbacks=[callback]).fit(X, Y)
    assert kinds == {torch.Tensor}

    def module(n_features, n_outputs):
        return torch.nn.Sequential(torch.nn.Linear(n_features, n_outputs))

    clf = ESTIMATORS["labels"](n_estimators=1, module=module).fit(X, Y)
    expected = ESTIMATORS["labels"](n_estimators=1, module=module).fit(X.toarray(), Y)
    np.testing.assert_array_equal(clf.decision_function(X), expected.decision_function(X))


def test_a_fit_with_samples_held_out_does_not_copy_the_sparse_samples():
    n_rows, each = 10_000, 160
    columns = np.sort(RNG.integers(0, 4_000, (n_rows, each), np.int32))
    columns += np.arange(each, dtype=np.int32)  # no column twice
    start = np.arange(0, columns.size + 1, each, dtype=np.int32)
    rows = csr_array((np.ones(columns.size, "f4"), columns.reshape(-1), start), (n_rows, 4_160))
    clf = ESTIMATORS["labels"](module=MLP, n_estimators=1, max_epochs=1, batch_size=1_000)
    clf.fit(rows[:400], np.arange(400) % 3)  # so that all modules are imported
    tracemalloc.start()
    clf.fit(rows, np.arange(n_rows) % 3)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    # In units of the size of X: held-out samples 0.1, a copy of the others 0.9, dense samples 12.
    assert peak < 0.8 * (rows.data.nbytes + rows.indices.nbytes + rows.indptr.nbytes)


def test_true_twice_in_a_boolean_matrix_is_true(rng):
    starts = np.arange(0, 901, 3)
    bits = csr_array((np.ones(900, bool), rng.integers(0, 9, 900), starts), shape=(300, 9))
    X = bits.toarray()
    clf = ESTIMATORS["labels"](n_estimators=1).fit(X, X[:, 0])
    np.testing.assert_array_equal(clf.decision_function(bits), clf.decision_function(X))
    assert not bits.has_canonical_format  # the input is unchanged
