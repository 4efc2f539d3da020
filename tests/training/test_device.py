"""What a GPU does otherwise than a CPU, as far as a machine without one can tell."""

from contextlib import nullcontext
from itertools import product

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from sktopk._training import _batches
from sktopk._training._batches import MiniBatches, Rows, one_ahead
from sktopk._training.criteria._top import HardRows, TopCriterion
from sktopk.losses import KthLargest
from sktopk.losses._order_statistics import _draw_kth_largest, mean_noised_kth_largest
from sktopk.losses._thresholds import Largest

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
    monkeypatch.setattr(_batches, "free_memory", lambda device: free)
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


class Stream:
    """Notes when it is waited for."""

    def __init__(self):
        self.waits = 0

    def wait_stream(self, other):
        self.waits += 1


@pytest.fixture
def streams(monkeypatch):
    """Streams of a GPU that is not there."""
    computing = Stream()
    monkeypatch.setattr(torch.cuda, "Stream", lambda device: Stream())
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: computing)
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: nullcontext())
    monkeypatch.setattr(torch.Tensor, "record_stream", lambda tensor, stream: None)
    return computing


class Counting(Rows):
    """Counts how often rows were asked for."""

    n_asked = 0

    def __getitem__(self, index):
        self.n_asked += 1
        return super().__getitem__(index)


def test_rows_are_copied_one_batch_ahead(X, streams):
    rows, batches = Counting(X, CPU, torch.float32), torch.arange(10).split(3)
    for i, batch in enumerate(one_ahead(rows, batches)):
        np.testing.assert_array_equal(batch, X[batches[i].numpy()])
        assert rows.n_asked == min(i + 2, 4)
        assert streams.waits == i + 1
    assert i == 3
    assert list(one_ahead(rows, [])) == []


def test_hard_rows_join_rows_that_were_copied_ahead(X, streams):
    target, batches = torch.arange(10), torch.randperm(10).split(3)
    rows, hard = Rows(X, CPU, torch.float32), HardRows(2)
    stream = MiniBatches(rows, target, None, batches, hard)
    stream._fetched = lambda: zip(batches, one_ahead(rows, batches), strict=True)
    lengths = []
    for x, (y, _) in stream:
        np.testing.assert_array_equal(x, X[y])
        lengths.append(len(y))
        hard.keep(torch.tensor([0, 1]))
    assert lengths == [3, 5, 5, 3]


def tensors(scores, target, weight):
    return torch, scores.detach().flatten(), target, weight


@pytest.mark.parametrize(
    ("threshold", "errors"),
    [
        (Largest("negatives"), "false_negatives"),
        (KthLargest("all", tau=0.1), "false_negatives"),
        (KthLargest("positives", tau=0.8), "false_positives"),
    ],
)
def test_hard_rows_that_are_none_change_nothing(threshold, errors):
    """Groups with fewer samples than are kept, samples drawn twice, minibatches of one class."""
    for case in product((False, True), (1, 7, 60), (False, True)):
        with pytest.MonkeyPatch.context() as monkeypatch:
            assert_nothing_changes(threshold, errors, *case, monkeypatch)


def assert_nothing_changes(threshold, errors, weighted, buffer_size, repeats, monkeypatch):
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(90, 1, generator=generator)
    positive = torch.arange(90) % 15 == 0
    weight = torch.rand(90, generator=generator) + 0.5 if weighted else None
    few = [4, 4 if repeats else 5, 30, 31]
    batches = (range(20), range(0, 90, 15), range(1, 15), few, range(90))
    results = []
    for library in (None, tensors):
        if library is not None:
            monkeypatch.setattr("sktopk._training.criteria._top.arrays", library)
        criterion = TopCriterion(threshold, errors, "logistic", buffer_size)
        criterion.begin(torch.tensor([84.0, 6.0]), torch.ones(2))
        criterion.hard_rows.fresh_repeats = repeats
        result = []
        for batch in batches:
            index = criterion.hard_rows.join(torch.tensor(list(batch)))
            own = None if weight is None else weight[index]
            loss, gradient = criterion.gradient(scores[index], positive[index], own)
            by_row = torch.zeros(90).index_add(0, index, gradient.flatten())
            result.extend([torch.as_tensor(loss), by_row])
        results.append([*result, *map(torch.as_tensor, criterion.trace["threshold"])])
        state = criterion.hard_rows.get_state()["index"].tolist()
        assert len(set(state)) == len(state)
    torch.testing.assert_close(results[1], results[0])


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


@pytest.mark.parametrize("xp", [np, torch])
def test_a_row_counts_where_it_stands_first(xp):
    hard = HardRows(3)
    hard.index = torch.tensor([2, 9, 9] if xp is torch else [2, 9, 5])
    hard.join(torch.tensor([4, 2, 4, 7]))
    remembered, repeated = hard.masks(xp)
    assert remembered.tolist() == [False, True, False, False, True, True, True]
    assert repeated.tolist() == [False, False, True, False, True, False, xp is torch]
    hard.fresh_repeats = False
    hard.join(torch.tensor([4, 2, 7]))
    remembered, repeated = hard.masks(xp)
    assert remembered.tolist() == [False, True, False, True, True, True]
    assert repeated.tolist() == [False, False, False, True, False, xp is torch]
    if xp is np:
        hard.join(torch.tensor([4, 7]))
        remembered, repeated = hard.masks(xp)
        assert remembered.tolist() == [False, False, True, True, True]
        assert repeated is None
