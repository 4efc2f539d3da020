"""What TopKClassifier promises about inputs, labels, scores and probabilities."""

from itertools import combinations

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from scipy import sparse
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import nn

from sktopk import TopKClassifier
from sktopk.losses import PairwiseAUCLoss, SmoothTopKLoss, topk_transition_loss
from sktopk.metrics import topk_accuracy_score
from sktopk.modules import MLP

pytestmark = pytest.mark.filterwarnings("ignore:The training loss still fell")


def quick(**params):
    params = {
        "k": 2,
        "module": MLP,
        "hidden_layer_sizes": (8,),
        "max_epochs": 15,
        "random_state": 0,
        **params,
    }
    return TopKClassifier(**params)


def scores(clf, X):
    """Scores of every class, also for two."""
    return clf.net_.module_(torch.from_numpy(X)).detach().numpy()


def test_predict_topk_lists_the_best_labels_best_first(blobs):
    X, y = blobs
    clf = quick().fit(X, y)
    order = np.argsort(-clf.decision_function(X), axis=1)
    np.testing.assert_array_equal(clf.predict_topk(X, k=4), clf.classes_[order[:, :4]])
    np.testing.assert_array_equal(clf.predict_topk(X)[:, 0], clf.predict(X))
    assert clf.predict_topk(X).shape == (len(X), 2)


def test_top_k_accuracy_of_the_labels_is_that_of_the_scores(digits):
    X, y, X_test, y_test = digits
    clf = quick(k=3).fit(X, y)
    found = (clf.predict_topk(X_test) == y_test[:, None]).any(axis=1).mean()
    assert found == pytest.approx(
        topk_accuracy_score(y_test, clf.decision_function(X_test), k=3, labels=clf.classes_)
    )


def test_two_classes_score_the_second_against_the_first(blobs):
    X, y = blobs
    y = np.where(y < 2, "no", "yes")
    clf = quick(k=1).fit(X, y)
    s = clf.decision_function(X)
    assert s.shape == (len(X),)
    np.testing.assert_allclose(s, scores(clf, X) @ [-1, 1])
    np.testing.assert_array_equal(clf.predict(X), np.where(s > 0, "yes", "no"))


def test_every_kind_of_table_gives_the_same_scores(blobs, tmp_path):
    X, y = blobs
    names = [f"x{i}" for i in range(X.shape[1])]
    np.save(tmp_path / "X.npy", X)
    read_only = X.copy()
    read_only.flags.writeable = False
    tables = {
        "memory map": np.load(tmp_path / "X.npy", mmap_mode="r"),
        "read-only array": read_only,
        "column-major array": np.asfortranarray(X),
        "strided array": np.repeat(X, 2, axis=1)[:, ::2],
        "reversed array": X[::-1][::-1],
        "CSR matrix": sparse.csr_matrix(X),
        "CSR array": sparse.csr_array(X),
        "CSC array": sparse.csc_array(X),
        "lists": X.tolist(),
        "pandas frame": pd.DataFrame(X, columns=names),
        "polars frame": pl.DataFrame(X, schema=names),
    }
    expected = quick(batch_size=64).fit(X, y).decision_function(X)
    for kind, table in tables.items():
        clf = quick(batch_size=64).fit(table, y)
        np.testing.assert_allclose(clf.decision_function(table), expected, atol=1e-9, err_msg=kind)
        if "frame" in kind:
            np.testing.assert_array_equal(clf.feature_names_in_, names)


@pytest.mark.parametrize(
    "labels",
    [
        np.array(["oak", "elm", "ash", "fir", "yew"]),
        np.array([10, -3, 7, 99, 0]),
        np.array([0.0, 1.0, 2.0, 3.0, 4.0]),
        np.array(["a", "bb", "c", "d", "e"], dtype=object),
    ],
    ids=["str", "int", "float", "object"],
)
def test_labels_come_back_as_they_came(blobs, labels):
    X, y = blobs
    clf = quick().fit(X, labels[y])
    assert clf.predict(X).dtype == labels.dtype
    assert set(clf.predict_topk(X).ravel()) <= set(labels)
    # Only the order of the outputs may differ from training on 0 ... 4.
    assert (clf.predict(X) == labels[y]).mean() > 0.4


