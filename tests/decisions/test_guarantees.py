"""Do thresholds from calibration rows keep what they promise, and promise as much as they can?"""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import norm
from sklearn.utils import check_random_state

from sktopk._estimators.decisions._guarantees import (
    clopper_pearson,
    count_threshold,
    drift,
    fpr_threshold,
    n_errors_allowed,
    precision_threshold,
    recall_threshold,
)

N_DRAWS = 1000


def binomial_cdf(x, n, p):
    return sum(math.comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(x + 1))


def slack(rate):
    """Four standard deviations of a rate that is simulated `N_DRAWS` times."""
    return 4 * math.sqrt(rate * (1 - rate) / N_DRAWS)


@pytest.mark.parametrize(("count", "n"), [(0, 7), (1, 7), (4, 9), (9, 9), (30, 200)])
@pytest.mark.parametrize("level", [0.8, 0.95])
def test_limits_leave_half_the_error_in_each_tail(count, n, level):
    rate = clopper_pearson(count, n, level)
    assert rate[:3] == (count, n, count / n)
    if count == 0:
        assert rate.low == 0
    else:
        assert 1 - binomial_cdf(count - 1, n, rate.low) == pytest.approx((1 - level) / 2, rel=1e-6)
    if count == n:
        assert rate.high == 1
    else:
        assert binomial_cdf(count, n, rate.high) == pytest.approx((1 - level) / 2, rel=1e-6)


@pytest.mark.parametrize("rate", [0.01, 0.2, 0.5, 0.9])
@pytest.mark.parametrize("delta", [0.01, 0.05, 0.5])
def test_number_of_errors_allowed_is_the_largest_that_keeps_the_promise(rate, delta):
    for n in (0, 1, 5, 20, 59, 299):
        allowed = [x for x in range(n + 1) if binomial_cdf(x, n, rate) <= delta]
        assert n_errors_allowed(n, rate, delta) == max(allowed, default=-1)


def fixed_sequence(errors_above, n, rate, delta):
    """Test candidates one by one; return how many in a row were shown to keep the rate."""
    passed = 0
    for errors in errors_above:
        if binomial_cdf(errors, n, rate) > delta:
            break
        passed += 1
    return passed


@pytest.mark.parametrize("discrete", [False, True])
def test_fpr_threshold_is_where_testing_from_the_top_stops(rng, discrete):
    scores = rng.normal(size=300)
    positive = rng.random(300) < 0.3
    if discrete:
        scores = scores.round(1)
    threshold, problem = fpr_threshold(scores, positive, 0.1, 0.05)
    assert problem is None
    negative = scores[~positive]
    candidates = np.sort(negative)[::-1]
    errors = [int(np.sum(negative > t)) for t in candidates]
    n_passed = fixed_sequence(errors, len(negative), 0.1, 0.05)
    lowest = candidates[n_passed - 1]
    above = scores[scores > lowest]
    assert np.array_equal(scores > threshold, scores > lowest)
    assert threshold == pytest.approx((lowest + above.min()) / 2)


@pytest.mark.parametrize("delta", [0.05, 0.2])
@pytest.mark.parametrize(("n", "rate"), [(59, 0.05), (200, 0.1), (400, 0.02)])
def test_false_positive_rate_breaks_its_budget_as_often_as_promised(n, rate, delta):
    scores = np.random.default_rng(1).random((N_DRAWS, n))  # the score is the quantile
    positive = np.zeros(n, dtype=bool)
    x = n_errors_allowed(n, rate, delta)
    low = np.array([fpr_threshold(row, positive, rate, delta)[0] for row in scores])
    # The threshold lies halfway to the next score, which is safer than the order statistic.
    at_score = np.sort(scores)[:, ::-1][:, x]
    exact = binomial_cdf(x, n, rate)
    assert exact <= delta
    assert abs(np.mean(1 - at_score > rate) - exact) <= slack(exact)
    assert np.all(low >= at_score)
    violated = np.mean(1 - low > rate)
    assert violated <= delta + slack(delta)
    assert violated >= 0.3 * exact


@pytest.mark.parametrize("delta", [0.05, 0.2])
@pytest.mark.parametrize(("n", "recall"), [(59, 0.95), (200, 0.8)])
def test_recall_breaks_its_budget_as_often_as_promised(n, recall, delta):
    scores = np.random.default_rng(2).random((N_DRAWS, n))
    positive = np.ones(n, dtype=bool)
    threshold = np.array([recall_threshold(row, positive, recall, delta)[0] for row in scores])
    violated = np.mean(1 - threshold < recall)
    exact = binomial_cdf(n_errors_allowed(n, 1 - recall, delta), n, 1 - recall)
    assert violated <= delta + slack(delta)
    assert violated >= 0.3 * exact


def test_rates_of_tied_scores_keep_their_budgets_too():
    rng = np.random.default_rng(3)
    scores = rng.integers(0, 10, size=(N_DRAWS, 150)).astype(float)
    kind = np.ones(150, dtype=bool)
    t = np.array([fpr_threshold(row, ~kind, 0.25, 0.1)[0] for row in scores])
    assert np.mean(np.mean(np.arange(10) > t[:, None], axis=1) > 0.25) <= 0.1 + slack(0.1)
    t = np.array([recall_threshold(row, kind, 0.75, 0.1)[0] for row in scores])
    assert np.mean(np.mean(np.arange(10) > t[:, None], axis=1) < 0.75) <= 0.1 + slack(0.1)


