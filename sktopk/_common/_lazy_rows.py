"""Containers whose samples are read only when they are indexed."""

import numpy as np
from scipy.sparse import issparse


class LazyRows:
    """Base class of containers that have a shape, a dtype and indexing like an array."""

    @property
    def ndim(self):
        return len(self.shape)

    def __len__(self):
        return self.shape[0]

    def __array__(self, dtype=None, copy=None):
        # Scorers of other packages call np.asarray(X).
        rows = self[:]
        return np.asarray(rows.toarray() if issparse(rows) else rows, dtype=dtype)

    def labels(self):
        """Return the labels if they are stored with the samples, else None."""


class SomeRows(LazyRows):
    """A subset of the rows of a table. Rows are copied only when they are indexed."""

    def __init__(self, table, index):
        self.table, self.index = table, index
        self.shape, self.dtype = (len(index), *table.shape[1:]), table.dtype
        if hasattr(table, "nnz"):
            # Estimate the number of nonzero values from the share of selected rows.
            self.nnz = table.nnz * len(index) // max(1, table.shape[0])

    def __getitem__(self, index):
        return self.table[self.index[index]]
