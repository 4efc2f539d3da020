"""Sample weights over many orders of magnitude, for every estimator."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone

import sktopk
from sktopk import TopBoostClassifier, TopKClassifier
from tests.rankers import RANKERS

RNG = np.random.default_rng(0)
N = 300
X = RNG.normal(size=(N, 4))
Y = (X[:, 0] + 0.3 * RNG.normal(size=N) > 1).astype(int)
X[5, 2], X[6, 3] = 50, -50
QUICK = {"n_estimators": 2, "max_epochs": 2, "hidden_layer_sizes": (8,), "random_state": 0}
ESTIMATORS = {
    name: getattr(sktopk, name)(**QUICK)
    for name in sktopk.__all__
    if hasattr(getattr(sktopk, name), "partial_fit")
} | {"TopBoostClassifier": TopBoostClassifier(n_estimators=5, n_members=2, random_state=0)}
LIGHT, LIGHTER = np.ones(N), np.ones(N)
LIGHT[[5, 6]], LIGHTER[[5, 6]] = 1e-6, 1e-300
WEIGHTS = {
    "a light maximum": LIGHTER,
    "halving every 120 days": 0.5 ** (RNG.integers(0, 3650, N) / 120),
    "over sixty orders": 10.0 ** RNG.integers(-30, 30, N),
    "all tiny": np.full(N, 1e-300),
    "all large": np.full(N, 1e140),
}


@pytest.mark.parametrize("case", WEIGHTS)
def test_weights_of_very_different_sizes_give_scores_that_are_not_nan(case):
    for name, clf in ESTIMATORS.items():
        with warnings.catch_warnings(action="ignore"):
            clf.fit(X, Y, sample_weight=WEIGHTS[case])
        # Scores may be infinite: a threshold that flags all samples or no sample is infinite.
        assert not np.isnan(clf.decision_function(X)).any(), name


@pytest.mark.parametrize(
    ("name", "params"),
    [
        *(("TopKClassifier", {"loss": loss}) for loss in ("smooth_topk", "logit_adjusted", "ldam")),
        *((f"{name}Classifier", {}) for name in ("FScore", "PatMatNP")),
        *(("TopBoostClassifier", {"loss": loss}) for loss in ("top_push", "recall_at_k")),
    ],
)
def test_the_scale_of_weights_does_not_matter(name, params):
    clf = clone(ESTIMATORS[name]).set_params(**params)
    expected = clf.fit(X, Y, sample_weight=LIGHT).decision_function(X)
    for unit in (1e-290, 1e-10, 1e3):
        found = clf.fit(X, Y, sample_weight=unit * LIGHT).decision_function(X)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


REPEATED = [(ranker, n) for ranker in RANKERS for n in (1, 6)]
for params in ({"max_epochs": 4}, {"n_estimators": 1, "loss": "ldam", "max_epochs": 60}):
    REPEATED.append((TopKClassifier(k=2, **params), 1))


@pytest.mark.parametrize(("clf", "n_groups"), REPEATED, ids=lambda each: str(each).split("(")[0])
def test_a_sample_weight_equals_repetitions_of_the_sample(clf, n_groups):
    rng = np.random.default_rng(1)
    X, groups, times = rng.normal(size=(180, 3)), np.arange(180) % n_groups, rng.integers(0, 4, 180)
    is_ranker = not isinstance(clf, TopKClassifier)
    y = np.digitize(X[:, 0] + 0.3 * rng.normal(size=180), [1] if is_ranker else [-1, 1])
    X[:, 0] += groups
    times[groups == 3] = 0
    rows = np.repeat(np.arange(180), times)
    # With one minibatch, the order of the samples does not matter.
    clf = clone(clf).set_params(batch_size=1000, random_state=0)
    if is_ranker:
        clf.set_params(max_epochs=4, calibration="sigmoid", n_iter_no_change=5, n_estimators=3)
    of_groups = [{"groups": each} if n_groups > 1 else {} for each in (groups, groups[rows])]
    weighted = clone(clf).fit(X, y, sample_weight=times, **of_groups[0])
    repeated = clf.fit(X[rows], y[rows], **of_groups[1])
    for method in ("decision_function", "predict_proba"):
        found, expected = (getattr(each, method)(X) for each in (weighted, repeated))
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
    for name in ("oob_score_", "calibration_", "threshold_", "n_groups_", "kept_epoch_"):
        found, expected = (getattr(each, name, 0) for each in (weighted, repeated))
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-8)
    if clf.n_estimators != 1:
        assert np.isnan(weighted.oob_decision_function_[times == 0]).all()


def test_a_sample_of_small_weight_changes_almost_nothing():
    for name in ("TopKClassifier", "PatMatClassifier"):
        clf = ESTIMATORS[name].set_params(calibration=None, n_iter_no_change=None)
        found = clf.fit(X, Y, sample_weight=LIGHTER).decision_function(X)
        expected = clf.fit(X, Y, sample_weight=LIGHTER > 0.5).decision_function(X)
        near = np.delete(np.arange(N), [5, 6])
        # Scores differ slightly, because the largest value ends the last bin even if it is light.
        assert np.corrcoef(found[near], expected[near])[0, 1] > 0.9


@pytest.mark.parametrize("name", ["TopKClassifier", "TopBoostClassifier"])
def test_class_weight_may_have_an_absent_label_unless_a_label_of_y_is_missing(name):
    clf = clone(ESTIMATORS[name])
    expected = clone(clf).set_params(class_weight={0: 1.0, 1: 3.0}).fit(X, Y).decision_function(X)
    found = clf.set_params(class_weight={0: 1.0, 1: 3.0, 2: 5.0}).fit(X, Y).decision_function(X)
    np.testing.assert_array_equal(found, expected)
    for class_weight in ({0: 1.0, 2: 5.0}, {"0": 1.0, "1": 3.0}):
        with pytest.raises(ValueError, match="keys of class_weight must be in"):
            clf.set_params(class_weight=class_weight).fit(X, Y)
