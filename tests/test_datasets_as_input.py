"""A Dataset of torch and an array of the same samples give the same model."""

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.base import clone
from sklearn.model_selection import cross_val_score
from skorch.helper import SliceDataset
from torch import nn
from torch.utils.data import ChainDataset, Dataset, Subset, TensorDataset

import sktopk
from sktopk.modules import MLP

rng = np.random.default_rng(0)
X = rng.standard_normal((230, 4)).astype(np.float32)
Y = (X[:, :3] + 0.3 * rng.standard_normal((230, 3))).argmax(axis=1)
NAMES = np.array(["ant", "bee", "cat"])[Y]
TENSORS = torch.from_numpy(X), torch.from_numpy(Y)
SMALL = {"hidden_layer_sizes": (5,), "batch_size": 80, "max_epochs": 3, "n_estimators": 2}


class Items(Dataset):
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
    def __getitem__(self, index):
        return super().__getitem__(index)[0]


def make(**params):
    return sktopk.TopKClassifier(k=1, random_state=0, **SMALL | {"calibration": None} | params)


DATASETS = {
    "arrays": (Items(X, Y), Y),
    "lists of strings and more": (Items(X, NAMES.tolist(), X, make=list), NAMES),
    "batched": (Batched(X, Y), Y),
    "tensors": (TensorDataset(*TENSORS), Y),
    "views": (Items(X[:, ::-1].astype(X.dtype.newbyteorder(">"))[:, ::-1], TENSORS[1][:, None]), Y),
    "subset": (Subset(TensorDataset(*TENSORS), range(len(X))), Y),
}


@pytest.mark.parametrize("case", DATASETS)
def test_a_dataset_and_its_array_give_the_same_fit_and_predictions(case):
    dataset, y = DATASETS[case]
    for params in ({}, {"module": MLP, "n_estimators": 1, "batch_size": 500}):
        expected, found = make(**params).fit(X, y), make(**params).fit(dataset)
        np.testing.assert_array_equal(found.classes_, expected.classes_)
        for method in ("predict", "predict_topk", "decision_function"):
            of_array = getattr(expected, method)(X)
            np.testing.assert_array_equal(getattr(found, method)(dataset), of_array)
        assert found.score(dataset) == expected.score(X, y) == found.score(dataset, y)


TABLES = {
    "float64": lambda X: X.astype(float),
    "integers": lambda X: (20 * X).astype(np.int16),
    "repeated samples": lambda X: np.repeat(X[:115], 2, axis=0),
}


@pytest.mark.parametrize("kind", TABLES)
def test_a_dataset_and_its_array_give_the_same_folds_and_calibration(kind):
    rows = TABLES[kind](X)
    dataset = TensorDataset(torch.from_numpy(rows), TENSORS[1])
    params = {"calibration": "temperature", "n_estimators": 3}
    expected, found = make(**params).fit(rows, Y), make(**params).fit(dataset)
    np.testing.assert_array_equal(found.predict_proba(dataset), expected.predict_proba(rows))
    np.testing.assert_array_equal(found.oob_decision_function_, expected.oob_decision_function_)


def test_a_skorch_slice_dataset_gives_the_same_results_as_its_array():
    clf, samples = make().fit(X, Y), SliceDataset(TensorDataset(*TENSORS))
    np.testing.assert_array_equal(clf.decision_function(samples), clf.decision_function(X))
    assert clf.score(samples[100:200], Y[100:200]) == clf.score(X[100:200], Y[100:200])
    found, expected = (cross_val_score(clf, rows, Y, cv=2) for rows in (samples, X))
    np.testing.assert_array_equal(found, expected)


RANKER = sktopk.DeepTopPushClassifier(random_state=0, n_iter_no_change=None, **SMALL)
SPLITTABLE = {
    "ranker": RANKER,
    "trees": sktopk.TopBoostClassifier(n_estimators=5, n_members=2, random_state=0),
    "decision": sktopk.BudgetClassifier(RANKER, random_state=0),
    "sets": sktopk.SetClassifier(make(), method="lac", random_state=0),
}


