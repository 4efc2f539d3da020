"""Are few of the selected rows false, and are the hits among the best where they are promised?"""

import math

import numpy as np
import pytest
from scipy.stats import binom, norm

from sktopk._estimators.decisions._selection import (
    CalibrationRows,
    n_rows_needed_to_select,
    select_in_groups,
    simultaneous_hits,
)

N_DRAWS = 2000


def slack(values):
    """Four standard errors of a mean that is simulated."""
    return 4 * np.std(values) / math.sqrt(len(values))


def draw(rng, n, prevalence, step=None):
    """Scores and labels: positives N(2, 1), negatives N(0, 1), rounded to multiples of `step`."""
    positive = rng.random(n) < prevalence
    scores = rng.normal(size=n) + 2.0 * positive
    return scores if step is None else step * np.round(scores / step), positive


def keys(rng, n):
    return rng.integers(0, 2**63, size=n, dtype=np.uint64)


def false_share(selected, positive):
    return np.count_nonzero(selected & ~positive) / max(1, np.count_nonzero(selected))


def benjamini_hochberg(p, level):
    """Which p-values are selected, by trying every number of them."""
    m = len(p)
    n_selected = max((k for k in range(1, m + 1) if sorted(p)[k - 1] <= level * k / m), default=0)
    return [each <= level * n_selected / m for each in p]


def weighted_selection(rows, scores, budget, weight, key):
    """Algorithm 1 of Jin and Candès (2023b), row by row."""
    m, old = len(scores), list(zip(rows.scores, rows.positive, rows.weight, strict=True))

    def p_value(j, beside):
        mass = sum(w for s, positive, w in old if not positive and s >= scores[j])
        mass += weight[beside] if scores[beside] >= scores[j] else 0.0
        return mass / (rows.weight.sum() + weight[beside])

    n_selected, stays = [], []
    for j in range(m):
        others = [0.0 if i == j else p_value(i, beside=j) for i in range(m)]
        n_selected.append(sum(benjamini_hochberg(others, budget)))
        stays.append(p_value(j, beside=j) <= budget * n_selected[j] / m)
    pruned = [(int(k) % 2**32) / 2**32 * n for k, n in zip(key, n_selected, strict=True)]
    left = range(1, m + 1)
    counts = [sum(s and p <= r for s, p in zip(stays, pruned, strict=True)) for r in left]
    most = max((r for r, n in zip(left, counts, strict=True) if n >= r), default=0)
    return [s and p <= most for s, p in zip(stays, pruned, strict=True)]


@pytest.mark.parametrize("step", [None, 0.5])
@pytest.mark.parametrize("budget", [0.05, 0.2, 0.5])
def test_selection_is_benjamini_and_hochberg_of_conformal_p_values(step, budget, rng):
    for n, m in [(60, 25), (200, 1), (30, 80)]:
        scores, positive = draw(rng, n, 0.4, step)
        new, _ = draw(rng, m, 0.4, step)
        p = [(1 + sum(~positive & (scores >= each))) / (n + 1) for each in new]
        selected = CalibrationRows(scores, positive).select(new, budget)
        # 1e-12: which of two equal numbers is the larger is up to rounding.
        assert selected.tolist() == benjamini_hochberg([each - 1e-12 for each in p], budget)


def test_keys_rank_what_ties_and_nothing_else(rng):
    scores, positive = draw(rng, 80, 0.4, 0.5)
    new, _ = draw(rng, 40, 0.4, 0.5)
    old_key, new_key = keys(rng, 80), keys(rng, 40)
    pairs = list(zip(scores, old_key, strict=True))
    p = [
        (1 + sum(not y and old >= each for old, y in zip(pairs, positive, strict=True))) / 81
        for each in zip(new, new_key, strict=True)
    ]
    selected = CalibrationRows(scores, positive, None, old_key).select(new, 0.2, None, new_key)
    assert selected.tolist() == benjamini_hochberg([each - 1e-12 for each in p], 0.2)


@pytest.mark.parametrize("step", [None, 0.5])
def test_weighted_selection_is_its_algorithm(step, rng):
    n_selected, n_pruned = 0, 0
    for n, m in [(60, 1), *[(30, 12)] * 25]:
        scores, positive = draw(rng, n, 0.5, step)
        new, _ = draw(rng, m, 0.6, step)
        weight, new_weight = rng.lognormal(sigma=1.5, size=n), rng.lognormal(sigma=1.5, size=m)
        rows, key = CalibrationRows(scores, positive, weight), keys(rng, m)
        selected = rows.select(new, 0.31, new_weight, key)
        assert selected.tolist() == weighted_selection(rows, new, 0.31, new_weight, key)
        n_selected += selected.sum()
        # Keys of 0 keep all that pass the test.
        n_pruned += rows.select(new, 0.31, new_weight, key * np.uint64(0)).sum() - selected.sum()
    assert n_selected > 20
    assert n_pruned > 5


