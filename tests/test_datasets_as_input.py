"""Map-style Datasets of torch in the place of X."""

import warnings

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.frozen import FrozenEstimator
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, Subset, TensorDataset

from sktopk import BudgetClassifier, DeepTopPushClassifier, TopKClassifier, TopPushKClassifier
from sktopk.modules import MLP

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

rng = np.random.default_rng(0)
X = rng.standard_normal((230, 4)).astype(np.float32)
Y = (X[:, :3] + 0.3 * rng.standard_normal((230, 3))).argmax(axis=1)
NAMES = np.array(["ant", "bee", "cat"])[Y]
SMALL = {
    "module": MLP,
    "hidden_layer_sizes": (5,),
    "batch_size": 32,
    "max_epochs": 3,
    "device": "cpu",
}


class Items(Dataset):
    """Items one by one, counted."""

    def __init__(self, *columns, make=tuple):
        self.columns, self.make = columns, make
        self.asked, self.largest = 0, 0

    def __len__(self):
        return len(self.columns[0])

    def __getitem__(self, index):
        self.asked += 1
        return self.make([column[index] for column in self.columns])


class Batched(Items):
    def __getitems__(self, index):
        self.largest = max(self.largest, len(index))
        return [self[i] for i in index]


class Rows(Items):
    """Rows without labels."""

    def __getitem__(self, index):
        return super().__getitem__(index)[0]


TENSORS = torch.from_numpy(X), torch.from_numpy(Y)
DATASETS = {
    "arrays": lambda: Items(X, Y),
    "lists of strings and more": lambda: Items(X, NAMES.tolist(), X, make=list),
    "batched": lambda: Batched(X, Y),
    "tensors": lambda: TensorDataset(*TENSORS),
    "gradients": lambda: Items(TENSORS[0].requires_grad_(False), TENSORS[1]),
    "subset": lambda: Subset(TensorDataset(*TENSORS), range(len(X))),
}


def make(**params):
    return TopKClassifier(k=1, random_state=0, **SMALL | params)


@pytest.mark.parametrize("name", DATASETS)
@pytest.mark.parametrize(
    "params",
    [{}, {"early_stopping": True}, {"batch_size": 500}, {"calibration": "temperature"}],
    ids=str,
)
def test_fit_and_predictions_equal_those_of_the_array(name, params):
    dataset = DATASETS[name]()
    y = NAMES if "strings" in name else Y
    expected, found = make(**params).fit(X, y), make(**params).fit(dataset)
    np.testing.assert_array_equal(found.classes_, expected.classes_)
    assert found.n_features_in_ == 4
    for method in ("predict", "predict_topk", "decision_function", "predict_topk_proba"):
        of_array = getattr(expected, method)(X)
        np.testing.assert_array_equal(getattr(found, method)(dataset), of_array)
        np.testing.assert_array_equal(getattr(found, method)(X), of_array)
    assert found.score(dataset) == expected.score(X, y) == found.score(dataset, y)


def test_labels_weights_validation_and_going_on_equal_those_of_the_array():
    weight = np.arange(len(X)) % 4
    split = {"X_val": X[:50], "y_val": Y[:50]}
    expected = make(warm_start=True).fit(X, Y, weight, **split).fit(X, Y)
    expected.partial_fit(X, Y)
    dataset, held_out = Rows(X), Items(X[:50], Y[:50])
    found = make(warm_start=True).fit(dataset, Y, weight, X_val=held_out).fit(dataset, Y)
    found.partial_fit(Items(X, Y))
    np.testing.assert_array_equal(found.decision_function(X), expected.decision_function(X))
    rows = zip(found.history_, expected.history_, strict=True)
    assert all(a["valid_score"] == b["valid_score"] for a, b in rows if "valid_score" in b)


