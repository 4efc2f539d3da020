"""Rows of a batch with a promise about them: conformal selection, and hits among the best."""

import math
from bisect import bisect_left
from dataclasses import dataclass

import numpy as np
from scipy.stats import false_discovery_control, hypergeom

from sktopk.metrics._ranking import encode_groups


@dataclass(frozen=True)
class CalibrationRows:
    """What new rows are compared with: the scores and labels of rows that trained nothing.

    `weight` are the likelihood ratios of new rows to these, None if both are alike. `key` are
    random numbers that rank rows of equal score, None where these count as equal.
    """

    scores: np.ndarray
    positive: np.ndarray
    weight: np.ndarray | None = None
    key: np.ndarray | None = None

    def select(self, scores, budget, weight=None, key=None):
        """Return the mask of new rows of which at most `budget` are expected to be false.

        `weight` and `key` are those of the new rows.
        """
        old, new = _ranks(self.scores, self.key, scores, key)
        old = old[~self.positive]
        if self.weight is None:
            p = (1 + _mass_above(old, np.ones(len(old)), new)) / (1 + len(self.scores))
            return false_discovery_control(p) <= budget
        above = _mass_above(old, self.weight[~self.positive], new)
        # Of the lower bits: pruning must not depend on the rank, which the higher ones decide.
        pruning = (key & np.uint64(2**32 - 1)) / 2.0**32
        return _weighted_selection(above, self.weight.sum(), new, weight, budget, pruning)

    def hits_interval(self, scores, n, delta, random):
        """Return bounds that the positives among the n best new rows keep with 1 - delta."""
        above = self._above(scores, n, random)
        n_above, n_positive = len(above), np.count_nonzero(above)

        # Both rise and fall with the positives among the n: their ends are found by bisection.
        def as_many_are_rare(hits):
            return hypergeom.sf(n_positive - 1, n_above + n, n_positive + hits, n_above)

        def as_few_are_rare(hits):
            return hypergeom.cdf(n_positive, n_above + n, n_positive + hits, n_above)

        numbers = range(n + 1)
        low = bisect_left(numbers, True, key=lambda hits: as_many_are_rare(hits) > delta / 2)
        high = bisect_left(numbers, True, key=lambda hits: as_few_are_rare(hits) <= delta / 2)
        return low, high - 1

    def _above(self, scores, n, random):
        """Return the labels of the calibration rows that rank above the (n + 1)-th new row."""
        if n == len(scores):
            return self.positive
        cut = np.partition(scores, -n - 1)[-n - 1]
        above, tied = self.scores > cut, self.scores == cut
        if tied.any():
            # The order of rows of equal score is random among the new ones: of them and the
            # calibration rows, each order is as likely once these have random places in it.
            n_taken, n_tied = n - np.count_nonzero(scores > cut), np.count_nonzero(scores == cut)
            place = random.beta(n_taken + 1, n_tied - n_taken)
            above |= tied & (random.random(len(tied)) < place)
        return self.positive[above]


def n_rows_needed_to_select(budget):
    """Return the smallest n for which the least p-value, 1 / (n + 1), is at most `budget`."""
    return math.ceil(round(1 / budget, 9)) - 1


def select_in_groups(rows, scores, groups, budget, weight, key):
    """Return the mask of what is selected in each group by itself; without groups, in all."""
    if groups is None:
        return rows.select(scores, budget, weight, key)
    group, selected = encode_groups(groups, len(scores)), np.zeros(len(scores), dtype=bool)
    for i in range(group.max() + 1):
        mask = group == i
        own = (each if each is None else each[mask] for each in (weight, key))
        selected[mask] = rows.select(scores[mask], budget, *own)
    return selected


def simultaneous_hits(rows, scores, ns, delta, random):
    """Return bounds for several numbers of rows, which all hold at once with 1 - delta.

    By Bonferroni's inequality; then each bound gains from the others, since with one more row
    there are as many positives, or one more.
    """
    each = [rows.hits_interval(scores, n, delta / len(ns), random) for n in ns]
    low, high = np.transpose(each)
    more = np.maximum(0, np.subtract.outer(ns, ns))  # rows of the first that the second lacks
    return (low[None] - more.T).max(axis=1), (high[None] + more).min(axis=1)


def _ranks(old, old_key, new, new_key):
    """Return numbers in the order of the scores, those that tie in the order of the keys."""
    if old_key is None:
        return old, new.astype(np.float64)
    scores, key = np.concatenate([old, new]), np.concatenate([old_key, new_key])
    order = np.lexsort((key, scores))
    scores, key = scores[order], key[order]
    rank = np.zeros(len(order), dtype=np.intp)
    rank[order[1:]] = np.cumsum((scores[1:] != scores[:-1]) | (key[1:] != key[:-1]))
    return rank[: len(old)], rank[len(old) :]


def _mass_above(old, weight, new):
    """Return, for each new score, the weight of the old ones that are at least as large."""
    order = np.argsort(old)
    mass = np.append(np.cumsum(weight[order][::-1])[::-1], 0.0)
    return mass[np.searchsorted(old[order], new)]


def _weighted_selection(above, total, scores, weight, budget, pruning):
    r"""Weighted conformal selection, Algorithm 1 of Jin and Candès (2023b).

    `above` is the weight of the false calibration rows at or above each new row, of a `total`
    weight. For each new row j the others get p-values as if j were a false calibration row,

    .. math::
        p_l^{(j)} = \frac{\text{above}_l + w_j [s_j \ge s_l]}{\text{total} + w_j},

    and :math:`R_j` is how many the procedure of Benjamini and Hochberg selects of these and a
    p-value of 0 for j. Row j stays if its own one is at most budget :math:`R_j / m`, and
    :math:`\xi_j R_j \le r`, with the largest r that leaves as many and independent uniform
    :math:`\xi_j`: without them, where no two ratios are equal, hardly a row is left.
    """
    m = len(scores)
    p = (above + weight) / (total + weight)
    order = np.argsort(-scores, kind="stable")
    ranked, above = scores[order], above[order]
    level = budget * np.arange(1, m + 1) / m
    # Further down no row has a p-value that is small enough, whatever j.
    possible = np.flatnonzero(above[:-1] <= level[1:] * (total + weight.max()))
    most = possible[-1] + 2 if len(possible) else 1
    n_selected = np.zeros(m)
    for j in np.flatnonzero(p <= budget):
        place = np.searchsorted(-ranked, -scores[j])
        others = np.delete(np.arange(most), min(place, most - 1))
        mass = above[others] + weight[j] * (scores[j] >= ranked[others])
        small = mass / (total + weight[j]) <= level[1:most]
        n_selected[j] = 1 + len(small) - np.argmax(small[::-1]) if small.any() else 1
    stays = p <= budget * n_selected / m
    pruned = np.where(stays, pruning * n_selected, np.inf)
    smallest = np.sort(pruned[stays])
    enough = np.flatnonzero(smallest <= np.arange(1, len(smallest) + 1))
    return pruned <= (enough[-1] + 1 if len(enough) else 0)
