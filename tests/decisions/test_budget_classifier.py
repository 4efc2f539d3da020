"""BudgetClassifier keeps its budget on new samples, with any classifier inside."""

import warnings
from functools import partial

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binomtest
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, TunedThresholdClassifierCV
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from sktopk import BudgetClassifier, DeepTopPushClassifier, PatMatClassifier, metrics
from sktopk.model_selection import compare_losses
from tests.decisions.test_guarantees import draw, fit
from tests.scored import Column, column, frozen, labels

ANY = [
    LogisticRegression(),
    make_pipeline(StandardScaler(), LinearSVC()),
    HistGradientBoostingClassifier(max_iter=10, random_state=0),
    RandomForestClassifier(10, random_state=0),
]
COUNT = {"constraint": "count"}
BUDGETS = {"count": 0.1, "fpr": 0.1, "recall": 0.6, "precision": 0.5, "fdr": 0.5}


@pytest.fixture(scope="module")
def data():
    X, y = make_classification(1500, weights=[0.8], random_state=0)
    return X[:500], y[:500], X[500:1000], y[500:1000], X[1000:], y[1000:]


def test_scores_that_a_later_version_of_a_library_adds_are_not_used(monkeypatch):
    X, y = make_classification(300, random_state=0)
    clf = BudgetClassifier(GaussianNB(), random_state=0).fit(X, y)
    before = clf.decision_function(X)
    monkeypatch.setattr(GaussianNB, "decision_function", lambda self, X: X[:, 0], raising=False)
    np.testing.assert_array_equal(clf.decision_function(X), before)


@pytest.mark.filterwarnings("ignore:.* tie at the cut")
@pytest.mark.parametrize("inner", ANY, ids=lambda inner: type(inner).__name__)
@pytest.mark.parametrize("constraint", BUDGETS)
def test_predictions_of_any_classifier_do_not_depend_on_the_other_samples(inner, constraint, data):
    X, y, X_cal, y_cal, X_test, _ = data
    options = {"budget": BUDGETS[constraint], "constraint": constraint, "random_state": 0}
    held_out = BudgetClassifier(inner, validation_fraction=0.4, **options)
    fitted = FrozenEstimator(clone(inner).fit(X, y))
    for clf, rows in [
        (held_out, (np.r_[X, X_cal], np.r_[y, y_cal])),
        (clone(held_out).set_params(estimator=fitted), (X_cal, y_cal)),
    ]:
        clf.fit(*rows)
        flagged = clf.predict(X_test) == 1
        assert 0 < flagged.sum() < len(X_test)
        np.testing.assert_array_equal(flagged, clf.decision_function(X_test) > 0)
        one_by_one = np.concatenate([clf.predict(row[None]) for row in X_test[:20]])
        np.testing.assert_array_equal(one_by_one, flagged[:20])
        if constraint != "fdr":
            assert sorted(clf.predict_top(X_test)) == np.flatnonzero(flagged).tolist()
        assert clf.n_features_in_ == X.shape[1]
    assert clf.estimator_ is fitted


def test_an_integer_budget_is_relative_to_the_number_of_samples_of_fit(rng):
    scores, y = rng.permutation(100), labels(rng.random(100) < 0.5)
    clf = BudgetClassifier(frozen(), **COUNT, budget=7).fit(column(scores), y)
    assert clf.threshold_ == 92.5
    assert clf.predict(column([92, 93])).tolist() == ["no", "yes"]
    assert clf.decision_function(column([92, 93])).tolist() == [-0.5, 0.5]
    assert clf.set_params(budget=0.07).fit(column(scores), y).threshold_ == 92.5
    # A single sample is not flagged, although it is the best of its batch.
    assert clf.predict(column([3])).tolist() == ["no"]
    X, y = column(rng.permutation(1000)), labels(rng.random(1000) < 0.3)
    clf = BudgetClassifier(Column(), **COUNT, budget=100, random_state=0).fit(X, y)
    assert clf.rates_["flagged"][:2] == (20, 200)
    with pytest.warns(UserWarning, match="budget=4 is less than one of 200 cal"):
        assert BudgetClassifier(Column(), **COUNT, budget=4).fit(X, y).rates_["flagged"].count == 0
    everything = BudgetClassifier(frozen(), **COUNT, budget=1000).fit(X, y)
    assert everything.threshold_ == -np.inf
    assert everything.score(X, y, sample_weight=np.full(1000, 2.0)) == 1
    with pytest.warns(UserWarning, match="budget=1001 exceeds n_samples=1000"):
        everything.set_params(budget=1001).fit(X, y)


