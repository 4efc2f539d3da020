"""Many classes with few samples: number of networks, validation scores, class weights."""

from functools import partial

import numpy as np
import pytest

from sktopk import PatMatClassifier, TopKClassifier
from sktopk.losses import LogitAdjustedLoss, logit_adjusted_loss
from sktopk.metrics import topk_accuracy_score

QUICK = {"max_epochs": 1, "hidden_layer_sizes": (4,), "random_state": 0}


def pairs(n_classes):
    rng = np.random.default_rng(0)
    centers, y = rng.normal(size=(n_classes, 30)), np.tile(np.arange(n_classes), 2)
    return [(centers[y] + 0.3 * rng.normal(size=(len(y), 30))).astype("f4") for _ in range(2)], y


def test_300_classes_with_two_samples_each_are_learned_with_default_parameters():
    (X, Z), y = pairs(300)
    assert TopKClassifier(random_state=0).fit(X, y).score(Z, y) > 0.95


def test_eight_networks_are_trained_by_default_but_only_one_for_more_than_1000_classes():
    for n_classes in (2, 1000):
        (X, _), y = pairs(n_classes)
        assert TopKClassifier(**QUICK).fit(X, y).n_estimators_ == 8
        assert PatMatClassifier(**QUICK).fit(X, y == 0).n_estimators_ == 8
    (X, _), y = pairs(1001)
    with pytest.warns(UserWarning, match='n_estimators="auto" trains one network instead of 8'):
        clf = TopKClassifier(**QUICK).fit(X, y)
    assert (clf.n_estimators_, clf.n_estimators) == (1, "auto")


@pytest.mark.parametrize("loss", ["logit_adjusted", "smooth_topk_adjusted", "cross_entropy"])
def test_the_valid_score_is_the_mean_of_macro_top_1_and_macro_top_k_accuracy(loss, rng):
    y = np.repeat(np.arange(30), [40] * 10 + [2] * 20)
    X = rng.normal(size=(len(y), 10)) + 1.5 * rng.normal(size=(30, 10))[y]
    params = {} if "adjusted" in loss else {"class_weight": "balanced"}
    clf = TopKClassifier(loss, k=5, **QUICK, **params).fit(X, y)
    scores = clf.oob_decision_function_
    each = [topk_accuracy_score(y, scores, k=k, average="macro") for k in (1, 5)]
    assert clf.history_[clf.kept_epoch_ - 1]["valid_score"] == pytest.approx(np.mean(each))


def test_unknown_labels_of_y_val_are_a_class_with_accuracy_0():
    (X, Z), y = pairs(6)
    clf = TopKClassifier("logit_adjusted", k=2, **QUICK, n_estimators=1)
    known, warns = y > 0, partial(pytest.warns, UserWarning, match="y_val .* not in y: 1")
    with warns():
        clf.fit(X[known], y[known], X_val=Z, y_val=y)
    each = clf.score(Z[y > 0], y[y > 0]), np.mean(clf.predict(Z[y > 0]) == y[y > 0])
    assert clf.history_[-1]["valid_score"] == pytest.approx(np.mean(each) * 5 / 6)
    clf.set_params(loss="cross_entropy", k=1, class_weight={5: 0.0})  # label 0 has weight 1
    with warns():
        clf.fit(X[known], y[known], X_val=Z, y_val=y)
    expected = np.average(clf.predict(Z) == y, weights=y != 5)
    assert clf.history_[-1]["valid_score"] == pytest.approx(expected)


def test_class_weights_count_also_for_validation_samples(rng):
    X, y = rng.normal(size=(600, 5)), rng.choice(5, 600, p=[0.5, 0.3, 0.1, 0.05, 0.05])
    X += np.eye(5)[y]
    clf = TopKClassifier("cross_entropy", k=2, class_weight={0: 0.1, 4: 9.0}, random_state=0)
    clf.set_params(max_epochs=10, n_estimators=1)
    clf.fit(X[:300], y[:300], X_val=X[300:], y_val=y[300:])
    scores, proba = clf.decision_function(X[300:]), clf.predict_proba(X[300:])
    weight = np.array([0.1, 1, 1, 1, 9])[y[300:]]
    # The calibration maximizes the likelihood, so expected and observed scores have the same mean.
    expected = np.average((proba * scores).sum(axis=1), weights=weight)
    observed = np.average(scores[np.arange(300), y[300:]], weights=weight)
    assert expected == pytest.approx(observed, abs=5e-3)


def test_the_mixed_in_cross_entropy_uses_the_class_counts_of_the_loss(rng):
    X, y = rng.normal(size=(600, 2)), rng.choice(3, 600, p=[0.8, 0.15, 0.05])

    def scores(loss):
        clf = TopKClassifier(loss, k=1, n_estimators=1, **QUICK).set_params(max_epochs=5)
        return clf.fit(X, y).decision_function(X)

    counts, plain, adjusted = np.bincount(y), scores("cross_entropy"), scores("logit_adjusted")
    assert np.abs(plain - adjusted).max() > 0.1
    np.testing.assert_allclose(scores(LogitAdjustedLoss(class_counts=[1, 1, 1])), plain, atol=1e-6)
    for loss in LogitAdjustedLoss(counts), partial(logit_adjusted_loss, class_counts=counts):
        # The named loss counts no held-out samples, so its scores are slightly different.
        np.testing.assert_allclose(scores(loss), adjusted, atol=0.02)


def test_partial_fit_relates_sample_and_class_weights_to_all_calls_so_far(rng):
    y = np.repeat([0, 1], [90, 30])
    X = rng.normal(size=(120, 3)) + y[:, np.newaxis]
    seen = np.arange(120) < 60  # label 0 only
    given, chunks = {"classes": [0, 1]}, [(X[seen], y[seen]), (X[~seen], y[~seen])]

    def scores(weight, class_weight=None):
        clf = TopKClassifier("cross_entropy", k=1, **QUICK).partial_fit(*chunks[0], **given)
        clf.set_params(class_weight=class_weight)
        return clf.partial_fit(*chunks[1], sample_weight=np.full(60, weight)).decision_function(X)

    assert np.abs(scores(1.0) - scores(100.0)).max() > 0.01
    np.testing.assert_allclose(scores(1.0, "balanced"), scores(1.0, {0: 120 / 180, 1: 120 / 60}))