@pytest.mark.filterwarnings("ignore:.* calibration sample")
@pytest.mark.parametrize("case", ["arrays", "tensors", "subset"])
@pytest.mark.parametrize("name", SPLITTABLE)
def test_a_dataset_and_its_array_give_the_same_cross_validation_scores(name, case):
    dataset, y = DATASETS[case][0], (Y == 1).astype(int)
    options = {"cv": 2, "error_score": "raise"}
    found = cross_val_score(SPLITTABLE[name], dataset, y, **options)
    np.testing.assert_array_equal(found, cross_val_score(SPLITTABLE[name], X, y, **options))
    clf = clone(SPLITTABLE[name]).fit(dataset, y)
    expected = clone(clf).fit(X, y)
    np.testing.assert_array_equal(clf.decision_function(dataset), expected.decision_function(X))
    if hasattr(clf, "predict_top"):
        np.testing.assert_array_equal(clf.predict_top(dataset, 9), expected.predict_top(X, 9))


def test_datasets_with_weights_validation_and_partial_fit_act_like_arrays():
    weight, params = np.arange(len(X)) % 4, {"n_iter_no_change": 2}
    expected = make(**params).fit(X, Y, weight, X_val=X[:50], y_val=Y[:50]).partial_fit(X, Y)
    found = make(**params).fit(Rows(X), Y, weight, X_val=Items(X[:50], Y[:50]))
    found.partial_fit(Items(X, Y))
    np.testing.assert_array_equal(found.predict_proba(X), expected.predict_proba(X))


def test_a_user_module_gives_a_dataset_of_integer_images_the_scores_of_its_array():
    images = rng.integers(0, 255, (60, 1, 3, 3), dtype=np.uint8)
    y = images[:, 0, 1, 1] > 100

    def module(n_channels, n_outputs):
        return nn.Sequential(nn.Flatten(), nn.Linear(9, n_outputs))

    expected = make(module=module).fit(images, y)
    found = make(module=module).fit(Items(images, y))
    scores = expected.decision_function(images)
    assert found.decision_function(Items(images)).dtype == scores.dtype == np.float32
    np.testing.assert_array_equal(found.decision_function(images), scores)
    with pytest.raises(ValueError, match=r"with dim 4.*set module"):
        make().fit(Items(images, y))


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.uint8])
def test_a_dataset_of_half_precision_or_uint8_gives_the_scores_of_its_array(dtype):
    rows = torch.arange(len(X) * 3).remainder(100).reshape(-1, 3).to(dtype)
    expected = make().fit(rows.double().numpy(), Y).decision_function(rows.double().numpy())
    found = make().fit(Items(rows, Y)).decision_function(Items(rows))
    np.testing.assert_array_equal(found, expected)


def test_at_most_one_minibatch_is_read_at_a_time():
    y = np.repeat(Y, 20)
    dataset = Batched(np.repeat(X, 20, axis=0), y)
    clf = make(max_epochs=1, module=MLP, n_estimators=1).fit(dataset, y)
    assert dataset.largest == 80
    # The samples of one epoch, and a few samples with which `fit` tries the network.
    assert len(dataset) <= dataset.asked <= len(dataset) + 10
    dataset.asked = 0
    clf.predict(dataset)
    assert dataset.asked <= len(dataset) + 1


def with_value(value):
    changed = X.copy()
    changed[77, 2] = value
    return changed