def test_calibration_samples_are_not_used_for_training(data):
    X, y, *_ = data
    clf = BudgetClassifier(Column(), **COUNT, validation_fraction=0.25, random_state=0).fit(X, y)
    assert len(clf.estimator_.fit_X_) == 375
    held_out = np.sort(np.setdiff1d(X[:, 0], clf.estimator_.fit_X_[:, 0]))
    np.testing.assert_array_equal(np.sort(clf.calibration_scores_), held_out)
    assert clf.rates_["flagged"][:2] == (12, 125)  # 10 % flagged, rounded down
    assert clf.threshold_ == pytest.approx((held_out[-12] + held_out[-13]) / 2)
    assert clone(clf).fit(X, y).threshold_ == clf.threshold_
    assert clone(clf).set_params(random_state=1).fit(X, y).threshold_ != clf.threshold_


@pytest.mark.parametrize("delta", [0.01, 0.1, 0.4])
def test_intervals_of_rates_have_confidence_1_minus_delta(delta, rng):
    scores, positive = rng.normal(size=500), np.arange(500) >= 400
    clf = fit(scores, positive, 0.1, "fpr", delta=delta)
    above, rates = scores > clf.threshold_, clf.rates_
    of = {"flagged": above, "fpr": above[~positive], "recall": above[positive]}
    of["precision"] = positive[above]
    for name, each in of.items():
        assert rates[name][:3] == (each.sum(), len(each), each.mean())
        exact = binomtest(each.sum(), len(each)).proportion_ci(1 - delta, method="exact")
        assert rates[name][3:] == pytest.approx((exact.low, exact.high))


def wrong_on_top(rng, n):
    """Data where negatives have the highest 2 % of the scores."""
    scores, positive = draw(rng, n, 0.3)
    on_top = (rng.random(n) < 0.02) & ~positive
    return np.where(on_top, 9 + rng.random(n), scores + positive / 2), positive


POPULATIONS = {
    "normal": lambda rng, n: draw(rng, n, 0.25),
    "tied": lambda rng, n: draw(rng, n, 0.3, step=1.0),
    "random scores, share near the budget": lambda rng, n: (rng.random(n), rng.random(n) < 0.89),
    "wrong on top": wrong_on_top,
}


@pytest.mark.filterwarnings("ignore:no threshold has fdr", "ignore:every calibration sample")
@pytest.mark.parametrize("population", POPULATIONS)
def test_the_false_discovery_rate_of_predict_keeps_its_budget_with_200_samples(population):
    rng, of, shares, n_found = np.random.default_rng(0), POPULATIONS[population], [], np.zeros(2)
    for seed in range(300):
        clf = fit(*of(rng, 200), 0.1, "fdr", random_state=seed)
        scores, positive = of(rng, 1000)
        flagged = clf.predict(column(scores)) == "yes"
        chosen = np.isin(np.arange(1000), clf.predict_top(column(scores)))
        shares.append((flagged & ~positive).sum() / max(1, flagged.sum()))
        n_found += (flagged & positive).sum(), (chosen & positive).sum()
    assert np.mean(shares) <= 0.1 + 4 * np.std(shares) / 300**0.5
    assert n_found[0] > 0.9 * n_found[1] > 0


def test_conformal_selection_takes_each_group_as_a_batch(rng):
    clf = fit(*draw(rng, 400, 0.3), 0.3, "fdr", random_state=0)
    new, _ = draw(rng, 100, 0.3)
    groups = np.where(rng.random(100) < 0.3, "Mon", "Tue")
    chosen = clf.predict_top(column(new), groups=pd.Series(groups))
    for name in ("Mon", "Tue"):
        own = np.flatnonzero(groups == name)
        assert set(own[clf.predict_top(column(new[own]))]) == set(chosen) & set(own)
    with pytest.raises(ValueError, match=r"groups need n .* got groups without n"):
        fit(*draw(rng, 400, 0.3), 0.3, "fpr").predict_top(column(new), groups=groups)
    top = clf.predict_top(column(new))  # `set_params` takes effect in the next fit
    np.testing.assert_array_equal(clf.set_params(budget=0.9).predict_top(column(new)), top)


