"""Does every class or group get the coverage that it was promised, and no more?"""

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sktopk import SetClassifier
from sktopk._estimators.decisions._conditional import class_thresholds, group_thresholds
from tests.given import draw, frozen

N_DRAWS = 2000
CONFORMAL = ["lac", "aps", "raps", "pas"]


def slack(values):
    return 4 * np.std(values) / len(values) ** 0.5


def sets(clf, X, **params):
    return clf.predict_set(X, **params)


def covered_by_class(n_draws, counts, coverage, kind, seed=0):
    """Coverage of a new row of each class, of scores that differ in place, scale and ties."""
    rng = np.random.default_rng(seed)
    code = np.repeat(np.arange(len(counts)), counts)
    place, scale = np.linspace(0, 3, len(counts)), np.linspace(1, 3, len(counts))
    covered = np.empty((n_draws, len(counts)))
    for i in range(n_draws):
        scores = place[code] + scale[code] * rng.normal(size=len(code))
        new = place + scale * rng.normal(size=len(counts))
        if kind == "tied":
            scores, new = scores.round(), new.round()
        order = rng.permutation(len(code))
        threshold = class_thresholds(scores[order], code[order], len(counts), coverage)
        covered[i] = new >= threshold
    return covered


@pytest.mark.parametrize("coverage", [0.8, 0.9])
def test_every_class_is_covered_as_often_as_promised(coverage):
    counts = np.array([9, 10, 19, 60, 150])
    covered = covered_by_class(N_DRAWS, counts, coverage, "continuous")
    # Exactly the share of the n + 1 gaps that a new score may fall into.
    exact = np.ceil(np.round((counts + 1) * coverage, 9)) / (counts + 1)
    assert (np.abs(covered.mean(axis=0) - exact) <= slack(covered[:, 0])).all()
    tied = covered_by_class(N_DRAWS, counts, coverage, "tied")
    assert (tied.mean(axis=0) >= coverage - slack(tied[:, 0])).all()


def test_class_of_too_few_rows_is_in_every_set():
    with pytest.warns(UserWarning, match=r"needs 9 .* per class; 2 of 3 classes"):
        threshold = class_thresholds(np.arange(17.0), np.repeat([0, 2], [8, 9]), 3, 0.9)
    assert threshold.tolist() == [-np.inf, -np.inf, 8.0]


def test_group_coverage_is_that_of_the_group():
    rng = np.random.default_rng(1)
    names = np.repeat(["day", "night"], [30, 200])
    covered = np.empty((N_DRAWS, 2))
    for i in range(N_DRAWS):
        scores = rng.normal(size=230) * np.where(names == "day", 1, 4)
        found, threshold = group_thresholds(scores, names, 0.9)
        covered[i] = rng.normal(size=2) * [1, 4] >= threshold
    assert found.tolist() == ["day", "night"]
    exact = np.array([28 / 31, 181 / 201])
    assert (np.abs(covered.mean(axis=0) - exact) <= slack(covered[:, 0])).all()


@pytest.mark.filterwarnings("ignore:randomized=True is ignored by method")
@pytest.mark.parametrize("method", CONFORMAL)
@pytest.mark.parametrize("randomized", [False, True])
def test_classes_are_covered_whatever_the_method(method, randomized):
    proba, y = draw(6000, seed=3)
    clf = SetClassifier(
        frozen(), method=method, coverage=0.8, conditional="class", randomized=randomized
    )
    clf.set_params(random_state=0).fit(proba[:3000], y[:3000])
    inside = sets(clf, proba[3000:])[np.arange(3000), y[3000:]]
    n_old, n_new = np.bincount(y[:3000], minlength=8), np.bincount(y[3000:], minlength=8)
    covered = np.bincount(y[3000:], weights=inside, minlength=8) / n_new
    # Given the calibration rows coverage is a Beta variable around 0.8.
    error = 4 * np.sqrt(0.16 / n_new + 0.16 / n_old)
    assert (covered >= 0.8 - error).all()
    if randomized or method in ("lac", "pas"):
        assert (covered <= 0.8 + 1 / n_old + error).all()
    if method == "pas":  # which is good to rare classes as it is
        return
    over_all = clone(clf).set_params(conditional=None).fit(proba[:3000], y[:3000])
    inside = sets(over_all, proba[3000:])[np.arange(3000), y[3000:]]
    others = np.bincount(y[3000:], weights=inside, minlength=8) / n_new
    assert others.min() < covered.min()


