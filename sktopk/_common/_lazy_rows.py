"""Samples that are read when they are asked for."""

import numpy as np
from scipy.sparse import issparse


class LazyRows:
    """A table with shape, dtype and indexing like an array, that holds no rows itself."""

    @property
    def ndim(self):
        return len(self.shape)

    def __len__(self):
        return self.shape[0]

    def __array__(self, dtype=None, copy=None):
        # For scorers of others, which ask for an array; nothing here does.
        rows = self[:]
        return np.asarray(rows.toarray() if issparse(rows) else rows, dtype=dtype)

    def labels(self):
        """The label of every row, where they come with the rows, or None."""


class SomeRows(LazyRows):
    """Some rows of a table, not copied before they are asked for.

    Parameters
    ----------
    table : memory map, CSR matrix or array, or LazyRows
    index : ndarray of int
        Their numbers.
    """

    def __init__(self, table, index):
        self.table, self.index = table, index
        self.shape, self.dtype = (len(index), *table.shape[1:]), table.dtype
        if hasattr(table, "nnz"):
            # About how many numbers are stored: what the share of the rows tells.
            self.nnz = table.nnz * len(index) // max(1, table.shape[0])

    def __getitem__(self, index):
        return self.table[self.index[index]]