@pytest.mark.filterwarnings("ignore:.* tie at the cuts")
@pytest.mark.parametrize("names", [None, ["Mon", "Tue", "Wed"], [3, 1, 2]])
def test_predict_top_returns_n_samples_of_the_batch_or_of_each_group(names, rng):
    scores = rng.integers(0, 9, size=90)
    groups = None if names is None else rng.choice(names, size=90)
    clf, best = fit(range(50), np.arange(50) > 20, 0.1), []
    for name in names or [None]:
        rows = [i for i in range(90) if groups is None or groups[i] == name]
        best += sorted(rows, key=lambda i: (-scores[i], i))[:4]
    best.sort(key=lambda i: (-scores[i], i))
    assert clf.predict_top(column(scores), 4, groups).tolist() == best


def test_wrong_numbers_groups_and_labels_raise():
    X, clf = column(range(30)), fit(range(30), np.arange(30) > 20, 0.1)
    with pytest.raises(ValueError, match=r"y must hold labels that the classifier knows, .* 'new'"):
        clf.score(X, ["new"] * 30)
    for n, error in [(0, ValueError), (2.0, TypeError), (True, TypeError)]:
        with pytest.raises(error, match="n "):
            clf.predict_top(X, n)
    with pytest.warns(UserWarning, match=r"n=31 exceeds the number of samples of X \(30\)"):
        assert len(clf.predict_top(X, 31)) == 30
    with pytest.warns(UserWarning, match="n=20 exceeds the size of some groups"):
        assert len(clf.predict_top(X, 20, ["a"] * 10 + ["b"] * 20)) == 30
    for n, error in [(0, ValueError), (2.5, TypeError), ([3, 0], ValueError), ([], TypeError)]:
        with pytest.raises(error, match="n must be"):
            clf.hits_interval(X, n)
    assert np.shape(clf.hits_interval(X[:0], 2, [])) == (2, 0)
    with pytest.warns(UserWarning, match=r"n=31 exceeds the number of samples of X \(30\)"):
        bounds = clf.hits_interval(X, [30, 31])  # twice the list of all samples
    assert np.transpose(bounds).tolist() == 2 * [[*clf.hits_interval(X, 30)]]
    with pytest.raises(TypeError, match=r"n must be an integer; got \[2, 3\]"):
        clf.hits_interval(X, [2, 3], groups=np.arange(30) % 2)
    with pytest.raises(ValueError, match="groups must have one entry per sample"):
        clf.hits_interval(X, 2, groups=["a"])


@pytest.mark.parametrize("constraint", BUDGETS)
def test_the_method_score_returns_the_metric_of_the_constraint(constraint, data):
    *_, X_cal, y_cal, X_test, y_test = data
    inner, budget = LogisticRegression().fit(data[0], data[1]), BUDGETS[constraint]
    clf = BudgetClassifier(FrozenEstimator(inner), budget=budget, constraint=constraint)
    scores, weight = inner.decision_function(X_test), np.arange(500) % 3 + 1.0
    metric, bound = {
        "count": (metrics.recall_at_k_score, {"k": 0.1}),
        "fpr": (metrics.true_positive_rate_at_fpr_score, {"fpr": 0.1}),
        "recall": (metrics.precision_at_recall_score, {"recall": 0.6}),
        "precision": (metrics.recall_at_precision_score, {"precision": 0.5}),
        "fdr": (metrics.recall_at_precision_score, {"precision": 0.5}),
    }[constraint]
    expected = metric(y_test, scores, sample_weight=weight, **bound)
    assert clf.fit(X_cal, y_cal).score(X_test, y_test, weight) == expected


@pytest.mark.parametrize("pos_label", [None, "fraud", "ok"])
@pytest.mark.filterwarnings("ignore:pos_label=None is ambiguous")
def test_either_label_can_be_positive(pos_label, data):
    X, y, X_cal, y_cal, X_test, _ = data
    names = np.array(["ok", "fraud"])  # in sorted order, the positive label comes first
    inner = LogisticRegression().fit(X, names[y])
    clf = BudgetClassifier(FrozenEstimator(inner), **COUNT, budget=0.1, pos_label=pos_label)
    clf.fit(X_cal, names[y_cal])
    assert clf.pos_label_ == (pos_label or "fraud")
    of_label = inner.predict_proba(X_test)[:, inner.classes_ == clf.pos_label_].ravel()
    flagged = clf.predict(X_test) == clf.pos_label_
    assert 20 < flagged.sum() < 90
    assert of_label[flagged].min() > of_label[~flagged].max()
    np.testing.assert_array_equal(clf.decision_function(X_test) > 0, clf.predict(X_test) == "ok")


