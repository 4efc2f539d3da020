"""Does BudgetClassifier spend money and minutes where they bring most?"""

import itertools
import pickle
import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from scipy.special import expit
from sklearn.datasets import make_classification
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC

from sktopk import BudgetClassifier, make_pipeline
from sktopk._estimators.decisions import _knapsack
from sktopk._estimators.decisions._expected_value import IsotonicProbability
from sktopk._estimators.decisions._knapsack import most_valuable
from sktopk.io import dump, load
from tests.scored import column, frozen, labels

N_DRAWS = 2000


def best_of_all(value, cost, budget):
    """The most value of any set of rows within the budget, by looking at each."""
    sets = np.array(list(itertools.product([0, 1], repeat=len(value))))
    return np.max(sets @ value, where=sets @ cost <= budget, initial=0)


@pytest.mark.parametrize("n_exact", [0, 1000], ids=["greedy", "exact"])
def test_best_set_of_rows(n_exact, rng, monkeypatch):
    monkeypatch.setattr(_knapsack, "_N_EXACT", n_exact)
    lacks, halves = [], []
    for _ in range(300):
        n = rng.integers(1, 12)
        value, cost = rng.integers(0, 30, n), rng.integers(0, 9, n)
        budget = rng.integers(1, 25)
        taken = most_valuable(value.astype(float), cost.astype(float), float(budget))
        best = best_of_all(value, cost, budget)
        assert cost[taken].sum() <= budget
        assert (value[taken] > 0).all()
        lacks.append(best - value[taken].sum())
        assert lacks[-1] < value.max(initial=1)
        halves.append(value[taken].sum() >= best / 2)
    assert all(halves)
    if n_exact:
        assert not any(lacks)
    else:
        assert any(lacks)


