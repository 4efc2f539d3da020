"""Probabilities: our own where asked for, scikit-learn's calibration on what has none."""

import inspect

import numpy as np
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_blobs, make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import log_loss

import sktopk
from sktopk import AUCClassifier, DeepTopPushClassifier, TopKClassifier
from sktopk._estimators._calibration import calibrated_proba, fit_calibration

CLASSES = [
    getattr(sktopk, name)
    for name in sktopk.__all__
    if "calibration" in inspect.signature(getattr(sktopk, name)).parameters
]
TRAINING = {"hidden_layer_sizes": (), "max_epochs": 15, "learning_rate": 1e-2, "random_state": 0}
# What the small training and the rare positives of the tests may say.
pytestmark = pytest.mark.filterwarnings(
    "ignore:The training loss still fell", "ignore:precision=.* is reached by no threshold"
)


@pytest.fixture(scope="module")
def binary():
    X, y = make_classification(
        1200, weights=[0.8], n_clusters_per_class=1, flip_y=0.02, random_state=0
    )
    return X, np.where(y == 1, "yes", "no")


@pytest.fixture(scope="module")
def several():
    X, y = make_blobs(1200, centers=4, n_features=3, cluster_std=4.0, random_state=0)
    return X, np.array(list("abcd"))[y]


def make(kind, **params):
    """Return an estimator without probabilities that trains fast, and may have `params`."""
    loss = {"loss": "noised_topk", "k": 1} if kind is TopKClassifier else {}
    return kind(**TRAINING, **loss, **params)


def brier(y, proba):
    """Return the mean squared distance of the probabilities from the labels."""
    return np.mean((proba - (y[:, None] == np.unique(y))) ** 2)


@pytest.mark.parametrize("method", ["sigmoid", "temperature"])
@pytest.mark.parametrize("unit", [1e-6, 1 / 1200, 50])
def test_the_unit_of_weights_is_no_matter(binary, method, unit):
    X, y = binary
    weight = np.random.default_rng(0).integers(0, 4, len(y)).astype(float)
    clf = make(DeepTopPushClassifier, calibration=method)
    expected = clf.fit(X, y, sample_weight=weight).predict_proba(X)
    found = clf.fit(X, y, sample_weight=unit * weight).predict_proba(X)
    np.testing.assert_allclose(found, expected, atol=0.01)


def test_light_rows_far_away_change_nothing():
    rng = np.random.default_rng(0)
    target = (rng.random(400) < 0.2).astype(int)
    scores, weight = rng.normal(size=(400, 1)) + target[:, None], np.ones(400)
    scores[0], weight[0] = 1e6, 0
    expected = fit_calibration("sigmoid", scores[1:], target[1:], weight[1:])
    np.testing.assert_allclose(fit_calibration("sigmoid", scores, target, weight), expected, 1e-4)
    weight[0] = 1e-9
    np.testing.assert_allclose(fit_calibration("sigmoid", scores, target, weight), expected, 0.05)


@pytest.mark.parametrize("method", ["sigmoid", "temperature"])
@pytest.mark.parametrize(("unit", "zero"), [(1e-4, 0), (1e-8, 3), (1e4, 0), (1, 1e3)])
def test_the_unit_and_the_zero_of_scores_are_no_matter(method, unit, zero):
    rng = np.random.default_rng(0)
    target = (rng.random(400) < 0.2).astype(int)
    scores = np.column_stack([np.zeros(400), rng.normal(size=400) + target])
    proba = []
    for given in (scores, zero + unit * scores):
        fitted = fit_calibration(method, given, target, np.ones(400))
        proba.append(calibrated_proba(method, *fitted, given))
    assert proba[0].std() > 0.05
    np.testing.assert_allclose(*proba, atol=1e-3)


PEERS = [
    (TopKClassifier, "binary"),
    (TopKClassifier, "several"),
    (DeepTopPushClassifier, "binary"),
    (AUCClassifier, "binary"),
    (AUCClassifier, "several"),
]


@pytest.mark.parametrize("method", ["sigmoid", "isotonic"])
@pytest.mark.parametrize(("kind", "data"), PEERS, ids=[f"{k.__name__}-{d}" for k, d in PEERS])
def test_scikit_learn_calibrates_a_frozen_classifier(kind, data, method, request):
    X, y = request.getfixturevalue(data)
    clf = make(kind).fit(X[:400], y[:400])
    assert not hasattr(clf, "predict_proba")
    scores = clf.decision_function(X)
    calibrated = CalibratedClassifierCV(FrozenEstimator(clf), method=method)
    calibrated.fit(X[400:800], y[400:800])

    proba = calibrated.predict_proba(X[800:])
    assert proba.shape == (400, len(np.unique(y)))
    np.testing.assert_allclose(proba.sum(axis=1), 1, rtol=1e-6)
    np.testing.assert_array_equal(clf.decision_function(X), scores)  # still as it was trained
    # They know more than the shares of the classes, and each column means its class.
    labels, count = np.unique(y[800:], return_counts=True)
    shares = count / count.sum()
    assert brier(y[800:], proba) < 0.9 * brier(y[800:], shares)
    np.testing.assert_allclose(proba.mean(axis=0), shares, atol=0.06)
    np.testing.assert_array_equal(calibrated.classes_, labels)


