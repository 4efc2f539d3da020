"""Thresholds, selections and numbers of hits equal their definitions and keep their guarantees."""

import itertools
import math
import warnings

import numpy as np
import pytest
from scipy.stats import binom, norm
from sklearn.utils import check_random_state

from sktopk import BudgetClassifier
from sktopk._estimators.decisions._constraints import CONSTRAINTS
from sktopk._estimators.decisions._guarantees import conformal_selection, simultaneous_hits
from tests.scored import column, frozen, labels

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")
N_DRAWS = 600
# The first draws call `fit` and `predict_top`. The other draws call the functions inside, which are
# faster, because they do not check the samples.
N_FITS = 20


def fit(scores, positive, budget, constraint="count", **params):
    clf = BudgetClassifier(frozen(), budget=budget, constraint=constraint, **params)
    return clf.fit(column(scores), labels(positive))


def draw(rng, n, prevalence, step=None):
    """Scores and labels: positives N(2, 1), negatives N(0, 1), rounded to multiples of `step`."""
    positive = rng.random(n) < prevalence
    scores = rng.normal(size=n) + 2.0 * positive
    return scores if step is None else step * np.round(scores / step), positive


def threshold_of(scores, positive, budget, constraint, seed, delta):
    scores, random = scores.astype(float), check_random_state(seed)
    bound = CONSTRAINTS[constraint](budget, delta)
    found, _ = bound.find_threshold(scores, positive, len(scores), random)
    if seed < N_FITS:
        params = {"delta": delta, "random_state": seed}
        assert found == fit(scores, positive, budget, constraint, **params).threshold_
    return found


def interval_of(old, new, ns, seed, delta):
    if seed >= N_FITS:
        return simultaneous_hits(*old, new, ns, delta, np.random.default_rng(seed))
    clf = fit(*old, 1, delta=delta, random_state=seed)
    found = simultaneous_hits(*old, new, ns, delta, np.random.default_rng(clf._seed_))
    again = clf.hits_interval(column(new), [*ns[::-1], ns[0]])  # another order, and one n twice
    np.testing.assert_array_equal(again, np.array(found)[:, [*range(len(ns))[::-1], 0]])
    return found


def slack(values):
    return 3 * np.std(values) / len(values) ** 0.5


@pytest.mark.parametrize("delta", [0.05, 0.2])
@pytest.mark.parametrize(
    ("constraint", "n", "budget"),
    [("fpr", 59, 0.05), ("fpr", 200, 0.1), ("fpr", 400, 0.02), ("recall", 59, 0.95),
     ("recall", 200, 0.8)],
)  # fmt: skip
def test_rates_exceed_their_budget_with_probability_at_most_delta(constraint, n, budget, delta):
    rng, of_negatives = np.random.default_rng(1), constraint == "fpr"
    rate = budget if of_negatives else 1 - budget
    allowed = max(x for x in range(n + 1) if binom.cdf(x, n, rate) <= delta)
    violated = []
    # A sample of the other class does not change the threshold.
    other, positive = -1 if of_negatives else 2, (np.arange(n + 1) == n) == of_negatives
    for seed in range(N_DRAWS):
        quantiles = rng.random(n)
        t = threshold_of(np.r_[quantiles, other], positive, budget, constraint, seed, delta)
        ranked = np.sort(quantiles)[::-1] if of_negatives else -np.sort(quantiles)
        cut = t if of_negatives else -t
        assert ranked[allowed] - (not allowed) < cut <= (ranked[allowed - 1] if allowed else np.inf)
        violated.append(1 - t > budget if of_negatives else t > rate)
    assert 0 < np.mean(violated) <= delta + slack(violated)


@pytest.mark.parametrize(("constraint", "budget"), [("fpr", 0.25), ("recall", 0.75)])
def test_guarantees_of_fpr_and_recall_hold_for_tied_scores(constraint, budget):
    rng, violated, positive = np.random.default_rng(3), [], np.arange(300) % 2 == 0
    for seed in range(N_DRAWS):
        scores = rng.integers(0, 10, size=300)
        t = threshold_of(scores, positive, budget, constraint, seed, delta=0.1)
        rate = np.mean(np.arange(10) > t)
        violated.append(rate > budget if constraint == "fpr" else rate < budget)
    assert np.mean(violated) <= 0.1 + slack(violated)


