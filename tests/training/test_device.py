"""What a GPU does otherwise than a CPU, as far as a machine without one can tell."""

from unittest.mock import MagicMock

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from sktopk._training import _rows
from sktopk._training._batches import one_ahead
from sktopk._training._rows import Rows
from sktopk.losses._order_statistics import _draw_kth_largest, mean_noised_kth_largest

CPU, META = torch.device("cpu"), torch.device("meta")


@pytest.fixture
def X():
    return np.arange(40.0, dtype=np.float32).reshape(10, 4)


def rows_of(X, device=META, dtype=torch.float32):
    return Rows(X, device, dtype, resident=True)


@pytest.mark.parametrize(("free", "resident"), [(320, True), (319, False)])
def test_a_table_is_moved_once_if_it_takes_at_most_half_of_what_is_free(
    X, free, resident, monkeypatch
):
    monkeypatch.setattr(_rows, "free_memory", lambda device: free)
    assert rows_of(X).resident == resident
    assert rows_of(X)[torch.arange(2)].device == META
    # What counts is what it takes there.
    assert rows_of(X.astype(np.float64)).resident == resident
    assert not rows_of(X, dtype=torch.float64).resident


def test_sparse_rows_and_files_stay_where_they_are(X, tmp_path):
    assert not rows_of(csr_array(X)).resident
    for mode in ("r", "r+"):
        np.save(tmp_path / "X.npy", X)
        assert not rows_of(np.load(tmp_path / "X.npy", mmap_mode=mode)).resident
    assert Rows(X, META, torch.float32).resident is False


def test_rows_are_copied_one_batch_ahead(X, monkeypatch):
    monkeypatch.setattr(torch, "cuda", MagicMock())
    monkeypatch.setattr(torch.Tensor, "record_stream", MagicMock())
    rows, batches = MagicMock(wraps=Rows(X, CPU, torch.float32)), torch.arange(10).split(3)
    rows.__getitem__.side_effect = lambda index: torch.from_numpy(X)[index]
    for i, batch in enumerate(one_ahead(rows, batches)):
        np.testing.assert_array_equal(batch, X[batches[i].numpy()])
        assert rows.__getitem__.call_count == min(i + 2, 4)
    assert i == 3


def test_noise_drawn_by_draw_is_noise_of_all_draws():
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
