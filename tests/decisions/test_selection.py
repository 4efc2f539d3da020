"""Are few of the selected rows false, and are the hits among the best where they are promised?"""

import math

import numpy as np
import pytest
from scipy.stats import norm

from sktopk._estimators.decisions._selection import (
    conformal_selection,
    hits_interval,
    n_samples_needed,
    simultaneous_hits,
)

N_DRAWS = 1000


def slack(values):
    """Four standard errors of a mean that is simulated."""
    return 4 * np.std(values) / math.sqrt(len(values))


def draw(rng, n, prevalence, step=None):
    """Scores and labels: positives N(2, 1), negatives N(0, 1), rounded to multiples of `step`."""
    positive = rng.random(n) < prevalence
    scores = rng.normal(size=n) + 2.0 * positive
    return scores if step is None else step * np.round(scores / step), positive


def false_share(selected, positive):
    return np.count_nonzero(selected & ~positive) / max(1, np.count_nonzero(selected))


def benjamini_hochberg(p, level):
    """Which p-values are selected, by trying every number of them."""
    m = len(p)
    n_selected = max((k for k in range(1, m + 1) if sorted(p)[k - 1] <= level * k / m), default=0)
    return [each <= level * n_selected / m for each in p]


@pytest.mark.parametrize("step", [None, 0.5])
@pytest.mark.parametrize("budget", [0.05, 0.2, 0.5])
def test_selection_is_benjamini_and_hochberg_of_conformal_p_values(step, budget, rng):
    for n, m in [(60, 25), (200, 1), (30, 80)]:
        scores, positive = draw(rng, n, 0.4, step)
        new, _ = draw(rng, m, 0.4, step)
        p = [(1 + sum(~positive & (scores >= each))) / (n + 1) for each in new]
        selected = conformal_selection(scores, positive, new, budget)
        # 1e-12: which of two equal numbers is the larger is up to rounding.
        assert selected.tolist() == benjamini_hochberg([each - 1e-12 for each in p], budget)


@pytest.mark.parametrize(
    ("n", "m", "prevalence", "budget", "step"),
    [
        (300, 150, 0.2, 0.2, None),
        (1000, 50, 0.1, 0.3, None),
        (50, 20, 0.5, 0.2, None),
        (300, 100, 0.2, 0.2, 0.5),
    ],
)
def test_share_of_false_rows_keeps_its_budget_and_uses_it(n, m, prevalence, budget, step):
    rng = np.random.default_rng(0)
    false, found = [], []
    for _ in range(N_DRAWS):
        old, (new, positive) = draw(rng, n, prevalence, step), draw(rng, m, prevalence, step)
        selected = conformal_selection(*old, new, budget)
        false.append(false_share(selected, positive))
        found.append(np.count_nonzero(selected & positive) / max(1, positive.sum()))
    assert np.mean(false) <= budget + slack(false)
    if step is not None:  # ties make it careful
        return
    # Only the rank of one row in n + 1 is given away, and some batches without a selection.
    assert np.mean(false) >= 0.85 * budget
    t = np.linspace(-4, 8, 2001)
    wrong, right = (1 - prevalence) * norm.sf(t), prevalence * norm.sf(t - 2)
    best = norm.sf(t - 2)[wrong / (wrong + right) <= budget].max()
    assert np.mean(found) >= 0.85 * best


def test_rows_needed_are_the_first_with_a_p_value_small_enough():
    for budget in (0.5, 0.2, 0.1, 0.3, 0.01):
        n = n_samples_needed(budget)
        negatives = np.zeros(n)
        assert conformal_selection(negatives, np.zeros(n, bool), np.ones(1), budget).all()
        few = negatives[1:], np.zeros(n - 1, bool)
        assert not conformal_selection(*few, np.ones(1), budget).any()


def tail(n_new, n_old, hits, found):
    """P(at most `found` of all positives are old), each order of new and old as likely."""
    n_positive = hits + found
    return sum(
        math.comb(n_old, i) * math.comb(n_new, n_positive - i)
        for i in range(found + 1)
        if n_positive - i <= n_new
    ) / math.comb(n_old + n_new, n_positive)


