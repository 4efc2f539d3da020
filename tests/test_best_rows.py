"""Are the best rows of all those of a sort, however they come?"""

from itertools import pairwise

import numpy as np
import pytest

from sktopk._estimators._best_rows import BestRows


@pytest.mark.parametrize("n", [1, 3, 17, 60])
@pytest.mark.parametrize("cuts", [[0, 60], [0, 1, 2, 60], [0, 5, 5, 40, 60], range(61)], ids=str)
def test_best_rows_equal_a_sort_of_all(n, cuts):
    for levels in (2, 5, 1000):
        scores = np.random.default_rng(n).integers(0, levels, 60) / 7
        best = BestRows(n)
        for start, stop in pairwise(cuts):
            best.add(scores[start:stop])
        order = sorted(range(60), key=lambda i: (-scores[i], i))
        assert best.index.tolist() == order[:n]
        np.testing.assert_array_equal(best.scores, scores[order[:n]])
        tied = [i for i in range(60) if scores[i] == scores[order[n - 1]]]
        assert (best.n_rows, best.n_at_cut) == (60, len(tied))
        says = [f"{len(tied)} rows tie at the cut; broken by row order"]
        assert best.problems("n", n) == (says if set(tied) - set(order[:n]) else [])


def test_no_more_than_the_best_are_kept(rng):
    best = BestRows(10)
    for _ in range(100):
        best.add(rng.random(1_000))
        assert len(best.scores) == len(best.index) == 10