# Of positives N(2, 1) and negatives N(0, 1), a part of which may lie above all positives: then
# precision is low at the very top, rises, and falls again.
@pytest.mark.parametrize(
    ("n", "prevalence", "precision", "noise", "delta"),
    [
        (300, 0.3, 0.7, 0.0, 0.05),
        (1000, 0.1, 0.6, 0.0, 0.1),
        (1000, 0.2, 0.7, 0.005, 0.1),
    ],
)
def test_precision_breaks_its_budget_at_most_as_often_as_promised(
    n, prevalence, precision, noise, delta
):
    rng, random = np.random.default_rng(4), check_random_state(4)
    positive = rng.random((N_DRAWS, n)) < prevalence
    scores = rng.normal(size=(N_DRAWS, n)) + 2.0 * positive
    scores[~positive & (rng.random((N_DRAWS, n)) < noise)] += 8.0

    def true_rates(t):
        recall = norm.sf(t - 2.0)
        fpr = (1 - noise) * norm.sf(t) + noise * norm.sf(t - 8.0)
        return prevalence * recall / (prevalence * recall + (1 - prevalence) * fpr), recall

    threshold = np.array(
        [
            precision_threshold(s, y, precision, delta, random)[0]
            for s, y in zip(scores, positive, strict=True)
        ]
    )
    answered = np.isfinite(threshold)
    achieved, recall = true_rates(threshold[answered])
    assert np.sum(achieved < precision) / N_DRAWS <= delta + slack(delta)
    # Nor is it absurdly careful: some draws fail, most have an answer, which finds much of what
    # could be found if the truth were known.
    assert np.sum(achieved < precision) / N_DRAWS >= 0.15 * delta
    assert answered.mean() > 0.5
    best, ideal_recall = true_rates(np.linspace(-3, 5, 2001))
    assert np.median(recall) >= 0.5 * ideal_recall[best >= precision].max()


def test_precision_tests_go_down_from_the_most_promising_threshold(rng):
    positive = rng.random(400) < 0.3
    scores = rng.normal(size=400) + 2.0 * positive
    threshold, problem = precision_threshold(scores, positive, 0.7, 0.1, check_random_state(0))
    assert problem is None
    order = check_random_state(0).permutation(400)
    placing, testing = order[:80], order[80:]
    ranked = sorted(scores[placing], reverse=True)
    candidates = [(high + low) / 2 for high, low in itertools.pairwise(ranked)]

    def p_value(rows, t):
        above = scores[rows] > t
        n, right = int(above.sum()), int(positive[rows][above].sum())
        return 1 - binomial_cdf(right - 1, n, 0.7)

    evidence = [p_value(placing, t) for t in candidates]
    first = evidence.index(min(evidence))
    passed = list(itertools.takewhile(lambda t: p_value(testing, t) <= 0.1, candidates[first:]))
    assert threshold == pytest.approx(passed[-1])


def test_too_few_rows_are_told_how_many_it_takes():
    scores = np.linspace(0, 1, 58)
    negative = np.zeros(58, dtype=bool)
    threshold, problem = fpr_threshold(scores, negative, 0.05, 0.05)
    assert threshold == np.inf
    assert problem == (
        "fpr <= 0.05 with probability 0.95 needs at least 59 negatives among the calibration "
        "samples; got 58"
    )
    assert fpr_threshold(np.linspace(0, 1, 59), np.zeros(59, bool), 0.05, 0.05)[1] is None
    threshold, problem = recall_threshold(scores, ~negative, 0.95, 0.05)
    assert threshold == -np.inf
    assert "recall >= 0.95 with probability 0.95 needs at least 59 positives" in problem
    threshold, problem = precision_threshold(
        scores[:20], ~negative[:20], 0.9, 0.05, check_random_state(0)
    )
    assert threshold == np.inf
    assert "needs at least 29 samples in four fifths of the calibration samples" in problem
    assert "got 16 samples" in problem


def test_count_threshold_flags_the_budget_or_the_most_that_ties_allow(rng):
    for scores in (rng.normal(size=50), rng.integers(0, 6, size=50).astype(float)):
        for n_flagged in range(1, 51):
            threshold, problem = count_threshold(scores, n_flagged)
            allowed = [int(np.sum(scores > t)) for t in [*scores, -np.inf]]
            best = max(count for count in allowed if count <= n_flagged)
            assert np.sum(scores > threshold) == best
            assert (problem is None) == (best == n_flagged)
            if problem is not None:
                cut = np.sort(scores)[::-1][n_flagged]
                assert f"because {np.sum(scores == cut)} samples have the same" in problem
                assert f"flags {best} of 50 calibration samples instead of {n_flagged}" in problem


def test_threshold_separates_neighbouring_floats():
    low, high = 1.0, np.nextafter(1.0, 2.0)
    for scores in ([low, high], [-high, -low], [-1e308, 1.7e308], [5e-324, 1e-323]):
        scores = np.array(scores)
        threshold, _ = count_threshold(scores, 1)
        assert (scores > threshold).tolist() == [False, True]


def test_recall_can_keep_the_lowest_score_of_all():
    scores = np.full(100, 0.25)
    threshold, problem = recall_threshold(scores, np.ones(100, dtype=bool), 0.9, 0.05)
    assert problem is None
    assert np.isfinite(threshold)
    assert (scores > threshold).all()


def test_drift_is_reported_with_both_shares():
    expected = clopper_pearson(4, 2000, 0.95)
    message = drift(np.arange(1000) < 31, expected)
    assert message.startswith("3.1 % of 1000 samples are flagged, but 0.2 % of 2000 calibration")
    assert drift(np.arange(1000) < 9, expected) is None
    message = drift(np.zeros(5000, dtype=bool), clopper_pearson(100, 2000, 0.95))
    assert message.startswith("0 % of 5000 samples are flagged, but 5 % of")
