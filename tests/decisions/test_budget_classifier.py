"""Does BudgetClassifier look at the rows it may look at, whatever is inside?"""

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom, binomtest, norm
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

from sktopk import BudgetClassifier
from tests.scored import Column, column, frozen, labels

ANY = [
    LogisticRegression(),
    make_pipeline(StandardScaler(), LinearSVC()),
    HistGradientBoostingClassifier(max_iter=10, random_state=0),
    RandomForestClassifier(10, random_state=0),
]
IGNORED = (
    "ignore:no calibration row lies above",
    "ignore:every calibration row lies above",
    "ignore:.* tie at the cut",
    "ignore:.* with probability 0.95",
)


def messages(caught):
    return [str(each.message) for each in caught]


@pytest.fixture(scope="module")
def data():
    X, y = make_classification(1500, weights=[0.8], random_state=0)
    return X[:500], y[:500], X[500:1000], y[500:1000], X[1000:], y[1000:]


@pytest.mark.filterwarnings(*IGNORED)
@parametrize_with_checks(
    [
        BudgetClassifier(LogisticRegression()),
        BudgetClassifier(LinearSVC()),
        BudgetClassifier(RidgeClassifier(), budget=0.8, constraint="recall"),
    ]
)
def test_scikit_learn_check(estimator, check):
    check(estimator)


@pytest.mark.filterwarnings("ignore:.* tie at the cut")
@pytest.mark.parametrize("inner", ANY, ids=lambda inner: type(inner).__name__)
@pytest.mark.parametrize("constraint", ["count", "fpr", "recall", "precision"])
def test_any_classifier_works_in_each_way(inner, constraint, data):
    X, y, X_cal, y_cal, X_test, _ = data
    budget = {"count": 0.1, "fpr": 0.1, "recall": 0.6, "precision": 0.5}[constraint]
    held_out = BudgetClassifier(inner, budget=budget, constraint=constraint, random_state=0)
    fitted = FrozenEstimator(clone(inner).fit(X, y))
    for clf, rows in [
        (held_out, (np.r_[X, X_cal], np.r_[y, y_cal])),
        (clone(held_out).set_params(estimator=fitted), (X_cal, y_cal)),
    ]:
        clf.fit(*rows)
        scores = clf.decision_function(X_test)
        flagged = clf.predict(X_test) == 1
        assert 0 < flagged.sum() < len(X_test)
        np.testing.assert_array_equal(flagged, scores > 0)
        one_by_one = np.concatenate([clf.predict(row[None]) for row in X_test[:20]])
        np.testing.assert_array_equal(one_by_one, flagged[:20])
        assert sorted(clf.predict_top(X_test)) == np.flatnonzero(flagged).tolist()
        assert clf.n_features_in_ == X.shape[1]
    assert clf.estimator_ is fitted


def test_calibration_rows_are_those_that_were_not_trained_on(data):
    X, y, *_ = data
    clf = BudgetClassifier(Column(), validation_fraction=0.25, random_state=0).fit(X, y)
    assert len(clf.estimator_.fit_X_) == 375
    held_out = np.sort(np.setdiff1d(X[:, 0], clf.estimator_.fit_X_[:, 0]))
    assert clf.rates_["flagged"][:2] == (13, 125)  # a tenth, rounded up
    assert clf.threshold_ == pytest.approx((held_out[-13] + held_out[-14]) / 2)
    again = BudgetClassifier(Column(), validation_fraction=0.25, random_state=0).fit(X, y)
    assert again.threshold_ == clf.threshold_
    other = BudgetClassifier(Column(), validation_fraction=0.25, random_state=1).fit(X, y)
    assert other.threshold_ != clf.threshold_


def test_frozen_classifier_is_calibrated_with_all_rows(rng):
    scores = rng.permutation(100)
    y = labels(rng.random(100) < 0.5)
    clf = BudgetClassifier(frozen(), budget=7, per="fit").fit(column(scores), y)
    assert clf.threshold_ == 92.5
    assert clf.predict(column([92, 93])).tolist() == ["no", "yes"]
    assert clf.decision_function(column([92, 93])).tolist() == [-0.5, 0.5]
    assert BudgetClassifier(frozen(), budget=0.07).fit(column(scores), y).threshold_ == 92.5


