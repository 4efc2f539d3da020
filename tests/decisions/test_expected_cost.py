"""Does ExpectedCostClassifier answer with the label of least expected cost?"""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.datasets import load_iris
from sklearn.dummy import DummyClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import confusion_matrix
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from sktopk import ExpectedCostClassifier, TopKClassifier, make_pipeline
from sktopk.io import dump, load
from tests.given import Given, GivenScores

COST = np.array([[0, 1, 9, 4], [1, 0, 9, 1], [30, 20, 0, 2], [3, 1, 1, 0.5]])


def frozen(labels=range(4), kind=Given):
    return FrozenEstimator(kind(list(labels)).fit(None, None))


def fitted(cost_matrix=COST, labels=range(4)):
    clf = ExpectedCostClassifier(frozen(labels), cost_matrix=cost_matrix)
    return clf.fit(np.full((len(labels), len(labels)), 1 / len(labels)), list(labels))


@parametrize_with_checks(
    [
        ExpectedCostClassifier(LogisticRegression()),
        ExpectedCostClassifier(make_pipeline(StandardScaler(), GaussianNB())),
    ]
)
def test_scikit_learn_check(estimator, check):
    check(estimator)


def test_least_expected_cost_as_defined(rng):
    proba = rng.dirichlet(np.full(4, 0.3), size=400)
    clf = fitted()
    for row, answer, saved in zip(
        proba, clf.predict(proba), clf.decision_function(proba), strict=True
    ):
        costs = [sum(row[i] * COST[i, j] for i in range(4)) for j in range(4)]
        assert answer == min(range(4), key=costs.__getitem__)
        np.testing.assert_allclose(saved, [-cost for cost in costs])
    assert set(clf.predict(proba)) == {0, 1, 2, 3}


def test_no_other_rule_costs_less_if_the_probabilities_are_right(rng):
    proba = rng.dirichlet(np.full(4, 0.6), size=20_000)
    y = (proba.cumsum(axis=1) > rng.random((20_000, 1))).argmax(axis=1)
    clf = fitted()

    def costs(answer):
        return COST[y, answer]

    ours = costs(clf.predict(proba))
    assert clf.score(proba, y) == pytest.approx(-ours.mean())
    # What is expected is what comes, within the noise of the draws.
    expected = -clf.decision_function(proba).max(axis=1)
    assert abs(np.mean(ours - expected)) < 4 * np.std(ours - expected) / len(y) ** 0.5
    # Not by caution: any answer that is always the same costs more, as does the likeliest.
    others = [proba.argmax(axis=1), *np.repeat(np.arange(4)[:, None], len(y), axis=1)]
    # And costs expected by probabilities that are too sure of themselves.
    sure = proba**3 / (proba**3).sum(axis=1, keepdims=True)
    for answer in (*others, clf.predict(sure)):
        more = costs(answer) - ours
        assert more.mean() > 4 * more.std() / len(y) ** 0.5
    assert min(np.bincount(clf.predict(proba))) > 500


def test_two_classes_have_the_threshold_of_elkan(rng):
    cost = np.array([[1.0, 6.0], [20.0, 2.0]])
    clf = fitted(cost, labels=["bad", "good"])
    share = np.linspace(0, 1, 1001)
    proba = np.column_stack([1 - share, share])
    threshold = (cost[0, 1] - cost[0, 0]) / (cost[0, 1] - cost[0, 0] + cost[1, 0] - cost[1, 1])
    assert (clf.predict(proba) == np.where(share > threshold, "good", "bad")).all()
    saved = clf.decision_function(proba)
    assert saved.shape == (1001,)
    assert ((saved > 0) == (clf.predict(proba) == "good")).all()


def test_without_costs_it_is_the_classifier():
    X, y = load_iris(return_X_y=True)
    clf = ExpectedCostClassifier(LogisticRegression(max_iter=500)).fit(X, y)
    inner = LogisticRegression(max_iter=500).fit(X, y)
    np.testing.assert_array_equal(clf.predict(X), inner.predict(X))
    assert clf.score(X, y) == pytest.approx(inner.score(X, y) - 1)
    assert clf.n_features_in_ == 4