def test_rankers_and_budgets_equal_those_of_the_array():
    y, dataset = Y == 1, Items(X, Y == 1)
    params = SMALL | {"random_state": 0, "buffer_size": 2}
    expected = DeepTopPushClassifier(calibration="sigmoid", **params).fit(X, y)
    found = DeepTopPushClassifier(calibration="sigmoid", **params).fit(dataset)
    assert found.threshold_ == expected.threshold_
    assert found.score(dataset) == expected.score(X, y)
    np.testing.assert_array_equal(found.predict_proba(dataset), expected.predict_proba(X))
    np.testing.assert_array_equal(found.predict_top(dataset, 9), expected.predict_top(X, 9))
    budget = BudgetClassifier(FrozenEstimator(expected), budget=0.1).fit(X, y)
    np.testing.assert_array_equal(budget.predict_top(dataset), budget.predict_top(X))
    np.testing.assert_array_equal(budget.predict_top(dataset, 7), budget.predict_top(X, 7))


def test_the_loss_is_chosen_as_for_the_array():
    small = {"loss": "auto", "k": 2, "hidden_layer_sizes": (), "max_epochs": 2}
    params = SMALL | small | {"random_state": 0}
    expected = TopKClassifier(**params).fit(X, Y)
    assert TopKClassifier(**params).fit(Items(X, Y)).comparison_ == expected.comparison_


class Breaking(Items):
    """A disk that fails in the second epoch, or the third."""

    def __getitem__(self, index):
        if self.asked > 3 * len(self):
            raise OSError("no such disk")
        return super().__getitem__(index)


def test_a_checkpoint_belongs_to_its_dataset(tmp_path):
    clf = make(checkpoint=tmp_path / "checkpoint")
    with pytest.raises(OSError, match="no such disk"):
        clf.fit(Breaking(X, Y), Y)
    with pytest.raises(ValueError, match=r"belongs to another call of fit \(X was"):
        clf.fit(Items(X + 1, Y))
    expected = make().fit(X, Y).decision_function(X)
    np.testing.assert_array_equal(clf.fit(Items(X, Y)).decision_function(X), expected)


def test_images_and_integers_are_rows_for_a_module():
    images = rng.integers(0, 255, (60, 1, 3, 3), dtype=np.uint8)
    y = images[:, 0, 1, 1] > 100

    def module(n_channels, n_outputs):
        return nn.Sequential(nn.Flatten(), nn.Linear(9, n_outputs))

    expected = make(module=module).fit(images, y)
    found = make(module=module).fit(Items(images, y))
    assert found.net_.dtype == torch.float64
    np.testing.assert_array_equal(
        found.decision_function(images), expected.decision_function(images)
    )
    with pytest.raises(ValueError, match=r"4 dimensions.*need module="):
        make(module=None).fit(Items(images, y))


def test_nothing_is_read_beyond_a_batch():
    dataset = Batched(np.repeat(X, 20, axis=0), np.repeat(Y, 20))
    clf = make(max_epochs=1).fit(dataset, np.repeat(Y, 20))
    # The first row for its shape, two to try the network, then one epoch.
    assert (dataset.largest, dataset.asked) == (32, len(dataset) + 3)
    dataset.asked = 0
    clf.predict(dataset)
    assert dataset.asked == len(dataset) + 1


def test_views_may_be_datasets():
    clf = make().fit(X, Y)
    expected = clf.predict_topk_proba([X, X[:, ::-1]])
    views = [Items(X), Items(X[:, ::-1].copy())]
    np.testing.assert_array_equal(clf.predict_topk_proba(views), expected)
    flips = [Items, lambda X: Items(X[:, ::-1].copy())]
    np.testing.assert_array_equal(clf.predict_topk_proba(X, transform=flips), expected)


@pytest.mark.parametrize("make", [make, lambda: DeepTopPushClassifier(**SMALL)])
def test_a_score_needs_labels(make):
    clf = make().fit(X, Y == 1)
    for table in (X, Rows(X)):
        with pytest.raises(ValueError, match=r"y (to|must) be passed"):
            clf.score(table)


class Endless(IterableDataset):
    def __iter__(self):
        return iter([(X, Y)])


