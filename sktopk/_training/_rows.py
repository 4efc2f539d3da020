"""Samples of X as tensors."""

import math
from itertools import pairwise

import numpy as np
import torch
from scipy.sparse import issparse
from torch.utils.data import DataLoader

from sktopk._common._samples import LazyRows, SomeRows, is_memory_map
from sktopk.modules._mlp import SparseRows

# Largest prediction chunk on a CPU: it keeps all cores busy, and hidden layers fit into the cache.
_CHUNK_BYTES = 1 << 23
_CHUNK_ROWS = 1 << 12
# Maximum number of samples per prediction chunk on a GPU, which has more cores than a CPU.
_CHUNK_ROWS_OF_GPU = 1 << 14
# Minimum number of samples per prediction chunk. Each chunk reads all weights of the last layer.
_CHUNK_LEAST = 32
# Maximum number of images per prediction chunk. Hidden layers need more memory than the images.
_CHUNK_IMAGES = 256
# Largest share of a GPU's free memory for the data. The network and minibatches use the rest.
RESIDENT_SHARE = 0.5
# Sparse matrix multiplication is faster than dense up to this density of X, and from this number
# of columns.
SPARSE_SHARE, SPARSE_COLUMNS = 0.05, 1000


def free_memory(device):
    """Return the free memory of a GPU in bytes, or infinity for a CPU."""
    if device.type != "cuda":
        return math.inf
    # Memory that torch has reserved but does not use is also free.
    reserve = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return torch.cuda.mem_get_info(device)[0] + reserve


def csr_tensor(X):
    """Return a SciPy CSR matrix as a torch tensor that shares the memory of the matrix."""
    parts = map(torch.from_numpy, (X.indptr, X.indices, X.data))
    return torch.sparse_csr_tensor(*parts, X.shape, check_invariants=False)


class Rows:
    """Samples of X as tensors, indexed by a slice or a tensor of sample indices.

    X is not modified. Writeable arrays are wrapped without a copy. Sparse samples and read-only
    memory maps are copied on access, so that memory holds no second copy of X.

    `resident` copies X to `device` once, if X is a dense array in memory that fits in
    `RESIDENT_SHARE` of the device's free memory. Other samples are copied when indexed. `sparse`
    returns samples of a CSR matrix as `SparseRows` if this is faster. `loading` has arguments of
    torch's DataLoader, with which `read` reads the samples of a Dataset.
    """

    def __init__(self, X, device, dtype, *, resident=False, sparse=False, loading=None):
        self.device, self.dtype = device, dtype
        self.loading = loading if isinstance(X, LazyRows) else None
        n_numbers = X.shape[0] * X.shape[1]
        self._sparse = sparse and X.shape[1] >= SPARSE_COLUMNS and X.nnz <= SPARSE_SHARE * n_numbers
        is_array = isinstance(X, np.ndarray)
        resident = resident and is_array and (X.base is None or not is_memory_map(X))
        n_bytes = X.size * dtype.itemsize if resident else 0
        self.resident = resident and n_bytes <= RESIDENT_SHARE * free_memory(device)
        if resident and not X.flags.writeable:
            X = X.copy()  # arrays from data frames are read-only
        if is_array and X.flags.writeable:
            X = torch.from_numpy(np.ascontiguousarray(X))
            if self.resident:
                X = X.to(device=device, dtype=dtype)
        self._X = X
        self.shape = tuple(X.shape)

    def __len__(self):
        return self.shape[0]

    def __getitem__(self, index):
        own = isinstance(index, slice)
        if isinstance(self._X, torch.Tensor):
            # Copy a slice, because a network with in-place operations would otherwise change X.
            return self._moved(self._X[index], own)
        rows = self._X[index if own else index.numpy()]
        if self._sparse:
            rows = rows.astype(str(self.dtype).removeprefix("torch."), copy=False)
            return SparseRows(csr_tensor(rows), lambda: csr_tensor(rows.T.tocsr()))
        rows = rows.toarray() if issparse(rows) else np.array(rows)
        return self._moved(torch.from_numpy(rows))

    def read(self, parts):
        """Yield the samples of each part. Worker processes read a Dataset ahead."""
        if not self.loading:
            return (self[part] for part in parts)
        index = [part if isinstance(part, slice) else part.numpy() for part in parts]
        loader = DataLoader(self._X, sampler=index, batch_size=None, **self.loading)
        return map(self._moved, loader)

    def _moved(self, rows, own=False):
        if self.device.type == "cuda" and not self.resident:
            return rows.to(self.dtype).pin_memory().to(self.device, non_blocking=True)
        return rows.to(device=self.device, dtype=self.dtype, copy=own)

    def chunks(self, n_columns):
        """Return slices of X for prediction in chunks, given `n_columns` outputs per sample."""
        n_numbers = _CHUNK_BYTES // self.dtype.itemsize
        most = _CHUNK_ROWS if self.device.type == "cpu" else _CHUNK_ROWS_OF_GPU
        most = most if len(self.shape) == 2 else _CHUNK_IMAGES
        row_size = int(np.prod(self.shape[1:]))
        if self._sparse:  # each entry has a value and a column index
            row_size = 2 * self._X.nnz // max(1, len(self))
        step = min(most, n_numbers // max(1, row_size))
        step = max(1, min(step, max(_CHUNK_LEAST, n_numbers // n_columns)))
        return [slice(i, min(i + step, len(self))) for i in range(0, len(self), step)]


class HeldOut(SomeRows):
    """The samples that the networks of an ensemble hold out, sorted by fold.

    `parts` has, for each fold, a slice of these samples and the networks that hold out the fold.
    """

    def __init__(self, X, folds):
        order = np.argsort(folds.fold, kind="stable")
        super().__init__(X, order[folds.fold[order] >= 0])
        stop = np.cumsum(np.bincount(folds.fold[self.index], minlength=folds.n_folds)).tolist()
        of_member = folds.of_member
        self.parts = [
            (slice(*ends), np.flatnonzero(of_member == fold).tolist())
            for fold, ends in enumerate(pairwise([0, *stop]))
        ]

    def part(self, own):
        """Return the samples of a slice."""
        return SomeRows(self.table, self.index[own])
