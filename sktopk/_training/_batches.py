"""Conversion of samples to tensors, and iteration over minibatches."""

import copy
import math

import numpy as np
import torch
from scipy.sparse import issparse

from sktopk._common._input import is_memory_map
from sktopk.modules._mlp import SparseRows
from sktopk.samplers import StratifiedBatchSampler

from ._process import all_objects, world_size
from .criteria._groups import GroupRows

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
# Groups larger than `batch_size` are divided. At most this number of such groups share a minibatch.
JOINED = 10
# Sparse matrix multiplication is faster than dense up to this density of X, and from this number
# of columns (benchmarks/large_data.py).
SPARSE_SHARE, SPARSE_COLUMNS = 0.05, 1000


def free_memory(device):
    """Return the free memory of a GPU in bytes, or infinity for a CPU."""
    if device.type != "cuda":
        return math.inf
    # Memory that torch has reserved but does not use is also free.
    reserve = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return torch.cuda.mem_get_info(device)[0] + reserve


def stays_sparse(X):
    """Return whether sparse matrix multiplication with X is faster than dense multiplication."""
    if not hasattr(X, "nnz") or X.shape[1] < SPARSE_COLUMNS:
        return False
    return X.nnz <= SPARSE_SHARE * X.shape[0] * X.shape[1]


def csr_tensor(X):
    """Return a SciPy CSR matrix as a torch tensor that shares the memory of the matrix."""
    parts = map(torch.from_numpy, (X.indptr, X.indices, X.data))
    return torch.sparse_csr_tensor(*parts, X.shape, check_invariants=False)


class Rows:
    """Samples of X as tensors, indexed by a slice or a tensor of sample indices.

    X is not modified. Writeable arrays are wrapped without a copy. Sparse samples and read-only
    memory maps are copied on access, so that memory holds no second copy of X.

    Parameters
    ----------
    X : ndarray of shape (n_samples, ...), CSR matrix or array, or LazyRows
    resident : bool, default=False
        Whether to copy X to `device` once. This applies only to a dense X in memory that fits in
        `RESIDENT_SHARE` of the device's free memory. Other samples are copied when indexed.
    sparse : bool, default=False
        Whether to return samples of a CSR matrix as `SparseRows` if this is faster.
    """

    def __init__(self, X, device, dtype, *, resident=False, sparse=False):
        self.device, self.dtype = device, dtype
        self._sparse = sparse and stays_sparse(X)
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

    def dense(self):
        """Return a copy of these `Rows` that always yields dense tensors."""
        rows = copy.copy(self)
        rows._sparse = False
        return rows

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


class RowsAndMore:
    """Samples of dense `Rows`, followed by additional samples from the tensor `more`."""

    def __init__(self, rows, more):
        self.rows, self.more = rows, more.to(rows.device, rows.dtype)
        self.device, self.resident = rows.device, rows.resident

    def dense(self):
        return self

    def __getitem__(self, index):
        beyond = index - len(self.rows)
        # If no index refers to additional samples, use `rows` only. This test is slow on a GPU.
        if not len(self.more) or (index.device.type == "cpu" and not (beyond >= 0).any()):
            return self.rows[index]
        found = self.rows[index.clamp(max=len(self.rows) - 1)]
        beyond = beyond.to(self.device)
        more = self.more[beyond.clamp(min=0)]
        return torch.where((beyond >= 0).view(-1, *[1] * (more.ndim - 1)), more, found)