REFUSED = {
    "empty": (Items(X[:0], Y[:0]), ValueError, "found a Dataset with 0 sample"),
    "endless": (ChainDataset([]), TypeError, "map-style Dataset; got Chain.*partial_fit"),
    "no length": (Dataset(), TypeError, "with a length; got Dataset"),
    "ragged": (Items([*X[:2], X[2][:3], *X[3:]], Y), ValueError, r"got \(3,\) for item .*\(4,\)"),
    "NaN": (Items(with_value(np.nan), Y), ValueError, "NaN: row 77 of the Dataset"),
    "infinity": (Items(with_value(np.inf), Y), ValueError, "infinity: row 77 of the Dataset"),
    "lists": (Items(X.tolist(), Y), TypeError, "tensor or array.*got a list in item 0"),
    "words": (Items(X.astype(str), Y), TypeError, "ndarray of <U.* in item 0"),
    "numbers": (Items(torch.zeros(9), Y), TypeError, r"Tensor of torch.float32 and shape \(\)"),
    "dicts": (Items(X, Y, make=lambda item: {"x": item[0]}), TypeError, "got a dict in item 0"),
    "no labels": (Rows(X), ValueError, "got a ndarray without a label in item 0"),
    "labels in tables": (Items(X, X.astype(int)), ValueError, "one class label per sample"),
    "NaN labels": (Items(X, np.full(len(X), np.nan)), ValueError, "Input y contains NaN"),
    "NaN label at the end": (Items([X[0]] * 257, ["a"] * 256 + [np.nan]), ValueError, "y "),
    "one class": (Items(X, Y * 0), ValueError, "at least 2 classes"),
}


@pytest.fixture(scope="module")
def fitted():
    return make(module=MLP).fit(pd.DataFrame(X, columns=list("abcd")), Y)


@pytest.mark.parametrize("case", REFUSED)
def test_a_wrong_dataset_raises_and_changes_nothing(case, fitted):
    dataset, error, says = REFUSED[case]
    scores = fitted.decision_function(Items(X, Y))
    with pytest.raises(error, match=says):
        fitted.fit(dataset)
    np.testing.assert_array_equal(fitted.decision_function(Items(X)), scores)


def test_wrong_samples_of_predictions_raise(fitted):
    with pytest.raises(ValueError, match=r"samples of shape \(4,\), as in fit; got \(3,\)"):
        fitted.predict(Items(X[:, :3]))
    with pytest.raises(ValueError, match="NaN: row 77"):
        fitted.predict(Items(with_value(np.nan)))
    for table in (X, Rows(X)):
        with pytest.raises(ValueError, match=r"y (to|must) be passed"):
            fitted.score(table)
    assert "feature_names_in_" not in vars(make(module=MLP).fit(Items(X, Y)))


def test_a_chunk_that_fails_in_the_middle_of_an_epoch_changes_nothing():
    y, refused = torch.from_numpy(Y == 0), X.copy()
    refused[150] = np.nan
    piece, bad = (TensorDataset(torch.from_numpy(each), y) for each in (X, refused))
    params = SMALL | {"max_epochs": 1, "module": MLP, "random_state": 0}
    clf, other = (sktopk.TopPushKClassifier(k=3, **params).partial_fit(piece) for _ in range(2))
    with pytest.raises(ValueError, match="row 150 of the Dataset"):
        clf.partial_fit(bad)
    for each in (clf, other):
        each.partial_fit(piece)
    np.testing.assert_array_equal(clf.decision_function(X), other.decision_function(X))


def test_worker_processes_read_the_same_samples():
    of_workers = {f"iterator_{part}__num_workers": 1 for part in ("train", "valid")}
    state, items, new = torch.get_rng_state(), Items(X, Y), Items(X)
    clf = make(net_params=of_workers, calibration="temperature").fit(items)
    expected = make(calibration="temperature").fit(X, Y).decision_function(X)
    np.testing.assert_array_equal(clf.decision_function(new), expected)
    assert torch.equal(torch.get_rng_state(), state)
    # Workers count their own reads. This process only reads shapes, labels and folds.
    assert items.asked < 4 * len(X)  # each of the three epochs reads all samples twice
    assert new.asked == 1
