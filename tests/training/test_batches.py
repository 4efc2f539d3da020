"""Minibatches of an epoch, and the samples of each network in them."""

from itertools import product
from unittest.mock import MagicMock

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from sktopk._common._samples import Folds
from sktopk._training import _batches
from sktopk._training._batches import Rows, make_batches, one_ahead
from sktopk.losses._order_statistics import _draw_kth_largest, mean_noised_kth_largest
from sktopk.samplers import GroupBatches

N, M = 405, 3
CPU = torch.device("cpu")
X = np.arange(float(N))[:, None]
RARE = (np.arange(N) % 20 == 0).astype(int)


def batches_of(batch_size=34, folds=None, target=RARE, **params):
    params = {"min_positives": None, "n_hard": 0, "n_members": M} | params
    return make_batches(
        Rows(X, CPU, torch.float64), target, np.ones(N), n_classes=2, batch_size=batch_size,
        generator=torch.Generator().manual_seed(0), folds=folds, **params,
    )  # fmt: skip


def drawn(batches):
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
    for batch in batches_of(min_positives=25, n_hard=1):  # more than there are positives
        rows, repeated = batch.rows[0], batch.parts[0][2].repeated[0]
        assert rows[~repeated].tolist() == [*dict.fromkeys(rows.tolist())]


FOLDS = {"even": np.arange(N) % M, "with samples of no fold": np.arange(N) % (M + 1) - 1}
FOLDS["uneven"] = np.repeat([0, 1, 2, -1], [200, 100, 50, 55])


@pytest.mark.parametrize("batch_size", [34, 1000])
@pytest.mark.parametrize("name", FOLDS)
def test_a_network_draws_nearly_all_samples_that_it_does_not_hold_out(name, batch_size):
    fold = FOLDS[name]
    folds = Folds(fold, np.arange(N), M, np.arange(M))
    batches = batches_of(batch_size, folds, min_positives=1)
    for m, rows in enumerate(drawn(batches)):
        assert len({*rows}) == len(rows)
        assert (fold[rows] != m).all()
        # Minibatches have equally many samples for each network, so a few samples are left out.
        left_out = N - len(rows) - np.count_nonzero(fold == m)
        assert left_out == 0 if batch_size > N or name == "uneven" else left_out <= 0.05 * N
    if batch_size < N:
        batches = batches_of(batch_size, folds, min_positives=1, n_hard=2)
        batches.load(hard := torch.tensor([[7, 8], [9, 10], [11, 12]]))
    for batch in batches:
        np.testing.assert_array_equal(batch.x[:, 0][batch.own], batch.rows)
        for members, columns, _ in batch.parts if batch_size < N else []:
            assert torch.equal(batch.rows[members][:, columns][:, -2:], hard[members])


rng = np.random.default_rng(0)
DAY = rng.permutation(np.repeat(np.arange(12), rng.integers(20, 60, 12)))
Y = (rng.random(len(DAY)) < 0.3).astype(int)


def of_groups(target, groups, batch_size, min_positives=2):
    generator = torch.Generator().manual_seed(0)
    return GroupBatches(target, groups, batch_size, min_positives, generator)


@pytest.mark.parametrize("batch_size", [3, 16, 1000])
def test_a_minibatch_has_whole_groups_or_only_parts_of_groups_larger_than_batch_size(batch_size):
    batches, size = of_groups(Y, DAY, batch_size), np.bincount(DAY)
    for _ in range(3):
        epoch = [each.numpy() for each in batches]
        assert len(epoch) == len(batches)
        found = np.bincount(np.concatenate(epoch), minlength=len(Y))
        assert (found[Y == 0] == 1).all()
        assert (found >= 1).all()
        # No minibatch has two parts of the same group.
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


def test_every_epoch_has_whole_groups_and_no_minibatch_of_one_sample():
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


# Behaviour on a GPU, as far as it can be tested without a GPU.

META = torch.device("meta")
TABLE = np.arange(40.0, dtype=np.float32).reshape(10, 4)


def rows_of(table, device=META, dtype=torch.float32):
    return Rows(table, device, dtype, resident=True)


@pytest.mark.parametrize(("free", "resident"), [(320, True), (319, False)])
def test_data_of_at_most_half_of_the_free_memory_are_copied_once(free, resident, monkeypatch):
    monkeypatch.setattr(_batches, "free_memory", lambda device: free)
    assert rows_of(TABLE).resident == resident
    assert rows_of(TABLE)[torch.arange(2)].device == META
    # The limit refers to the size of the samples on the GPU, in the dtype of the network.
    assert rows_of(TABLE.astype(np.float64)).resident == resident
    assert not rows_of(TABLE, dtype=torch.float64).resident


def test_sparse_samples_and_memory_maps_are_not_copied(tmp_path):
    assert not rows_of(csr_array(TABLE)).resident
    for mode in ("r", "r+"):
        np.save(tmp_path / "X.npy", TABLE)
        assert not rows_of(np.load(tmp_path / "X.npy", mmap_mode=mode)).resident
    assert Rows(TABLE, META, torch.float32).resident is False


def test_the_next_minibatch_is_copied_while_the_current_one_is_used(monkeypatch):
    monkeypatch.setattr(torch, "cuda", MagicMock())
    monkeypatch.setattr(torch.Tensor, "record_stream", MagicMock())
    rows, asked = Rows(TABLE, CPU, torch.float32), []
    batches = torch.arange(10).split(3)
    reading = map(lambda x: asked.append(x) or x, rows.read(batches))
    for i, batch in enumerate(one_ahead(reading, CPU)):
        np.testing.assert_array_equal(batch, TABLE[batches[i].numpy()])
        assert len(asked) == min(i + 2, 4)
    assert i == 3


def test_noise_drawn_one_draw_at_a_time_equals_noise_of_all_draws():
    scores = torch.randn(5, 60, dtype=torch.float64, requires_grad=True)
    generator = torch.Generator().manual_seed(1)
    value, winner = _draw_kth_largest(scores.detach(), 4, 0.7, 3, generator)
    noise = [torch.randn(5, 60, dtype=torch.float64, generator=generator.manual_seed(1))]
    noise += [torch.randn(5, 60, dtype=torch.float64, generator=generator) for _ in range(2)]
    expected = mean_noised_kth_largest(scores, 4, 0.7, torch.stack(noise, dim=2))
    torch.testing.assert_close(value.mean(1), expected.detach())
    (gradient,) = torch.autograd.grad(expected.sum(), scores)
    ones = torch.full((5, 3), 1 / 3, dtype=torch.float64)
    counted = torch.zeros(5, 60, dtype=torch.float64).scatter_add(1, winner, ones)
    torch.testing.assert_close(gradient, counted)