class Unsized(Dataset):
    def __getitem__(self, index):
        return X[index], Y[index]


RAGGED = [X[0], X[1], X[2][:3], *X[3:]]


def with_value(value):
    changed = X.copy()
    changed[77, 2] = value
    return changed


@pytest.mark.parametrize(
    ("dataset", "error", "says"),
    [
        (Items(X[:0], Y[:0]), ValueError, "found a Dataset with 0 sample"),
        (Endless(), TypeError, "a stream, Endless.*partial_fit"),
        (DataLoader(TensorDataset(*TENSORS)), TypeError, "DataLoader.*partial_fit"),
        (Unsized(), TypeError, "with a length; got Unsized"),
        (Items(RAGGED, Y), ValueError, r"row 2 of the Dataset has shape \(3,\), row 0 \(4,\)"),
        (Items(with_value(np.nan), Y), ValueError, "NaN: row 77 of the Dataset"),
        (Items(with_value(np.inf), Y), ValueError, "infinity: row 77 of the Dataset"),
        (Items(X.tolist(), Y), TypeError, "tensor or array.*got a list in item 0"),
        (Items(NAMES, Y), TypeError, "got a str_ in item 0"),
        (Items(X.astype(str), Y), TypeError, "ndarray of <U.* in item 0"),
        (Items(torch.zeros(9), Y), TypeError, r"Tensor of torch.float32 and shape \(\)"),
        (Items(X.astype(complex), Y), TypeError, "ndarray of complex128"),
        (Items(X, Y, make=lambda item: {"x": item[0]}), TypeError, "got a dict in item 0"),
        (Items(X), ValueError, "item 0 is a tuple without a label"),
        (Rows(X), ValueError, "item 0 is a ndarray without a label"),
        (Items(X, X.astype(int)), ValueError, "one class label per row"),
        (Items(X, np.full(len(X), np.nan)), ValueError, "Input y contains NaN"),
        (Items(X, Y * 0), ValueError, "at least 2 classes"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_refused(dataset, error, says):
    clf = make()
    with pytest.raises(error, match=says):
        clf.fit(dataset)
    assert not hasattr(clf, "net_")
    assert not hasattr(clf, "n_features_in_")


def test_refused_in_a_fitted_estimator():
    clf = make().fit(pd.DataFrame(X, columns=list("abcd")), Y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scores = clf.decision_function(Items(X, Y))
    with pytest.raises(ValueError, match=r"rows of shape \(4,\), as in fit; got \(3,\)"):
        clf.predict(Items(X[:, :3]))
    with pytest.raises(ValueError, match="NaN: row 77"):
        clf.predict(Items(with_value(np.nan)))
    with pytest.raises(ValueError, match="X has 230 rows, y has inconsistent length 229"):
        clf.fit(Items(X, Y), Y[1:])
    np.testing.assert_array_equal(clf.decision_function(Items(X)), scores)
    assert "feature_names_in_" not in vars(clf.fit(Items(X, Y)))


def test_a_refused_piece_is_as_if_it_had_never_come():
    """Its rows are read, and refused, in the middle of an epoch."""
    y, refused = Y == 0, X.copy()
    refused[150] = np.nan
    piece, bad = (
        TensorDataset(torch.from_numpy(each), torch.from_numpy(y)) for each in (X, refused)
    )
    clf, other = (
        TopPushKClassifier(k=3, random_state=0, **SMALL | {"max_epochs": 1}).partial_fit(piece)
        for _ in range(2)
    )
    with pytest.raises(ValueError, match="row 150 of the Dataset"):
        clf.partial_fit(bad)
    np.testing.assert_array_equal(clf.class_count_, other.class_count_)
    hard, expected = (each.net_.criterion_.hard_rows for each in (clf, other))
    assert len(hard.carried["rows"]) > 0
    torch.testing.assert_close(hard.carried, expected.carried, rtol=0, atol=0)
    np.testing.assert_array_equal(clf.decision_function(X), other.decision_function(X))