# `noise` puts some negatives above all positives, so the precision is low at the top.
@pytest.mark.parametrize(
    ("n", "prevalence", "precision", "noise"), [(300, 0.3, 0.7, 0.0), (1000, 0.2, 0.7, 0.005)]
)
def test_precision_is_missed_with_probability_at_most_delta(n, prevalence, precision, noise):
    rng, delta = np.random.default_rng(4), 0.1

    def true_rates(t):
        recall, fpr = norm.sf(t - 2.0), (1 - noise) * norm.sf(t) + noise * norm.sf(t - 8.0)
        return prevalence * recall / (prevalence * recall + (1 - prevalence) * fpr), recall

    thresholds = []
    for seed in range(N_DRAWS):
        scores, positive = draw(rng, n, prevalence)
        scores[~positive & (rng.random(n) < noise)] += 8.0
        thresholds.append(threshold_of(scores, positive, precision, "precision", seed, delta))
    finite = np.isfinite(thresholds)
    achieved, recall = true_rates(np.array(thresholds)[finite])
    violated = np.r_[achieved < precision, np.zeros(N_DRAWS - len(achieved))]
    assert 0 < violated.mean() <= delta + slack(violated)
    # Most thresholds are finite, and the median recall is at least half of the best possible one.
    assert finite.mean() > 0.5
    best, ideal_recall = true_rates(np.linspace(-3, 5, 2001))
    assert np.median(recall) >= 0.5 * ideal_recall[best >= precision].max()


def test_precision_is_tested_downwards_from_the_most_promising_threshold(rng):
    scores, positive = draw(rng, 400, 0.3)
    clf = fit(scores, positive, 0.7, "precision", delta=0.1, random_state=0)
    order = check_random_state(0).permutation(400)
    placing, testing = order[:80], order[80:]
    ranked = sorted(scores[placing], reverse=True)
    candidates = [(high + low) / 2 for high, low in itertools.pairwise(ranked)]

    def p_value(rows, t):
        above = scores[rows] > t
        return binom.sf(positive[rows][above].sum() - 1, above.sum(), 0.7)

    evidence = [p_value(placing, t) for t in candidates]
    first = evidence.index(min(evidence))
    passed = list(itertools.takewhile(lambda t: p_value(testing, t) <= 0.1, candidates[first:]))
    assert clf.threshold_ == pytest.approx(passed[-1])


def test_a_precision_barely_above_its_budget_gives_no_advice_to_add_thousands_of_samples():
    rng = np.random.default_rng(8)
    scores, positive = rng.normal(size=400), rng.random(400) < 0.82
    params = {"constraint": "precision", "budget": 0.8, "pos_label": True, "random_state": 0}
    with pytest.warns(UserWarning, match="a better ranking, or a lower precision"):
        BudgetClassifier.from_scores(scores, positive, **params)


@pytest.mark.parametrize("is_tied", [False, True])
def test_the_number_of_flagged_samples_is_the_budget_or_the_most_that_ties_allow(is_tied, rng):
    scores = rng.integers(0, 6, size=50) if is_tied else rng.normal(size=50)
    for n_flagged in range(1, 51):
        with warnings.catch_warnings(record=True, action="always") as caught:
            clf = fit(scores, scores > 0, n_flagged)
        allowed = [int(np.sum(scores > t)) for t in [*scores, -np.inf]]
        best = max(count for count in allowed if count <= n_flagged)
        assert np.sum(scores > clf.threshold_) == best
        said = [str(each.message) for each in caught if "the same score" in str(each.message)]
        assert len(said) == (best < n_flagged)
        for message in said:
            n_tied = np.sum(scores == np.sort(scores)[::-1][n_flagged])
            assert f"flags {best} of 50 calibration samples instead of {n_flagged}" in message
            assert f"because {n_tied} samples have the same score" in message


@pytest.mark.parametrize(
    "scores",
    [[1.0, np.nextafter(1.0, 2.0)], [-np.nextafter(1.0, 2.0), -1.0], [-1e308, 1.7e308],
     [5e-324, 1e-323]],
    ids=str,
)  # fmt: skip
def test_a_threshold_separates_neighbouring_floats(scores):
    assert fit(scores, np.array([False, True]), 1).predict(column(scores)).tolist() == ["no", "yes"]


