"""Decisions from scores equal decisions with a classifier that returns these scores."""

import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from sktopk import BudgetClassifier, SetClassifier
from sktopk.metrics import topk_accuracy_score
from tests.given import draw
from tests.given import frozen as frozen_proba
from tests.scored import column, frozen, labels


@pytest.mark.parametrize(
    "params",
    [{"budget": 0.1}, {"budget": 0.2, "constraint": "fpr"}, {"budget": 0.2, "constraint": "fdr"}],
)
@pytest.mark.parametrize("make", [list, np.asarray, pd.Series, column])
def test_a_budget_classifier_from_scores_equals_one_fitted_with_an_estimator(params, make, rng):
    positive = rng.random(500) < 0.3
    scores = rng.normal(size=500) + 2 * positive
    params |= {"random_state": 0}
    y = labels(positive[:300])
    ours = BudgetClassifier.from_scores(make(scores[:300]), y, pos_label="yes", **params)
    clf = BudgetClassifier(frozen(), **params).fit(column(scores[:300]), y)
    new = scores[300:]
    expected = clf.predict(column(new))
    assert np.sum(expected == "yes") < 150
    np.testing.assert_array_equal(ours.predict(make(new)), expected)
    np.testing.assert_array_equal(ours.predict_top(make(new), 9), clf.predict_top(column(new), 9))
    assert ours.hits_interval(make(new), 30) == clf.hits_interval(column(new), 30)
    np.testing.assert_array_equal(ours.decision_function(new), clf.decision_function(column(new)))


@pytest.mark.parametrize("conditional", [None, "class", "group"])
def test_a_set_classifier_from_scores_equals_one_fitted_with_an_estimator(conditional):
    proba, y = draw(1000, seed=3)
    groups = np.arange(1000) % 2
    old, new = ({"groups": part} if conditional == "group" else {} for part in np.split(groups, 2))
    params = {"method": "aps", "conditional": conditional, "coverage": 0.8, "random_state": 0}
    large = 2**60 + np.arange(8)  # float64 would round them
    fitted = proba[:500], large[y[:500]].astype(np.uint64)
    ours = SetClassifier.from_scores(*fitted, classes=large, **old, **params)
    clf = SetClassifier(frozen_proba(), **params).fit(proba[:500], y[:500], **old)
    expected = clf.predict_set(proba[500:], **new)
    np.testing.assert_array_equal(ours.predict_set(proba[500:], **new), expected)
    np.testing.assert_array_equal(ours.predict(proba), large[proba.argmax(axis=1)])


@pytest.mark.parametrize("pos_label", ["no", "yes"])
def test_one_dimensional_scores_are_scores_of_the_positive_class(pos_label, rng):
    share = rng.random(300)
    y, both = labels(rng.random(300) < share), np.column_stack([1 - share, share])
    one = both[:, ["no", "yes"].index(pos_label)]
    params = {"budget": 20, "constraint": "count", "pos_label": pos_label}
    of_both = BudgetClassifier.from_scores(both, y, **params)
    of_one = BudgetClassifier.from_scores(one, y, **params)
    assert of_both.threshold_ == of_one.threshold_
    np.testing.assert_array_equal(of_one.predict_top(one), np.argsort(-one)[:20])
    np.testing.assert_array_equal(of_both.predict(both), of_one.predict(one))
    for each in (one > 0.5, (9 * one).astype(np.uint8)):  # types without negative numbers
        top = BudgetClassifier.from_scores(each, y, **params).predict_top(each, 9)
        np.testing.assert_array_equal(top, np.argsort(-each.astype(int), kind="stable")[:9])


@pytest.mark.parametrize("make", [list, np.asarray, pd.Series, column])
def test_the_probability_of_one_of_two_classes_is_enough_for_sets(make, rng):
    share = rng.random(400)
    y, both = labels(rng.random(400) < share), np.column_stack([1 - share, share])
    params = {"method": "lac", "conditional": "class", "coverage": 0.8, "random_state": 0}
    of_both = SetClassifier.from_scores(both[:200], y[:200], **params)
    of_one = SetClassifier.from_scores(make(share[:200]), y[:200], **params)
    new, expected = make(share[200:]), of_both.predict_set(both[200:])
    assert len(np.unique(expected, axis=0)) == 3
    np.testing.assert_array_equal(of_one.predict_set(new), expected)
    np.testing.assert_array_equal(of_one.predict(new), labels(share[200:] > 0.5))


