"""TopBoostClassifier on frames with categories; tests/test_tables.py tests how frames are read."""

import pickle
from functools import partial

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.metrics import roc_auc_score

from sktopk import TopBoostClassifier

lightgbm = pytest.importorskip("lightgbm")
RNG = np.random.default_rng(0)
N = 1000
# Twelve categories of different sizes, so that their order by frequency is unique.
CODE = RNG.choice(12, N, p=np.arange(1, 13) / 78)
NAMES = np.array([f"town{i:02}" for i in range(12)])[CODE]
NUMBER = RNG.normal(size=N)
Y = (NUMBER + np.isin(CODE, [1, 4, 9, 11]) * 2.0 + RNG.normal(size=N) > 1).astype(int)
FRAME = pd.DataFrame({"x": NUMBER, "town": NAMES})
make = partial(TopBoostClassifier, n_estimators=15, n_members=2, random_state=0)


def test_categories_are_native_categories_of_lightgbm_also_in_a_copy():
    X = FRAME.astype({"town": "category"})
    params = {"n_estimators": 15, "n_jobs": 1, "verbosity": -1, "min_data_per_group": 20}
    own = lightgbm.LGBMClassifier(**params).fit(X, Y)
    ours = make("cross_entropy", n_members=1).fit(FRAME, Y)
    np.testing.assert_allclose(ours.predict_proba(FRAME), own.predict_proba(X), atol=1e-6)
    assert "cat" in ours.boosters_[0].model_to_string()
    again = pickle.loads(pickle.dumps(ours))
    np.testing.assert_array_equal(again.decision_function(FRAME), ours.decision_function(FRAME))
    # LightGBM treats an unknown category as a missing value.
    unknown, missing = FRAME.assign(town="atlantis"), FRAME.assign(town=None)
    expected = own.predict_proba(X.assign(town=pd.Categorical([None] * N, X.town.cat.categories)))
    for table in (unknown, missing):
        np.testing.assert_allclose(ours.predict_proba(table), expected, atol=1e-6)


def test_categories_with_about_ten_samples_each_are_learned():
    code = np.random.default_rng(0).integers(0, 30, 1500)
    X, y = pd.DataFrame({"a": np.char.add("c", code.astype(str))}), code % 2
    y ^= np.random.default_rng(1).random(1500) < 0.1
    clf = TopBoostClassifier(random_state=0).fit(X[:300], y[:300])
    assert roc_auc_score(y[300:], clf.decision_function(X[300:])) > 0.85


def test_missing_values_form_their_own_category_and_new_ones_count_as_the_median():
    y = (np.arange(N) % 7 == 0).astype(int)
    X = pd.DataFrame({"town": np.where(y == 1, None, NAMES)})
    assert make().fit(X, y).score(X, y) == 1
    clf = make().fit(FRAME, pd.array(Y))
    new, median = (clf.decision_function(FRAME.assign(x=x)) for x in (np.nan, np.median(NUMBER)))
    np.testing.assert_array_equal(new, median)


def test_no_grad_and_inference_mode_of_torch_change_no_score():
    expected = make().fit(FRAME, Y).decision_function(FRAME)
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            found = make().fit(FRAME, Y).decision_function(FRAME)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("pos_label", [True, False])
def test_too_few_samples_for_a_split_give_a_warning_and_no_flagged_samples(pos_label):
    X = np.random.default_rng(0).normal(size=(45, 3))
    y = X[:, 0] > 1
    clf = TopBoostClassifier(pos_label=pos_label, n_estimators=20, random_state=0)
    with pytest.warns(UserWarning, match="no tree has a split.* 40 samples.* trains on 36"):
        clf.fit(X, y)
    assert not (clf.predict(X) == pos_label).any()
    rarer = TopBoostClassifier(min_child_samples=5, n_estimators=20, random_state=0).fit(X, y)
    assert 0.05 < rarer.predict(X).mean() < 0.4
    assert rarer.score(X, y) > 0.9


@pytest.mark.parametrize("n_samples", [60, 100, 200])
def test_the_share_of_flagged_new_samples_is_the_share_of_positives(n_samples):
    draw, shares = np.random.default_rng(1), []
    new = draw.normal(size=(2000, 3))
    for _ in range(5):
        X = draw.normal(size=(n_samples, 3))
        y = X[:, 0] + 0.5 * draw.normal(size=n_samples) > 1
        clf = make("pairwise_auc", min_child_samples=5, n_members=5).fit(X, y)
        shares.append(clf.predict(new).mean() - y.mean())
    assert abs(np.mean(shares)) < 0.08


def test_classes_with_only_two_samples_each_can_be_trained():
    X, y = np.random.default_rng(0).normal(size=(60, 3)), np.r_[[1, 1], np.zeros(58, int)]
    X[:2] += 5
    clf = TopBoostClassifier(min_child_samples=2, random_state=0).fit(X, y)
    assert set(clf.predict_top(X, 2)) == {0, 1}
    assert clf.predict(X).sum() < 20
    several = np.r_[[0, 0, 1, 1], np.full(56, 2)]
    clf = TopBoostClassifier("cross_entropy", k=1, min_child_samples=2, random_state=0)
    np.testing.assert_allclose(clf.fit(X, several).predict_proba(X).sum(axis=1), 1)


@pytest.mark.parametrize("n_categories", [40, 60])
def test_parameters_with_one_value_per_column_raise_if_a_category_has_one(n_categories, rng):
    code = rng.integers(n_categories, size=600)
    X = pd.DataFrame({"x": rng.normal(size=600), "town": np.char.add("t", code.astype(str))})
    y = X["x"] + code % 2 > 1
    wrong = {"mc": [0, 1], "monotone_constraints": "1,1"}
    if n_categories > 50:
        wrong = {"monotonic_cst": [1, 0], "interaction_constraints": [[0, 1]], "fc": [1, 1]}
    for name, value in wrong.items():
        with pytest.raises(ValueError, match=f"{name}.*(50 categories|0 for the categorical)"):
            TopBoostClassifier(lightgbm_params={name: value}).fit(X, y)
    if n_categories < 50:
        clf = TopBoostClassifier(lightgbm_params={"mc": [1, 0]}, random_state=0).fit(X, y)
        grid = pd.DataFrame({"x": np.linspace(-3, 3, 50), "town": "t3"})
        assert (np.diff(clf.decision_function(grid)) >= 0).all()