def test_number_of_rows_counts_among_as_many_as_fit_got(rng):
    X, y = column(rng.permutation(1000)), labels(rng.random(1000) < 0.3)
    clf = BudgetClassifier(Column(), budget=100, per="fit", random_state=0).fit(X, y)
    assert clf.rates_["flagged"][:2] == (20, 200)


@pytest.mark.parametrize("constraint", ["fpr", "recall", "precision"])
def test_rates_are_those_of_the_calibration_rows(constraint, rng):
    positive = rng.random(600) < 0.3
    X = column(rng.normal(size=600) + 2 * positive)
    budget = {"fpr": 0.1, "recall": 0.7, "precision": 0.6}[constraint]
    clf = BudgetClassifier(frozen(), budget=budget, constraint=constraint, random_state=0)
    clf.fit(X, labels(positive))
    flagged = clf.predict(X) == "yes"
    assert clf.rates_["fpr"][:2] == (sum(flagged & ~positive), sum(~positive))
    assert clf.rates_["recall"][:2] == (sum(flagged & positive), sum(positive))
    assert clf.rates_["precision"][:2] == (sum(flagged & positive), sum(flagged))
    assert clf.rates_["flagged"][:2] == (sum(flagged), 600)
    for rate in clf.rates_.values():
        assert rate.low < rate.value == rate.count / rate.n < rate.high
    kept = clf.rates_[constraint].value
    assert kept < budget if constraint == "fpr" else kept > budget


@pytest.mark.parametrize("delta", [0.01, 0.1, 0.4])
def test_delta_is_the_risk_of_the_threshold_and_of_the_intervals(delta, rng):
    scores, y = rng.normal(size=500), ["no"] * 400 + ["yes"] * 100
    clf = BudgetClassifier(frozen(), budget=0.1, constraint="fpr", delta=delta)
    rate = clf.fit(column(scores), y).rates_["fpr"]
    assert binom.cdf(rate.count, 400, 0.1) <= delta < binom.cdf(rate.count + 1, 400, 0.1)
    for each in clf.rates_.values():
        exact = binomtest(each.count, each.n).proportion_ci(1 - delta, method="exact")
        assert (each.low, each.high) == pytest.approx((exact.low, exact.high))


@pytest.mark.filterwarnings("ignore:precision >= 0.5")
@pytest.mark.parametrize("constraint", ["fpr", "recall", "precision"])
def test_guarantee_holds_with_rows_held_out_of_fit(constraint):
    rng, delta, n_draws = np.random.default_rng(0), 0.1, 300
    budget = {"fpr": 0.2, "recall": 0.7, "precision": 0.5}[constraint]
    violated = 0
    for seed in range(n_draws):
        positive = rng.random(800) < 0.25
        X = column(rng.normal(size=800) + 1.5 * positive)
        clf = BudgetClassifier(
            Column(), budget=budget, constraint=constraint, delta=delta, random_state=seed
        )
        t = clf.fit(X, positive).threshold_
        fpr, recall = norm.sf(t), norm.sf(t - 1.5)
        if constraint == "precision":
            violated += t < np.inf and 0.25 * recall / (0.25 * recall + 0.75 * fpr) < budget
        else:
            violated += fpr > budget if constraint == "fpr" else recall < budget
    assert violated / n_draws <= delta + 4 * np.sqrt(delta * (1 - delta) / n_draws)
    assert violated > 0


@pytest.mark.parametrize("budget", [1, 17, 0.1, 0.25])
def test_batch_flags_exactly_the_best_rows_in_their_order(budget, rng):
    scores = rng.integers(0, 8, size=70)
    clf = BudgetClassifier(frozen(), budget=budget, per="batch").fit(column([0, 1]), ["no", "yes"])
    n = budget if isinstance(budget, int) else {0.1: 7, 0.25: 18}[budget]
    best = sorted(range(70), key=lambda i: (-scores[i], i))[:n]
    cut = scores[best[-1]]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert clf.predict_top(column(scores)).tolist() == best
        predicted = clf.predict(column(scores))
    assert np.flatnonzero(predicted == "yes").tolist() == sorted(best)
    n_tied, n_in = np.sum(scores == cut), np.sum(scores[best] == cut)
    tie = [f"{n_tied} rows tie at the cut; broken by row order"] if n_in < n_tied else []
    assert messages(caught) == tie * 2
    assert not hasattr(clf, "threshold_")
    np.testing.assert_array_equal(clf.decision_function(column(scores)), scores)


