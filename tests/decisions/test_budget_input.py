"""Containers, labels, metadata and wrong arguments of BudgetClassifier."""

import pickle

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from scipy.sparse import coo_array, csr_array
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import make_classification
from sklearn.dummy import DummyClassifier
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sktopk import BudgetClassifier, ExpectedCostClassifier, SetClassifier
from tests.scored import Column, column, frozen, labels


@pytest.fixture(scope="module")
def data():
    return make_classification(500, weights=[0.8], random_state=0)


def test_frozen_classifier_needs_one_class_to_calibrate_with(rng):
    X = column(rng.normal(size=100))
    clf = BudgetClassifier(frozen(), budget=0.1, constraint="fpr").fit(X, ["no"] * 100)
    assert np.isfinite(clf.threshold_)
    assert set(clf.rates_) == {"flagged", "fpr", "precision"}
    with pytest.warns(UserWarning, match=r"positives .* there are 0\. Every row"):
        BudgetClassifier(frozen(), budget=0.9, constraint="recall").fit(X, ["no"] * 100)


@pytest.mark.parametrize("values", [["ham", "spam"], [False, True], [-1, 1], [3, 7]])
def test_labels_of_any_kind_come_back_and_the_second_is_positive(values, data):
    X, y = data
    given = np.array(values)[y]
    clf = BudgetClassifier(LogisticRegression(), random_state=0).fit(X, given)
    assert clf.classes_.tolist() == values
    predicted = clf.predict(X)
    assert predicted.dtype == given.dtype
    assert (predicted == values[1]).tolist() == (clf.decision_function(X) > 0).tolist()
    assert np.mean(given[predicted == values[1]] == values[1]) > 0.8


@pytest.mark.parametrize("per", ["fit", "batch"])
def test_float32_scores_stay_float32(per, rng):
    scores = rng.normal(size=200).astype(np.float32)
    clf = BudgetClassifier(frozen(dtype=np.float32), budget=20, per=per)
    clf.fit(column(scores), labels(scores > 0))
    assert clf.decision_function(column(scores)).dtype == np.float32
    assert np.sum(clf.predict(column(scores)) == "yes") == 20


@pytest.mark.parametrize("n_steps", [0, 1, 2])
def test_neighbouring_float32_scores_are_told_apart(n_steps):
    low = np.float32(1 + n_steps * np.finfo(np.float32).eps)
    scores = np.array([low, np.nextafter(low, np.float32(2))])
    clf = BudgetClassifier(frozen(dtype=np.float32), budget=1, per="fit").fit(
        column(scores), ["no", "yes"]
    )
    assert clf.predict(column(scores)).tolist() == ["no", "yes"]
    assert (clf.decision_function(column(scores)) > 0).tolist() == [False, True]


def test_input_containers(data):
    X, y = data
    expected = BudgetClassifier(LogisticRegression(), random_state=0).fit(X, y).predict(X)
    frame = pd.DataFrame(X, columns=[f"c{i}" for i in range(X.shape[1])], index=range(9, 509))
    for rows in (frame, pl.DataFrame(frame), csr_array(X), coo_array(X), X.tolist()):
        clf = BudgetClassifier(LogisticRegression(), random_state=0)
        clf.fit(rows, pd.Series(y) if rows is frame else y)
        np.testing.assert_array_equal(clf.predict(rows), expected)
        assert hasattr(clf, "feature_names_in_") == hasattr(rows, "columns")
    clf.fit(frame, y).fit(X, y)
    assert not hasattr(clf, "feature_names_in_")


def test_texts_go_to_a_pipeline_inside():
    y = np.arange(60) % 2
    texts = [f"{'win money' if spam else 'see you'} {i}" for i, spam in enumerate(y)]
    inner = make_pipeline(CountVectorizer(), LogisticRegression())
    clf = BudgetClassifier(inner, budget=2, per="batch").fit(texts, y)
    assert clf.predict_top(["see you 7", "win win money", "money"]).tolist() == [1, 2]
    assert not hasattr(clf, "n_features_in_")


def test_probabilities_that_contradict_the_threshold_are_not_offered(data):
    X, y = data
    clf = BudgetClassifier(LogisticRegression(), random_state=0).fit(X, y)
    assert not hasattr(clf, "predict_proba")
    assert clf.estimator_.predict_proba(X).shape == (len(X), 2)


def test_clone_pickle_and_refit(data):
    X, y = data
    clf = BudgetClassifier(LogisticRegression(C=3.0), budget=20, per="fit", random_state=0)
    assert clone(clf).get_params()["estimator__C"] == 3.0
    clf.fit(X, y)
    again = pickle.loads(pickle.dumps(clf))
    np.testing.assert_array_equal(again.decision_function(X), clf.decision_function(X))
    assert again.rates_ == clf.rates_
    clf.set_params(per="batch").fit(X, y)
    assert not hasattr(clf, "threshold_")
    assert not hasattr(clf, "rates_")
    with pytest.raises(NotFittedError):
        clf.set_params(per="fit").predict(X)


