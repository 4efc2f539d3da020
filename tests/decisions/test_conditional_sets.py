"""Each class or group has the guaranteed coverage, and not much more."""

import math

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sktopk import SetClassifier, TopKClassifier
from sktopk.metrics import set_coverage_score
from tests.decisions.test_set_classifier import CONFORMAL
from tests.given import draw, frozen


@pytest.mark.parametrize("coverage", [0.8, 0.9])
def test_each_threshold_is_the_order_statistic_of_its_class(coverage):
    proba, y = draw(400, seed=1)
    clf = SetClassifier(frozen(), method="lac", coverage=coverage, conditional="class")
    y_set = clf.fit(proba, y).predict_set(proba)
    for label in range(8):
        # The conformity score of a sample is the probability of its class.
        scores = np.sort(proba[y == label, label])[::-1]
        threshold = scores[math.ceil(round((len(scores) + 1) * coverage, 9)) - 1]
        np.testing.assert_array_equal(y_set[:, label], proba[:, label] >= threshold)


def test_a_class_with_too_few_calibration_samples_is_in_every_set():
    proba, y = draw(400, seed=1)
    kept = (y != 3) | (np.cumsum(y == 3) <= 8)
    with pytest.warns(UserWarning, match=r"needs 9 .* per class; 1 of 8 classes"):
        clf = SetClassifier(frozen(), method="lac", conditional="class").fit(proba[kept], y[kept])
    assert clf.predict_set(proba)[:, 3].all()


@pytest.mark.filterwarnings("ignore:randomized=True is ignored by method")
@pytest.mark.parametrize("method", CONFORMAL)
@pytest.mark.parametrize("randomized", [False, True])
def test_each_class_has_the_given_coverage_with_every_conformal_method(method, randomized):
    proba, y = draw(6000, seed=3)
    clf = SetClassifier(frozen(), method=method, coverage=0.8, conditional="class")
    clf.set_params(randomized=randomized, random_state=0).fit(proba[:3000], y[:3000])
    inside = clf.predict_set(proba[3000:])[np.arange(3000), y[3000:]]
    n_old, n_new = np.bincount(y[:3000], minlength=8), np.bincount(y[3000:], minlength=8)
    covered = np.bincount(y[3000:], weights=inside, minlength=8) / n_new
    # Four standard errors, because the coverage varies with calibration and new samples.
    error = 4 * np.sqrt(0.16 / n_new + 0.16 / n_old)
    assert (covered >= 0.8 - error).all()
    if randomized or method in ("lac", "pas"):
        assert (covered <= 0.8 + 1 / n_old + error).all()


@pytest.mark.parametrize("names", [["Mon", "Tue"], [3, 1], [True, False]])
@pytest.mark.parametrize("make", [np.asarray, pd.Series, list])
def test_sets_of_a_group_equal_sets_calibrated_on_this_group_alone(names, make, rng):
    proba, y = draw(1000, seed=7)
    groups = [names[i] for i in rng.integers(2, size=1000)]
    clf = SetClassifier(frozen(), method="lac", coverage=0.8, conditional="group")
    clf.fit(proba[:600], y[:600], groups=make(groups[:600]))
    assert clf.groups_.tolist() == sorted(names)
    found = clf.predict_set(proba[600:], groups=make(groups[600:]))
    for name in names:
        old, new = (np.array(part) == name for part in (groups[:600], groups[600:]))
        alone = SetClassifier(frozen(), method="lac", coverage=0.8)
        alone.fit(proba[:600][old], y[:600][old])
        np.testing.assert_array_equal(found[new], alone.predict_set(proba[600:][new]))


def test_groups_are_dates_of_any_unit_or_large_integers():
    (proba, y), index = draw(90, seed=8), np.arange(90) % 3
    clf, names = SetClassifier(frozen(), conditional="group"), np.array([5, 2**63, 2**63 + 1], "u8")
    for groups, dtype in [(names[index], "u8"), (index.astype("M8[D]"), "M8[ns]")]:
        assert len(clf.fit(proba, y, groups=groups).groups_) == 3
        expected, same = clf.predict_set(proba, groups=groups), groups.astype(dtype)
        np.testing.assert_array_equal(clf.predict_set(proba, groups=same), expected)
    clf.fit(proba, y, groups=index.astype("M8[D]").tolist())
    with pytest.raises(ValueError, match=r"groups must .* such as datetime\.date\(1970, 1, 1\)"):
        clf.predict_set(proba, groups=same)


