"""Folds of an ensemble: equal samples share a fold, whatever the units of the columns."""

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array, csr_matrix
from torch.utils.data import TensorDataset

from sktopk import DeepTopPushClassifier, TopBoostClassifier, TopKClassifier
from sktopk._common import _samples
from sktopk._common._input import as_lazy
from sktopk._common._samples import deal, sample_ranks

RNG = np.random.default_rng(0)
X = RNG.normal(size=(240, 4)).astype(np.float32).astype(float)
Y = (X[:, 0] + RNG.normal(size=240)).argsort().argsort() * 3 // 240
QUICK = {"n_estimators": 3, "hidden_layer_sizes": (8,), "max_epochs": 4, "random_state": 0}
ESTIMATORS = {
    "labels": (TopKClassifier(k=2, **QUICK), Y),
    "rankings": (DeepTopPushClassifier(batch_size=300, calibration="sigmoid", **QUICK), Y == 0),
    "trees": (TopBoostClassifier(n_estimators=5, n_members=3, random_state=0), Y == 0),
}


def out_of_fold(case, X, order=slice(None)):
    clf, y = ESTIMATORS[case]
    return clf.fit(X, y[order]).oob_decision_function_


@pytest.mark.parametrize("case", ESTIMATORS)
def test_folds_do_not_depend_on_units_float_types_and_containers(case, tmp_path):
    expected = out_of_fold(case, X)
    close = {"rtol": 1e-4, "atol": 1e-3 * np.abs(expected).max()}
    for unit in ([2.0, 1, 1, 1], [1e-3, 1, 250, 3.7]):
        np.testing.assert_allclose(out_of_fold(case, X * unit), expected, **close)
    np.testing.assert_allclose(out_of_fold(case, X.astype(np.float32)), expected, **close)
    np.testing.assert_allclose(out_of_fold(case, csr_array(X)), expected, **close)
    np.save(tmp_path / "X.npy", X)
    table = np.load(tmp_path / "X.npy", mmap_mode="r")
    np.testing.assert_array_equal(out_of_fold(case, table), expected)


def test_the_order_of_the_samples_changes_no_fold():
    order, ranks = RNG.permutation(240), sample_ranks(X)
    np.testing.assert_array_equal(sample_ranks(X[order]), ranks[order])
    # With one minibatch, out-of-fold scores do not depend on the order of the samples either.
    clf, y = ESTIMATORS["rankings"]
    clf.set_params(buffer_size=0)
    expected = clf.fit(X, y).oob_decision_function_[order]
    np.testing.assert_allclose(clf.fit(X[order], y[order]).oob_decision_function_, expected, 1e-6)


def test_sample_ranks_are_positions_of_the_samples_in_sorted_order():
    for seed in range(60):
        rng = np.random.default_rng(seed)
        table = rng.integers(-1, 2, (40, 4)).astype(float)
        table[rng.random(table.shape) < 0.1 * (seed % 3)] = np.nan
        rows = [tuple(np.inf if v != v else v + 0.0 for v in row) for row in table.tolist()]
        expected = [sorted(set(rows)).index(row) for row in rows]
        wide = np.c_[np.zeros((40, 30)), table]
        for given in (table, csr_array(table), csr_matrix(table), wide, table.reshape(40, 2, 2)):
            assert sample_ranks(given).tolist() == expected


def test_sample_ranks_do_not_depend_on_the_number_of_columns_per_chunk(monkeypatch):
    table = RNG.integers(0, 2, (60, 9)).astype(float)
    expected = sample_ranks(table)
    monkeypatch.setattr(_samples, "BLOCK", 18)
    monkeypatch.setattr(_samples, "LAZY_BLOCK", 120)
    for given in (table, as_lazy(TensorDataset(torch.from_numpy(table)))):
        np.testing.assert_array_equal(sample_ranks(given), expected)


def test_sparse_entries_with_repetitions_or_zeros_equal_their_dense_values():
    table = np.array([[0.0, 3, 1], [-0.0, 3, 1], [0, 0, 0], [0, 1, 2]])
    columns = [2, 1, 1, 0, 2, 1, 2, 2, 1]
    parts = csr_array(([1.0, 1, 2, 0, 1, 3, 0, 2, 1], columns, [0, 3, 6, 7, 9]), (4, 3))
    assert sample_ranks(table).tolist() == sample_ranks(parts).tolist() == [2, 2, 0, 1]
    assert parts.nnz == 9  # X is unchanged


@pytest.mark.parametrize("seed", range(5))
def test_folds_share_the_classes_evenly_and_keep_equal_samples_together(seed):
    rng = np.random.default_rng(seed)
    order, target = rng.integers(0, 150, 200), rng.choice(4, 200, p=[0.6, 0.3, 0.08, 0.02])
    fold = deal(order, target, 5)
    for each in range(150):
        assert len(np.unique(fold[order == each])) <= 1
    for label in range(4):
        assert len(np.unique(fold[(target == label) & (fold >= 0)])) != 1
    # Copies of a sample count once. If their labels differ, the rarest label counts.
    count = np.bincount(np.unique(np.c_[target, order], axis=0)[:, 0], minlength=4)
    label = [min(target[order == each], key=lambda c: count[c]) for each in np.unique(order)]
    dealt = np.array([fold[order == each][0] for each in np.unique(order)])
    sizes = np.array([np.bincount(dealt[(label == c) & (dealt >= 0)], minlength=5) for c in (0, 1)])
    assert (np.ptp(sizes, axis=1) <= 1).all()
    np.testing.assert_array_equal(deal(order, np.array([2, 0, 3, 1])[target], 5), fold)
