"""Every minibatch contains positives, and every epoch contains each negative once."""

import math
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis.strategies import integers
from torch.utils.data import DataLoader, TensorDataset

from sktopk.samplers import StratifiedBatchSampler

V, T = ValueError, TypeError


def labels(n_positives, n_negatives, seed=0):
    return np.random.default_rng(seed).permutation(np.repeat([1, 0], [n_positives, n_negatives]))


def epoch(sampler):
    return [*sampler]


def assert_epoch(target, batches, batch_size, min_positives):
    n_positives, n_rows = target.sum(), len(target)
    sizes = [len(batch) for batch in batches]
    assert max(sizes) <= batch_size
    assert max(sizes) - min(sizes) <= 1
    assert all(target[batch].sum() >= min_positives for batch in batches)
    times = Counter(row for batch in batches for row in batch)
    assert {*map(type, times)} == {int}
    assert all(times[row] == 1 for row in np.flatnonzero(target == 0))
    of_positives = [times[row] for row in np.flatnonzero(target == 1)]
    assert min(of_positives) >= 1
    assert max(of_positives) - min(of_positives) <= 1
    if n_positives >= min_positives * math.ceil(n_rows / batch_size):
        assert max(of_positives) == 1
        assert len(batches) == math.ceil(n_rows / batch_size)


@given(integers(1, 40), integers(0, 120), integers(1, 20), integers(0, 19), integers())
@settings(max_examples=300, deadline=None, derandomize=True)
def test_epochs_are_as_documented(n_positives, n_negatives, batch_size, min_positives, seed):
    min_positives = min(min_positives, batch_size - 1)
    target = labels(n_positives, n_negatives, abs(seed))
    sampler = StratifiedBatchSampler(target, batch_size, min_positives=min_positives)
    for _ in range(2):
        batches = epoch(sampler)
        assert len(batches) == len(sampler)
        assert_epoch(target, batches, batch_size, min_positives)
    rows = [row for batch in batches for row in batch]
    assert sampler.repeats_positives == (len(rows) > len(set(rows)))
    fewer = len(sampler) - 1
    # One minibatch fewer cannot hold all samples, or all negatives besides `min_positives`.
    assert fewer * batch_size < n_positives + n_negatives or (
        fewer * (batch_size - min_positives) < n_negatives
    )


def test_the_given_generator_alone_determines_the_order():
    target, state = labels(9, 50), torch.get_rng_state()

    def drawn(seed):
        generator = None if seed is None else torch.Generator().manual_seed(seed)
        sampler = StratifiedBatchSampler(target, 8, min_positives=2, generator=generator)
        return epoch(sampler), epoch(sampler)

    first, second = drawn(3)
    assert sorted(map(sorted, first)) != sorted(map(sorted, second))
    assert drawn(3) == (first, second)
    assert drawn(4)[0] != first
    assert drawn(None) == drawn(0)
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("n_workers", [0, 1])
def test_a_data_loader_accepts_the_sampler_as_batch_sampler(n_workers):
    target, X = torch.from_numpy(labels(4, 60)), torch.arange(64.0).unsqueeze(1)
    sampler = StratifiedBatchSampler(target, 16, min_positives=2)
    loader = DataLoader(TensorDataset(X, target), batch_sampler=sampler, num_workers=n_workers)
    assert len(loader) == len(sampler)
    batches = []
    for x, y in loader:
        batches.append(x.flatten().int().tolist())
        assert torch.equal(y, target[batches[-1]])
    assert_epoch(target.numpy(), batches, 16, 2)


KINDS = [list, np.asarray, torch.tensor, lambda t: np.array(t, bool), lambda t: np.array(t, float)]


@pytest.mark.parametrize("convert", KINDS)
def test_targets_of_any_type_give_the_same_minibatches(convert):
    target = labels(4, 20).tolist()
    expected = epoch(StratifiedBatchSampler(target, 8, min_positives=1))
    converted = convert(target)
    assert epoch(StratifiedBatchSampler(converted, 8, min_positives=1)) == expected
    assert list(converted) == target


REFUSED = [
    ([[1, 0]], {}, V, r"target must have shape \(n_samples,\); got shape \(1, 2\)"),
    ([1, -1], {}, V, r"target must be 0 or 1; got \[-1\]"),
    (["spam", "ham"], {}, V, r"target must be 0 or 1; got \['spam', 'ham'\]"),
    ([None, 1], {}, V, r"target must be 0 or 1; got \[None, 1\] \(object\)"),
    ([0, 0], {}, V, r"target must have a positive sample \(1\); got none"),
    ([1, 0], {"batch_size": 0}, V, "batch_size == 0, must be >= 1"),
    ([1, 0], {"batch_size": True}, T, "batch_size must be an integer; got True"),
    ([1, 0], {"min_positives": -1}, V, "min_positives == -1, must be >= 0"),
    ([1, 0], {"min_positives": "5"}, T, "min_positives must be an instance of"),
    ([1, 0], {"batch_size": 5}, V, "batch_size must be larger than min_positives=5; got 5"),
    ([1, 0], {"generator": 0}, T, r"generator must be a torch\.Generator or None; got 0"),
]


@pytest.mark.parametrize(("target", "parameters", "error", "message"), REFUSED)
def test_wrong_sampler_arguments_raise_errors_that_name_them(target, parameters, error, message):
    with pytest.raises(error, match=message):
        StratifiedBatchSampler(target, **parameters)
