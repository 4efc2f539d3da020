"""Probabilities with and without calibration, compared with true ones and with scikit-learn."""

import copy
import pickle

import numpy as np
import pytest
import torch
from scipy.special import softmax
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_classification
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import brier_score_loss

import sktopk
from sktopk import AUCClassifier, DeepTopPushClassifier, TopKClassifier
from sktopk._estimators import _finish
from sktopk._estimators._calibration import calibrated_proba, fit_calibration
from sktopk.losses import FocalLoss, LogitAdjustedLoss

# Log densities of three normal classes, up to a constant for each sample.
MEANS, SHARES = np.array([[0.0, 0.0], [1.5, 0.0], [0.0, 1.5]]), np.array([0.8, 0.15, 0.05])
LINEAR = {"hidden_layer_sizes": (), "n_estimators": 1, "random_state": 0}
LINEAR |= {"batch_size": 250, "max_epochs": 30}


def log_density(X):
    return X @ MEANS.T - (MEANS**2).sum(1) / 2


@pytest.fixture(scope="module")
def rare():
    rng = np.random.default_rng(0)
    y = rng.choice(3, 4000, p=SHARES)
    return rng.normal(size=(4000, 2)) + MEANS[y], y


@pytest.fixture(scope="module")
def binary():
    return make_classification(1200, weights=[0.8], n_clusters_per_class=1, random_state=0)


def linear(loss="logit_adjusted", **params):
    return TopKClassifier(loss, **LINEAR | {"k": 1, "calibration": None} | params)


@pytest.mark.parametrize("calibration", [None, "temperature"])
def test_logit_adjusted_estimates_probabilities_for_equally_frequent_classes(rare, calibration):
    X, y = rare
    # log_loss_share=0, because label smoothing would increase the probabilities of rare classes.
    clf = linear(calibration=calibration, log_loss_share=0).fit(X, y)
    proba, expected = clf.predict_proba(X), softmax(log_density(X), axis=1)
    assert np.abs(proba - expected).mean() < 0.03
    assert np.mean(clf.predict(X) == expected.argmax(1)) > 0.95
    others = [pickle.loads(pickle.dumps(clf)), copy.deepcopy(clf)]
    for other in (*others, clf.set_params(loss_params={"tau": 3.0})):
        np.testing.assert_array_equal(other.predict_proba(X), proba)


@pytest.mark.parametrize("tau", [0.0, 0.5])
def test_probabilities_use_class_frequencies_to_the_power_of_1_minus_tau(rare, tau):
    X, y = rare
    clf = linear(loss_params={"tau": tau}, log_loss_share=0).fit(X, y)
    expected = softmax(log_density(X) + (1 - tau) * np.log(SHARES), axis=1)
    assert np.abs(clf.predict_proba(X) - expected).mean() < 0.02


SAME = {
    "logit_adjusted": (LogitAdjustedLoss, {}),
    "cross_entropy": (torch.nn.CrossEntropyLoss, {}),
    "cross_entropy with smoothed labels": (torch.nn.CrossEntropyLoss, {"label_smoothing": 0.1}),
}


@pytest.mark.parametrize("share", [0, 0.6])
@pytest.mark.parametrize("case", SAME)
def test_a_loss_module_gives_the_probabilities_of_its_named_loss(rare, case, share):
    X, y = rare[0][:500], rare[1][:500]
    module, params = SAME[case]
    counts = {"class_counts": np.bincount(y)} if module is LogitAdjustedLoss else {}
    clf = linear(module(**params, **counts), log_loss_share=share, max_epochs=6)
    assert hasattr(clf, "predict_proba")
    named = linear(case.split()[0], log_loss_share=share, loss_params=params or None, max_epochs=6)
    found, expected = (each.fit(X, y).predict_proba(X) for each in (clf, named))
    np.testing.assert_allclose(found, expected, atol=1e-6)


@pytest.mark.parametrize(
    "loss", [FocalLoss(), torch.nn.MultiMarginLoss(), "noised_topk", "smooth_topk"], ids=str
)
def test_other_losses_need_calibration_or_a_share_of_log_loss_for_probabilities(rare, loss):
    X, y = rare[0][:500], rare[1][:500]
    clf = linear(loss, log_loss_share=0, max_epochs=2)
    assert not hasattr(clf, "predict_proba")
    assert not hasattr(clf.fit(X, y), "predict_proba")
    with pytest.raises(AttributeError, match=r"predict_proba is not available.*not prob"):
        clf.predict_proba(X)
    for params in ({"calibration": "temperature"}, {"log_loss_share": 0.1}):
        assert hasattr(clone(clf).set_params(**params).fit(X, y), "predict_proba")


PEERS = {
    "labels": lambda **p: TopKClassifier("noised_topk", k=1, **LINEAR | p),
    "ranking": lambda **p: DeepTopPushClassifier(**LINEAR | p),
    "all pairs": lambda **p: AUCClassifier(**LINEAR | p),
}


@pytest.mark.parametrize("case", PEERS)
def test_calibrated_probabilities_are_near_probabilities_of_scikit_learn(case, binary):
    X, y = binary
    parts = X[:400], y[:400], X[400:800], y[400:800]
    bare = PEERS[case](calibration=None).fit(*parts[:2])
    ours = PEERS[case]().fit(*parts[:2], X_val=parts[2], y_val=parts[3])
    own = brier_score_loss(y[800:], ours.predict_proba(X[800:])[:, 1])
    peer = CalibratedClassifierCV(FrozenEstimator(bare), method="sigmoid").fit(*parts[2:])
    theirs = brier_score_loss(y[800:], peer.predict_proba(X[800:])[:, 1])
    assert own < min(theirs + 0.02, 0.9 * np.mean(y) * (1 - np.mean(y)))


