"""Probabilities of TopBoostClassifier, calibrated on out-of-fold scores."""

from functools import cache, partial

import numpy as np
import pytest
from sklearn.datasets import make_classification
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.metrics import log_loss

from sktopk import TopBoostClassifier

pytest.importorskip("lightgbm")
X, Y = make_classification(2400, weights=[0.85], flip_y=0.05, random_state=0)
TRAIN, NEW = slice(1600), slice(1600, None)
make = partial(TopBoostClassifier, n_estimators=20, random_state=0)
fitted_trees = cache(lambda: ExtraTreesClassifier(random_state=0).fit(X[TRAIN], Y[TRAIN]))


@pytest.mark.parametrize("loss", ["top_mean", "pairwise_auc", "cross_entropy"])
def test_by_default_a_sigmoid_gives_calibrated_probabilities_of_new_samples(loss):
    clf = make(loss).fit(X[TRAIN], Y[TRAIN])
    proba = clf.predict_proba(X[NEW])
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    assert proba[:, 1].mean() == pytest.approx(Y[NEW].mean(), abs=0.03)
    assert log_loss(Y[NEW], proba) < log_loss(Y[NEW], fitted_trees().predict_proba(X[NEW])) + 0.02
    # Probabilities and scores have the same order.
    assert (np.diff(proba[clf.decision_function(X[NEW]).argsort(), 1]) >= 0).all()


def test_calibration_with_several_classes_keeps_the_order_of_the_scores(rng):
    X = rng.normal(size=(900, 4))
    y = (X[:, :3] + rng.normal(size=(900, 3))).argmax(1)
    clf = make("smooth_topk", k=2).fit(X[:600], y[:600])
    scores, proba = clf.decision_function(X[600:]), clf.predict_proba(X[600:])
    np.testing.assert_array_equal(proba.argsort(1), scores.argsort(1))
    plain = np.exp(scores) / np.exp(scores).sum(1, keepdims=True)
    assert log_loss(y[600:], proba) < log_loss(y[600:], plain) + 0.01


def test_calibration_does_not_change_the_trees_and_the_threshold():
    one, other = (make(calibration=c, n_estimators=5).fit(X, Y) for c in ("sigmoid", None))
    np.testing.assert_array_equal(one.decision_function(X), other.decision_function(X))
    assert not hasattr(other, "predict_proba")
    with pytest.raises(AttributeError, match=r"calibration=None and n_members=5\. Set calib"):
        other.predict_proba(X)
    with pytest.raises(ValueError, match="calibration must be one of None, 'sigmoid'"):
        make(calibration="isotonic").fit(X, Y)
