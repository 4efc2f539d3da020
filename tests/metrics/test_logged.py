"""Do scores of a log have the mean of the scores of all rows, and intervals that hold?"""

import warnings

import numpy as np
import pytest
from scipy.stats import chi2

from sktopk.metrics import (
    BudgetCurveDisplay,
    BudgetTableDisplay,
    budget_table,
    precision_at_k_score,
    recall_at_k_score,
)
from sktopk.metrics._logged import poisson_interval

N_DRAWS = 2000


@pytest.fixture
def day(rng):
    """Scores and labels of a day: 200 rows, of which the 15 best and 5 others are looked at."""
    y = rng.random(200) < 0.15
    scores = rng.normal(size=200) + y
    order = np.argsort(-scores)
    return y[order].astype(float), scores[order]


def logs(y, n_draws, rng):
    """Labels and propensities of as many queues of the same day, a row for each."""
    n = len(y)
    lot = rng.random((n_draws, n - 15)).argsort(axis=1) < 5
    known = np.column_stack([np.ones((n_draws, 15), dtype=bool), lot])
    propensity = np.broadcast_to(np.r_[np.ones(15), np.full(n - 15, 5 / (n - 15))], known.shape)
    return np.where(known, y, np.nan), np.where(known, propensity, np.nan)


@pytest.mark.parametrize("score", [precision_at_k_score, recall_at_k_score])
def test_labels_in_a_column_are_those_in_a_row(score, day):
    y, scores = day
    y[150:] = np.nan
    propensity = np.r_[np.full(150, 0.75), np.full(50, np.nan)]
    given = {"k": 20, "propensity": propensity}
    assert score(y[:, np.newaxis], scores, **given) == score(y, scores, **given)