def test_booleans_and_categories_are_labels(blobs):
    X, y = blobs
    assert quick(k=1).fit(X, y > 2).predict(X).dtype == bool
    categories = pd.Series(pd.Categorical(np.array(["ash", "elm", "fir", "oak", "yew"])[y]))
    clf = quick().fit(X, categories)
    assert set(clf.predict(X)) <= {"ash", "elm", "fir", "oak", "yew"}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_scores_keep_the_float_type(blobs, dtype):
    X, y = blobs
    clf = quick().fit(X.astype(dtype), y)
    assert clf.decision_function(X.astype(dtype)).dtype == dtype
    assert clf.predict_topk_proba(X.astype(dtype)).dtype == dtype
    assert quick(dtype="float32").fit(X, y).decision_function(X).dtype == np.float32


def test_scores_do_not_depend_on_the_chunk(blobs, monkeypatch):
    X, y = blobs
    clf = quick().fit(X, y)
    whole = clf.decision_function(X), clf.predict_topk(X), clf.predict_topk_proba(X)
    monkeypatch.setattr("sktopk._training._batches._CHUNK_ROWS", 7)
    for a, b in zip(
        whole,
        (clf.decision_function(X), clf.predict_topk(X), clf.predict_topk_proba(X)),
        strict=True,
    ):
        np.testing.assert_allclose(a, b, rtol=1e-12)


def test_rows_as_large_as_a_chunk_can_be_fitted(blobs, monkeypatch):
    X, y = blobs
    expected = quick().fit(X, y).decision_function(X)
    monkeypatch.setattr("sktopk._training._batches._CHUNK_BYTES", 1)
    np.testing.assert_allclose(quick().fit(X, y).decision_function(X), expected, rtol=1e-12)


class SmallConvolution(nn.Module):
    def __init__(self, n_channels, n_outputs, width=4):
        super().__init__()
        self.convolution = nn.Conv2d(n_channels, width, 3)
        self.output = nn.Linear(width * 36, n_outputs)

    def forward(self, x):
        return self.output(torch.relu(self.convolution(x)).flatten(1))


def test_images_with_a_convolutional_module(digits):
    X, y, X_test, y_test = (a.reshape(-1, 1, 8, 8) if a.ndim == 2 else a for a in digits)
    clf = quick(k=3, module=SmallConvolution, net_params={"module__width": 6})
    clf.fit(X.astype(np.float32), y)
    assert clf.n_features_in_ == 1
    labels = clf.predict_topk(X_test.astype(np.float32))
    assert (labels == y_test[:, None]).any(axis=1).mean() > 0.95


def test_module_may_be_any_callable(blobs):
    X, y = blobs
    clf = quick(module=lambda n_features, n_outputs: nn.Linear(n_features, n_outputs)).fit(X, y)
    assert clf.predict(X).shape == (len(X),)


def test_a_loss_module_equals_its_name(blobs):
    X, y = blobs
    weight = np.arange(len(y)) % 3 + 1.0
    named = quick(tau=0.5, score_scale=4).fit(X, y, sample_weight=weight)
    passed = quick(loss=SmoothTopKLoss(k=2, tau=0.5), score_scale=4).fit(X, y, sample_weight=weight)
    np.testing.assert_array_equal(named.decision_function(X), passed.decision_function(X))


def test_a_torch_loss_takes_weights(blobs):
    X, y = blobs
    weight = np.arange(len(y)) % 3 + 1.0
    ours = quick(loss="cross_entropy").fit(X, y, sample_weight=weight)
    torch_loss = nn.CrossEntropyLoss()
    theirs = quick(loss=torch_loss).fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(ours.decision_function(X), theirs.decision_function(X), atol=1e-9)
    assert torch_loss.reduction == "mean"


def test_inclusion_probabilities_are_those_of_the_definition(blobs):
    X, y = blobs
    clf = quick(tau=0.7).fit(X, y)
    exponent = clf.decision_function(X[:5]) / (clf.k_ * 0.7)
    expected = np.zeros_like(exponent)
    for k in (2, 3):
        expected[:] = 0.0
        total = np.zeros(5)
        for subset in combinations(range(5), k):
            mass = np.exp(exponent[:, subset].sum(axis=1))
            total += mass
            expected[:, subset] += mass[:, None]
        np.testing.assert_allclose(clf.predict_topk_proba(X[:5], k=k), expected / total[:, None])