def test_held_out_samples_keep_their_groups():
    X, y = make_classification(600, n_informative=4, n_classes=3, random_state=0)
    groups = np.where(X[:, 0] > 0, "high", "low")
    clf = SetClassifier(LogisticRegression(), method="lac", conditional="group", random_state=0)
    clf.fit(X, y, groups=groups)
    assert clf.n_calibration_ == 120
    with sklearn.config_context(enable_metadata_routing=True):
        requesting = clone(clf).set_fit_request(groups=True)
        pipe = make_pipeline(StandardScaler(), requesting).fit(X, y, groups=groups)
    assert pipe[-1].groups_.tolist() == ["high", "low"]


def test_sets_of_groups_with_few_or_no_samples_have_all_classes():
    proba, y = draw(100, seed=8)
    groups = np.repeat(["a", "b"], [95, 5])
    clf = SetClassifier(frozen(), method="lac", conditional="group")
    with pytest.warns(UserWarning, match=r"per group, with labels .* 1 of 2 groups have fewer"):
        clf.fit(proba, y, groups=groups)
    assert clf.predict_set(proba[95:], groups=groups[95:]).all()
    with pytest.warns(UserWarning, match=r"2 of 5 samples have groups without calibration"):
        found = clf.predict_set(proba[:5], groups=["a", "0", "a", "c", "a"])
    assert found[[1, 3]].all()
    assert not found[[0, 2, 4]].all()


@pytest.mark.parametrize(
    ("params", "groups", "message"),
    [
        ({"conditional": "label"}, None, "conditional must be one of .* got 'label'"),
        ({"conditional": "class", "method": "topk"}, None, "conditional must be None for method="),
        ({"conditional": "group"}, None, 'groups must be passed .*"group"; .* and no groups'),
        ({"conditional": "group"}, np.zeros(99), r"groups must have one entry per sample \(100\)"),
        ({"conditional": "group"}, [1, "A"] * 50, "groups must not mix strings and other values"),
    ],
)
def test_wrong_values_of_conditional_and_groups_raise(params, groups, message):
    proba, y = draw(100, seed=10)
    with pytest.raises(ValueError, match=message):
        SetClassifier(frozen(), **{"method": "lac"} | params).fit(proba, y, groups=groups)
    clf = SetClassifier(frozen(), method="lac", conditional="group")
    clf.fit(proba, y, groups=np.arange(100) % 2)
    with pytest.raises(ValueError, match=r"groups must be passed .* no groups"):
        clf.predict_set(proba)
    with pytest.raises(ValueError, match=r"groups must have .* type as in fit, such as 0; got '0'"):
        clf.predict_set(proba[:1], groups=["0"])


def plants(rng, centers, n_plants, n_photos):
    """Photos of plants of 20 species: samples, species, and the plant of each photo."""
    species = np.repeat(np.arange(20), n_plants)
    plant = centers[species] + 0.8 * rng.normal(size=(len(species), 6))
    X = rng.normal(np.repeat(plant, n_photos, axis=0), 0.1)
    return X, np.repeat(species, n_photos), np.repeat(np.arange(len(species)), n_photos)


@pytest.mark.parametrize("cross_fit", [False, True])
def test_sets_cover_labels_of_samples_of_new_groups_if_whole_groups_are_held_out(cross_fit):
    networks = TopKClassifier(k=2, n_estimators=4, max_epochs=8, batch_size=100)
    clf, covered = networks if cross_fit else GaussianNB(), {"photos": [], "plants": []}
    for seed in range(6):
        rng = np.random.default_rng(seed)
        centers = rng.normal(size=(20, 6))
        X, y, plant = plants(rng, centers, 10, 4)
        X_new, y_new, _ = plants(rng, centers, 50, 1)
        for name, groups in (("photos", None), ("plants", plant)):
            sets = SetClassifier(clf, cross_fit=cross_fit, random_state=seed)
            y_set = sets.fit(X, y, groups=groups).predict_set(X_new)
            covered[name].append(set_coverage_score(y_new, y_set, labels=sets.classes_))
        assert sets.n_calibration_ == (200 if cross_fit else 40)
    assert np.mean(covered["photos"]) < 0.8 < 0.86 < np.mean(covered["plants"]) < 0.96


def test_a_held_out_group_never_has_all_samples_of_a_class():
    X, y, plant = plants(np.random.default_rng(0), np.eye(20, 6), 2, 3)
    plant[y == 7] = plant[y == 7][0]  # all samples of class 7 show a single plant
    sets = SetClassifier(GaussianNB(), method="lac", coverage=0.5, validation_fraction=0.5)
    assert sets.fit(X, y, groups=plant).classes_.tolist() == list(range(20))
    assert clone(sets).set_params(method="topk").fit(X, y, groups=plant).n_calibration_ == 0
    sets.set_params(estimator=FrozenEstimator(GaussianNB().fit(X, y))).fit(X, y, groups=plant)
    assert sets.n_calibration_ == len(np.unique(plant))
