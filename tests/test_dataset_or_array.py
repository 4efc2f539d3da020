"""An array and a torch Dataset of the same samples give the same model."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import cross_val_score
from skorch.helper import SliceDataset
from torch.utils.data import DataLoader, TensorDataset

from sktopk import PatMatClassifier, TopKClassifier
from sktopk._common import _folds
from sktopk._common._containers import as_lazy
from sktopk._common._folds import sample_ranks

X, Y = load_digits(return_X_y=True)
X, Y = X[:500], Y[:500]
QUICK = {"n_estimators": 3, "max_epochs": 3, "random_state": 0}
MAKE = {
    "float64": lambda: X,
    "float32": lambda: X.astype(np.float32),
    "integers": lambda: X.astype(np.uint8),
    "repeated samples": lambda: np.repeat(X[:250], 2, axis=0),
}
ESTIMATORS = {
    "labels": (TopKClassifier(k=3, **QUICK), Y),
    "one network": (TopKClassifier(k=3, **QUICK | {"n_estimators": 1}), Y),
    "rankings": (PatMatClassifier(**QUICK), (Y == 8).astype(int)),
}


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("kind", MAKE)
def test_the_scores_are_equal(kind, name):
    (clf, y), rows = ESTIMATORS[name], MAKE[kind]()
    expected = clf.fit(rows, y).decision_function(rows)
    dataset = TensorDataset(torch.from_numpy(rows), torch.from_numpy(y))
    np.testing.assert_array_equal(clf.fit(dataset).decision_function(rows), expected)
    np.testing.assert_array_equal(clf.decision_function(dataset), expected)


def test_the_order_of_samples_is_found_in_chunks_of_columns(monkeypatch):
    rng = np.random.default_rng(0)
    table = rng.integers(0, 2, (60, 9)).astype(float)
    expected = sample_ranks(table)
    for name, value in {"BLOCK": 18, "LAZY_BLOCK": 120}.items():
        monkeypatch.setattr(_folds, name, value)
    found = sample_ranks(as_lazy(TensorDataset(torch.from_numpy(table))))
    np.testing.assert_array_equal(found, expected)


def test_a_slice_dataset_is_its_samples():
    dataset = TensorDataset(torch.from_numpy(X), torch.from_numpy(Y))
    clf = ESTIMATORS["labels"][0].fit(X, Y)
    for method in ("predict", "predict_topk", "predict_proba", "decision_function"):
        found = getattr(clf, method)(SliceDataset(dataset))
        np.testing.assert_array_equal(found, getattr(clf, method)(X))
    assert clf.score(SliceDataset(dataset)[100:200], Y[100:200]) == clf.score(
        X[100:200], Y[100:200]
    )
    np.testing.assert_array_equal(
        cross_val_score(clf, SliceDataset(dataset), Y, cv=2), cross_val_score(clf, X, Y, cv=2)
    )


def test_a_data_loader_raises_and_says_what_to_pass():
    loader = DataLoader(TensorDataset(torch.from_numpy(X), torch.from_numpy(Y)), num_workers=2)
    with pytest.raises(
        TypeError, match=r"X must be a Dataset .* got a DataLoader: pass its dataset"
    ):
        TopKClassifier().fit(loader)


class Minibatches(TensorDataset):
    """Reads all samples of a minibatch at once."""

    largest = 0

    def __getitems__(self, indices):
        self.largest = max(self.largest, len(indices))
        return list(zip(*(tensor[indices] for tensor in self.tensors), strict=True))


def test_workers_raise_and_a_dataset_can_read_a_minibatch_at_once():
    dataset = Minibatches(torch.from_numpy(X), torch.from_numpy(Y))
    clf = TopKClassifier(k=3, batch_size=64, **QUICK)
    for name in ("iterator_train__num_workers", "iterator_valid__num_workers"):
        with pytest.raises(ValueError, match=f"net_params must not set '{name}'.*__getitems__"):
            TopKClassifier(k=3, net_params={name: 2}).fit(dataset)
    expected = clf.fit(X, Y).decision_function(X)
    np.testing.assert_array_equal(clf.fit(dataset).decision_function(X), expected)
    assert dataset.largest >= 64
