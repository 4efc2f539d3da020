"""TopKClassifier: parameters, input, scores, labels and probabilities."""

import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from scipy.special import log_softmax, softmax
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold, cross_val_score
from sklearn.preprocessing import StandardScaler
from torch import nn

from sktopk import PatMatClassifier, TopKClassifier
from sktopk.metrics import topk_accuracy_score
from sktopk.modules import MLP, TabularMLP
from tests.crashing import hook
from tests.named_losses import NAMED_LOSSES


def quick(loss="smooth_topk", **params):
    params = {"k": 2, "module": MLP, "hidden_layer_sizes": (8,), "max_epochs": 2} | params
    return TopKClassifier(loss, **{"n_estimators": 1, "random_state": 0} | params)


def test_score_and_predict_topk_use_k_of_the_estimator_instead_of_loss__k(blobs):
    X, y = blobs
    several = {1: 0.5, 3: 0.5}
    with pytest.raises(ValueError, match="loss__k must not be set if k is a dict"):
        quick(k=several, loss_params={"k": 1}).fit(X, y)
    clf = quick(k=3).set_params(loss__k=1).fit(X, y)
    assert clf.k_ == 3
    assert clf.predict_topk(X).shape == (240, 3)
    for each in (clf, quick(k=several).fit(X, y)):
        assert each.score(X, y) == topk_accuracy_score(y, each.decision_function(X), k=3)
    trained = quick(k=1).fit(X, y).decision_function(X)
    np.testing.assert_array_equal(clf.decision_function(X), trained)