@pytest.mark.parametrize("k", [10, 20, 60])
def test_precision_of_logs_has_no_bias_and_that_of_labels_alone_has(k, day, rng):
    y, scores = day
    found, propensity = logs(y, N_DRAWS, rng)
    truth = precision_at_k_score(y, scores, k=k)
    each = [
        precision_at_k_score(*row, k=k, propensity=p)
        for *row, p in zip(found, np.broadcast_to(scores, found.shape), propensity, strict=True)
    ]
    error = np.std(each) / N_DRAWS**0.5
    assert abs(np.mean(each) - truth) <= 3.5 * error + 1e-12
    assert (error < 1e-12) == (k <= 15)
    if k > 15:
        naive = [
            precision_at_k_score(np.nan_to_num(row), scores, k=k) for row in found[: N_DRAWS // 10]
        ]
        assert np.mean(naive) < truth - 10 * error


def test_recall_of_logs_is_right_with_many_days_and_naive_recall_is_not(rng):
    y = rng.random(400_000) < 0.1
    scores = rng.normal(size=len(y)) + y
    day = np.repeat(np.arange(2000), 200)
    best_first = np.lexsort((-scores, day))
    y, scores = y[best_first].astype(float), scores[best_first]
    found, propensity = (each.ravel() for each in logs(np.zeros(200), 2000, rng))
    found = np.where(np.isnan(found), np.nan, y)
    options = {"k": 20, "groups": day}
    truth = recall_at_k_score(y, scores, **options)
    estimate = recall_at_k_score(found, scores, propensity=propensity, **options)
    known = ~np.isnan(found)
    naive = recall_at_k_score(found[known], scores[known], k=20, groups=day[known])
    assert abs(estimate - truth) < 0.02
    assert naive == 1 > truth + 0.4


def test_normalised_precision_is_a_share_and_nearer_where_most_rows_are_alike(rng):
    # Of rows that are all positive it is 1 whatever the draw, which the other one is not.
    y, scores = np.ones(200), -np.arange(200.0)
    found, propensity = logs(y, 50, rng)
    plain, normalised = (
        [
            precision_at_k_score(row, scores, k=100, propensity=p, normalize=normalize)
            for row, p in zip(found, propensity, strict=True)
            if np.isfinite(p[15:100]).any()
        ]
        for normalize in (False, True)
    )
    np.testing.assert_allclose(normalised, 1)
    assert np.std(plain) > 0.1
    assert max(plain) > 1


def test_all_labels_known_for_sure_is_no_log(day):
    y, scores = day
    sure = np.ones(len(y))
    for k in (7, 0.3):
        for metric in (precision_at_k_score, recall_at_k_score):
            assert metric(y, scores, k=k, propensity=sure) == metric(y, scores, k=k)
    plain = budget_table(y, scores, budgets=[10, 50], n_bootstraps=10)
    log = budget_table(y, scores, budgets=[10, 50], propensity=sure)
    for name in ("hits", "precision", "recall"):
        np.testing.assert_allclose(log[name], plain[name])


@pytest.mark.parametrize("kind", ["object", "words", "frame"])
def test_labels_beside_a_propensity_of_nan_are_not_looked_at(kind, day):
    pd = pytest.importorskip("pandas")
    y, scores = day
    propensity = np.where(np.arange(200) % 3, np.nan, 1 / 3)
    expected = precision_at_k_score(y, scores, k=30, propensity=propensity)
    labels = np.where(y == 1, "fraud", "ok").astype(object)
    given = {"object": y.astype(object), "words": labels, "frame": pd.Series(labels)}[kind]
    given[np.isnan(propensity)] = None
    pos_label = None if kind == "object" else "fraud"
    options = {"k": 30, "pos_label": pos_label, "propensity": propensity}
    assert precision_at_k_score(given, scores, **options) == expected


def test_ties_and_weights_share_what_a_label_stands_for():
    scores, propensity = np.array([2.0, 1.0, 1.0, 1.0, 0.0]), [1, 0.5, np.nan, 0.5, 0.5]
    y = [1, 1, None, 0, 1]
    # Of three rows that tie one place: a third of the one that stands for two.
    assert precision_at_k_score(y, scores, k=2, propensity=propensity) == pytest.approx(
        (1 + 2 / 3) / 2
    )
    assert recall_at_k_score(y, scores, k=2, propensity=propensity) == pytest.approx(
        (1 + 2 / 3) / 5
    )
    twice = precision_at_k_score(
        y, scores, k=4, propensity=propensity, sample_weight=np.full(5, 2.0)
    )
    assert twice == pytest.approx((1 + 2 / 3) / 2)


def test_interval_of_equal_weights_is_the_exact_one_of_a_count():
    for count in (0, 1, 7):
        low, high = poisson_interval(np.full(count, 3.0), 0.95, 3.0)
        assert low == pytest.approx(3 * chi2.ppf(0.025, 2 * count) / 2 if count else 0)
        assert high == pytest.approx(3 * chi2.ppf(0.975, 2 * (count + 1)) / 2)


def test_intervals_hold_at_least_as_often_as_they_say_and_are_no_excuse(rng):
    # Days are drawn as well as queues; 40 of them are one log.
    held, width = [], []
    day = np.repeat(np.arange(40), 100)
    share, n_draws = {"hits": None, "recall": None}, 2000
    large = rng.random((2000, 100)) < 0.1
    scores = rng.normal(size=large.shape) + 1.5 * large
    k = 0.2 * large.size
    cut = np.partition(scores.ravel(), -int(k))[-int(k)]
    share["hits"] = 20 * large[scores >= cut].sum() / k
    share["recall"] = large[scores >= cut].sum() / large.sum()
    for _ in range(n_draws):
        y = rng.random((40, 100)) < 0.1
        s = np.sort(np.where(y, 1.5, 0) + rng.normal(size=y.shape), axis=1)[:, ::-1]
        # Given the score a row is positive with the odds of two normal densities.
        odds = 0.1 / 0.9 * np.exp(1.5 * s - 1.5**2 / 2)
        y = (rng.random(s.shape) < odds / (1 + odds)).astype(float)
        known = np.zeros(y.shape, dtype=bool)
        known[:, :15] = True
        known[np.arange(40)[:, None], 15 + rng.random((40, 85)).argsort(axis=1)[:, :10]] = True
        propensity = np.where(np.arange(100) < 15, 1.0, 10 / 85)
        propensity = np.where(known, propensity, np.nan).ravel()
        table = budget_table(y.ravel(), s.ravel(), budgets=[20], n_rows=100, propensity=propensity)
        low, high = (np.array([table[f"{n}_{e}"][0] for n in share]) for e in ("low", "high"))
        truth = np.array(list(share.values()))
        held.append((low <= truth) & (truth <= high))
        width.append(high - low)
    assert len(day) == y.size
    assert (np.mean(held, axis=0) >= 0.95 - 3 * (0.05 * 0.95 / n_draws) ** 0.5).all()
    # Not by being trivially wide.
    hits, recall = np.mean(width, axis=0)
    assert hits < 0.5 * share["hits"]
    assert recall < 0.6


def test_curve_of_a_log_is_that_of_its_scores(day):
    y, scores = day
    propensity = np.where(np.arange(200) % 2, np.nan, 0.5)
    y[np.isnan(propensity)] = np.nan
    for metric, score in {"precision": precision_at_k_score, "recall": recall_at_k_score}.items():
        display = BudgetCurveDisplay.from_predictions(
            y, scores, metric=metric, propensity=propensity
        )
        expected = [score(y, scores, k=int(k), propensity=propensity) for k in display.k]
        np.testing.assert_allclose(display.score, expected)
        # In the best order each row brings one positive, until there are no more.
        found = np.minimum(display.k, 2 * np.nansum(y))
        by = display.k if metric == "precision" else found[-1]
        np.testing.assert_allclose(display.ideal, found / by)
    value = np.arange(200.0)
    display = BudgetCurveDisplay.from_predictions(y, scores, value=value, propensity=propensity)
    assert display.score[-1] == pytest.approx(2 * value[(propensity > 0) & (y == 1)].sum())
    assert display.ideal[-1] == pytest.approx(display.score[-1])
    table = BudgetTableDisplay.from_predictions(y, scores, budgets=[20], propensity=propensity)
    expected = precision_at_k_score(y, scores, k=20, propensity=propensity)
    assert table.table["precision"][0] == pytest.approx(expected)


def test_a_log_without_draws_is_told(day):
    y, scores = day
    propensity = np.where(np.arange(200) < 20, 1.0, np.nan)
    with pytest.warns(UserWarning, match="recall_at_k_score: every known label has propensity 1"):
        assert recall_at_k_score(y, scores, k=20, propensity=propensity) == 1
    with pytest.warns(UserWarning, match="budget_table: every known label"):
        budget_table(y, scores, budgets=[10], propensity=propensity)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        precision_at_k_score(y, scores, k=20, propensity=propensity)


def test_no_positive_seen_is_an_estimate_of_precision_and_none_of_recall():
    y, scores, propensity = [0, 0, None], [3, 2, 1.5], [1, 0.5, np.nan]
    assert precision_at_k_score(y, scores, k=2, propensity=propensity) == 0
    with pytest.warns(UserWarning, match="no positives"):
        assert np.isnan(recall_at_k_score(y, scores, k=2, propensity=propensity))
    late = {"propensity": [np.nan, 0.5, 0.5], "normalize": True}
    with pytest.warns(UserWarning, match="no known label among the k best"):
        assert np.isnan(precision_at_k_score([None, 0, 1], scores, k=1, **late))


BAD = {
    "zero": ([1, 0, np.nan], {}, r"propensity must be in \(0, 1\].*got 0"),
    "more than one": ([1, 2, np.nan], {}, r"propensity must be in \(0, 1\].*got 2"),
    "none known": ([np.nan] * 3, {}, "propensity must be known for at least one row"),
    "too few": ([1, 1], {}, r"propensity must be 3 numbers.*shape \(2,\)"),
    "words": (["a"] * 3, {}, "propensity must be 3 numbers"),
    "ties": ([1, 1, 1], {"ties": "optimistic"}, "ties must be .expected. with propensity"),
    "normalize alone": (None, {"normalize": True}, "normalize=True needs propensity"),
}


@pytest.mark.parametrize("case", BAD)
def test_wrong_propensities_are_refused_by_name(case):
    propensity, options, message = BAD[case]
    with pytest.raises(ValueError, match=message):
        precision_at_k_score([1, 0, 1], [3, 2, 1], k=1, propensity=propensity, **options)
    with pytest.raises(TypeError, match="normalize must be True or False"):
        precision_at_k_score([1, 0, 1], [3, 2, 1], k=1, normalize="yes")