def test_ties_go_to_the_lower_column_in_any_batch():
    proba = np.array([[0.1, 0.4, 0.4, 0.1], [0.3, 0.2, 0.2, 0.3], [0.25] * 4])
    clf = fitted(1 - np.eye(4))
    assert clf.predict(proba).tolist() == [1, 0, 0]
    assert fitted(np.zeros((4, 4))).predict(proba).tolist() == [0, 0, 0]
    clf = fitted(np.array([[0, 0.1, 0.7, 0.2], [0.3, 0, 0.1, 0.7]] * 2))
    whole = clf.predict(np.tile(proba, (40, 1)))
    assert [clf.predict(row[None])[0] for row in np.tile(proba, (40, 1))] == whole.tolist()


def test_what_is_added_to_a_row_changes_no_answer(rng):
    proba = rng.dirichlet(np.ones(4), size=200)
    shifted = COST + np.array([[-20.0], [3], [0.5], [100]])
    np.testing.assert_array_equal(fitted(shifted).predict(proba), fitted().predict(proba))


def test_score_is_that_of_the_confusion_matrix_and_counts_weights(rng):
    proba, y = rng.dirichlet(np.ones(4), size=300), rng.integers(0, 4, 300)
    weight = rng.integers(1, 4, 300)
    clf = fitted()
    counts = confusion_matrix(y, clf.predict(proba), sample_weight=weight)
    score = clf.score(proba, y, sample_weight=weight)
    assert score == pytest.approx(-(counts * COST).sum() / weight.sum())
    again = clf.score(np.repeat(proba, weight, axis=0), np.repeat(y, weight))
    assert score == pytest.approx(again)
    with pytest.raises(ValueError, match=r"y must have labels with a row in cost_matrix.*got .*7"):
        clf.score(proba[:2], [1, 7])
    assert fitted(None).score(np.eye(4)[:2], [0, 7]) == -0.5


def test_frames_name_their_rows_and_columns(rng, tmp_path):
    names = ["ash", "elm", "fir", "oak"]
    proba = rng.dirichlet(np.ones(4), size=200)
    frame = pd.DataFrame(COST, index=names, columns=names)
    expected = fitted(COST, labels=names).predict(proba)
    turned = frame.sample(frac=1, random_state=0).sample(frac=1, axis=1, random_state=1)
    larger = turned.assign(yew=-99.0)
    larger.loc["yew"] = -99.0
    for cost in (frame, turned, larger):
        clf = fitted(cost, labels=names)
        np.testing.assert_array_equal(clf.predict(proba), expected)
        np.testing.assert_array_equal(clf.cost_matrix_, COST)
    ours = ExpectedCostClassifier.from_scores(proba, expected, classes=names, cost_matrix=turned)
    again = load(dump(ours, tmp_path / "costs.sktopk"))
    for clf in (ours, again, pickle.loads(pickle.dumps(ours))):
        np.testing.assert_array_equal(clf.predict(proba), expected)
    pd.testing.assert_frame_equal(again.cost_matrix, turned)


@pytest.mark.parametrize("make", [list, np.asarray, lambda c: np.asfortranarray(c, np.float32)])
def test_tables_of_numbers(make, rng):
    proba = rng.dirichlet(np.ones(4), size=50)
    given = make(COST.tolist())
    np.testing.assert_array_equal(fitted(given).predict(proba), fitted().predict(proba))
    assert np.array_equal(given, COST)


def test_estimators_of_every_kind(tmp_path):
    X, y = load_iris(return_X_y=True)
    cost = pd.DataFrame([[0, 1, 1], [1, 0, 1], [1, 40, 0]], index=range(3), columns=range(3))
    for inner in (
        make_pipeline(StandardScaler(), LogisticRegression()),
        TopKClassifier(k=1, hidden_layer_sizes=(), max_epochs=60, learning_rate=0.1, random_state=0,
                       calibration="temperature"),
    ):  # fmt: skip
        clf = ExpectedCostClassifier(inner, cost_matrix=cost)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            clf.fit(pd.DataFrame(X, columns=list("abcd")), y)
        rows = pd.DataFrame(X, columns=list("abcd"))
        plain = clf.estimator_.predict(rows)
        assert sum(clf.predict(rows) == 1) < sum(plain == 1)
        again = load(dump(clf, tmp_path / "costs.sktopk"))
        np.testing.assert_array_equal(again.predict(rows), clf.predict(rows))
        assert clf.feature_names_in_.tolist() == list("abcd")
    with pytest.raises(
        TypeError, match=r"estimator must have predict_proba and .*LinearSVC.*Calibra"
    ):
        ExpectedCostClassifier(LinearSVC()).fit(X, y)
    with pytest.raises(TypeError, match="estimator must have predict_proba"):
        ExpectedCostClassifier(frozen(kind=GivenScores)).fit(np.eye(4), range(4))
    only = ExpectedCostClassifier(DummyClassifier()).fit(X, np.zeros(150))
    assert set(only.predict(X)) == {0}


