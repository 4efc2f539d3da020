"""Rankers use the right positive label, whatever the names of the labels are."""

import pickle
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_classification
from sklearn.ensemble import BaggingClassifier, VotingClassifier
from sklearn.model_selection import TunedThresholdClassifierCV
from sklearn.naive_bayes import GaussianNB
from sklearn.preprocessing import LabelEncoder

import sktopk
from sktopk.modules import MLP
from tests.rankers import RANKERS, name

OF_TABLES = {"max_epochs": 2, "n_estimators": 2, "random_state": 0, "hidden_layer_sizes": (4,)}
SHORT = OF_TABLES | {"module": MLP, "n_estimators": 1, "batch_size": 150}


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    positive = rng.random(400) < 0.1
    return rng.normal(size=(400, 3)) + 1.5 * positive[:, None], positive


def said(clf, X, y, **params):
    """Return a fitted copy, and its warnings about labels."""
    with warnings.catch_warnings(record=True, action="always") as caught:
        clf = clone(clf).fit(X, y, **params)
    return clf, [str(w.message) for w in caught if "pos_label" in str(w.message)]


SETTINGS = [OF_TABLES, SHORT, SHORT | {"calibration": None}]
NAMED = [clone(ranker).set_params(**params) for ranker in RANKERS for params in SETTINGS]
BOOSTING = sktopk.TopBoostClassifier(n_estimators=5, n_members=2, random_state=0)
NAMED += [BOOSTING, clone(BOOSTING).set_params(n_members=1, log_loss_share=1)]


@pytest.mark.parametrize("ranker", NAMED, ids=name)
def test_a_ranker_does_not_depend_on_the_names_of_the_labels(ranker, rows):
    X, positive = rows
    plain = clone(ranker).fit(X, positive.astype(int))
    # The positive label comes first in sorted order.
    y = np.where(positive, "fraud", "ok")
    named = clone(ranker).set_params(pos_label="fraud").fit(X, y)
    assert (plain.pos_label_, named.pos_label_) == (1, "fraud")
    assert named.classes_.tolist() == ["fraud", "ok"]
    np.testing.assert_array_equal(named.class_count_, plain.class_count_[::-1])
    np.testing.assert_array_equal(named.predict_top(X, 50), plain.predict_top(X, 50))
    np.testing.assert_array_equal(named.predict(X) == "fraud", plain.predict(X) == 1)
    assert named.score(X, y) == pytest.approx(plain.score(X, positive.astype(int)), rel=1e-12)
    assert named.threshold_ == plain.threshold_
    np.testing.assert_array_equal(named.decision_function(X), -plain.decision_function(X))
    if hasattr(plain, "oob_score_"):
        np.testing.assert_allclose(named.oob_decision_function_, -plain.oob_decision_function_)
        assert named.oob_score_ == plain.oob_score_
    if hasattr(plain, "predict_proba"):
        proba = named.predict_proba(X)
        np.testing.assert_allclose(proba, plain.predict_proba(X)[:, ::-1], atol=1e-6)
    twin = pickle.loads(pickle.dumps(named))
    np.testing.assert_array_equal(twin.predict(X), named.predict(X))


@pytest.mark.parametrize("labels", [(0, 1), (-1, 1), (False, True), (0.0, 1.0)], ids=repr)
@pytest.mark.parametrize("pos_label", [0, 1, None])
def test_label_1_or_true_is_positive_by_default_without_a_warning(labels, pos_label, rows):
    X, positive = rows
    given = None if pos_label is None else labels[pos_label]
    clf = sktopk.AUCClassifier(pos_label=given, **SHORT)
    clf, warned = said(clf, X, np.array(labels)[1 * positive])
    assert (clf.pos_label_, warned) == (labels[1] if given is None else given, [])


@pytest.mark.parametrize("labels", [("ok", "fraud"), ("a sale", "fraud"), (2, 1), (-1, 0)], ids=str)
def test_rarer_label_is_positive_with_a_warning_unless_labels_are_0_1_or_plus_minus_1(labels, rows):
    X, positive = rows
    y, (other, rare) = np.array(labels)[positive.astype(int)], labels
    clf, (warned,) = said(sktopk.DeepTopPushClassifier(**SHORT), X, y)
    assert clf.pos_label_ == rare
    assert f"using {rare!r}. Set pos_label={rare!r} or pos_label={other!r}" in warned
    for pos_label in labels:
        told, warned = said(sktopk.DeepTopPushClassifier(pos_label=pos_label, **SHORT), X, y)
        assert (told.pos_label_, warned) == (pos_label, [])
    np.testing.assert_array_equal(told.predict_top(X, 9), clf.predict_top(X, 9))