def test_a_threshold_of_recall_or_fdr_can_be_below_the_lowest_score():
    assert -np.inf < fit([0.25] * 100, np.arange(100) < 99, 0.9, "recall").threshold_ < 0.25
    assert fit(range(9), np.arange(9) > 0, 0.2, "fdr").threshold_ == -np.inf


def benjamini_hochberg(p, level):
    """Return which p-values are selected, by trying every number of selections."""
    m = len(p)
    n_selected = max((k for k in range(1, m + 1) if sorted(p)[k - 1] <= level * k / m), default=0)
    return [i for i, each in enumerate(p) if each <= level * n_selected / m]


@pytest.mark.parametrize("step", [None, 0.5])
@pytest.mark.parametrize("budget", [0.05, 0.3, 0.5])
def test_selection_is_benjamini_and_hochberg_of_conformal_p_values(step, budget, rng):
    for n, m in [(60, 25), (200, 1), (30, 80), *[(9, 12)] * 20]:  # (9, 12): p often equals a level
        scores, positive = draw(rng, n, 0.4, step)
        new, _ = draw(rng, m, 0.4, step)
        p = [(1 + sum(~positive & (scores >= each))) / (n + 1) for each in new]
        selected = fit(scores, positive, budget, "fdr").predict_top(column(new))
        # The tolerance 1e-12 allows for rounding of equal numbers.
        assert sorted(selected) == benjamini_hochberg([each - 1e-12 for each in p], budget)


@pytest.mark.parametrize(
    ("n", "m", "prevalence", "budget", "step"),
    [(300, 150, 0.2, 0.2, None), (50, 20, 0.5, 0.2, None), (300, 100, 0.2, 0.2, 0.5)],
)
def test_the_false_discovery_rate_is_close_to_its_budget_but_below(n, m, prevalence, budget, step):
    rng, false, found = np.random.default_rng(0), [], []
    for seed in range(N_DRAWS):
        old, (new, positive) = draw(rng, n, prevalence, step), draw(rng, m, prevalence, step)
        selected = np.flatnonzero(conformal_selection(*old, new, budget))
        if seed < N_FITS:
            index = fit(*old, budget, "fdr").predict_top(column(new))
            np.testing.assert_array_equal(np.sort(index), selected)
        right = positive[selected]
        false.append(np.sum(~right) / max(1, len(right)))
        found.append(right.sum() / max(1, positive.sum()))
    assert np.mean(false) <= budget + slack(false)
    if step is not None:  # with ties, the selection is conservative
        return
    assert np.mean(false) >= 0.85 * budget - slack(false)
    t = np.linspace(-4, 8, 2001)
    wrong, right = (1 - prevalence) * norm.sf(t), prevalence * norm.sf(t - 2)
    best = norm.sf(t - 2)[wrong / (wrong + right) <= budget].max()
    assert np.mean(found) >= 0.85 * best - slack(found)


def tail(n_new, n_old, hits, found):
    """Hypergeometric P(at most `found` of `hits + found` positives are calibration samples)."""
    n_positive = hits + found
    return sum(
        math.comb(n_old, i) * math.comb(n_new, n_positive - i)
        for i in range(found + 1)
        if n_positive - i <= n_new
    ) / math.comb(n_old + n_new, n_positive)


@pytest.mark.parametrize("delta", [0.05, 0.3])
@pytest.mark.parametrize(("n", "n_old"), [(1, 1), (5, 8), (12, 3), (7, 0)])
def test_hits_interval_has_the_numbers_of_hits_that_two_tests_do_not_reject(n, n_old, delta):
    new = column(np.arange(n + 1) + 10.0)  # the lowest score is not among the n best
    for found in range(n_old + 1):
        # Calibration samples below all new samples do not count, whatever their label.
        scores = np.concatenate([np.full(n_old, 99.0), np.zeros(4)])
        clf = fit(scores, np.arange(n_old + 4) < found, 1, delta=delta)
        expected = [
            hits
            for hits in range(n + 1)
            if tail(n, n_old, hits, found) > delta / 2
            # The probability that at least `found` positives are calibration samples.
            and 1 - (tail(n, n_old, hits + 1, found - 1) if found else 0) > delta / 2
        ]
        assert clf.hits_interval(new, n) == (min(expected), max(expected))