def test_failed_fit_keeps_what_was_fitted(data):
    X, y = data
    clf = BudgetClassifier(LogisticRegression(), random_state=0).fit(X, y)
    before = clf.predict(X)
    with pytest.raises(ValueError, match="budget"):
        clf.set_params(budget=2.0).fit(X, y)
    np.testing.assert_array_equal(clf.predict(X), before)


def test_fit_parameters_reach_the_classifier_for_its_rows(data):
    X, y = data
    X, weight = np.c_[np.arange(500), X], np.arange(500)
    clf = BudgetClassifier(Column(), random_state=0).fit(X, y, weight=weight)
    assert len(clf.estimator_.weight_) == len(clf.estimator_.fit_X_) == 400
    assert len(set(clf.estimator_.weight_)) == 400
    clf = BudgetClassifier(Column(), budget=5, per="batch").fit(X, y, weight=weight)
    np.testing.assert_array_equal(clf.estimator_.weight_, weight)


def test_metadata_are_routed(data):
    X, y = data
    weight, groups = np.arange(500) % 3 + 1, np.arange(500) % 5
    with sklearn.config_context(enable_metadata_routing=True):
        inner = Column().set_fit_request(weight=True)
        pipe = make_pipeline(StandardScaler(), BudgetClassifier(inner, budget=3, per="group"))
        pipe.fit(X, y, weight=weight)
        np.testing.assert_array_equal(pipe[-1].estimator_.weight_, weight)
        # Groups are requested without being asked to.
        flagged = np.flatnonzero(pipe.predict(X, groups=groups))
        assert np.bincount(groups[flagged]).tolist() == [3] * 5
        with pytest.raises(sklearn.exceptions.UnsetMetadataPassedError, match="weight"):
            BudgetClassifier(Column()).fit(X, y, weight=weight)
        with pytest.raises(TypeError, match="unexpected argument"):
            BudgetClassifier(Column()).fit(X, y, other=weight)


def test_weights_must_leave_two_classes(data):
    X, y = data
    with pytest.raises(ValueError, match=r"positive sample_weight must have at least 2 classes"):
        BudgetClassifier(LogisticRegression()).fit(X, y, sample_weight=y)


@pytest.mark.parametrize(
    ("params", "error", "message"),
    [
        ({"constraint": "some"}, ValueError, "constraint must be one of .* got 'some'"),
        ({"per": "day"}, ValueError, "per must be one of .* got 'day'"),
        ({"per": "batch", "constraint": "fpr"}, ValueError, "per='batch' takes .*got \"?'fpr"),
        (
            {"budget": 0},
            ValueError,
            "budget must be an integer >= 1 or a fraction in .0, 1. for constraint=.*; got 0",
        ),
        ({"budget": 1.0}, ValueError, r"budget must be an integer >= 1 .* got 1\.0"),
        ({"budget": 0.0}, ValueError, r"budget must be an integer >= 1 .* got 0\.0"),
        ({"budget": np.nan}, ValueError, "budget must be an integer >= 1 .* got nan"),
        ({"budget": True}, TypeError, "budget must be a.*got True"),
        ({"budget": "10%"}, TypeError, "budget must be an integer >= 1 .* got '10%'"),
        ({"delta": 0.0}, ValueError, r"delta == 0\.0, must be > 0"),
        ({"validation_fraction": 1.0}, ValueError, r"validation_fraction == 1\.0, must be < 1"),
    ],
)
def test_bad_parameters_are_refused(params, error, message, data):
    X, y = data
    with pytest.raises(error, match=message):
        BudgetClassifier(LogisticRegression(), **params).fit(X, y)


A_RATE = r"budget must be a rate in \(0, 1\) for constraint="
BUDGETS = {
    "count": (
        (0, 1.5),
        r"budget must be an integer >= 1 or a fraction in \(0, 1\) for constraint=",
    ),
    "cost": ((0, -1.0, np.inf), "budget must be a finite sum above 0 for constraint="),
    "fdr": ((100, 0.0, np.nan), A_RATE),
    "fpr": ((100, 1.0), A_RATE),
    "precision": ((2, -0.1), A_RATE),
    "recall": ((2, 0), A_RATE),
}