def test_probabilities_of_cross_entropy_are_the_softmax(blobs):
    X, y = blobs
    clf = quick(loss="cross_entropy").fit(X, y)
    e = np.exp(clf.decision_function(X))
    np.testing.assert_allclose(clf.predict_proba(X), e / e.sum(axis=1, keepdims=True))


@pytest.mark.parametrize("method", ["temperature", "sigmoid"])
def test_calibration_makes_probabilities_of_any_scores(digits, method):
    X, y, X_test, y_test = digits
    clf = quick(k=3, calibration=method, max_epochs=40).fit(X, y)
    proba = clf.predict_proba(X_test)
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    s = clf.decision_function(X_test)
    raw = np.exp(s - s.max(axis=1, keepdims=True))
    raw /= raw.sum(axis=1, keepdims=True)
    assert log_loss(y_test, proba) < min(0.8 * log_loss(y_test, raw), np.log(10) / 2)


def test_temperature_is_the_best_one(blobs):
    X, y = blobs
    clf = quick(calibration="temperature").fit(X, y, X_val=X, y_val=y)
    s, (_, slope, _) = clf.decision_function(X), clf.calibration_
    losses = [
        -np.mean(np.log(np.exp(f * s)[np.arange(len(y)), y] / np.exp(f * s).sum(1)))
        for f in slope[0] * np.array([0.98, 1.0, 1.02])
    ]
    assert np.argmin(losses) == 1


def test_calibration_ignores_validation_labels_unseen_in_training(blobs):
    X, y = blobs
    seen = y < 4
    clf = quick(calibration="temperature").fit(X[seen], y[seen], X_val=X, y_val=y)
    expected = quick(calibration="temperature").fit(X[seen], y[seen], X_val=X[seen], y_val=y[seen])
    np.testing.assert_allclose(clf.predict_proba(X), expected.predict_proba(X))


def test_balanced_class_weight_equals_these_sample_weights(blobs):
    X, y = blobs
    keep = (y != 3) | (np.arange(len(y)) % 4 == 0)
    X, y = X[keep], y[keep]
    weight = (len(y) / (5 * np.bincount(y)))[y]
    a = quick(class_weight="balanced").fit(X, y).decision_function(X)
    b = quick().fit(X, y, sample_weight=weight).decision_function(X)
    np.testing.assert_allclose(a, b, atol=1e-9)
    by_hand = dict(enumerate(len(y) / (5 * np.bincount(y))))
    c = quick(class_weight=by_hand).fit(X, y).decision_function(X)
    np.testing.assert_allclose(a, c, atol=1e-9)


def test_class_count_is_weighted(blobs):
    X, y = blobs
    clf = quick(max_epochs=1).fit(X, y, sample_weight=np.full(len(y), 2.0))
    np.testing.assert_array_equal(clf.class_count_, 2.0 * np.bincount(y))


def test_initial_scores_do_not_grow_with_score_scale(blobs):
    X, y = blobs
    start = [
        quick(score_scale=scale, learning_rate=1e-12, max_epochs=1).fit(X, y).decision_function(X)
        for scale in (1, 100)
    ]
    np.testing.assert_allclose(*start, atol=1e-6)


def test_smooth_loss_wins_where_the_model_is_too_small(digits):
    X, y, X_test, y_test = digits
    won = []
    for seed in range(3):
        top3 = []
        for params in ({}, {"loss": "cross_entropy"}, {"loss": "cross_entropy", "score_scale": 10}):
            clf = TopKClassifier(k=3, hidden_layer_sizes=(), random_state=seed)
            pipe = make_pipeline(StandardScaler(), PCA(5, random_state=0), clf.set_params(**params))
            s = pipe.fit(X, y).decision_function(X_test)
            top3.append(topk_accuracy_score(y_test, s, k=3, labels=pipe.classes_))
        won.append(top3[0] - np.array(top3[1:]))
    by_default, fair = np.mean(won, axis=0)
    assert by_default > 0.008
    assert fair > 0


