"""Samples as tensors, minibatches, and the samples that each network draws from them."""

import math
from dataclasses import dataclass
from itertools import islice

import numpy as np
import torch
from scipy.sparse import issparse
from torch.utils.data import DataLoader

from sktopk._common._process import check_equal_batches, check_single_process, is_parallel, total
from sktopk._common._samples import LazyRows, is_memory_map
from sktopk.modules._mlp import SparseRows
from sktopk.samplers import GroupBatches, ShuffledBatches, StratifiedBatches

from ._objectives import Drawn, Lists, Totals

# Each network skips its held-out samples, so networks draw different numbers of samples. If the
# smallest number is at least this share of the largest, all networks draw the smallest number.
LEAST_DRAWN = 0.8
# Maximum size of a prediction chunk: all cores stay busy, and hidden layers fit into the cache.
_CHUNK_BYTES = 1 << 23  # bytes of inputs, and of outputs
_CHUNK_ROWS = 1 << 12  # samples, on a CPU
_CHUNK_ROWS_OF_GPU = 1 << 14  # samples, on a GPU, which has more cores than a CPU
_CHUNK_IMAGES = 256  # images, whose hidden layers need more memory than the images
# Minimum samples per prediction chunk, because each chunk reads all weights of the last layer.
_CHUNK_LEAST = 32
# Largest share of a GPU's free memory that X can use. The network and minibatches use the rest.
RESIDENT_SHARE = 0.5
# Sparse multiplication is faster than dense up to this density and from this number of columns.
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
    """Samples of X as tensors, indexed by a slice or a tensor of sample indices."""

    def __init__(
        self, X, device, dtype, *, resident=False, sparse=False, loading=None, encoded=False
    ):
        self.device, self.dtype, self.encoded = device, dtype, encoded
        self.loading = loading if isinstance(X, LazyRows) and not hasattr(X, "nnz") else None
        n_numbers = X.shape[0] * X.shape[1]
        self._sparse = sparse and X.shape[1] >= SPARSE_COLUMNS and X.nnz <= SPARSE_SHARE * n_numbers
        is_array = isinstance(X, np.ndarray)
        resident = resident and is_array and (X.base is None or not is_memory_map(X))
        self.resident = resident and X.size * dtype.itemsize <= RESIDENT_SHARE * free_memory(device)
        if resident and not X.flags.carray:
            X = X.copy()  # arrays from data frames are read-only
        if is_array and X.flags.carray:
            X = torch.from_numpy(X)
            if self.resident:
                X = X.to(device=device, dtype=dtype)
        self._X = X
        self.shape = tuple(X.shape)

    def __len__(self):
        return self.shape[0]

    def __getitem__(self, index):
        is_slice = isinstance(index, slice)
        if isinstance(self._X, torch.Tensor):
            # Copy a slice, because a network with in-place operations would otherwise change X.
            rows = self._X[index] if is_slice else self._X.index_select(0, index)
            return self._moved(rows, copy=is_slice)
        rows = self._X[index if is_slice else index.numpy()]
        if self._sparse:
            rows = rows.astype(str(self.dtype).removeprefix("torch."), copy=False)
            return SparseRows(csr_tensor(rows), lambda: csr_tensor(rows.T.tocsr()))
        rows = rows.toarray() if issparse(rows) else np.array(rows, order="C")
        return self._moved(torch.from_numpy(rows))

    def read(self, parts):
        """Yield the samples of each part. Worker processes can read a Dataset in advance."""
        if not self.loading:
            return (self[part] for part in parts)
        index = [part if isinstance(part, slice) else part.numpy() for part in parts]
        return map(self._moved, DataLoader(self._X, sampler=index, batch_size=None, **self.loading))

    def _moved(self, rows, copy=False):
        if self.device.type == "cuda" and not self.resident:
            return rows.to(self.dtype).pin_memory().to(self.device, non_blocking=True)
        return rows.to(device=self.device, dtype=self.dtype, copy=copy)

    def chunks(self, n_columns):
        """Return slices of X that fit in memory, with `n_columns` outputs for each sample."""
        n_numbers = _CHUNK_BYTES // self.dtype.itemsize
        most = _CHUNK_ROWS if self.device.type == "cpu" else _CHUNK_ROWS_OF_GPU
        most = most if len(self.shape) == 2 else _CHUNK_IMAGES
        row_size = math.prod(self.shape[1:])
        if self._sparse:  # each entry has a value and a column index
            row_size = 2 * self._X.nnz // max(1, len(self))
        step = min(most, n_numbers // max(1, row_size))
        step = max(1, min(step, max(_CHUNK_LEAST, n_numbers // n_columns)))
        return [slice(i, min(i + step, len(self))) for i in range(0, len(self), step)]


@dataclass(frozen=True)
class Batch:
    """A minibatch, with the samples that each network draws."""

    x: object  # Tensor or SparseRows (n_samples, ...): the samples that any network draws
    # Positions in x of the samples of each network: (n_members, longest). None means all of x.
    own: torch.Tensor | None
    target: torch.Tensor  # (n_members, longest)
    weight: torch.Tensor | None  # (n_members, longest), float64
    rows: torch.Tensor  # indices in the training set: (n_members, longest)
    # One tuple for each set of networks that draw equally many samples: indices of the networks,
    # columns of `own` with the positions of their samples, and a `Drawn` for the objective.
    parts: list

    def __iter__(self):
        # Callbacks of skorch unpack a batch.
        return iter((self.x, (self.target, self.weight)))


class MiniBatches:
    """Iterable over the minibatches of an epoch, see `Batch`.

    A GPU gets all sample indices at the start of an epoch. Samples in main memory are copied while
    the GPU computes the previous minibatch. Hard examples are copied after this computation,
    because they are not known before.
    """

    def __init__(
        self, rows, target, weight, sampler, totals, holds_out, *, n_hard, groups, least_drawn
    ):
        self.rows, self.target, self.weight, self.sampler = rows, target, weight, sampler
        self.totals, self.holds_out, self.n_hard, self.groups = totals, holds_out, n_hard, groups
        self.n_members, self._least_drawn = len(totals.unit), least_drawn
        self.hard = torch.empty(self.n_members, 0, dtype=torch.long, device=target.device)

    def __len__(self):
        return len(self.sampler)

    def __iter__(self):
        return (self.batch(*fetched) for fetched in self.fetched())

    def _drawn(self, index):
        """Return the positions of the samples that each network draws, and how many it draws."""
        if self.holds_out is None:
            return None, [len(index)] * self.n_members
        left_out = self.holds_out.take(index.numpy(), axis=1)
        lengths = len(index) - left_out.sum(axis=1)
        least, most = lengths.min(), lengths.max()
        longest = least if least >= self._least_drawn * most else most
        # The stable sort puts drawn samples before held-out samples, and keeps their order.
        own = left_out.argsort(axis=1, kind="stable")[:, :longest]
        return torch.from_numpy(own), lengths.clip(max=longest).tolist()

    def fetched(self):
        """Yield the arguments of `batch`. If the argument x is None, `batch` reads the samples."""
        device = self.target.device
        plan = ((index, *self._drawn(index)) for index in self.sampler)
        if device.type == "cpu" and not self.rows.loading:
            # Between training steps, `_drawn` takes five times as long, as the caches are cold.
            blocks = iter(lambda: list(islice(plan, 16)), [])
            return ((*each, None) for block in blocks for each in block)
        index, own, lengths = zip(*plan, strict=True)
        moved = moved_together(index, device)
        own = [None] * len(own) if own[0] is None else moved_together(own, device)
        ahead = [None] * len(index) if self.rows.resident else self.rows.read(index)
        if device.type == "cuda" and not self.rows.resident:
            ahead = one_ahead(ahead, device)
        return zip(moved, own, lengths, ahead, strict=True)

    def batch(self, index, own, lengths, x):
        """Return a `Batch`. `own` and `lengths` are the results of `_drawn`, x has the samples."""
        device, hard, h, n = self.target.device, self.hard, self.hard.shape[1], len(index)
        n_fresh = n if own is None else own.shape[1]
        every = torch.cat([index, hard.flatten()])
        if x is None:
            x = self.rows[every]
        elif h:
            x = torch.cat([x, self.rows[hard.flatten().cpu()]])
        if h:
            own = torch.arange(n, device=device).expand(self.n_members, -1) if own is None else own
            place = torch.arange(n, len(every), device=device).view_as(hard)
            own = torch.cat([own, place], 1)
        rows = index.expand(self.n_members, -1) if own is None else every.take(own)
        repeated = None
        if self.n_hard:
            fresh = rows[:, :n_fresh].unsqueeze(1)
            repeated = (fresh == hard.unsqueeze(2)).any(1)
            if getattr(self.sampler, "repeats_positives", False):  # it may draw a positive twice
                repeated |= (fresh == fresh.mT).triu(1).any(1)
        weight = None if self.weight is None else self.weight[rows]
        parts, by_length = [], members_by_length(lengths)
        # If networks draw different numbers of samples, some below `n_hard`, keep no hard examples.
        n_hard = self.n_hard if len(by_length) == 1 or min(lengths) >= self.n_hard else 0
        for members, length in by_length:
            drawn = Drawn(
                totals=self.totals if members == slice(None) else self.totals.of(members),
                n_fresh=length if self.n_hard else None,
                repeated=None if repeated is None else repeated[members][:, :length],
                n_hard=n_hard,
                lists=None if self.groups is None else self.groups.lists(members, rows, length),
            )
            columns = slice(None)
            if len(by_length) > 1:
                columns = torch.cat([torch.arange(length), n_fresh + torch.arange(h)]).to(device)
            parts.append((members, columns, drawn))
        return Batch(x, own, self.target.take(rows), weight, rows, parts)

    def load(self, hard):
        """Restore the hard examples, a tensor from a file."""
        n_samples, n_hard = len(self.target), hard.shape[1] if hard.ndim == 2 else -1
        known = hard.dtype == torch.long and hard.shape == (self.n_members, n_hard)
        if not known or n_hard > self.n_hard or ((hard < 0) | (hard >= n_samples)).any():
            raise ValueError(f"'hard' must have n_members rows of sample indices; got {hard!r:.60}")
        self.hard = hard.to(self.target.device)

    def keep(self, rows, members, positions):
        """Store hard examples of the networks `members`, to add them to the next minibatch."""
        found = rows.gather(1, positions)
        if self.hard.shape[1] != found.shape[1]:
            self.hard = rows.new_zeros(self.n_members, found.shape[1])
        self.hard[members] = found


def members_by_length(lengths):
    """Return pairs (members, length): each of the networks `members` draws `length` samples."""
    if len({*lengths}) == 1:
        return [(slice(None), lengths[0])]
    drawn = sorted({*lengths} - {0})
    return [([m for m, n in enumerate(lengths) if n == each], each) for each in drawn]


def moved_together(tensors, device):
    """Copy tensors to a device in one transfer."""
    flat = torch.cat([each.flatten() for each in tensors]).to(device)
    parts = flat.split([each.numel() for each in tensors])
    return [part.view(each.shape) for part, each in zip(parts, tensors, strict=True)]


def one_ahead(batches, device):
    """Yield the samples of each minibatch, while a second CUDA stream copies the next minibatch."""
    copying, computing = torch.cuda.Stream(device), torch.cuda.current_stream(device)
    with torch.cuda.stream(copying):
        ready = next(batches, None)
    while ready is not None:
        before = ready
        computing.wait_stream(copying)
        before.record_stream(computing)
        with torch.cuda.stream(copying):
            ready = next(batches, None)
        yield before


class Groups:
    """The groups of `fit`, each with its own threshold. `codes` has the group of each sample."""

    def __init__(self, codes, target, weight, holds_out, n_members, batches, device):
        n_groups, n_parts = len(batches.n_parts), np.maximum(batches.n_parts, 1)
        self._totals = totals_of(2 * codes + target, weight, (n_groups, 2), device)
        self.codes = torch.from_numpy(codes).to(device)
        # own[m, g]: whether network m trains on group g. The loss of m is the mean over its groups.
        own = np.ones((n_members, n_groups), dtype=bool)
        for m in range(n_members) if holds_out is not None else ():
            own[m, codes[holds_out[m]]] = False
        counts = self._totals.weight.numpy(force=True) > 0
        has_class = np.stack([*counts, counts.all(axis=0)])[:, np.newaxis] & own
        n_lists = np.maximum(has_class.sum(2, keepdims=True), 1)
        self._share = torch.from_numpy(has_class * len(batches) / (n_lists * n_parts)).to(device)

    def lists(self, members, rows, length):
        """Divide the first `length` samples of each network into groups, and return `Lists`."""
        rows = rows[members][:, :length]
        n_groups, member = len(self._totals.unit), torch.arange(len(rows), device=rows.device)
        code = self.codes[rows] + n_groups * member.unsqueeze(1)
        present, code = torch.unique(code.flatten(), return_inverse=True)
        order, size = code.argsort(stable=True), torch.bincount(code)
        within = torch.arange(len(code), device=rows.device) - (size.cumsum(0) - size)[code[order]]
        place = code.new_zeros(len(size), int(size.max()))
        known = torch.zeros_like(place, dtype=torch.bool)
        place[code[order], within], known[code[order], within] = order, True
        group, of_member = present % n_groups, torch.arange(self._share.shape[1])[members]
        share = self._share[:, of_member.to(rows.device)[present // n_groups], group]
        return Lists(place, known, self._totals.of(group), share)


def make_batches(
    rows, target, weight, *,
    n_classes, n_members, batch_size, min_positives, n_hard, generator,
    folds=None, groups=None, seen=None,
):  # fmt: skip
    """Return the `MiniBatches` for a call of `fit` or `partial_fit`."""
    n_samples, device = len(target), rows.device
    of_groups, least_drawn, holds_out, fold = None, LEAST_DRAWN, None, None
    place, drawn = target, np.ones((n_members, 1))
    if folds is not None:
        # Part 0 has the samples that no network holds out, and the other parts are the folds.
        place = (folds.fold + 1) * n_classes + target
        drawn = np.ones((n_members, folds.n_folds + 1))
        drawn[np.arange(n_members), folds.of_member + 1] = 0
        holds_out, fold = folds.holds_out(), torch.from_numpy(folds.fold)
    totals = totals_of(place, weight, (drawn.shape[1], n_classes), device, drawn, seen)
    weighted = total(np.any(weight != 1)) > 0
    weighted |= seen is not None and seen[0].sum() != seen[1]
    if is_parallel():
        # Minibatches of several processes are joined, and need equal sizes and no hard examples.
        n_hard, least_drawn = 0, 0.0
    if groups is not None:
        check_single_process("groups")
        batches = GroupBatches(target, groups, batch_size, min_positives, generator)
        of_groups = Groups(groups, target, weight, holds_out, n_members, batches, device)
        n_hard, least_drawn = 0, np.inf
    elif min_positives is not None and batch_size < n_samples and target.any():
        options = {"min_positives": min_positives, "generator": generator}
        batches = StratifiedBatches(target, batch_size, **options)
        batches.fold = fold
    elif n_samples > batch_size + 1:
        batches = ShuffledBatches(n_samples, batch_size, generator, fold)
    else:
        # Without minibatches, each step trains each network on all its samples.
        batches, n_hard = [torch.arange(n_samples)], 0
        least_drawn = 0.0 if is_parallel() else np.inf
    check_equal_batches(len(batches))
    target = torch.from_numpy(target if min_positives is None else target == 1).to(device)
    weight = torch.from_numpy(weight).to(device, torch.float64) if weighted else None
    return MiniBatches(
        rows, target, weight, batches, totals, holds_out,
        n_hard=n_hard, groups=of_groups, least_drawn=least_drawn,
    )  # fmt: skip


def totals_of(place, weight, shape, device, drawn=None, seen=None):
    """Return sums and means of the sample weights in each part of the samples, as `Totals`.

    ``place[i]`` is ``part * n_classes + class`` of sample i. `shape` is (n_parts, n_classes).
    ``drawn[m, p]`` is 1 if network m draws the samples of part p, else 0. With `drawn`, sums and
    means are computed for each network instead of each part.
    """
    values = weight > 0, weight, None  # numbers of weights > 0, sums, numbers of samples
    count, weight_of, n = (np.bincount(place, w, math.prod(shape)).reshape(shape) for w in values)
    if drawn is not None:
        # Add the drawn folds of each network: subtraction of the held-out fold would be less exact.
        count, weight_of, n = total(np.stack([drawn @ each for each in (count, weight_of, n)]))
    mean = (weight_of / np.maximum(count, 1)).clip(min=1e-300)
    unit = weight_of.sum(1) / np.maximum(n.sum(1), 1)
    if seen is not None:
        weight_of = np.broadcast_to(seen[0], weight_of.shape).astype(np.float64)
        unit = weight_of.sum(1) / seen[1]
    # Keep these sums and means of weights in float64, even if the network uses float32.
    of = (np.ascontiguousarray(each) for each in (weight_of.T, mean.T, unit))
    return Totals(*(torch.from_numpy(each).to(device) for each in of))
