"""Do scores of rows that members were trained on become those of rows that none has seen?"""

import numpy as np
import pytest

from sktopk._common._unseen import scores_as_unseen
from tests.as_unseen import as_unseen_by_loops

N_MEMBERS = 4


def given(seed, n=60, decimals=1):
    rng = np.random.default_rng(seed)
    scores = rng.normal(size=(n, N_MEMBERS)).round(decimals)
    fold, target = rng.integers(N_MEMBERS, size=n), rng.integers(2, size=n) > 0
    weight = rng.integers(1, 4, n).astype(float)
    return scores, fold[:, None] == np.arange(N_MEMBERS), target, weight


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("decimals", [0, 1, 8], ids=["many ties", "ties", "no ties"])
def test_it_is_the_definition(seed, decimals):
    args = given(seed, decimals=decimals)
    np.testing.assert_allclose(
        scores_as_unseen(*args), as_unseen_by_loops(*args), rtol=0, atol=1e-12
    )


def test_a_row_of_weight_two_is_two_rows_and_one_of_weight_zero_none():
    scores, unseen, target, weight = given(0)
    weight[::5] = 0
    there = weight > 0
    whole = scores_as_unseen(scores, unseen, target, weight)
    repeats = weight.astype(int)
    repeated = scores_as_unseen(
        *(np.repeat(each, repeats, axis=0) for each in (scores, unseen, target)),
        np.ones(repeats.sum()),
    )
    np.testing.assert_allclose(np.repeat(whole, repeats), repeated, atol=1e-12)
    without = scores_as_unseen(*(each[there] for each in (scores, unseen, target, weight)))
    np.testing.assert_allclose(whole[there], without, atol=1e-12)


def test_inputs_stay_and_a_class_of_few_unseen_rows_has_their_scores():
    scores, unseen, target, weight = given(1)
    rare = np.flatnonzero(target & unseen[:, 2])
    target[rare[2:]] = False
    before = scores.copy()
    found = scores_as_unseen(scores, unseen, target, weight)
    np.testing.assert_array_equal(scores, before)
    np.testing.assert_allclose(found[target], scores[unseen][target])
    assert not np.allclose(found[~target], scores[unseen][~target])
    np.testing.assert_allclose(found, as_unseen_by_loops(scores, unseen, target, weight))


@pytest.mark.parametrize("share", [0.01, 0.05, 0.2])
def test_the_threshold_is_that_of_the_mean_on_fresh_rows(share):
    """A row is worth z; each member adds an error, and has learnt labels that it has seen."""
    rng = np.random.default_rng(0)
    n, n_members = 20_000, 8
    target = rng.random(n) < 0.1
    worth = rng.normal(size=n) + 2 * target
    scores = worth[:, np.newaxis] + rng.normal(size=(n, n_members))
    unseen = (np.arange(n) % n_members)[:, np.newaxis] == np.arange(n_members)
    learnt = np.where(target, 3 + 0.5 * scores.T, 0.7 * scores.T - 1).T
    of_training = np.where(unseen, scores, learnt)
    fresh = scores.mean(axis=1)

    def flagged(y_score):
        return (fresh > np.quantile(y_score, 1 - share)).mean() / share

    assert flagged(scores_as_unseen(of_training, unseen, target, np.ones(n))) == pytest.approx(
        1, abs=0.1
    )
    # Neither the rows left out nor those trained on would do.
    assert flagged(of_training[unseen]) < 0.8
    assert abs(flagged(of_training.mean(axis=1)) - 1) > 0.15