def test_labels_in_another_order_than_the_samples_warn(data):
    X, y, clf = pd.DataFrame(data[0]), pd.Series(data[1])[::-1], BudgetClassifier(GaussianNB())
    ranker = DeepTopPushClassifier(max_epochs=1)
    use = [(each, X) for each in (clf.fit, clf.score, ranker.fit, ranker.score)]
    use += (clf.from_scores, X[0]), (partial(metrics.recall_at_k_score, k=9), X[0] > 0)
    use += [(partial(metrics.topk_accuracy_score, k=1), X[0] > 0)]
    use += [(partial(metrics.make_top_scorer("recall_at_k", k=9), ranker), X)]
    use += [(partial(compare_losses, clf, [], cv=2, scoring="roc_auc", progress=False), X[:90])]
    use += [(lambda X, y: ranker.fit(X, data[1], X_val=X, y_val=y), X)]
    said = "have the same index in different orders, but are matched"
    for each, table in use:
        with warnings.catch_warnings(record=True, action="always") as caught:
            each(table, y[-len(table) :])
        assert any(said in str(warning.message) for warning in caught), each


def test_calibration_without_positives_or_with_reversed_labels_warns():
    with pytest.warns(UserWarning, match="no calibration sample is positive: check y"):
        fit(range(40), np.zeros(40, dtype=bool), 0.1)
    with pytest.warns(UserWarning, match="estimator ranks 'yes' below 'no' .*: check y and pos_la"):
        fit(range(40), np.arange(40) < 20, 0.1)


def test_impossible_guarantees_flag_nothing_or_everything_with_a_warning():
    for constraint, budget, message, one in [
        ("fpr", 0.01, r"at least 299 negatives .* got 20\. No sample will", "no"),
        ("recall", 0.95, r"at least 59 positives .* got 20\. Every sample", "yes"),
        ("precision", 0.95, r"at least 59 test samples .*\. No sample will", "no"),
        ("fdr", 0.02, r"at least 49 calibration samples; got 40\. No sample will", "no"),
    ]:
        with pytest.warns(UserWarning, match=message):
            clf = fit(range(40), np.arange(40) >= 20, budget, constraint)
        assert np.isinf(clf.threshold_)
        assert (clf.predict(column([-1e300, 1e300])) == one).all()
        found, inf = clf.decision_function(column([-1e300, 0, 1, 1e300])), np.inf
        assert (np.diff([0, *found, inf] if one == "yes" else [-inf, *found, 0]) > 0).all()
        assert clf.predict_top(column(range(40)), 2).tolist() == [39, 38]


def test_drifted_scores_give_a_warning():
    X, clf = column(range(1000)), fit(range(1000), np.arange(1000) >= 800, 0.1)
    for method in (clf.predict, clf.predict_top, lambda X: clf.hits_interval(X, 9)):
        with pytest.warns(UserWarning, match=r"100 % of 100 samples are flagged, but 10 % of"):
            method(X[900:])
        with warnings.catch_warnings(action="error"):
            method(X[::10])
    with pytest.warns(UserWarning, match="a lower bound is above its upper bound: X is not like"):
        clf.hits_interval(column([880] * 9 + [0] * 3), [8, 10])


def test_a_frozen_classifier_must_be_fitted_and_a_fitted_one_should_be_frozen(data):
    with pytest.raises(NotFittedError, match="the LogisticRegression in FrozenEstimator is not"):
        BudgetClassifier(FrozenEstimator(LogisticRegression()), budget=0.1).fit(*data[:2])
    with pytest.warns(UserWarning, match=r"estimator is fitted.*pass FrozenEstimator\(estimator\)"):
        BudgetClassifier(LogisticRegression().fit(*data[:2]), budget=0.2).fit(*data[:2])


def test_a_budget_classifier_works_in_searches_and_with_tuned_thresholds(data):
    X, y, X_cal, *_ = data
    grid = {"estimator__C": [1e-3, 1.0], "budget": [0.1, 0.2], "constraint": ["count"]}
    search = GridSearchCV(BudgetClassifier(LogisticRegression(), random_state=0), grid, cv=2)
    assert search.fit(X, y).best_params_["budget"] == 0.2
    tuned = TunedThresholdClassifierCV(LogisticRegression(), cv=2)
    inside = BudgetClassifier(tuned, **COUNT, budget=0.1, random_state=0).fit(X, y)
    assert inside.rates_["flagged"].count == 10
    around = clone(tuned).set_params(estimator=search.estimator)
    assert around.fit(X, y).predict(X_cal).any()