def test_views_are_averaged(digits):
    X, y, *_ = digits
    clf = quick(k=3).fit(X, y)
    flipped = X[:, ::-1]
    views = clf.predict_topk_proba([X, flipped], k=2)
    expected = (clf.predict_topk_proba(X, k=2) + clf.predict_topk_proba(flipped, k=2)) / 2
    np.testing.assert_allclose(views, expected)
    transform = [lambda x: x, lambda x: x[:, ::-1]]
    np.testing.assert_allclose(clf.predict_topk_proba(X, k=2, transform=transform), expected)
    with pytest.raises(ValueError, match=r"views of the same rows; got \[900, 10\] rows"):
        clf.predict_topk_proba([X, X[:10]])


@pytest.mark.parametrize("loss", ["smooth_topk", "noised_topk", "topk_transition"])
def test_several_k_at_once(blobs, loss):
    X, y = blobs
    alone = quick(loss=loss, k=3, sigma=0.0).fit(X, y)
    both = quick(loss=loss, k={1: 0.5, 3: 0.5}, sigma=0.0).fit(X, y)
    assert both.k_ == 3
    assert (both.predict(X) == y).mean() > (alone.predict(X) == y).mean() - 0.05
    single = quick(loss=loss, k={3: 2.0}, sigma=0.0).fit(X, y)
    np.testing.assert_allclose(single.decision_function(X), alone.decision_function(X))


def test_a_step_of_the_transition_loss_takes_its_weight_for_a_constant_where_that_is_asked(blobs):
    X, y = blobs
    linear = TopKClassifier(
        "topk_transition", k=2, hidden_layer_sizes=(), optimizer="sgd", score_scale=1.0,
        weight_decay=0.0, batch_size=len(y), max_epochs=1, random_state=0,
    )  # fmt: skip
    start = clone(linear).set_params(learning_rate=1e-300).fit(X, y).net_.module_[0]
    stepped = []
    for detach in (False, True):
        clf = clone(linear).set_params(learning_rate=0.3, loss__detach_weight=detach).fit(X, y)
        scores = start(torch.as_tensor(X, dtype=start.weight.dtype))
        loss = topk_transition_loss(scores, torch.from_numpy(y), k=2, detach_weight=detach)
        (gradient,) = torch.autograd.grad(loss, start.weight)
        stepped.append(clf.net_.module_[0].weight)
        torch.testing.assert_close(stepped[-1], start.weight - 0.3 * gradient)
    assert not torch.allclose(*stepped)


class OfTheBatch(nn.Module):
    """A loss that is one number for a batch, and has a mean alone."""

    reduction = "mean"

    def forward(self, scores, target):
        each = nn.functional.cross_entropy(scores, target, reduction="none")
        return {"mean": each.mean, "sum": each.sum}[self.reduction]()


@pytest.mark.parametrize("loss", [OfTheBatch(), PairwiseAUCLoss()], ids=["own", "ours"])
def test_a_loss_of_the_batch_as_a_whole_trains(blobs, loss):
    X, y = blobs
    params = {"module": MLP, "hidden_layer_sizes": (), "learning_rate": 0.1, "random_state": 0}
    assert TopKClassifier(loss, k=1, **params).fit(X, y).score(X, y) > 0.6  # of five classes


@pytest.mark.parametrize("weight_of_class", [None, [1.0, 5.0, 9.0]], ids=str)
def test_weight_is_repetition_with_a_loss_of_torch(blobs, weight_of_class):
    X, y = blobs
    y = np.unique(y, return_inverse=True)[1] % 3
    weight = np.random.default_rng(0).integers(1, 4, len(y))
    rows = np.repeat(np.arange(len(y)), weight)
    one_batch = {"optimizer": torch.optim.SGD, "learning_rate": 0.1, "batch_size": 10**4}
    params = {"module": MLP, "hidden_layer_sizes": (), "max_epochs": 3, "random_state": 0}
    loss = nn.CrossEntropyLoss(weight_of_class and torch.tensor(weight_of_class))
    clf = TopKClassifier(loss, k=1, dtype="float64", **params | one_batch)
    expected = clf.fit(X[rows], y[rows]).decision_function(X)
    found = clf.fit(X, y, sample_weight=weight).decision_function(X)
    np.testing.assert_allclose(found, expected, atol=1e-8)
    # Nearly equal weights are nearly none.
    expected = clf.fit(X, y).decision_function(X)
    found = clf.fit(X, y, sample_weight=1 + 1e-7 * (weight - 2)).decision_function(X)
    np.testing.assert_allclose(found, expected, atol=1e-4)