@pytest.mark.parametrize("kind", [DeepTopPushClassifier, AUCClassifier, TopKClassifier])
def test_our_probabilities_are_as_good_as_those_of_scikit_learn(kind, binary):
    X, y = binary
    ours = make(kind, calibration="sigmoid").fit(
        X[:400], y[:400], X_val=X[400:800], y_val=y[400:800]
    )
    bare = make(kind).fit(X[:400], y[:400])
    peer = CalibratedClassifierCV(FrozenEstimator(bare), method="sigmoid")
    peer.fit(X[400:800], y[400:800])
    own, theirs = (brier(y[800:], each.predict_proba(X[800:])) for each in (ours, peer))
    assert own == pytest.approx(theirs, abs=0.01)


@pytest.mark.parametrize("calibration", [None, "temperature", "sigmoid"])
@pytest.mark.parametrize("kind", CLASSES)
def test_probabilities_are_there_only_with_calibration(kind, calibration, binary):
    X, y = binary
    clf = make(kind, calibration=calibration)
    assert hasattr(clf, "predict_proba") == (calibration is not None)
    clf.set_params(max_epochs=2).fit(X[:300], y[:300])
    assert hasattr(clf, "predict_proba") == (calibration is not None)
    if calibration is None:
        with pytest.raises(AttributeError, match="predict_proba"):
            clf.predict_proba(X)
        return
    proba = clf.predict_proba(X[300:400])
    assert proba.shape == (100, 2)
    assert proba.dtype == clf.decision_function(X[:1]).dtype
    np.testing.assert_allclose(proba.sum(axis=1), 1, rtol=1e-6)
    # Asking for none after the training takes back nothing, until the next one.
    clf.set_params(calibration=None)
    assert hasattr(clf, "predict_proba")
    assert not hasattr(clf.fit(X[:300], y[:300]), "predict_proba")


def test_every_trained_estimator_is_asked():
    wrappers = {"BudgetClassifier", "SetClassifier", "Pipeline", "Monitor"}
    # Trees have no calibration of theirs, and a vote has that of its network.
    wrappers |= {"ExpectedCostClassifier", "TopBoostClassifier", "TopVotingClassifier"}
    classes = {name for name in sktopk.__all__ if inspect.isclass(getattr(sktopk, name))}
    assert {kind.__name__ for kind in CLASSES} == classes - wrappers


def test_a_loss_of_probabilities_needs_no_calibration(several):
    X, y = several
    clf = TopKClassifier("cross_entropy", k=2, **TRAINING)
    assert hasattr(clf, "predict_proba")
    proba = clf.fit(X[:400], y[:400]).predict_proba(X[400:])
    np.testing.assert_allclose(proba.sum(axis=1), 1, rtol=1e-6)


@pytest.mark.parametrize("calibration", ["temperature", "sigmoid"])
@pytest.mark.parametrize("kind", [TopKClassifier, DeepTopPushClassifier, AUCClassifier])
def test_early_stopping_by_a_score_of_calibrated_probabilities(kind, calibration, binary):
    X, y = binary
    given = {"X_val": X[400:800], "y_val": y[400:800]}
    clf = make(kind, calibration=calibration, early_stopping=True, scoring="neg_log_loss")
    clf.set_params(n_iter_no_change=15)
    with pytest.warns(ConvergenceWarning, match="max_epochs=15 ended"):
        clf.fit(X[:400], y[:400], **given)
    kept = max(row["valid_score"] for row in clf.history_)
    # The weights that are kept, calibrated as they were when they were scored.
    assert -log_loss(given["y_val"], clf.predict_proba(given["X_val"])) == pytest.approx(kept)
    assert clf.history_[0]["valid_score"] < kept


@pytest.mark.parametrize("kind", [TopKClassifier, DeepTopPushClassifier])
def test_a_score_of_probabilities_without_any_is_refused_by_name(kind, binary):
    X, y = binary
    clf = make(kind, calibration=None, early_stopping=True, scoring="neg_brier_score")
    with pytest.raises(ValueError, match=r"'neg_brier_score' asks for predict_proba.*'sigmoid'"):
        clf.fit(X[:300], y[:300])
    assert not hasattr(clf, "net_")
    # What lacks an attribute of its own is not explained away.
    clf.set_params(scoring=lambda estimator, X, y: estimator.nothing)
    with pytest.raises(AttributeError, match="nothing"):
        clf.fit(X[:300], y[:300])


def test_a_training_that_fails_leaves_no_calibration_behind(binary):
    X, y = binary

    def scoring(estimator, X, y):
        estimator.predict_proba(X)
        raise RuntimeError("of the scorer")

    clf = make(TopKClassifier, calibration="sigmoid", early_stopping=True, scoring=scoring)
    with pytest.raises(RuntimeError, match="of the scorer"):
        clf.fit(X[:300], y[:300])
    assert not hasattr(clf, "calibration_")