@pytest.mark.parametrize(
    ("y_score", "y", "message"),
    [
        ([0.1, 0.2, 0.3], [0, 1, 2], r"one column per class \[0, 1, 2\].*; got shape \(3,\)"),
        (np.ones((2, 3)) / 3, [0, 1], r"one column per class \[0, 1\].*; got shape \(2, 3\)"),
        ([0.1, 0.2], [1, 1], r"one column per class \[1\].* If y lacks labels, set classes"),
        (0.1, [0, 1], r"y_score must have one column per .*; got shape \(\)"),
        ([0.1, 0.2], [0, 1, 1], r"3 rows, as y; got 2"),
        ([0.1, 1.5], [0, 1], r"probabilities of 1 in \[0, 1\]; got 1.5 for sample 1. Convert"),
        ([[1, 0], [1.2, -1]], [0, 1], r"probabilities in \[0, 1\]; got \[ 1.2 -1. \] for sample 1"),
        ([0.1, np.nan], [0, 1], "y_score must be finite; got nan for sample 1"),
        ([0.1, None], [0, 1], "y_score must hold real numbers; got dtype object"),
        (["0.1", "0.2"], [0, 1], "y_score must hold real numbers; got dtype <U3"),
        ([], [], "y must have at least one label; got 0 samples"),
    ],
)
def test_scores_of_a_wrong_type_shape_or_range_raise(y_score, y, message):
    with pytest.raises(ValueError, match=message):
        SetClassifier.from_scores(y_score, y, method="lac")


def test_features_in_place_of_scores_raise(rng):
    y = np.arange(200) % 2
    clf = BudgetClassifier.from_scores(y + rng.normal(size=200), y, budget=0.1)
    with pytest.raises(ValueError, match=r"y must have two classes; got 3 \(0, 1, 2\)"):
        BudgetClassifier.from_scores(np.ones(200), np.arange(200) % 3)
    for method in (clf.predict, lambda X: clf.predict_top(X, 5), lambda X: clf.hits_interval(X, 5)):
        with pytest.raises(ValueError, match=r"X must have one column per .*; got shape \(9, 5\)"):
            method(np.ones((9, 5)))
        with pytest.raises(TypeError, match="X must be a table; got a dict: pass pandas"):
            method({"a": [1.0]})


def test_reversed_scores_give_a_warning(rng):
    y = np.where(rng.random(200) < 0.2, "fraud", "ok")
    y_score = rng.random(200) / 2 + 0.5 * (y == "fraud")
    params = {"pos_label": "fraud", "budget": 0.5}
    BudgetClassifier.from_scores(y_score, y, **params)
    with pytest.warns(UserWarning, match=r"y_score ranks 'fraud' below 'ok' \(ROC AUC 0"):
        BudgetClassifier.from_scores(1 - y_score, y, **params)
    BudgetClassifier.from_scores(y_score, y == "fraud", budget=0.5)
    with pytest.warns(UserWarning, match=r"y_score ranks True below .*: .* pass -y_score"):
        BudgetClassifier.from_scores(-y_score, y == "fraud", budget=0.5)
    proba = np.column_stack([1 - y_score, y_score])  # the columns are exchanged
    with pytest.warns(UserWarning, match=r"ranks 'fraud' below 'ok' .*exchange its two columns"):
        BudgetClassifier.from_scores(proba, y, **params)
    with pytest.warns(UserWarning, match="got only the labels 0 and 1, as from predict"):
        BudgetClassifier.from_scores((y_score > 0.5).astype(int), (y == "fraud") + 0, budget=0.5)


@pytest.mark.parametrize("make", [BudgetClassifier.from_scores, SetClassifier.from_scores])
def test_columns_or_classes_in_another_order_raise(make, rng):
    y = np.repeat(["ok", "fraud"], 100)
    frame = pd.DataFrame({"ok": rng.random(200), "fraud": rng.random(200)})
    for score in (make, lambda proba, y: topk_accuracy_score(y, proba, k=1)):
        for proba in (frame, pa.Table.from_pandas(frame)):
            with pytest.raises(ValueError, match=r"the order \['fraud', 'ok'\]; got \['ok', "):
                score(proba, y)
    with pytest.raises(ValueError, match="classes must be sorted without repetition"):
        make(frame.to_numpy(), y, classes=["ok", "fraud"])
    with pytest.raises(ValueError, match="X must have its columns in the order"):
        make(frame[["fraud", "ok"]], y).predict(frame)


@pytest.mark.parametrize(("constraint", "budget"), [("fpr", 0.1), ("recall", 0.95)])
@pytest.mark.parametrize("shift", [0, -2])
def test_hits_interval_warns_of_drift_for_any_threshold(constraint, budget, shift):
    rng = np.random.default_rng(1)
    y = rng.random(1500) < 0.02  # too few positives for a limit of the recall
    scores = rng.normal(size=1500) + 2 * y
    clf = BudgetClassifier.from_scores(scores, y, constraint=constraint, budget=budget)
    assert np.isinf(clf.threshold_) == (constraint == "recall")
    with warnings.catch_warnings(record=True, action="always") as found:
        clf.hits_interval(rng.normal(size=5000) + 2 * (rng.random(5000) < 0.02) + shift, 100)
    assert len(found) == (shift != 0)