def test_equal_weights_select_as_none_before_pruning(rng):
    (scores, positive), (new, _) = draw(rng, 300, 0.3), draw(rng, 120, 0.3)
    plain = CalibrationRows(scores, positive).select(new, 0.23)
    rows = CalibrationRows(scores, positive, np.full(300, 7.0))
    never_pruned = np.zeros(120, dtype=np.uint64)
    weighted = rows.select(new, 0.23, np.full(120, 7.0), never_pruned)
    assert plain.sum() > 10
    np.testing.assert_array_equal(weighted, plain)


@pytest.mark.parametrize(
    ("n", "m", "prevalence", "budget"),
    [(300, 150, 0.2, 0.2), (1000, 50, 0.1, 0.3), (50, 20, 0.5, 0.2)],
)
def test_share_of_false_rows_keeps_its_budget_and_uses_it(n, m, prevalence, budget):
    rng = np.random.default_rng(0)
    false, found = [], []
    for _ in range(N_DRAWS):
        rows, (new, positive) = CalibrationRows(*draw(rng, n, prevalence)), draw(rng, m, prevalence)
        selected = rows.select(new, budget)
        false.append(false_share(selected, positive))
        found.append(np.count_nonzero(selected & positive) / max(1, positive.sum()))
    assert np.mean(false) <= budget + slack(false)
    # Only the rank of one row in n + 1 is given away, and some batches without a selection.
    assert np.mean(false) >= 0.85 * budget
    t = np.linspace(-4, 8, 2001)
    wrong, right = (1 - prevalence) * norm.sf(t), prevalence * norm.sf(t - 2)
    best = norm.sf(t - 2)[wrong / (wrong + right) <= budget].max()
    assert np.mean(found) >= 0.85 * best


def test_ties_break_no_promise_and_keys_make_up_for_them():
    rng = np.random.default_rng(1)
    careful, ranked = [], []
    for _ in range(N_DRAWS):
        (scores, y), (new, positive) = draw(rng, 300, 0.2, 0.5), draw(rng, 100, 0.2, 0.5)
        selected = CalibrationRows(scores, y).select(new, 0.2)
        careful.append(false_share(selected, positive))
        rows = CalibrationRows(scores, y, None, keys(rng, 300))
        ranked.append(false_share(rows.select(new, 0.2, None, keys(rng, 100)), positive))
    assert np.mean(careful) <= 0.2 + slack(careful)
    assert np.mean(ranked) <= 0.2 + slack(ranked)
    assert np.mean(ranked) >= 0.9 * 0.2 > np.mean(careful) + slack(careful)


@pytest.mark.parametrize("learnt", [False, True])
def test_weights_keep_the_promise_where_new_rows_are_drawn_otherwise(learnt):
    rng = np.random.default_rng(2)

    def shifted(n, mean):
        """Rows of two features, of which one moves and makes positives rarer."""
        moves, scores = rng.normal(size=n) + mean, rng.normal(size=n)
        proba = 1 / (1 + np.exp(moves - 2 * scores))
        return moves, scores, rng.random(n) < proba

    plain, weighted, found, plain_found = [], [], [], []
    for _ in range(N_DRAWS):
        moves, scores, y = shifted(200, 0)
        new_moves, new, positive = shifted(60, 1)
        selected = CalibrationRows(scores, y).select(new, 0.25)
        plain.append(false_share(selected, positive))
        plain_found.append(np.count_nonzero(selected & positive))
        slope = 1.0
        if learnt:  # from other rows: of Gaussian ones the ratio is exp(slope x), but for a factor
            slope = shifted(200, 1)[0].mean() - shifted(200, 0)[0].mean()
        rows = CalibrationRows(scores, y, np.exp(slope * moves))
        selected = rows.select(new, 0.25, np.exp(slope * new_moves), keys(rng, 60))
        weighted.append(false_share(selected, positive))
        found.append(np.count_nonzero(selected & positive))
    assert np.mean(plain) - slack(plain) > 0.25 * 1.3
    assert np.mean(weighted) <= 0.25 + slack(weighted)
    assert np.mean(weighted) >= 0.7 * 0.25
    assert np.mean(found) >= 0.25 * np.mean(plain_found)