@pytest.mark.parametrize(
    ("n_old", "n_new", "n", "prevalence", "step"),
    [(400, 200, 40, 0.3, None), (500, 500, 100, 0.2, 0.5), (60, 80, 80, 0.3, None)],
)
def test_hits_miss_their_interval_with_probability_at_most_delta(n_old, n_new, n, prevalence, step):
    rng, delta = np.random.default_rng(3), 0.1
    missed, width, ideal, n_above = [], [], [], []
    for seed in range(N_DRAWS):
        old = draw(rng, n_old, prevalence, step)
        new, positive = draw(rng, n_new, prevalence, step)
        (low,), (high,) = interval_of(old, new, [n], seed, delta)
        best = np.argsort(-new, kind="stable")[:n]
        missed.append(not low <= np.count_nonzero(positive[best]) <= high)
        width.append(high - low)
        likely = prevalence * norm.pdf(new[best] - 2)
        likely = np.mean(likely / (likely + (1 - prevalence) * norm.pdf(new[best])))
        ideal.append(2 * norm.isf(delta / 2) * math.sqrt(n * likely * (1 - likely)))
        n_above.append(np.count_nonzero(old[0] > new[best[-1]]))
    assert 0 < np.mean(missed) <= delta + slack(missed)
    # Estimating the share of positives from K samples multiplies the width by sqrt(1 + n / K).
    factor = math.sqrt(1 + n / np.mean(n_above))
    assert np.mean(width) <= 1.1 * factor * np.mean(ideal) + 1


def test_several_intervals_of_hits_hold_at_once():
    rng, delta, ns = np.random.default_rng(4), 0.1, [5, 20, 60, 61]
    missed, tighter = [], 0
    for seed in range(N_DRAWS):
        old, (new, positive) = draw(rng, 300, 0.3), draw(rng, 150, 0.3)
        low, high = interval_of(old, new, ns, seed, delta)
        hits = np.cumsum(positive[np.argsort(-new)])[np.array(ns) - 1]
        missed.append(not ((low <= hits) & (hits <= high)).all())
        if seed >= N_FITS:
            continue
        clf = fit(*old, 1, delta=delta / 4)
        alone = [clf.hits_interval(column(new), n) for n in ns]
        for i in range(4):
            # Each additional sample adds 0 or 1 hits.
            assert low[i] == max(alone[j][0] - max(0, ns[j] - ns[i]) for j in range(4))
            assert high[i] == min(alone[j][1] + max(0, ns[i] - ns[j]) for j in range(4))
        tighter += (low > [each[0] for each in alone]).any()
    assert 0 < np.mean(missed) <= delta + slack(missed)
    assert tighter > 0


def test_each_group_has_its_own_interval_of_hits():
    rng, delta, n = np.random.default_rng(5), 0.1, 15
    sizes = {"tue": 100, "mon": 50, "wed": 10}  # wed has fewer samples than n
    day, missed = np.repeat([*sizes], [*sizes.values()]), []
    for seed in range(N_DRAWS):
        old, (new, positive) = draw(rng, 300, 0.3), draw(rng, len(day), 0.3)
        of_day = [np.flatnonzero(day == each) for each in sizes]
        best = np.concatenate([rows[np.argsort(-new[rows])[:n]] for rows in of_day])
        hits = [np.count_nonzero(positive[best[day[best] == each]]) for each in sizes]
        bounds = [interval_of(old, new[rows], [min(n, len(rows))], seed, delta) for rows in of_day]
        low, high = np.hstack(bounds)
        missed.append((hits < low) | (hits > high))
        if seed < N_FITS:
            clf, X = fit(*old, 1, delta=delta), column(new)
            assert sorted(clf.predict_top(X, n, groups=day)) == sorted(best)
            np.testing.assert_array_equal(clf.hits_interval(X, n, groups=day), (low, high))
    for of_group in np.transpose(missed):
        assert 0 < np.mean(of_group) <= delta + slack(of_group)
