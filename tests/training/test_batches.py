"""Minibatches of an epoch, and the samples that each network draws from them."""

from itertools import product

import numpy as np
import pytest
import torch

from sktopk._common._folds import Folds
from sktopk._training._batches import GroupBatches, make_batches
from sktopk._training._rows import Rows

N, M = 405, 3
CPU = torch.device("cpu")
X = np.arange(float(N))[:, None]
RARE = (np.arange(N) % 20 == 0).astype(int)


def batches_of(batch_size=34, folds=None, target=RARE, **params):
    params = {"min_positives": None, "n_hard": 0, "n_members": M} | params
    return make_batches(
        Rows(X, CPU, torch.float64), target, np.ones(N), n_classes=2, batch_size=batch_size,
        generator=torch.Generator().manual_seed(0), device=CPU, folds=folds, **params,
    )  # fmt: skip


def drawn(batches):
    """The samples that each network draws in an epoch."""
    found = [[] for _ in range(M)]
    for batch in batches:
        for members, columns, _ in batch.parts:
            for m, rows in zip(np.arange(M)[members], batch.rows[members], strict=True):
                found[m].extend(rows[columns].tolist())
    return found


@pytest.mark.parametrize("min_positives", [None, 1])
def test_every_sample_is_seen_once_per_epoch(min_positives):
    batches = batches_of(min_positives=min_positives)
    epochs = [drawn(batches) for _ in range(2)]
    assert all(sorted(each) == list(range(N)) for epoch in epochs for each in epoch)
    assert epochs[0] != epochs[1]
    for batch in batches:
        assert batch.own is None
        np.testing.assert_array_equal(batch.x[:, 0], batch.rows[0])
        np.testing.assert_array_equal(batch.target[0], RARE[batch.rows[0]])


FOLDS = {"even": np.arange(N) % M, "with samples of no fold": np.arange(N) % (M + 1) - 1}
FOLDS["uneven"] = np.repeat([0, 1, 2, -1], [200, 100, 50, 55])


@pytest.mark.parametrize("batch_size", [34, 1000])
@pytest.mark.parametrize("name", FOLDS)
def test_a_network_draws_nothing_that_it_holds_out_and_nearly_all_else(name, batch_size):
    fold = FOLDS[name]
    batches = batches_of(batch_size, Folds(fold, np.arange(N), M, M), min_positives=1)
    for m, rows in enumerate(drawn(batches)):
        assert len({*rows}) == len(rows)
        assert (fold[rows] != m).all()
        # In minibatches, all networks draw equally many samples if they can.
        left_out = N - len(rows) - np.count_nonzero(fold == m)
        assert left_out == 0 if batch_size > N or name == "uneven" else left_out <= 0.05 * N
    for batch in batches:
        own = batch.x[:, 0][batch.own]
        np.testing.assert_array_equal(own, batch.rows)


# Groups.

rng = np.random.default_rng(0)
DAY = rng.permutation(np.repeat(np.arange(12), rng.integers(20, 60, 12)))
Y = (rng.random(len(DAY)) < 0.3).astype(int)


def of_groups(target, groups, batch_size, min_positives=2):
    generator = torch.Generator().manual_seed(0)
    return GroupBatches(target, groups, batch_size, min_positives, generator)


@pytest.mark.parametrize("batch_size", [3, 16, 1000])
def test_batches_have_whole_groups_or_parts_of_several(batch_size):
    batches = of_groups(Y, DAY, batch_size)
    size = np.bincount(DAY)
    for _ in range(3):
        epoch = [each.numpy() for each in batches]
        assert len(epoch) == len(batches)
        found = np.bincount(np.concatenate(epoch), minlength=len(Y))
        assert (found[Y == 0] == 1).all()
        assert (found >= 1).all()
        # Each part in a batch of its own.
        comes_in = np.bincount(np.concatenate([np.unique(DAY[batch]) for batch in epoch]))
        np.testing.assert_array_equal(comes_in, batches.n_parts)
        for batch in epoch:
            days = np.unique(DAY[batch])
            if (size[days] > batch_size).any():
                assert (size[days] > batch_size).all()
                assert len(days) <= min(batches.n_joined, 10, max(1, batch_size // 4))
                assert len(batch) <= batch_size
                for day in days:
                    if Y[DAY == day].sum() >= 2:
                        assert Y[batch[DAY[batch] == day]].sum() >= 2
            else:
                assert len(batch) == size[days].sum()
                assert len(batch) < batch_size + size.max()
    assert [e.tolist() for e in batches] != [e.tolist() for e in batches]


LAYOUTS = [
    [9, 9, 9, 9, 2] * 8, [10, 10, 10, 2] * 10, [1] * 41, [1, 1],
    [10, 1, 10, 7, 1, 1, 3, 9] * 4, [10, 10, 1], [1, 10],
]  # fmt: skip


def test_every_epoch_has_whole_groups_and_no_minibatch_of_one():
    for sizes, batch_size in product(LAYOUTS, (10, 12, 17)):
        groups = np.random.default_rng(0).permutation(np.repeat(np.arange(len(sizes)), sizes))
        batches = of_groups(np.arange(len(groups)) % 2, groups, batch_size)
        for _ in range(20):
            epoch = [each.numpy() for each in batches]
            assert len(epoch) == len(batches)
            assert sorted(np.concatenate(epoch)) == [*range(len(groups))]
            assert sum(len(np.unique(groups[each])) for each in epoch) == len(sizes)
            lengths = [len(each) for each in epoch]
            assert 2 <= min(lengths) <= max(lengths) < 2 * batch_size + 2