PARAMETERS = [
    (COUNT | {"budget": 0}, ValueError, "budget must be an integer >= 1 or a fraction .*; got 0"),
    (COUNT | {"budget": "5"}, TypeError, "budget must be an integer >= 1 or a .*; got '5'"),
    ({"budget": 1}, ValueError, "budget must be a rate in .*'fpr'; got 1"),
    ({"constraint": "cost"}, ValueError, "constraint must be one of 'count', .*; got 'cost'"),
    ({"delta": 0.95}, UserWarning, r"delta=0\.95 is the probability .*, set delta=0\.05"),
    ({"constraint": "recall", "budget": 0.05}, UserWarning, r"0\.05 is the lowest .* budget=0\.95"),
    ({"constraint": "fpr", "budget": 0.95}, UserWarning, r"budget=0\.95 allows many errors"),
    ({"delta": 1.0}, ValueError, r"delta == 1\.0, must be < 1"),
    ({"validation_fraction": 0}, ValueError, "validation_fraction == 0"),
    ({"pos_label": "maybe"}, ValueError, "pos_label must be one of .* got 'maybe'"),
    ({"random_state": "now"}, ValueError, "random_state must be .* got 'now'"),
]


@pytest.mark.parametrize(("params", "error", "message"), PARAMETERS, ids=str)
def test_wrong_parameters_of_budget_classifier_raise_or_warn(params, error, message):
    with (pytest.warns if error is UserWarning else pytest.raises)(error, match=message):
        BudgetClassifier(Column(), **params).fit(column(range(20)), labels(np.arange(20) > 9))


@pytest.mark.parametrize(("constraint", "which"), [("fpr", "no"), ("recall", "every")])
def test_equal_scores_give_a_warning(constraint, which):
    y = np.arange(200) % 2
    with pytest.warns(UserWarning, match=f"{which} calibration sample is above the threshold"):
        clf = BudgetClassifier.from_scores(0.0 * y, y, budget=0.5, constraint=constraint)
    assert (clf.predict(np.zeros(3)) == (which == "every")).all()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("steps", [[], [StandardScaler()]], ids=["alone", "in a pipeline"])
def test_a_classifier_without_a_positive_label_gets_pos_label_of_budget_classifier(steps):
    X, y = make_classification(600, weights=[0.6], class_sep=2, random_state=0)
    y = np.where(y == 1, "bad", "ok")  # 40 % are "bad": too many for a default positive label
    ranker = PatMatClassifier(tau=0.3, n_estimators=2, max_epochs=4, random_state=0)
    clf = make_pipeline(*steps, ranker) if steps else ranker
    selection = BudgetClassifier(clf, budget=0.3, pos_label="bad", random_state=0).fit(X, y)
    assert (y[selection.predict_top(X, 50)] == "bad").all()
    assert ranker.pos_label is None
    with pytest.warns(UserWarning, match="pos_label='ok' differs from pos_label_='bad'"):
        BudgetClassifier(FrozenEstimator(selection.estimator_), pos_label="ok").fit(X, y)
    with pytest.raises(AttributeError, match=r"use estimator_\.predict_proba\(X\)"):
        selection.predict_proba(X)


def test_whole_groups_are_held_out_and_one_sample_of_each_calibrates():
    customer = np.arange(200) // 4
    X, y = column(customer), labels(customer % 2 > 0)
    clf = BudgetClassifier(Column(), constraint="count", random_state=0).fit(X, y, groups=customer)
    held_out = {*clf.calibration_scores_} - {*clf.estimator_.fit_X_[:, 0]}
    assert len(held_out) == len(clf.calibration_scores_) == 10
    clf.set_params(estimator=frozen()).fit(X, y, groups=customer)
    assert sorted(clf.calibration_scores_) == list(range(50))
    clf.set_params(estimator=DeepTopPushClassifier(n_estimators=1, max_epochs=1), constraint="fpr")
    with pytest.warns(UserWarning, match="got 5. One sample of each group calibrates. No sample"):
        assert not hasattr(clf.fit(X, y, groups=customer).estimator_, "n_groups_")