@pytest.mark.parametrize("constraint", BUDGETS)
def test_a_budget_of_the_wrong_kind_says_what_its_constraint_takes(constraint, data):
    refused, message = BUDGETS[constraint]
    for budget, error in [*((each, ValueError) for each in refused), ("10%", TypeError)]:
        with pytest.raises(error, match=f"{message}'{constraint}'; got {budget!r}"):
            BudgetClassifier(LogisticRegression(), budget=budget, constraint=constraint).fit(*data)


def test_bad_labels_are_refused(data):
    X, y = data
    clf = BudgetClassifier(LogisticRegression())
    with pytest.raises(ValueError, match="y must have at least 2 classes; got 1 class"):
        clf.fit(X, np.zeros(500))
    with pytest.raises(ValueError, match="Only binary classification is supported"):
        clf.fit(X, np.arange(500) % 3)
    with pytest.raises(ValueError, match="y must have two rows of a class, to hold out one"):
        clf.fit(X[:2], [0, 1])
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        clf.fit(X, y[:-1])
    with pytest.raises(ValueError, match=r"labels that estimator knows, \['no', 'yes'\]; got"):
        BudgetClassifier(frozen()).fit(column([0, 1]), ["no", "maybe"])
    three = FrozenEstimator(LogisticRegression().fit(X, np.arange(500) % 3))
    with pytest.raises(ValueError, match="estimator must know two classes; got 3"):
        BudgetClassifier(three).fit(X, y)
    one = FrozenEstimator(DummyClassifier().fit(X, np.zeros(500)))
    with pytest.raises(ValueError, match="estimator must know two classes; got one"):
        BudgetClassifier(one).fit(X, y)


def test_bad_groups_are_refused():
    X = column(range(4))
    clf = BudgetClassifier(frozen(), budget=1, per="group").fit(X, labels(np.arange(4) > 1))
    with pytest.raises(ValueError, match=r'groups must be passed with per="group".*no groups'):
        clf.predict(X)
    with pytest.raises(ValueError, match=r"groups must be passed .* got per='batch' and groups"):
        clf.set_params(per="batch").predict_top(X, groups=[0, 0, 1, 1])
    clf.set_params(per="group")
    for bad in ([0, 1], ["a", None, "b", "b"], [0.0, np.nan, 1.0, 1.0]):
        with pytest.raises(ValueError, match="groups"):
            clf.predict(X, groups=bad)


class NoScores(ClassifierMixin, BaseEstimator):
    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def predict(self, X):
        return np.full(len(X), self.classes_[0])


@pytest.mark.parametrize("per", ["fit", "batch", "group"])
def test_classifiers_without_scores_are_refused_in_fit(per, data):
    X, y = data
    with pytest.raises(TypeError, match=r"estimator must be a classifier with .*NoScores"):
        BudgetClassifier(NoScores(), per=per).fit(X, y)


class Untrained(LinearRegression):
    def fit(self, X, y):
        raise AssertionError("trained for hours")


class Plain:
    """A classifier that knows nothing of scikit-learn's tags."""

    def get_params(self, deep=True):
        return {}

    def fit(self, X, y):
        self.classes_ = np.unique(y)
        return self

    def decision_function(self, X):
        return X[:, 0]


@pytest.mark.parametrize("decision", [BudgetClassifier, SetClassifier, ExpectedCostClassifier])
@pytest.mark.parametrize("make", [Untrained, lambda: make_pipeline(StandardScaler(), Untrained())])
def test_a_regressor_is_refused_before_it_is_trained(decision, make, data):
    X, y = data
    with pytest.raises(TypeError, match=r"estimator must be a classifier with classes_ and .* got"):
        decision(make()).fit(X, labels(y == 1))
    assert BudgetClassifier(Plain()).fit(X, y).estimator_.classes_.tolist() == [0, 1]


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_scores_that_are_not_finite_are_refused_by_name(value):
    X, y = column([1, 2, value, 4]), ["no", "yes", "no", "yes"]
    message = f"estimator must give finite scores; got {value} for row 2 of X from FrozenEstimator"
    with pytest.raises(ValueError, match=message):
        BudgetClassifier(frozen()).fit(X, y)
    with pytest.raises(ValueError, match=message):
        BudgetClassifier(frozen(), budget=1, per="batch").fit(X, y)
    clf = BudgetClassifier(frozen(), budget=1, per="batch").fit(X[:2], y[:2])
    with pytest.raises(ValueError, match=message):
        clf.predict(X)


def test_unfitted_classifier_cannot_be_frozen(data):
    X, y = data
    with pytest.raises(NotFittedError):
        BudgetClassifier(FrozenEstimator(LogisticRegression())).fit(X, y)
    for method in ("predict", "predict_top", "decision_function"):
        with pytest.raises(NotFittedError):
            getattr(BudgetClassifier(LogisticRegression()), method)(X)