def test_searches_and_folds_that_lack_a_class():
    X, y = load_iris(return_X_y=True)
    cost = pd.DataFrame(COST, index=range(4), columns=range(4))
    clf = ExpectedCostClassifier(GaussianNB(), cost_matrix=cost)
    scores = cross_val_score(clf, X, y)
    assert (scores <= 0).all()
    search = GridSearchCV(clf, {"estimator__var_smoothing": [1e-9, 1.0]}).fit(X, y)
    assert search.best_params_ == {"estimator__var_smoothing": 1e-9}
    two = y < 2
    assert clf.fit(X[two], y[two]).cost_matrix_.shape == (2, 2)


def test_weights_reach_the_classifier():
    X, y = load_iris(return_X_y=True)
    weight = 1.0 + 20 * (y == 1)
    inner = GaussianNB().fit(X[:, :2], y, weight)
    clf = ExpectedCostClassifier(GaussianNB()).fit(X[:, :2], y, sample_weight=weight)
    np.testing.assert_array_equal(clf.predict(X[:, :2]), inner.predict(X[:, :2]))
    with sklearn.config_context(enable_metadata_routing=True):
        routed = GaussianNB().set_fit_request(sample_weight=True)
        clf = ExpectedCostClassifier(routed).fit(X[:, :2], y, sample_weight=weight)
        np.testing.assert_array_equal(clf.predict(X[:, :2]), inner.predict(X[:, :2]))


NAMED = pd.DataFrame(np.zeros((4, 4)), index=range(4), columns=range(4))
REFUSED = {
    "another size": (np.zeros((3, 3)), r"a row and a column for each of the 4 .*shape \(3, 3\)"),
    "not square": (np.zeros((4, 3)), r"cost_matrix must have a row and a column .*\(4, 3\)"),
    "a list": ([1, 2, 3, 4], "cost_matrix must be a table of numbers, .*got .1, 2, 3, 4"),
    "ragged": ([[0, 1], [1]], "cost_matrix must be a table of numbers"),
    "text": ("costs", "cost_matrix must be a table of numbers, .*got 'costs'"),
    "texts": ([["0", "1"], ["1", "0"]], "cost_matrix must be a table of numbers"),
    "NaN": (np.full((4, 4), np.nan), "cost_matrix must be finite; got nan"),
    "infinite": (np.full((4, 4), np.inf), "cost_matrix must be finite; got inf"),
    "too large": (np.full((4, 4), 1e305), "cost_matrix must be below 1e300; got 1e.305"),
    "a missing row": (NAMED.drop(index=2), r"each class once in its index; got none for \[2\]"),
    "a missing column": (NAMED.drop(columns=3), r"once in its columns; got none for \[3\]"),
    "texts for numbers": (NAMED.rename(index=str), "once in its index; got none for .0, 1, 2, 3"),
    "twice": (NAMED.set_axis([0, 1, 2, 2], axis=0), r"index; got none for \[3\]"),
    "a row too many": (pd.concat([NAMED, NAMED.iloc[:1]]), "once in its index; got some twice"),
}


@pytest.mark.parametrize(("cost_matrix", "message"), REFUSED.values(), ids=REFUSED)
def test_cost_matrices_are_checked(cost_matrix, message):
    with pytest.raises(ValueError, match=message):
        fitted(cost_matrix)


def test_files_with_other_costs_are_refused(tmp_path):
    X, y = load_iris(return_X_y=True)
    clf = ExpectedCostClassifier(GaussianNB()).fit(X, y)
    for forged in (np.zeros((2, 2)), np.full((3, 3), np.nan), "free", np.zeros((3, 3), int)):
        clf.cost_matrix_ = forged
        with pytest.raises(ValueError, match="cost_matrix_ of ExpectedCostClassifier"):
            load(dump(clf, tmp_path / "costs.sktopk"))