@pytest.mark.parametrize("names", [["Mon", "Tue", "Wed"], [3, 1, 2], [True, False]])
def test_group_flags_the_best_rows_of_each(names, rng):
    scores, groups = rng.integers(0, 9, size=90), rng.choice(names, size=90)
    clf = BudgetClassifier(frozen(), budget=4, per="group").fit(column([0, 1]), ["no", "yes"])
    best, n_tied, n_tied_groups = [], 0, 0
    for name in names:
        rows = [i for i in range(90) if groups[i] == name]
        rows.sort(key=lambda i: (-scores[i], i))
        best += rows[:4]
        if scores[rows[3]] == scores[rows[4]]:
            n_tied += sum(scores[i] == scores[rows[3]] for i in rows)
            n_tied_groups += 1
    best.sort(key=lambda i: (-scores[i], i))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert clf.predict_top(column(scores), groups=groups).tolist() == best
    assert messages(caught) == [
        f"{n_tied} rows tie at the cuts of {n_tied_groups} groups; broken by row order"
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        predicted = clf.predict(column(scores), groups=pd.Series(groups, index=range(5, 95)))
    assert np.flatnonzero(predicted == "yes").tolist() == sorted(best)


def test_fraction_of_a_group_is_rounded_up_in_each():
    clf = BudgetClassifier(frozen(), budget=0.3, per="group").fit(column([0, 1]), ["no", "yes"])
    groups = list("aaaaabbc")
    assert clf.predict_top(column(range(8)), groups=groups).tolist() == [7, 6, 4, 3]


@pytest.mark.parametrize("n_rows", [50, 300])
def test_a_number_is_of_each_batch_unless_said_otherwise(n_rows):
    X, y = make_classification(500, random_state=0)
    clf = BudgetClassifier(LogisticRegression(), budget=20, random_state=0).fit(X, y)
    assert (clf.predict(X[:n_rows]) == clf.pos_label_).sum() == 20
    assert not hasattr(clf, "threshold_")
    # A share, and a rate, are kept by one threshold.
    assert np.isfinite(clf.set_params(budget=0.1).fit(X, y).threshold_)
    assert np.isfinite(clf.set_params(constraint="fpr").fit(X, y).threshold_)


def test_fewer_rows_than_the_budget_are_all_looked_at_with_a_warning():
    X, y = column(range(63)), labels(np.arange(63) > 50)
    clf = BudgetClassifier(frozen(), budget=100, per="batch").fit(X, y)
    with pytest.warns(UserWarning, match="^budget=100 but only 63 rows$"):
        assert clf.predict_top(X).tolist() == list(range(62, -1, -1))
    with pytest.warns(UserWarning, match="^n=64 but only 63 rows$"):
        assert len(clf.predict_top(X, 64)) == 63
    with pytest.warns(UserWarning, match="^budget=100 but only 63 rows$"):
        fixed = BudgetClassifier(frozen(), budget=100, per="fit").fit(X, y)
    assert fixed.threshold_ == -np.inf
    assert (fixed.predict(column([-1e9, 0.0])) == "yes").all()
    assert fixed.predict_top(column([3, 9, 5])).tolist() == [1, 2, 0]
    per_group = BudgetClassifier(frozen(), budget=20, per="group").fit(X, y)
    message = "budget=20 but only 3 rows in the smallest of 2 groups that have fewer"
    with pytest.warns(UserWarning, match=message):
        per_group.predict(X, groups=["a"] * 3 + ["b"] * 10 + ["c"] * 50)


def test_as_many_rows_as_the_budget_are_no_reason_to_warn():
    X, y = column(range(20)), labels(np.arange(20) > 9)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for per in ("fit", "batch"):
            clf = BudgetClassifier(frozen(), budget=20, per=per).fit(X, y)
            assert (clf.predict(X) == "yes").all()


def test_predict_top_takes_any_number_in_place_of_the_budget(rng):
    scores, groups = rng.permutation(50), np.arange(50) % 2
    X, y = column(scores), labels(scores > 25)
    best = np.argsort(-scores)
    fixed = BudgetClassifier(frozen(), budget=5, per="fit").fit(X, y)
    assert fixed.predict_top(X).tolist() == best[:5].tolist()
    assert fixed.predict_top(X, 9).tolist() == best[:9].tolist()
    per_group = BudgetClassifier(frozen(), budget=5, per="group").fit(X, y)
    taken = per_group.predict_top(X, 2, groups=groups)
    assert sorted(groups[taken]) == [0, 0, 1, 1]
    for n, error in [(0, ValueError), (2.0, TypeError), (True, TypeError)]:
        with pytest.raises(error, match=f"n must be .*; got {n}"):
            fixed.predict_top(X, n)


def test_ties_at_a_fixed_threshold_are_all_left_out_with_a_warning():
    scores = np.r_[np.arange(10, 22), np.full(41, 5), np.zeros(47)]
    y = labels(scores > 5)
    with pytest.warns(UserWarning, match=r"^41 rows tie at the cut, .* 12 of 100 .* not 30\."):
        clf = BudgetClassifier(frozen(), budget=30, per="fit").fit(column(scores), y)
    assert clf.threshold_ == 7.5
    with pytest.warns(UserWarning, match="^100 rows tie at the cut, .* flags 0 of 100"):
        clf = BudgetClassifier(FrozenEstimator(DummyClassifier().fit([[0], [1]], [0, 1]))).fit(
            column(scores), np.arange(100) % 2
        )
    assert not clf.predict(column(scores)).any()
    assert len(clf.predict_top(column(scores))) == 0


def test_impossible_guarantees_flag_nothing_or_everything_with_a_warning():
    X, y = column(range(40)), labels(np.arange(40) >= 20)
    with pytest.warns(UserWarning, match=r"at least 299 negatives .* there are 20\. No row will"):
        clf = BudgetClassifier(frozen(), budget=0.01, constraint="fpr").fit(X, y)
    assert clf.threshold_ == np.inf
    assert (clf.predict(column([1e300])) == "no").all()
    assert np.isneginf(clf.decision_function(X)).all()
    assert clf.predict_top(X).tolist() == []
    assert clf.predict_top(X, 2).tolist() == [39, 38]
    with pytest.warns(UserWarning, match=r"at least 59 positives .* there are 20\. Every row"):
        clf = BudgetClassifier(frozen(), budget=0.95, constraint="recall").fit(X, y)
    assert (clf.predict(column([-1e300])) == "yes").all()
    assert clf.predict_top(X).tolist() == list(range(39, -1, -1))
    with pytest.warns(UserWarning, match=r"at least 59 flagged calibration rows.* No row will"):
        clf = BudgetClassifier(frozen(), budget=0.95, constraint="precision").fit(X, y)
    assert (clf.predict(X) == "no").all()


def test_drift_is_reported(rng):
    y = labels(rng.random(2000) < 0.1)
    clf = BudgetClassifier(frozen(), budget=0.002).fit(column(rng.normal(size=2000)), y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clf.predict(column(rng.normal(size=5000)))
    with pytest.warns(UserWarning, match=r"^flagged [\d.]+ % of 5000 rows, 0\.2 % expected"):
        clf.predict(column(rng.normal(size=5000) + 1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of batches it is the number that is fixed
        batch = BudgetClassifier(frozen(), budget=10, per="batch").fit(column([0, 1]), y[:2])
        batch.predict(column(rng.normal(size=5000) + 1))


def test_grid_search_over_budget_and_classifier_in_a_pipeline(data):
    X, y, *_ = data
    pipe = make_pipeline(StandardScaler(), BudgetClassifier(LogisticRegression(), random_state=0))
    grid = {"budgetclassifier__budget": [0.05, 0.2], "budgetclassifier__estimator__C": [0.1, 1.0]}
    search = GridSearchCV(pipe, grid, scoring="f1", cv=3, error_score="raise").fit(X, y)
    assert search.best_params_["budgetclassifier__budget"] == 0.2
    assert 0 < np.mean(search.predict(X)) < 0.5
    frozen_best = BudgetClassifier(FrozenEstimator(search.best_estimator_), budget=5, per="batch")
    assert len(frozen_best.fit(X, y).predict_top(X[:100])) == 5