@pytest.fixture(params=["temperature", "sigmoid"])
def held_out(request, rng):
    target = (rng.random(400) < 0.2).astype(int)
    scores, weight = rng.normal(size=400) + target, rng.integers(0, 4, 400).astype(float)
    if request.param == "temperature":
        scores = np.column_stack([np.zeros(400), scores])
    return scores, target, weight


def proba_of(scores, target, weight):
    return calibrated_proba(*fit_calibration(scores, target, weight), scores)


def test_calibration_does_not_depend_on_scale_and_offset_of_scores(held_out):
    scores, target, weight = held_out
    expected = proba_of(scores, target, weight)
    assert expected.std() > 0.05
    for unit, zero in ((1e-8, 3), (1e4, 0), (1, 1e3)):
        assert proba_of(zero + unit * scores, target, weight) == pytest.approx(expected, abs=1e-3)


def test_probabilities_increase_with_scores_even_if_negatives_score_highest():
    scores, target = np.arange(40.0), (np.arange(40) < 20).astype(int)
    proba = proba_of(scores, target, np.ones(40))[:, 1]
    assert (np.diff(proba) > 0).all()
    np.testing.assert_allclose(proba, 0.5, atol=0.01)


def test_outliers_of_tiny_weight_hardly_change_the_calibration(rng):
    target = (rng.random(400) < 0.2).astype(int)
    scores, weight = rng.normal(size=400) + target, np.ones(400)
    scores[0], weight[0] = 1e6, 0
    for each in (np.column_stack([-scores, scores]), scores):
        expected = fit_calibration(each[1:], target[1:], weight[1:])
        np.testing.assert_allclose(fit_calibration(each, target, weight), expected, 1e-4)
    weight[0] = 1e-9
    np.testing.assert_allclose(fit_calibration(scores, target, weight), expected, 0.05)


def test_probabilities_of_samples_far_away_sum_to_one(rng):
    X, y = rng.normal(size=(300, 2)), np.arange(300) % 2
    clf = AUCClassifier(**LINEAR | {"max_epochs": 4, "batch_size": 300})
    np.testing.assert_allclose(clf.fit(X, y).predict_proba(X * 1e6).sum(axis=1), 1)


@pytest.mark.parametrize("case", PEERS)
def test_predict_proba_uses_the_calibration_that_was_set_in_fit(case, binary):
    X, y = binary[0][:200], binary[1][:200]
    clf = PEERS[case](max_epochs=2, log_loss_share=0).fit(X, y)
    proba, calibration = clf.predict_proba(X), clf.calibration
    assert proba.dtype == clf.decision_function(X).dtype
    np.testing.assert_array_equal(clf.set_params(calibration=None).predict_proba(X), proba)
    assert not hasattr(clf.fit(X, y), "predict_proba")
    assert not hasattr(clf.set_params(calibration=calibration), "predict_proba")


def test_calibration_uses_only_a_part_of_the_scores_if_there_are_many(rng, monkeypatch):
    X, y = rng.normal(size=(400, 4)), np.arange(400) % 5
    clf = TopKClassifier(k=2, n_estimators=2, max_epochs=2, random_state=0)
    whole = clone(clf).fit(X, y)
    monkeypatch.setattr(_finish, "MOST_SCORES", 1500)
    monkeypatch.setattr(_finish, "PART_OF_SCORES", 1000)
    part = clone(clf).fit(X, y)
    np.testing.assert_array_equal(part.decision_function(X), whole.decision_function(X))
    assert part.calibration_ != whole.calibration_
    assert not hasattr(part, "oob_decision_function_")
    assert 0 < part.oob_score_ < 1


@pytest.mark.parametrize("name", ["TopBoostClassifier", "RecallAtFPRClassifier"])
def test_probabilities_at_the_top_equal_the_share_of_positives(name):
    networks = {"hidden_layer_sizes": (64, 64)}
    params = {"n_estimators": 50} if name == "TopBoostClassifier" else networks
    said, found = [], []
    for seed in range(2):
        kind = {"n_informative": 8, "weights": [0.93], "flip_y": 0.05, "class_sep": 0.5}
        X, y = make_classification(6000, **kind, random_state=seed)
        clf = getattr(sktopk, name)(random_state=seed, **params)
        proba = clf.fit(X[:3000], y[:3000]).predict_proba(X)
        best = 3000 + np.argsort(-proba[3000:, 1])[:100]
        said.append(proba[best, 1].mean())
        found.append(y[best].mean())
    # The ensemble ranks better than a single network. Calibration of out-of-fold scores would
    # give probabilities that are 15 points too low.
    assert abs(np.mean(said) - np.mean(found)) < 0.08


@pytest.mark.parametrize(("weight", "n"), [(0.5, 60), (3.0, 180)])
def test_separating_scores_get_the_target_probabilities_of_platt_and_a_finite_slope(weight, n):
    y, weight = np.arange(60) % 2, np.full(60, weight)
    for scores, m in ((np.eye(2)[y], n), (1.0 * y, n / 2)):
        assert proba_of(scores, y, weight)[:, 1] == pytest.approx((y * m + 1) / (m + 2), rel=0.01)
