"""The threshold of the training set, estimated from minibatches and earlier hard examples."""

import numpy as np
import pytest
import torch

import sktopk
from sktopk.callbacks import TrueThreshold
from sktopk.metrics import make_top_scorer
from sktopk.modules import MLP

# The learning rate is too small to change the scores, so that only the estimated threshold changes.
STILL = {
    "learning_rate": 1e-12, "batch_size": 32, "hidden_layer_sizes": (),
    "random_state": 0, "n_estimators": 1, "module": MLP, "log_loss_share": 0,
    "callbacks": [TrueThreshold()],
}  # fmt: skip


@pytest.fixture(scope="module")
def rare():
    rng = np.random.default_rng(5)
    X, y = rng.standard_normal((2000, 4)), np.zeros(2000, dtype=int)
    y[rng.choice(2000, 60, replace=False)] = 1
    return X, y


def trace(classifier, X, y, **params):
    """Estimated thresholds of all steps, and the true threshold, with a constant network."""
    clf = classifier.set_params(**STILL | params).fit(X, y)
    estimates = np.concatenate([row["threshold"] for row in clf.history_])
    true = np.concatenate([row["true_threshold"] for row in clf.history_])
    np.testing.assert_allclose(true, true[0], atol=1e-7)
    return estimates, true[0], clf


def test_the_estimated_threshold_increases_to_the_true_threshold(rare):
    estimates, true, clf = trace(sktopk.DeepTopPushClassifier(), *rare, max_epochs=2)
    assert (np.diff(estimates) >= -1e-7).all()
    np.testing.assert_allclose(estimates[len(clf.history_[0]["threshold"]) :], true, atol=1e-7)
    assert clf.threshold_ == pytest.approx(true, abs=0.1)


def test_the_estimated_threshold_is_exact_if_the_buffer_is_as_large_as_its_rank(rare):
    for classifier in (
        sktopk.TopPushKClassifier(k=7, buffer_size=7),
        sktopk.PatMatClassifier(tau=0.01, buffer_size=20),
        sktopk.PrecisionAtRecallClassifier(recall=0.8, buffer_size=13),
        sktopk.RecallAtKClassifier(k=90, buffer_size=90),
        sktopk.PatMatNPClassifier(tau=0.02, buffer_size=40),
    ):
        estimates, true, clf = trace(classifier, *rare, max_epochs=2, batch_size=64)
        np.testing.assert_allclose(estimates[len(clf.history_[0]["threshold"]) :], true, atol=1e-7)


@pytest.mark.parametrize("buffer_size", [0, 5])
def test_estimated_quantiles_correct_for_oversampled_positives_of_minibatches(buffer_size, rare):
    X, y = rare
    # Positives score far higher: the uncorrected quantile would be the score of a positive.
    X = np.where(y[:, None] == 1, 3.0, 0.0) + 0.5 * X
    clf = sktopk.PatMatClassifier(tau=0.2, buffer_size=buffer_size)

    def module(n_features, n_outputs):
        layer = torch.nn.Linear(n_features, n_outputs)
        torch.nn.init.ones_(layer.weight)
        return layer

    estimates, true, _ = trace(clf, X, y, module=module, max_epochs=3, batch_size=64)
    scores = X.sum(axis=1)
    uncorrected = np.quantile(np.r_[scores[y == 0][:590], scores[y == 1]], 0.8)
    bias = abs(estimates.mean() - true)
    assert bias < 0.15 * abs(uncorrected - true), (estimates.mean(), true, uncorrected)


def test_weighted_ranks_count_samples_by_their_weight(rare):
    X, y = rare
    weight = np.random.default_rng(0).integers(1, 4, len(y)).astype(float)
    clf = sktopk.RecallAtKClassifier(k=12, buffer_size=12, calibration=None, max_epochs=2)
    clf.set_params(**STILL).fit(X, y, sample_weight=weight)
    scores = clf.decision_function(X) + clf.threshold_
    order = np.argsort(-scores)
    expected = scores[order][np.searchsorted(np.cumsum(weight[order]), 12)]
    np.testing.assert_allclose(clf.history_[-1]["threshold"], expected, atol=1e-7)


def test_with_small_minibatches_the_mean_hinge_of_negatives_is_the_given_fpr(rare):
    X, y = rare
    X = 3 * X  # with this factor, the hinges of most negatives are 0
    clf = sktopk.RecallAtFPRClassifier(0.05, buffer_size=200)
    estimates, true, clf = trace(clf, X, y, max_epochs=3, batch_size=64)
    late = estimates[len(clf.history_[0]["threshold"]) :]
    scores = clf.decision_function(X)[y == 0] + clf.threshold_
    hinges = [np.maximum(0, 1 + scores - t).mean() for t in late]
    assert np.mean(hinges) == pytest.approx(0.05, rel=0.2)
    without = sktopk.RecallAtFPRClassifier(0.05, buffer_size=0)
    alone, *_ = trace(without, X, y, batch_size=64, max_epochs=3)
    assert np.std(late - true) < 0.5 * np.std(alone - true)


@pytest.mark.parametrize("buffer_size", [0, 200])
def test_estimated_thresholds_of_the_first_epoch_are_not_far_below_the_true_one(buffer_size, rng):
    X, y = rng.standard_normal((8000, 3)), np.arange(8000) % 20 == 0
    clf = sktopk.PatMatClassifier(tau=0.01, buffer_size=buffer_size)
    clf.set_params(**STILL | {"batch_size": 128, "callbacks": None}, max_epochs=1)
    scores = clf.fit(X, y).decision_function(X) + clf.threshold_
    above = [(scores >= t - 1e-6).mean() for t in clf.history_[0]["threshold"]]
    assert np.mean(above) < 0.04


def test_partial_fit_scales_the_rank_k_to_the_number_of_samples_of_a_call(rare):
    X, y = rare
    clf = sktopk.RecallAtKClassifier(k=100, batch_size=64, random_state=0)
    for start in range(0, 2000, 200):
        clf.partial_fit(X[start : start + 200], y[start : start + 200], classes=[0, 1])
    assert 50 < clf.predict(X).sum() < 200


def test_the_validation_score_is_a_partial_auc_instead_of_the_metric_of_score(rare):
    X, y = rare
    rows = slice(0, 500)
    for name in ("DeepTopPush", "Threshold", "FScore"):
        clf = getattr(sktopk, f"{name}Classifier")()
        clf.set_params(module=MLP, max_epochs=2, random_state=0, n_estimators=1)
        clf.fit(X, y, X_val=X[rows], y_val=y[rows])
        scorer = make_top_scorer("partial_auc_log", min_fpr=1 / (y[rows] == 0).sum(), max_fpr=1.0)
        expected = scorer(clf, X[rows], y[rows])
        assert clf.history_[-1]["valid_score"] == pytest.approx(expected, rel=1e-6)
        assert clf.score(X[rows], y[rows]) != pytest.approx(expected, rel=1e-3)
    # Ties count one half.
    clf.set_params(n_estimators=2).fit(X, y, X_val=0 * X[rows], y_val=y[rows])
    expected = np.log(2) / np.log((y[rows] == 0).sum())
    assert clf.history_[-1]["valid_score"] == pytest.approx(expected)
    one, light = (clf.fit(X, y, w * np.ones(2000)).history_[0]["valid_score"] for w in (1, 0.1))
    assert light == pytest.approx(one, rel=1e-3)