class ShuffledBatches:
    """Shuffled minibatches of sample indices.

    A single remaining sample joins the last minibatch: batch normalization needs two samples.
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


class GroupBatches:
    """Shuffled minibatches of whole groups, or of parts of groups that exceed `batch_size`.

    Groups of at most `batch_size` samples stay whole. Larger groups are divided into parts. A
    minibatch contains either whole groups, or one part each of up to ten large groups. If parts
    would have less than twice `min_positives` samples, fewer groups share a minibatch.

    The target is 1 for positives. `StratifiedBatchSampler` describes the other parameters.

    Attributes
    ----------
    n_parts : ndarray of int of shape (n_groups,)
        Number of parts of each group; 0 for groups without samples.
    n_joined : int
        Number of large groups per minibatch. A minibatch contains one part of each.
    """

    def __init__(self, target, groups, batch_size, min_positives, generator):
        self.generator = generator
        order, size = np.argsort(groups, kind="stable"), np.bincount(groups)
        stop = np.cumsum(size)
        start = stop - size
        self.n_parts = (size > 0).astype(np.int64)
        self._cut, large = [], size > batch_size
        most = min(JOINED, np.count_nonzero(large), batch_size // (2 * max(1, min_positives)))
        self.n_joined = max(1, int(most))
        part_size = batch_size // self.n_joined
        for group in np.flatnonzero(large):
            rows = order[start[group] : stop[group]]
            positive = target[rows] == 1
            if positive.any():
                sampler = StratifiedBatchSampler(
                    positive, part_size, min_positives=min_positives, generator=generator
                )
            else:
                sampler = ShuffledBatches(len(rows), part_size, generator)
            self.n_parts[group] = len(sampler)
            self._cut.append((torch.from_numpy(rows), sampler))
        of_each = self.n_parts[large]
        # Create enough minibatches, so that none contains two parts of the same group.
        self._n_cut = max(-(-int(of_each.sum()) // self.n_joined), int(of_each.max(initial=0)))
        # Join groups of one sample in pairs, because batch normalization needs two samples.
        own, several = groups[order], (size > 1) & ~large
        rows, single = order[several[own]], order[size[own] == 1]
        together = np.concatenate([size[several], np.full(len(single) // 2, 2)])
        if len(single) % 2:
            # With an odd number of groups of one sample, the last set gets one more sample.
            together = np.append(together[:-1], together[-1:].sum() + 1)
        self._order = torch.from_numpy(np.concatenate([rows, single]))
        self._start, self._size = map(torch.from_numpy, (np.cumsum(together) - together, together))
        self._n_whole = min(-(-int(together.sum()) // batch_size), len(together))

    def __len__(self):
        return self._n_whole + self._n_cut

    def __iter__(self):
        drawn = torch.randperm(len(self._cut), generator=self.generator).tolist()
        parts = [
            rows[index] for i in drawn for rows, sampler in [self._cut[i]] for index in sampler
        ]
        batches = [torch.cat(parts[i :: self._n_cut]) for i in range(self._n_cut)]
        batches += self._of_whole_groups()
        for i in torch.randperm(len(batches), generator=self.generator).tolist():
            yield batches[i]

    def _of_whole_groups(self):
        """Return minibatches of random whole groups. They have about equal size; none is empty."""
        if not len(self._size):
            return []
        drawn = torch.randperm(len(self._size), generator=self.generator)
        start, size = self._start[drawn], self._size[drawn]
        stop = size.cumsum(0)
        n_rows = int(stop[-1])
        # Divide all samples equally. A group joins the minibatch that has its middle sample.
        batch = (2 * stop - size) * self._n_whole // (2 * n_rows)
        # Move groups into empty minibatches. The number of groups is always sufficient.
        place = torch.arange(len(batch))
        batch = batch.maximum(place + self._n_whole - len(batch))
        batch = place + (batch - place).cummin(0).values
        within = torch.arange(n_rows) - (stop - size).repeat_interleave(size)
        rows = self._order[start.repeat_interleave(size) + within]
        lengths = torch.bincount(batch.repeat_interleave(size), minlength=self._n_whole)
        return list(rows.split(lengths.tolist()))


def one_ahead(rows, batches):
    """Yield the samples of each minibatch, while a second CUDA stream copies the next minibatch."""
    copying, computing = torch.cuda.Stream(rows.device), torch.cuda.current_stream(rows.device)
    ready = None
    for index in [*batches, None]:
        before = ready
        if before is not None:
            computing.wait_stream(copying)
            before.record_stream(computing)
        with torch.cuda.stream(copying):
            ready = None if index is None else rows[index]
        if before is not None:
            yield before


class MiniBatches:
    """Iterable over the minibatches ``(rows, (target, weight))`` of an epoch.

    A GPU computes and copies at the same time. Sample indices are copied at the start of an epoch.
    Samples that are not on the GPU are copied during the previous minibatch. Hard examples from
    earlier minibatches are copied later, because the previous minibatch determines them.

    Parameters
    ----------
    weight : Tensor of shape (n_samples,) or, with folds, (n_samples, n_members); or None
    sampler : iterable or None
        Sample indices of each minibatch of an epoch. None means one batch with all samples.
    """

    def __init__(self, rows, target, weight, sampler, hard=None, folds=None):
        self.rows, self.target, self.weight = rows, target, weight
        self.sampler, self.hard, self.folds = sampler, hard, folds

    def __len__(self):
        return 1 if self.sampler is None else len(self.sampler)

    def __iter__(self):
        for index, rows in self._fetched():
            hard = self.hard
            joined = index if hard is None else hard.join(index)
            if rows is None:
                rows = self.rows[joined]
            elif hard is not None:
                rows = torch.cat([rows, self.rows[joined[len(index) :].cpu()]])
            weight = None if self.weight is None else self.weight[joined]
            if self.folds is not None:
                weight = self.folds.weights(joined, weight)
            yield rows, (self.target[joined], weight)

    def _fetched(self):
        """Return pairs (sample indices, samples). Samples are None if not prefetched to a GPU."""
        device = self.target.device
        if self.sampler is None:
            return [(slice(None), None)]
        if device.type == "cpu":
            return ((index, None) for index in self.sampler)
        batches = list(self.sampler)
        moved = torch.cat(batches).to(device).split([len(index) for index in batches])
        ahead = one_ahead(self.rows, batches) if not self.rows.resident else [None] * len(batches)
        return zip(moved, ahead, strict=True)

    def carry(self):
        """Copy the hard examples, so that the next call of `partial_fit` can use them."""
        for m, each in enumerate([] if self.hard is None else self.hard.each):
            by_member = self.weight is not None and self.weight.ndim > 1
            own = self.weight[:, m] if by_member else self.weight
            each.carry(self.rows.dense(), self.target, own)


def make_batches(
    net, X, target, weight, class_total, *,
    batch_size, min_positives=None, resumed=False, folds=None, groups=None,
):  # fmt: skip
    """Return the `MiniBatches` for a call of `fit`. Pass class statistics to ``criterion.begin``.

    Parameters
    ----------
    X : ndarray, CSR matrix or LazyRows
    target : ndarray of int of shape (n_samples,)
        Class indices.
    weight : ndarray of shape (n_samples,), or (n_samples, n_members) with folds
    class_total : ndarray of shape (n_classes,)
        Sum of the sample weights of each class, see :meth:`Criterion.begin`.
    min_positives : int, default=None
        Minimum number of samples of class 1 per minibatch, for losses that need positives.
    resumed : bool, default=False
        Whether the caller is `partial_fit`, which may use other samples in every call.
    groups : ndarray of int of shape (n_samples,), default=None
        Group number of each sample, for a loss that is averaged over groups.
    """
    n_rows, criterion, hard = len(target), net.criterion_, net.criterion_.hard_rows
    n_classes = len(class_total)
    # Count the samples of each class, and sum their weights. With folds, each member has a column.
    each = [weight] if folds is None else [*folds.seen(weight)]
    n_rows_of = np.stack([np.bincount(target[w > 0], minlength=n_classes) for w in each], 1)
    weight_of = np.stack([np.bincount(target, w, minlength=n_classes) for w in each], 1)
    sampler, repeats = None, False
    if groups is not None:
        if world_size() > 1:
            raise ValueError(f"groups need a single process; got {world_size()} processes")
        sampler = GroupBatches(target, groups, batch_size, min_positives, net.generator)
        criterion.set_groups(_by_group(target, groups, each, sampler, net.device))
        hard = criterion.hard_rows
    elif min_positives is not None and batch_size < n_rows and target.any():
        sampler = StratifiedBatchSampler(
            target, batch_size, min_positives=min_positives, generator=net.generator
        )
        repeats = sampler.repeats_positives
    elif n_rows > batch_size + 1:
        sampler = ShuffledBatches(n_rows, batch_size, net.generator)
    elif resumed and hard is not None:
        sampler = [torch.arange(n_rows)]
    n_batches, weighted = 1 if sampler is None else len(sampler), bool(np.any(weight != 1))
    shared = all_objects((n_batches, n_rows_of, weight_of, weighted))
    lengths, n_rows_of, weight_of, weighted = zip(*shared, strict=True)
    if len(set(lengths)) != 1:
        raise ValueError(
            "every process must have the same number of batches in an epoch; got "
            f"{[*lengths]}: use the same number of samples in each process (for rankers, per class)"
        )
    n_rows_of, weight_of = sum(n_rows_of), sum(weight_of)
    if folds is None:
        n_rows_of, weight_of = n_rows_of[:, 0], weight_of[:, 0]
    else:
        class_total = weight_of
    mean_weight = (weight_of / np.maximum(n_rows_of, 1)).clip(min=1e-300)
    device = torch.device(net.device)
    # Keep the class totals in float64, even if the network uses float32.
    class_total, mean_weight = torch.from_numpy(np.stack([class_total, mean_weight])).to(device)
    criterion.n_processes = len(shared)
    criterion.begin(class_total, mean_weight, resumed=resumed)
    rows = net.rows(X, resident=True)
    if hard is not None:
        for each in hard.each:
            each.fresh_repeats = repeats
        rows, target, weight = _with_carried(hard.each, rows, target, weight)
    target = torch.from_numpy(target if min_positives is None else target == 1).to(device)
    # Weights of rankers may have any unit, which float32 could not store.
    dtype = net.dtype if min_positives is None else torch.float64
    weight = torch.from_numpy(weight).to(device, dtype) if any(weighted) else None
    if folds is not None:
        folds.to(device, dtype)
    joins = groups is not None or (sampler is not None and hard is not None and hard.size)
    return MiniBatches(rows, target, weight, sampler, hard if joins else None, folds)


def _by_group(target, groups, weights, sampler, device):
    """Return a function that takes the number of an ensemble member and returns its `GroupRows`."""
    codes, n_groups = torch.from_numpy(groups).to(device), len(sampler.n_parts)
    place = groups + n_groups * target

    def make(m):
        weight = weights[m % len(weights)]
        n_rows = np.bincount(place[weight > 0], minlength=2 * n_groups).reshape(2, -1)
        total = np.bincount(place, weight, 2 * n_groups).reshape(2, -1)
        mean = (total / np.maximum(n_rows, 1)).clip(min=1e-300)
        return GroupRows(codes, sampler.n_parts, len(sampler), total, mean)

    return make


def _with_carried(hard, rows, target, weight):
    """Append hard examples of earlier `partial_fit` calls to rows, target and weight."""
    n_rows, carried = len(target), []
    for each in hard:
        each.batch, each.index = None, each.index[:0]
        if each.carried is not None:
            carried.append(each.carried)
            each.index = torch.arange(n_rows, n_rows + len(each.carried["rows"]))
            n_rows += len(each.index)
    if not carried:
        return rows, target, weight
    more = {name: torch.cat([part[name] for part in carried]) for name in carried[0]}
    target = np.concatenate([target, more["target"].numpy()]).astype(target.dtype)
    weight = np.concatenate([weight, more["weight"].numpy()])
    return RowsAndMore(rows.dense(), more["rows"]), target, weight