def test_hard_choices_end_and_are_no_worse_than_the_greedy_one(rng, monkeypatch):
    # Values of costs plus a constant: a hundred thousand nodes do not settle them.
    cost = rng.integers(1000, 10_000, 200).astype(float)
    value, budget = cost + 1000, float(cost.sum() // 2)
    monkeypatch.setattr(_knapsack, "_MOST_NODES", 20)
    taken = _knapsack.most_valuable(value, cost, budget)
    monkeypatch.setattr(_knapsack, "_N_EXACT", 0)
    greedy = _knapsack.most_valuable(value, cost, budget)
    assert cost[taken].sum() <= budget
    assert value[taken].sum() > value[greedy].sum()
    # No set is worth more than one of which a part of a row may be taken.
    order = np.argsort(-value / cost)
    whole = np.cumsum(cost[order]) <= budget
    part = value[order][~whole][0] * (budget - cost[order][whole].sum()) / cost[order][~whole][0]
    bound = value[order][whole].sum() + part
    assert 0.998 * bound < value[taken].sum() <= bound


def test_one_dear_row_is_not_lost_to_a_cheap_one(monkeypatch):
    monkeypatch.setattr(_knapsack, "_N_EXACT", 0)
    taken = most_valuable(np.array([2.0, 100.0]), np.array([1.0, 100.0]), 100.0)
    assert taken.tolist() == [False, True]


@pytest.mark.parametrize("scale", [1e-200, 1e-3, 1e200])
def test_units_do_not_matter(scale, rng):
    value, cost = rng.exponential(size=60), rng.integers(1, 20, 60) / 4
    expected = most_valuable(value, cost, 50.0)
    np.testing.assert_array_equal(most_valuable(value * scale, cost, 50.0), expected)
    power = 2.0 ** np.round(np.log2(scale))
    np.testing.assert_array_equal(most_valuable(value, cost * power, 50 * power), expected)


def test_many_rows_are_settled_by_the_bound(rng, monkeypatch):
    value, cost = rng.exponential(size=200_000), rng.integers(1, 60, 200_000).astype(float)
    sizes = []
    original = _knapsack._best

    def noted(value, *args):
        sizes.append(len(value))
        return original(value, *args)

    monkeypatch.setattr(_knapsack, "_best", noted)
    taken = most_valuable(value, cost, 4800.0)
    assert cost[taken].sum() <= 4800
    assert sizes[0] < 200
    # No more than by parts of rows, and less than a row behind.
    order = np.argsort(-value / cost)
    n_fit = np.searchsorted(np.cumsum(cost[order]), 4800, side="right")
    parts = np.append(np.ones(n_fit), (4800 - cost[order[:n_fit]].sum()) / cost[order[n_fit]])
    bound = parts @ value[order[: n_fit + 1]]
    assert bound - value.max() < value[taken].sum() <= bound


def draws(n, n_new, distortion, seed=0):
    """Scores that are the log-odds but for a distortion, labels, minutes and amounts."""
    rng = np.random.default_rng(seed)
    odds = rng.normal(-2, 1.5, n + n_new * N_DRAWS)
    positive = rng.random(len(odds)) < expit(odds)
    minutes, amount = rng.integers(5, 60, len(odds)), rng.lognormal(4, 1, len(odds)).round(2)
    return distortion(odds), positive, minutes, amount


DISTORTIONS = {"none": lambda s: s, "cubed": lambda s: s**3, "in steps": lambda s: s.round()}


@pytest.mark.parametrize("distortion", DISTORTIONS.values(), ids=DISTORTIONS)
def test_finds_what_is_expected_and_more_than_other_orders(distortion, monkeypatch):
    # Without the last per cent that integer programming finds, for which the draws are many.
    monkeypatch.setattr(_knapsack, "_N_EXACT", 0)
    n, n_new, budget = 16_000, 60, 240
    scores, positive, minutes, amount = draws(n, n_new, distortion)
    clf = BudgetClassifier(frozen(), budget=budget, constraint="cost", per="group")
    clf.fit(column(scores[:n]), labels(positive[:n]))
    new, hit = scores[n:], positive[n:]
    cost, worth = minutes[n:], amount[n:]
    days = np.repeat(np.arange(N_DRAWS), n_new)
    flagged = clf.predict(column(new), groups=days, cost=cost, value=worth) == "yes"

    def by_day(values):
        return values.reshape(N_DRAWS, n_new).sum(axis=1)

    spent = by_day(cost * flagged)
    # Never more than the budget, and little is left over.
    assert spent.max() <= budget
    assert spent.mean() > 0.97 * budget
    found, expected = by_day(worth * hit * flagged), clf.expected_value(column(new), worth)
    promised = by_day(expected * flagged)
    slack = 4 * np.std(found - promised) / N_DRAWS**0.5
    # What it expects, it finds: but for what the calibration rows leave open.
    assert abs(np.mean(found - promised)) < slack + 0.02 * found.mean()

    def found_by(order):
        """What rows in another order bring that are taken while they fit."""
        rows = np.lexsort((-order, days)).reshape(N_DRAWS, n_new)
        fits = np.cumsum(cost[rows], axis=1) <= budget
        return ((worth * hit)[rows] * fits).sum(axis=1)

    for order in (new, worth, worth / cost, expected):
        less = found - found_by(order)
        assert less.mean() > 4 * less.std() / N_DRAWS**0.5


def test_probabilities_are_those_of_the_calibration_rows(rng):
    scores = rng.normal(size=500).round(1)
    positive = rng.random(500) < expit(3 * scores)
    clf = BudgetClassifier.from_scores(scores, positive, constraint="cost", budget=5.0)
    proba = clf.expected_value(scores)
    assert ((proba > 0) & (proba < 1)).all()
    assert (np.diff(proba[np.argsort(scores)]) >= 0).all()
    # Isotonic regression keeps the sum: 500 labels and two more.
    ends = clf.expected_value([scores.min(), scores.max()]).sum()
    assert proba.sum() + ends == pytest.approx(positive.sum() + 1)
    value = rng.random(500)
    np.testing.assert_array_equal(clf.expected_value(scores, value), value * proba)


@pytest.fixture
def data():
    X, y = make_classification(1600, weights=[0.8], flip_y=0.1, random_state=0)
    rng = np.random.default_rng(1)
    return X, y, rng.integers(5, 60, 1600), rng.exponential(100, 1600)


@pytest.mark.parametrize(
    "inner", [LogisticRegression(), make_pipeline(StandardScaler(), LinearSVC())]
)
def test_rows_to_look_at_are_those_flagged_best_first(inner, data, tmp_path):
    X, y, minutes, amount = data
    clf = BudgetClassifier(inner, budget=480, constraint="cost", random_state=0)
    clf.fit(X[:1000], y[:1000])
    given = {"cost": minutes[1000:], "value": amount[1000:]}
    flagged = clf.predict(X[1000:], **given) == 1
    top = clf.predict_top(X[1000:], **given)
    assert sorted(top) == np.flatnonzero(flagged).tolist()
    per_minute = clf.expected_value(X[1000:], amount[1000:])[top] / minutes[1000:][top]
    assert (np.diff(per_minute) <= 0).all()
    assert 400 < minutes[1000:][top].sum() <= 480
    assert not hasattr(clf, "threshold_")
    expected = (amount[1000:] * y[1000:])[flagged].sum() / (amount[1000:] * y[1000:]).sum()
    assert clf.score(X[1000:], y[1000:], **given) == pytest.approx(expected)
    # Values of one each, and so many rows as ever.
    assert len(clf.predict_top(X[1000:], cost=minutes[1000:])) > len(top)
    low, high = clf.hits_interval(X[1000:], 20)
    assert low <= y[1000:][clf.predict_top(X[1000:], 20)].sum() <= high
    path = dump(BudgetClassifier(LogisticRegression(), budget=480, constraint="cost").fit(X, y),
                tmp_path / "desk.sktopk")  # fmt: skip
    again = load(path)
    rows = again.predict_top(X, cost=minutes, value=amount)
    assert minutes[rows].sum() <= 480
    np.testing.assert_array_equal(
        pickle.loads(pickle.dumps(clf)).predict_top(X[1000:], **given), top
    )


def test_weight_two_is_a_row_twice_in_the_score(data):
    X, y, minutes, amount = data
    clf = BudgetClassifier(LogisticRegression(), budget=480, constraint="cost", random_state=0)
    clf.fit(X[:800], y[:800], sample_weight=np.ones(800))
    given = {"cost": minutes, "value": amount}
    plain, weighted = clf.score(X, y, **given), clf.score(X, y, 1.0 + y * (amount > 100), **given)
    gain = y * amount * (1 + (amount > 100))
    flagged = clf.predict(X, **given) == 1
    assert weighted == pytest.approx(gain[flagged].sum() / gain.sum())
    assert weighted != plain
    with pytest.warns(UndefinedMetricWarning, match="no positive of positive value"):
        assert np.isnan(clf.score(X, np.zeros(1600, int), **given))


def test_every_group_has_a_budget_of_its_own(data):
    X, y, minutes, amount = data
    clf = BudgetClassifier(LogisticRegression(), budget=120.0, constraint="cost", random_state=0)
    clf.set_params(per="group").fit(X, y)
    days = np.array(["mon", "tue", "wed", "thu"])[np.arange(1600) % 4]
    flagged = clf.predict(X, groups=days, cost=minutes, value=amount) == 1
    whole = clf.set_params(per="batch")
    for day in np.unique(days):
        own = days == day
        given = {"cost": minutes[own], "value": amount[own]}
        np.testing.assert_array_equal(whole.predict(X[own], **given) == 1, flagged[own])


@pytest.mark.parametrize("make", [list, np.asarray, pd.Series, pl.Series])
def test_costs_of_every_container(make, rng, tmp_path):
    positive = rng.random(500) < 0.3
    scores = rng.normal(size=500) + 2 * positive
    cost, value = rng.integers(1, 9, 200), rng.integers(1, 99, 200)
    params = {"budget": 60, "constraint": "cost", "random_state": 0}
    y = labels(positive[:300])
    ours = BudgetClassifier.from_scores(scores[:300], y, pos_label="yes", **params)
    clf = BudgetClassifier(frozen(), **params).fit(column(scores[:300]), y)
    expected = clf.predict_top(column(scores[300:]), cost=cost, value=value)
    given = {"cost": make(cost.tolist()), "value": make(value.tolist())}
    np.testing.assert_array_equal(ours.predict_top(scores[300:], **given), expected)
    frame = pd.DataFrame({"score": scores[300:], "minutes": cost, "amount": value})
    found = clf.predict_top(frame[["score"]], cost=frame.minutes, value=frame.amount)
    np.testing.assert_array_equal(found, expected)
    again = load(dump(ours, tmp_path / "desk.sktopk"))
    np.testing.assert_array_equal(again.predict_top(scores[300:], **given), expected)


@pytest.mark.parametrize("routing", [False, True])
def test_pipelines_pass_costs_on(routing, data):
    X, y, minutes, amount = data
    given = {"cost": minutes, "value": amount}
    last = BudgetClassifier(LogisticRegression(), budget=90, constraint="cost", random_state=0)
    scaled = StandardScaler().fit(X)
    alone = sklearn.clone(last).fit(scaled.transform(X), y)
    expected = alone.predict(scaled.transform(X), **given)
    with sklearn.config_context(enable_metadata_routing=routing):
        pipe = make_pipeline(StandardScaler(), last).fit(X, y)
        np.testing.assert_array_equal(pipe.predict(X, **given), expected)
        rows = pipe.predict_top(X, **given)
        assert set(rows) == set(np.flatnonzero(expected == 1))
        worth = alone.expected_value(scaled.transform(X), amount)
        np.testing.assert_array_equal(pipe.expected_value(X, amount), worth)


def test_what_the_budget_does_not_pay_for_is_reported(data):
    X, y, minutes, _ = data
    clf = BudgetClassifier(LogisticRegression(), budget=4.5, constraint="cost", random_state=0)
    clf.fit(X, y)
    with pytest.warns(UserWarning, match=r"budget=4.5 but the cheapest row costs more: none is fl"):
        assert (clf.predict(X, cost=minutes) == 0).all()
    clf.set_params(budget=1e9)
    with pytest.warns(UserWarning, match=r"budget=1e\+09 but all rows cost less"):
        assert (clf.predict(X, cost=minutes) == 1).all()
    clf.set_params(budget=30, per="group")
    days, dear = np.arange(1600) % 2, minutes + 30 * (np.arange(1600) % 2)
    message = "budget=30 but the cheapest row costs more: none of 1 of 2 groups is flagged"
    with pytest.warns(UserWarning, match=message):
        clf.predict(X, groups=days, cost=dear)
    clf.set_params(per="batch")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert clf.predict(X, cost=minutes).sum() >= 1
        # What costs nothing is always looked at, what is worth nothing never.
        assert clf.predict(X, cost=minutes * (minutes > 20)).sum() > (minutes <= 20).sum()
        assert clf.predict(X, cost=minutes, value=np.zeros(1600)).sum() == 0


def fitted(data, **params):
    X, y, *_ = data
    return BudgetClassifier(LogisticRegression(), **{"random_state": 0} | params).fit(X, y)


REFUSED = {
    "no cost": ({}, 'cost must be passed with constraint="cost": .*; got None'),
    "too short": ({"cost": [1, 2]}, r"cost must be 1600 numbers, one per row of X; .*\(2,\)"),
    "negative": ({"cost": -np.ones(1600)}, "cost must be finite and nonnegative; got -1"),
    "NaN": ({"cost": np.full(1600, np.nan)}, "cost must be finite and nonnegative; got nan"),
    "text": ({"cost": ["5 min"] * 1600}, "cost must be 1600 numbers"),
    "value": (
        {"cost": np.ones(1600), "value": np.full(1600, -2.0)},
        "value must be finite and nonnegative; got -2",
    ),
    "ratio": (
        {"cost": np.ones(1600), "likelihood_ratio": np.ones(1600)},
        "likelihood_ratio is for constraint=\"fdr\" without n; got 'cost'",
    ),
    "groups": ({"cost": np.ones(1600), "groups": np.ones(1600)}, "groups"),
}


@pytest.mark.parametrize(("given", "message"), REFUSED.values(), ids=REFUSED)
@pytest.mark.parametrize("method", ["predict", "predict_top"])
def test_costs_are_checked(given, message, method, data):
    clf = fitted(data, constraint="cost", budget=480)
    with pytest.raises(ValueError, match=message):
        getattr(clf, method)(data[0], **given)


def test_costs_of_no_use_are_refused(data):
    X, y, minutes, amount = data
    clf = fitted(data, budget=50, per="batch")
    for given in ({"cost": minutes}, {"value": amount}):
        name = next(iter(given))
        message = f"{name} is for constraint=\"cost\" without n; got 'count'"
        for call in (clf.predict, clf.predict_top, lambda X, **given: clf.score(X, y, **given)):
            with pytest.raises(ValueError, match=message):
                call(X, **given)
    with pytest.raises(ValueError, match="expected_value is for constraint=\"cost\"; got 'count'"):
        clf.expected_value(X)
    clf = fitted(data, constraint="cost", budget=480)
    with pytest.raises(ValueError, match='cost is for constraint="cost" without n'):
        clf.predict_top(X, 5, cost=minutes)
    with pytest.raises(TypeError, match=r"^BudgetClassifier\.expected_value\(\) got an .* 'cost'"):
        clf.expected_value(X, cost=minutes)
    with pytest.raises(TypeError, match="X must be a table; got a stream"):
        clf.predict_top(iter([X]), cost=minutes)


@pytest.mark.parametrize("budget", [0, -1, np.nan, np.inf, "480", True])
def test_budget_is_checked(budget, data):
    with pytest.raises((TypeError, ValueError), match="budget"):
        fitted(data, constraint="cost", budget=budget)


FORGED = {
    "falls": ([0.0, 1.0], [0.5, 0.4]),
    "out of order": ([1.0, 0.0], [0.4, 0.5]),
    "above 1": ([0.0, 1.0], [0.4, 1.5]),
    "negative": ([0.0, 1.0], [-0.1, 0.5]),
    "NaN": ([0.0, np.nan], [0.4, 0.5]),
    "lengths": ([0.0, 1.0], [0.4]),
    "nothing": ([], []),
}


@pytest.mark.parametrize(("scores", "proba"), FORGED.values(), ids=FORGED)
def test_files_with_what_are_no_probabilities_are_refused(scores, proba, data, tmp_path):
    clf = fitted(data, constraint="cost", budget=480)
    forged = IsotonicProbability(np.array(scores, float), np.array(proba, float))
    clf._probability = forged
    with pytest.raises(ValueError, match="_probability of BudgetClassifier has a wrong type"):
        load(dump(clf, tmp_path / "desk.sktopk"))
    del clf._probability
    with pytest.raises(ValueError, match="_probability of BudgetClassifier is missing"):
        load(dump(clf, tmp_path / "desk.sktopk"))
