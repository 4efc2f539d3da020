"""Columns with more than 50 categories, for networks and trees."""

import copy
from functools import cache

import numpy as np
import pandas as pd
import pytest
from lightgbm import LGBMClassifier
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, TargetEncoder

import sktopk

QUICK = {"n_estimators": 2, "max_epochs": 6, "hidden_layer_sizes": (16,), "random_state": 0}
SMALL = {
    "TopKClassifier": sktopk.TopKClassifier(k=1, **QUICK),
    "RecallAtFPRClassifier": sktopk.RecallAtFPRClassifier(**QUICK),
    "TopBoostClassifier": sktopk.TopBoostClassifier(n_estimators=10, n_members=2, random_state=0),
}
BOOSTING = sktopk.TopBoostClassifier(n_estimators=40, n_members=2, random_state=0)
ESTIMATORS = SMALL | {"TopBoostClassifier": BOOSTING}


def draw(kind, n_categories, n_samples=6000):
    rng = np.random.default_rng(0)
    code = rng.integers(0, n_categories, n_samples)
    if kind == "one label per category":
        y = (rng.random(n_categories) < 0.5)[code].astype(int)
    elif kind == "a probability per category":
        y = (rng.random(n_samples) < rng.beta(1, 1, n_categories)[code]).astype(int)
    elif kind == "five classes":
        y = rng.integers(0, 5, n_categories)[code]
    elif kind == "five noisy classes":
        proba = rng.dirichlet(np.ones(5), n_categories)
        y = (rng.random((n_samples, 1)) > proba.cumsum(axis=1)[:, :4][code]).sum(axis=1)
    else:
        y = rng.integers(0, 2, n_samples)
    return pd.DataFrame({"shop": np.char.add("shop", code.astype(str))}), y


def auc(clf, X, y):
    proba = clf.predict_proba(X).astype(float)
    proba = proba[:, 1] if proba.shape[1] == 2 else proba / proba.sum(axis=1, keepdims=True)
    return roc_auc_score(y, proba, multi_class="ovr")


@cache
def case_of(kind, n_categories):
    """Return samples, and the AUC of the better of two baselines with encoded categories."""
    X, y = draw(kind, n_categories)
    train, test = (X[:4000], y[:4000]), (X[4000:], y[4000:])
    others = (
        make_pipeline(OneHotEncoder(handle_unknown="ignore"), LogisticRegression(max_iter=500)),
        make_pipeline(TargetEncoder(), LGBMClassifier(verbosity=-1, n_jobs=1)),
    )
    return train, test, max(auc(each.fit(*train), *test) for each in others)


KINDS = ["one label per category", "a probability per category"]
CASES = [(name, kind) for name in ESTIMATORS for kind in KINDS]
CASES += [(name, "five classes") for name in ("TopKClassifier", "TopBoostClassifier")]
# Without the limits for categories in _boosters.py, trees overfit: the AUC is 0.03 to 0.04 lower.
CASES += [("TopBoostClassifier", "five noisy classes")]


@pytest.mark.parametrize("n_categories", [200, 2000])
@pytest.mark.parametrize(("name", "kind"), CASES)
def test_the_auc_is_close_to_the_better_of_one_hot_and_target_encoding(name, kind, n_categories):
    train, test, best = case_of(kind, n_categories)
    clf = clone(ESTIMATORS[name])
    if name == "TopBoostClassifier" and kind.startswith("five"):
        clf.set_params(loss="cross_entropy", k=1, n_estimators=100)
    assert auc(clf.fit(*train), *test) > best - 0.01


@pytest.mark.parametrize("n_categories", [200, 2000])
@pytest.mark.parametrize("name", SMALL)
def test_out_of_fold_scores_of_meaningless_categories_have_an_auc_near_one_half(name, n_categories):
    X, y = draw("nothing", n_categories, 4000)
    clf = clone(SMALL[name]).fit(X, y)
    assert 0.46 < roc_auc_score(y, clf.oob_decision_function_) < 0.54


@pytest.mark.parametrize("name", SMALL)
def test_three_useful_categories_are_learned_and_copied_samples_leak_no_labels(name, rng):
    code, clf = rng.integers(0, 60, 3000), clone(SMALL[name])
    X = pd.DataFrame({"x": rng.normal(size=3000), "shop": np.char.add("shop", code.astype(str))})
    y = (rng.random(3000) < np.where(code < 3, 0.8, 0.02)).astype(int)
    assert auc(clf.fit(X[:2000], y[:2000]), X[2000:], y[2000:]) > 0.75
    X["shop"] = np.char.add("shop", rng.integers(0, 150, 3000).astype(str))
    y, copies = rng.integers(0, 2, 3000), np.repeat(np.arange(600), 5)
    clf.fit(X.iloc[copies], y[copies])
    assert 0.4 < roc_auc_score(y[copies], clf.oob_decision_function_) < 0.6


def test_meaningless_categories_cost_little_accuracy_with_many_classes(rng):
    y = rng.integers(0, 30, 1500)
    X = rng.normal(size=(30, 8))[y] + rng.normal(size=(1500, 8))
    X = pd.DataFrame(X, columns=[*"abcdefgh"])
    clf = sktopk.TopKClassifier(k=1, **QUICK | {"hidden_layer_sizes": (32,), "max_epochs": 10})
    alone, shop = clf.fit(X, y).oob_score_, rng.integers(0, 120, 1500)
    assert clf.fit(X.assign(shop=[f"shop{i}" for i in shop]), y).oob_score_ > alone - 0.03


def test_a_category_that_occurs_in_one_group_does_not_affect_scores():
    X, y = draw("a probability per category", 60, 1200)
    X["x"] = np.random.default_rng(1).normal(size=1200) + y
    clf = sktopk.DeepTopPushClassifier(**QUICK | {"max_epochs": 15, "batch_size": 200})
    found = clf.fit(X, y, groups=X["shop"]).decision_function(X)
    # Other values of the column "shop" hardly change the scores.
    other = clf.decision_function(X.assign(shop=X["shop"].sample(frac=1, random_state=0).array))
    assert np.corrcoef(found, other)[0, 1] > 0.99
    own = clf.fit(X, y).decision_function(X)
    assert np.corrcoef(own, found)[0, 1] < 0.95


@pytest.mark.parametrize("name", SMALL)
def test_unknown_and_missing_categories_have_equal_scores(name):
    X, y = draw("a probability per category", 80, 900)
    clf = clone(SMALL[name]).fit(X, y)
    unknown = clf.decision_function(X.assign(shop="unknown"))
    missing = clf.decision_function(X.assign(shop=pd.Series([None] * 900, dtype=object)))
    np.testing.assert_array_equal(unknown, missing)
    with pytest.raises(TypeError, match="X must be a data frame as in fit"):
        clf.predict(np.zeros((3, 1)))


def test_partial_fit_keeps_the_encoding_of_its_first_call():
    X, y = draw("one label per category", 100, 4000)
    clf = sktopk.TopKClassifier(k=1, **QUICK)
    for start in range(0, 4000, 1000):
        part = slice(start, start + 1000)
        clf.partial_fit(X[part], y[part], classes=[0, 1])
        if start == 0:
            encoding = copy.deepcopy(clf.categories_)
    np.testing.assert_equal(vars(clf.categories_), vars(encoding))
    assert clf.score(X, y) > 0.95
    # The first call may have samples of one class only.
    clf = sktopk.TopKClassifier(k=1, **QUICK)
    clf.partial_fit(X[y == 0], y[y == 0], classes=[0, 1]).partial_fit(X, y)
    assert np.isfinite(clf.decision_function(X)).all()
