"""Rows of any table as tensors, whole minibatches at a time."""

import numpy as np
import torch
from scipy.sparse import issparse

# A chunk of prediction: large enough to keep every core busy, small enough for the cache.
_CHUNK_BYTES = 1 << 23
_CHUNK_ROWS = 1 << 14
# Images grow many times over inside a network.
_CHUNK_IMAGES = 256


def is_memory_map(X):
    """Tell whether an array, or what it is a view of, lies in a file."""
    while X is not None:
        if isinstance(X, np.memmap):
            return True
        X = getattr(X, "base", None)
    return False


class Rows:
    """Rows of X as tensors: a slice or a tensor of row numbers at a time.

    Writeable arrays in memory are wrapped without a copy. Sparse rows and rows of read-only
    memory maps are copied when they are asked for, so that no dense or second copy of the
    whole exists.

    Parameters
    ----------
    X : ndarray of shape (n_samples, ...) or CSR matrix or array
        Never modified.
    device : torch.device
        Where the rows are asked for.
    dtype : torch.dtype
        Floating type of the rows.
    resident : bool, default=False
        Whether to move dense X to `device` once, for many passes.
    """

    def __init__(self, X, device, dtype, *, resident=False):
        self.device, self.dtype = device, dtype
        self._sparse = issparse(X)
        if not self._sparse and not X.flags.writeable and resident and not is_memory_map(X):
            X = X.copy()  # frames hand out read-only arrays
        if not self._sparse and X.flags.writeable:
            X = torch.from_numpy(np.ascontiguousarray(X))
            if resident:
                X = X.to(device=device, dtype=dtype)
        self._X = X
        self.shape = tuple(X.shape)

    def __len__(self):
        return self.shape[0]

    def __getitem__(self, index):
        if isinstance(self._X, torch.Tensor):
            # A slice would be a view, through which a network that works in place reaches X.
            rows, own = self._X[index], isinstance(index, slice)
            return rows.to(device=self.device, dtype=self.dtype, copy=own)
        rows = self._X[index if isinstance(index, slice) else index.numpy()]
        rows = rows.toarray() if self._sparse else np.array(rows)
        return torch.from_numpy(rows).to(device=self.device, dtype=self.dtype)

    def chunks(self, n_columns):
        """Slices of consecutive rows, bounded by the bytes of `n_columns` numbers a row."""
        row_bytes = max(n_columns, int(np.prod(self.shape[1:]))) * self.dtype.itemsize
        most = _CHUNK_ROWS if len(self.shape) == 2 else _CHUNK_IMAGES
        step = min(most, max(1, _CHUNK_BYTES // row_bytes))
        return [slice(i, min(i + step, len(self))) for i in range(0, len(self), step)]


class RowsAndMore:
    """Rows followed by a few others, none of them copied before they are asked for.

    Parameters
    ----------
    rows : Rows
    more : Tensor of shape (n_more, ...)
        Their row numbers go on from those of `rows`.
    """

    def __init__(self, rows, more):
        self.rows, self.more = rows, more.to(rows.device, rows.dtype)

    def __getitem__(self, index):
        beyond = index >= len(self.rows)
        if not beyond.any():
            return self.rows[index]
        found = torch.cat([self.rows[index[~beyond]], self.more[index[beyond] - len(self.rows)]])
        # From the order in which they were found to the one asked for.
        return found[beyond.to(torch.int8).argsort(stable=True).argsort()]


class ShuffledBatches:
    """Row numbers of shuffled minibatches.

    A single row left over joins the last batch: batch normalisation has no variance of one row.

    Parameters
    ----------
    n_samples, batch_size : int
    generator : torch.Generator
        Draws the order of each epoch.
    """

    def __init__(self, n_samples, batch_size, generator):
        self.n_samples, self.batch_size, self.generator = n_samples, batch_size, generator

    def __len__(self):
        n_batches = -(-self.n_samples // self.batch_size)
        return n_batches - (n_batches > 1 and self.n_samples % self.batch_size == 1)

    def __iter__(self):
        order = torch.randperm(self.n_samples, generator=self.generator)
        for i in range(n_batches := len(self)):
            stop = (i + 1) * self.batch_size if i + 1 < n_batches else None
            yield order[i * self.batch_size : stop]


class MiniBatches:
    """Minibatches ``(rows, (target, weight))``, fetched by one index operation each.

    Parameters
    ----------
    rows : Rows or RowsAndMore
    target : Tensor of shape (n_samples,)
    weight : Tensor of shape (n_samples,) or None
        None stands for equal weights.
    sampler : iterable
        Row numbers of each batch of an epoch; all rows in the order given, if None.
    hard : HardSamples, default=None
        Rows that are joined to each batch of the sampler.
    """

    def __init__(self, rows, target, weight, sampler, hard=None):
        self.rows, self.target, self.weight = rows, target, weight
        self.sampler, self.hard = sampler, hard

    def __len__(self):
        return 1 if self.sampler is None else len(self.sampler)

    def __iter__(self):
        for index in [slice(None)] if self.sampler is None else self.sampler:
            joined = index if self.hard is None else self.hard.join(index)
            weight = None if self.weight is None else self.weight[joined]
            yield self.rows[joined], (self.target[joined], weight)

    def carry(self):
        """Keep copies of the hard rows beyond these batches."""
        if self.hard is not None:
            self.hard.carry(self.rows, self.target, self.weight)