def test_a_label_with_less_than_a_quarter_of_the_weight_is_chosen_as_positive(rows):
    X, _ = rows
    for n_first, expected in [(99, "approve"), (100, "reject"), (390, "reject")]:
        y = np.where(np.arange(400) < n_first, "approve", "reject")
        clf, (warned,) = said(sktopk.AUCClassifier(**SHORT), X, y)
        assert clf.pos_label_ == expected
        # With these weights, no class is rare, so the second label is positive.
        weight = np.where(np.arange(400) < n_first, 400 / n_first, 400 / (400 - n_first))
        clf, (warned,) = said(sktopk.AUCClassifier(**SHORT), X, y, sample_weight=weight)
        assert clf.pos_label_ == "reject"
        assert "ambiguous for the labels" in warned


CALLERS = {
    "ranker": sktopk.AUCClassifier(**SHORT),
    "boosting": BOOSTING,
    "decision": sktopk.BudgetClassifier(GaussianNB(), random_state=0),
}


@pytest.mark.parametrize("labels", [(0, 1), (-1, 1), (False, True)], ids=repr)
@pytest.mark.parametrize("caller", CALLERS)
def test_positives_that_are_the_large_majority_give_a_warning(caller, labels, rows):
    X, positive = rows
    clf, y = CALLERS[caller], np.array(labels)[1 * ~positive]
    fitted, (warned,) = said(clf, X, y)
    assert fitted.pos_label_ == labels[1]
    assert f"the label of {100 * np.mean(~positive):.3g} % of the samples" in warned
    assert f"Set pos_label={labels[0]!r} if the rarer label is positive" in warned
    for pos_label in labels:
        fitted, warned = said(clone(clf).set_params(pos_label=pos_label), X, y)
        assert (fitted.pos_label_, warned) == (pos_label, [])


@pytest.mark.parametrize(("n_negative", "n_warnings"), [(99, 1), (100, 0), (300, 0)])
def test_positives_give_a_warning_above_three_quarters_of_the_samples(n_negative, n_warnings, rows):
    y = (np.arange(400) >= n_negative).astype(int)
    assert len(said(sktopk.BudgetClassifier(GaussianNB()), rows[0], y)[1]) == n_warnings


def test_meta_estimators_that_encode_labels_give_a_warning():
    X, y = make_classification(1000, weights=[0.95], random_state=0)
    y = np.where(y == 1, "bad", "ok")
    clf = sktopk.RecallAtFPRClassifier(n_estimators=2, max_epochs=3, random_state=0)
    _, warned = said(VotingClassifier([("net", clf)]), X, y)
    assert "Set pos_label=0 if the rarer label is positive" in warned[0]
    fitted, warned = said(VotingClassifier([("net", clf.set_params(pos_label=0))]), X, y)
    assert warned == []
    assert 0.02 < np.mean(fitted.predict(X) == "bad") < 0.3


@pytest.mark.parametrize("wrapper", [CalibratedClassifierCV, TunedThresholdClassifierCV])
def test_positive_label_of_a_ranker_is_found_in_wrappers_of_scikit_learn(wrapper, rows):
    clf = wrapper(sktopk.AUCClassifier(pos_label=0, **SHORT), cv=2)
    desk = sktopk.BudgetClassifier(clf, constraint="count", budget=0.1)
    assert desk.fit(rows[0], rows[1].astype(int)).pos_label_ == 0


def test_partial_fit_keeps_the_positive_label_of_its_first_call(rows):
    X, positive = rows
    y, clf = np.where(positive, "fraud", "ok"), sktopk.DeepTopPushClassifier(**SHORT)
    with pytest.warns(UserWarning, match="using 'fraud'"):
        clf.partial_fit(X, y)
    # After this call, fraud is the more frequent label.
    with pytest.warns(UserWarning, match="threshold_ is not updated") as said:
        clf.partial_fit(X[positive], y[positive], sample_weight=np.full(positive.sum(), 1e3))
    assert clf.pos_label_ == "fraud"
    assert len(said) == 1


def test_encoded_labels_of_a_meta_estimator_raise_an_error_with_the_solution(rows):
    X, positive = rows
    y = np.where(positive, "fraud", "ok")
    clf = sktopk.PatMatClassifier(tau=0.1, pos_label=True, **SHORT)
    with pytest.raises(ValueError, match=r"pos_label must be one of \['fraud', 'ok'\]; got True"):
        clf.fit(X, y)
    clf.set_params(pos_label="fraud")
    hint = "set pos_label=1 if y is 1 for 'fraud'. Meta-estimators .* pos_label=0 if 'fraud' sorts"
    with pytest.raises(ValueError, match=r"set pos_label=True if y is True for 'fraud'$"):
        clf.fit(X, positive)
    with pytest.raises(ValueError, match=hint):
        clf.fit(X, LabelEncoder().fit_transform(y))
    with pytest.raises(ValueError, match=hint):
        BaggingClassifier(clf, n_estimators=2).fit(X, y)
    # Inside the meta-estimator, the first of the two labels is 0.
    clf.set_params(pos_label=0)
    bag = BaggingClassifier(clf, n_estimators=2, random_state=0).fit(X, y)
    assert [each.pos_label_ for each in bag.estimators_] == [0, 0]