@pytest.mark.parametrize("delta", [0.05, 0.3])
@pytest.mark.parametrize(("n", "n_old"), [(1, 1), (5, 8), (12, 3), (7, 0)])
def test_interval_holds_every_number_that_is_not_rejected(n, n_old, delta):
    new = np.arange(n + 1) + 10.0  # the worst of them is left out
    for found in range(n_old + 1):
        # Besides rows below, which do not count whatever their label.
        scores = np.concatenate([np.full(n_old, 99.0), np.zeros(4)])
        old = scores, np.arange(n_old + 4) < found
        expected = [
            hits
            for hits in range(n + 1)
            if tail(n, n_old, hits, found) > delta / 2
            # As many old positives, or more.
            and 1 - (tail(n, n_old, hits + 1, found - 1) if found else 0) > delta / 2
        ]
        assert hits_interval(*old, new, n, delta, None) == (min(expected), max(expected))


@pytest.mark.parametrize(
    ("n_old", "n_new", "n", "prevalence", "step"),
    [
        (1000, 2000, 200, 0.1, None),
        (400, 200, 40, 0.3, None),
        (500, 500, 100, 0.2, 0.5),
        (60, 80, 80, 0.3, None),
    ],
)
def test_hits_lie_in_their_interval_as_often_as_promised(n_old, n_new, n, prevalence, step):
    rng, delta = np.random.default_rng(3), 0.1
    missed, width, ideal, n_above = [], [], [], []
    for seed in range(N_DRAWS):
        old = draw(rng, n_old, prevalence, step)
        new, positive = draw(rng, n_new, prevalence, step)
        low, high = hits_interval(*old, new, n, delta, np.random.default_rng(seed))
        best = np.argsort(-new, kind="stable")[:n]
        missed.append(not low <= np.count_nonzero(positive[best]) <= high)
        width.append(high - low)
        likely = prevalence * norm.pdf(new[best] - 2)
        likely = np.mean(likely / (likely + (1 - prevalence) * norm.pdf(new[best])))
        ideal.append(2 * norm.isf(delta / 2) * math.sqrt(n * likely * (1 - likely)))
        n_above.append(np.count_nonzero(old[0] > new[best[-1]]))
    assert np.mean(missed) <= delta + slack(missed)
    # Bounds are whole numbers, so some of the risk is left over; the more, the fewer rows.
    assert np.mean(missed) >= 0.3 * delta
    # Who knows the share of positives among such rows has their chance left; who has seen K
    # calibration rows as good has that of these as well: a factor of sqrt(1 + n / K).
    factor = math.sqrt(1 + n / np.mean(n_above))
    assert np.mean(width) <= 1.1 * factor * np.mean(ideal) + 1


def test_several_intervals_hold_at_once():
    rng, delta, ns = np.random.default_rng(4), 0.1, [5, 20, 60, 61]
    missed, tighter = [], 0
    for seed in range(N_DRAWS):
        old, (new, positive) = draw(rng, 300, 0.3), draw(rng, 150, 0.3)
        random = np.random.default_rng(seed)
        low, high = simultaneous_hits(*old, new, ns, delta, random)
        hits = np.cumsum(positive[np.argsort(-new)])[np.array(ns) - 1]
        missed.append(not ((low <= hits) & (hits <= high)).all())
        if seed >= 50:
            continue
        alone = [hits_interval(*old, new, n, delta / 4, random) for n in ns]
        for i in range(4):
            # One more row is at most one more hit, and none less.
            assert low[i] == max(alone[j][0] - max(0, ns[j] - ns[i]) for j in range(4))
            assert high[i] == min(alone[j][1] + max(0, ns[i] - ns[j]) for j in range(4))
        tighter += (low > [each[0] for each in alone]).any()
    assert np.mean(missed) <= delta + slack(missed)
    assert np.mean(missed) >= 0.1 * delta
    assert tighter > 0


def test_without_a_calibration_row_above_nothing_is_known():
    old = np.zeros(50), np.ones(50, bool)
    assert hits_interval(*old, np.arange(1.0, 20.0), 7, 0.05, None) == (0, 7)