def test_default_batch_size_and_max_epochs_depend_on_the_number_of_samples():
    params = {"k": 1, "n_estimators": 1, "module": nn.Linear, "calibration": None}
    for n, batch_size, max_epochs in [(300, 64, 72), (2000, 100, 18), (9000, 256, 18)]:
        X, y = np.random.default_rng(0).standard_normal((n, 2)), np.arange(n) % 3
        stop = hook(on_epoch_end=lambda self, net, **_: setattr(net, "stop_training", True))
        clf = TopKClassifier(**params, callbacks=[stop]).fit(X, y)
        assert (clf.batch_size_, clf.max_epochs_) == (batch_size, max_epochs)
        assert clf.history_[0]["train_batch_count"] == -(-n // batch_size)


@pytest.mark.filterwarnings("ignore:(tau|sigma)=:UserWarning")
@pytest.mark.parametrize("calibration", [None, "temperature"])
@pytest.mark.parametrize("loss", NAMED_LOSSES)
def test_labels_scores_sets_and_probabilities_agree(blobs, loss, calibration):
    X, y = blobs
    y = np.array(["oak", "elm", "ash", "fir", "yew"])[y]
    clf = quick(loss, batch_size=len(y), calibration=calibration, n_estimators=2).fit(X, y)
    scores, labels = clf.decision_function(X), clf.predict(X)
    proba = clf.predict_proba(X)
    best = clf.classes_[np.argsort(-scores, axis=1, kind="stable")]
    np.testing.assert_array_equal(best, clf.classes_[np.argsort(-proba, axis=1, kind="stable")])
    np.testing.assert_array_equal(labels, best[:, 0])
    for k in (1, 2, 3, 4):
        np.testing.assert_array_equal(clf.predict_topk(X, k=k), best[:, :k])
    np.testing.assert_array_equal(clf.predict_topk(X), best[:, : clf.k_])
    hits, weight = (clf.predict_topk(X) == y[:, None]).any(axis=1), np.arange(len(y)) % 3
    assert clf.score(X, y) == pytest.approx(hits.mean())
    assert clf.score(X, y, weight) == pytest.approx(np.average(hits, weights=weight))
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    np.testing.assert_allclose(np.exp(clf.predict_log_proba(X)), proba)


class Rounded(nn.Linear):
    def forward(self, X):
        return (2 * super().forward(X)).round()


@pytest.mark.parametrize("k", range(1, 9))
def test_classes_whose_scores_tie_keep_their_order(k, rng):
    X, y = rng.normal(size=(300, 4)).astype(np.float32), np.arange(300) % 9
    clf = TopKClassifier("cross_entropy", k=k, module=Rounded, max_epochs=1, n_estimators=2)
    scores = clf.set_params(calibration=None).fit(X, y).decision_function(X)
    assert (np.sort(scores)[:, :-1] == np.sort(scores)[:, 1:]).any()
    order = np.argsort(-scores, axis=1, kind="stable")
    np.testing.assert_array_equal(clf.predict_topk(X), order[:, :k])


def test_the_temperature_minimizes_the_log_loss(blobs):
    X, y = blobs
    clf = quick(batch_size=len(y)).fit(X, y, X_val=X, y_val=y)
    slope, intercept = clf.calibration_
    scores = clf.decision_function(X)
    losses = [
        -log_softmax(factor * slope * scores, axis=1)[np.arange(len(y)), y].mean()
        for factor in (0.98, 1.0, 1.02)
    ]
    assert np.argmin(losses) == 1
    assert intercept == 0
    np.testing.assert_allclose(clf.predict_proba(X), softmax(slope * scores, axis=1))


# When measured, cross-entropy was 0.6 and the default loss 0.4 points below logistic regression.
def test_a_linear_model_is_about_as_accurate_as_logistic_regression():
    X, y = load_digits(return_X_y=True)
    X = StandardScaler().fit_transform(X)
    cv = StratifiedKFold(3, shuffle=True, random_state=0)
    least = cross_val_score(LogisticRegression(max_iter=1000), X, y, cv=cv).mean() - 0.01
    for loss in ("cross_entropy", "smooth_topk"):
        clf = TopKClassifier(loss, k=1, hidden_layer_sizes=(), n_estimators=4, random_state=0)
        assert cross_val_score(clf, X, y, cv=cv).mean() > least, loss


def test_every_kind_of_table_gives_the_same_scores(blobs, tmp_path):
    X, y = blobs
    names = [f"x{i}" for i in range(X.shape[1])]
    np.save(tmp_path / "X.npy", X)
    read_only = X.copy()
    read_only.flags.writeable = False
    tables = {
        "memory map": np.load(tmp_path / "X.npy", mmap_mode="r"), "read-only array": read_only,
        "column-major array": np.asfortranarray(X), "reversed array": X[::-1][::-1],
        "CSR matrix": sparse.csr_matrix(X), "CSC array": sparse.csc_array(X), "lists": X.tolist(),
        "pandas frame": pd.DataFrame(X, columns=names),
        "polars frame": pl.DataFrame(X, schema=names),
    }  # fmt: skip
    # The network trains in float64 if one minibatch has all samples, else in float32.
    for batch_size, tolerance in ((len(y), {"atol": 1e-9}), (64, {"rtol": 1e-4, "atol": 1e-5})):
        expected = quick(batch_size=batch_size).fit(X, y).decision_function(X)
        for kind, table in tables.items():
            clf = quick(batch_size=batch_size).fit(table, y)
            found = clf.decision_function(table)
            np.testing.assert_allclose(found, expected, **tolerance, err_msg=kind)
            if "frame" in kind:
                np.testing.assert_array_equal(clf.feature_names_in_, names)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_scores_have_the_float_type_of_X(blobs, dtype):
    X, y = blobs[0].astype(dtype), blobs[1]
    for batch_size, of_weights in ((len(y), dtype), (len(y) - 1, np.float32)):
        clf = TopKClassifier(k=2, max_epochs=2, n_estimators=2, batch_size=batch_size).fit(X, y)
        assert clf.decision_function(X).dtype == dtype
        assert clf.oob_decision_function_.dtype == dtype
        assert clf.predict_proba(X).dtype == dtype
        assert next(clf.net_.module_.parameters()).detach().numpy().dtype == of_weights
    for clf in (quick(module=nn.Linear), PatMatClassifier(0.1, module=nn.Linear, max_epochs=2)):
        assert clf.fit(X, y == 0).decision_function(X).dtype == dtype


def test_columns_are_centered_before_they_are_rounded_to_float32(blobs):
    X, y = blobs
    clf = quick(n_estimators=2, module=TabularMLP).fit(X, y)
    far = X + np.array([0, 1e9, -1e12, 0])
    moved = quick(n_estimators=2, module=TabularMLP).fit(far, y)
    expected = clf.decision_function(X)
    for each in (moved, pickle.loads(pickle.dumps(moved))):
        np.testing.assert_allclose(each.decision_function(far), expected, rtol=0.01, atol=0.01)


def test_predictions_in_several_chunks_equal_predictions_in_one_chunk(blobs):
    X, y = blobs
    clf = quick(n_estimators=2).fit(X, y)
    many = np.tile(X, (40, 1))  # more samples than one chunk
    for method in (clf.decision_function, clf.predict_topk):
        np.testing.assert_allclose(method(many), np.tile(method(X), (40, 1)), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    "params",
    [{"module": MLP}, {"n_estimators": 3}, {"n_estimators": 3, "loss": "logit_adjusted"}],
    ids=str,
)
def test_class_weight_multiplies_the_sample_weight(blobs, params):
    X, y = blobs
    keep = (y != 3) | (np.arange(len(y)) % 4 == 0)
    X, y = X[keep], y[keep]
    own, by_class = 1.0 + np.arange(len(y)) % 3, len(y) / (5 * np.bincount(y))
    clf = TopKClassifier(**{"k": 2, "max_epochs": 3, "n_estimators": 1, "random_state": 0} | params)
    expected = clone(clf).fit(X, y, sample_weight=own * by_class[y])
    found = clone(clf).set_params(class_weight=dict(enumerate(by_class)))
    found.fit(X, y, sample_weight=own)
    np.testing.assert_array_equal(found.decision_function(X), expected.decision_function(X))
    # Class counts ignore the weights; the loss uses the class weights.
    np.testing.assert_array_equal(found.class_count_, np.bincount(y, own))
    np.testing.assert_array_equal(found.predict_proba(X), expected.predict_proba(X))
    balanced = clone(clf).set_params(class_weight="balanced").fit(X, y)
    expected = clone(clf).fit(X, y, sample_weight=by_class[y])
    np.testing.assert_array_equal(balanced.decision_function(X), expected.decision_function(X))


def test_the_method_score_uses_the_reduced_k_and_counts_unseen_labels_as_misses(blobs):
    X, y = blobs
    for n_classes, k in ((3, 2), (2, 1)):
        rows = y < n_classes
        with warnings.catch_warnings(action="error"):
            clf = TopKClassifier(max_epochs=2, n_estimators=2, random_state=0).fit(X[rows], y[rows])
        assert clf.k_ == k
        hits = (clf.predict_topk(X) == y[:, None]).any(axis=1)
        assert clf.score(X[rows], y[rows]) == pytest.approx(hits[rows].mean())
        assert clf.score(X, y) == pytest.approx(hits.mean())
    score = clf.decision_function(X)
    assert score.shape == (len(X),)
    np.testing.assert_array_equal(clf.predict_topk(X)[:, 0], (score > 0).astype(int))