@pytest.mark.parametrize("names", [["Mon", "Tue"], [3, 1], [True, False]])
@pytest.mark.parametrize("make", [np.asarray, pd.Series, list])
def test_groups_have_thresholds_of_their_own(names, make, rng):
    proba, y = draw(1000, seed=7)
    groups = [names[i] for i in rng.integers(2, size=1000)]
    clf = SetClassifier(frozen(), method="lac", coverage=0.8, conditional="group")
    clf.fit(proba[:600], y[:600], groups=make(groups[:600]))
    assert clf.groups_.tolist() == sorted(names)
    found = sets(clf, proba[600:], groups=make(groups[600:]))
    for name in names:
        old, new = (np.array(part) == name for part in (groups[:600], groups[600:]))
        alone = SetClassifier(frozen(), method="lac", coverage=0.8).fit(
            proba[:600][old], y[:600][old]
        )
        np.testing.assert_array_equal(found[new], sets(alone, proba[600:][new]))


def test_held_out_rows_keep_their_groups(rng):
    X, y = make_classification(600, n_informative=4, n_classes=3, random_state=0)
    groups = np.where(X[:, 0] > 0, "high", "low")
    clf = SetClassifier(
        LogisticRegression(), method="lac", coverage=0.8, conditional="group", random_state=0
    )
    clf.fit(X, y, groups=groups)
    assert clf.n_calibration_ == 120
    with sklearn.config_context(enable_metadata_routing=True):
        # Groups are requested without being asked to.
        pipe = make_pipeline(StandardScaler(), clone(clf)).fit(X, y, groups=groups)
    assert pipe[-1].groups_.tolist() == ["high", "low"]


def test_groups_of_few_rows_or_none_have_all_classes(rng):
    proba, y = draw(100, seed=8)
    groups = np.repeat(["a", "b"], [95, 5])
    clf = SetClassifier(frozen(), method="lac", conditional="group")
    with pytest.warns(UserWarning, match=r"per group, with labels .* 1 of 2 groups have fewer"):
        clf.fit(proba, y, groups=groups)
    assert sets(clf, proba[95:], groups=groups[95:]).all()
    with pytest.warns(UserWarning, match=r"2 of 5 samples have groups without calibration"):
        found = sets(clf, proba[:5], groups=["a", "0", "a", "c", "a"])
    assert found[[1, 3]].all()
    assert not found[[0, 2, 4]].all()


def test_wrong_conditions_and_groups_are_refused():
    proba, y = draw(100, seed=10)
    with pytest.raises(ValueError, match=r"conditional must be one of .* got 'label'"):
        SetClassifier(frozen(), method="lac", conditional="label").fit(proba, y)
    for method in ("topk", "average_k"):
        with pytest.raises(ValueError, match=f"conditional must be None for method='{method}'"):
            SetClassifier(frozen(), method=method, conditional="class").fit(proba, y)
    clf = SetClassifier(frozen(), method="lac", conditional="group")
    with pytest.raises(ValueError, match=r'groups must be passed .*"group"; .* and no groups'):
        clf.fit(proba, y)
    with pytest.raises(ValueError, match=r"groups must have one entry per sample \(100\)"):
        clf.fit(proba, y, groups=np.zeros(99))
    clf.fit(proba, y, groups=np.arange(100) % 2)
    with pytest.raises(ValueError, match=r"groups must be passed .* no groups"):
        clf.predict_set(proba)
    with pytest.raises(ValueError, match=r"groups must have the type .*, such as 0; got '0'"):
        clf.predict_set(proba[:1], groups=["0"])
    with pytest.raises(ValueError, match=r"conditional=None and groups"):
        SetClassifier(frozen(), method="lac").fit(proba, y, groups=y)