def test_rows_needed_are_the_first_with_a_p_value_small_enough():
    for budget in (0.5, 0.2, 0.1, 0.3, 0.01):
        n = n_rows_needed_to_select(budget)
        negatives = np.zeros(n)
        assert CalibrationRows(negatives, np.zeros(n, bool)).select(np.ones(1), budget).all()
        few = CalibrationRows(negatives[1:], np.zeros(n - 1, bool))
        assert not few.select(np.ones(1), budget).any()


def test_groups_are_selected_from_one_by_one(rng):
    rows, (new, _) = CalibrationRows(*draw(rng, 300, 0.3)), draw(rng, 90, 0.3)
    groups = rng.choice(["Mon", "Tue"], size=90)
    selected = select_in_groups(rows, new, groups, 0.2, None, None)
    for name in ("Mon", "Tue"):
        alone = rows.select(new[groups == name], 0.2)
        np.testing.assert_array_equal(selected[groups == name], alone)


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
        rows = CalibrationRows(scores, np.arange(n_old + 4) < found)
        expected = [
            hits
            for hits in range(n + 1)
            if tail(n, n_old, hits, found) > delta / 2
            # As many old positives, or more.
            and 1 - (tail(n, n_old, hits + 1, found - 1) if found else 0) > delta / 2
        ]
        assert rows.hits_interval(new, n, delta, None) == (min(expected), max(expected))


@pytest.mark.parametrize(("n", "n_old"), [(4, 6), (6, 4), (10, 10)])
def test_interval_covers_whatever_the_number_of_positives(n, n_old):
    new = np.arange(n + 1) + 10.0
    delta = 0.2
    intervals = []
    for found in range(n_old + 1):
        rows = CalibrationRows(np.full(n_old, 99.0), np.arange(n_old) < found)
        intervals.append(rows.hits_interval(new, n, delta, None))
    for n_positive in range(n + n_old + 1):
        # How many of the old ones are positive, over all ways to draw them.
        covered = sum(
            math.comb(n_old, found) * math.comb(n, n_positive - found)
            for found, (low, high) in enumerate(intervals)
            if found <= n_positive <= n + found and low <= n_positive - found <= high
        )
        assert covered / math.comb(n + n_old, n_positive) >= 1 - delta - 1e-12


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
        rows = CalibrationRows(*draw(rng, n_old, prevalence, step))
        new, positive = draw(rng, n_new, prevalence, step)
        low, high = rows.hits_interval(new, n, delta, np.random.default_rng(seed))
        best = np.argsort(-new, kind="stable")[:n]
        missed.append(not low <= np.count_nonzero(positive[best]) <= high)
        width.append(high - low)
        likely = prevalence * norm.pdf(new[best] - 2)
        likely = np.mean(likely / (likely + (1 - prevalence) * norm.pdf(new[best])))
        ideal.append(2 * norm.isf(delta / 2) * math.sqrt(n * likely * (1 - likely)))
        n_above.append(np.count_nonzero(rows.scores > new[best[-1]]))
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
        rows, (new, positive) = CalibrationRows(*draw(rng, 300, 0.3)), draw(rng, 150, 0.3)
        random = np.random.default_rng(seed)
        low, high = simultaneous_hits(rows, new, ns, delta, random)
        hits = np.cumsum(positive[np.argsort(-new)])[np.array(ns) - 1]
        missed.append(not ((low <= hits) & (hits <= high)).all())
        if seed >= 50:
            continue
        alone = [rows.hits_interval(new, n, delta / 4, random) for n in ns]
        for i in range(4):
            # One more row is at most one more hit, and none less.
            assert low[i] == max(alone[j][0] - max(0, ns[j] - ns[i]) for j in range(4))
            assert high[i] == min(alone[j][1] + max(0, ns[i] - ns[j]) for j in range(4))
        tighter += (low > [each[0] for each in alone]).any()
    assert np.mean(missed) <= delta + slack(missed)
    assert np.mean(missed) >= 0.1 * delta
    assert tighter > 0


def test_interval_of_all_rows():
    rows = CalibrationRows(np.arange(40.0), np.arange(40) % 4 == 0)
    new = np.arange(30.0)
    low, high = rows.hits_interval(new, 30, 0.1, None)
    assert low <= 7.5 <= high
    # That of a binomial with one more uncertainty is wider.
    assert high - low >= binom.ppf(0.95, 30, 0.25) - binom.ppf(0.05, 30, 0.25)


def test_without_a_calibration_row_above_nothing_is_known():
    rows = CalibrationRows(np.zeros(50), np.ones(50, bool))
    assert rows.hits_interval(np.arange(1.0, 20.0), 7, 0.05, None) == (0, 7)
