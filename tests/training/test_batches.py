"""Minibatches of an epoch, and the rows that they are taken from."""

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array

from sktopk import DeepTopPushClassifier
from sktopk._training._batches import MiniBatches, Rows, RowsAndMore, ShuffledBatches
from sktopk.modules import MLP

X = np.random.default_rng(0).standard_normal((200, 4))
POSITIVE = (X[:, 0] > 1).astype(int)


def test_every_row_is_seen_once_per_epoch():
    X = np.arange(205.0)[:, None]
    rows = Rows(X, torch.device("cpu"), torch.float64)
    target = torch.arange(205)
    sampler = ShuffledBatches(205, 34, torch.Generator().manual_seed(0))
    batches = MiniBatches(rows, target, None, sampler)
    epochs = [[t for _, (t, _) in batches] for _ in range(2)]
    for epoch in epochs:
        assert len(epoch) == len(batches) == 6
        assert sorted(torch.cat(epoch).tolist()) == list(range(205))
    assert not torch.equal(torch.cat(epochs[0]), torch.cat(epochs[1]))
    for x, (t, _) in batches:
        np.testing.assert_array_equal(x[:, 0], t)


@pytest.mark.parametrize("as_rows", [np.asarray, csr_array], ids=["dense", "sparse"])
def test_rows_and_more_are_the_rows_of_both(as_rows):
    rows = Rows(as_rows(X), torch.device("cpu"), torch.float64)
    more = torch.arange(12.0).reshape(3, 4)
    both = RowsAndMore(rows, more)
    whole = np.concatenate([X, more.numpy()])
    for index in ([0, 5], [202, 1, 200, 0, 201, 1], [200], [], [199, 202]):
        found = both[torch.tensor(index, dtype=torch.long)]
        np.testing.assert_array_equal(found, whole[index])


def test_a_piece_of_a_stream_is_not_copied(monkeypatch):
    clf = DeepTopPushClassifier(
        buffer_size=3, module=MLP, n_estimators=1, batch_size=32
    ).partial_fit(X, POSITIVE)
    assert clf.net_.criterion_.hard_rows.each[0].carried is not None
    seen = []
    original = Rows.__init__

    def watched(self, table, *args, **kwargs):
        seen.append(table)
        original(self, table, *args, **kwargs)

    monkeypatch.setattr(Rows, "__init__", watched)
    clf.partial_fit(X, POSITIVE)
    assert all(np.shares_memory(table, X) for table in seen)
