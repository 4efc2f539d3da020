"""Sampler for minibatches with a minimum number of positives."""

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import ArrayLike

from ._common._scalars import check_number

__all__ = ["StratifiedBatchSampler"]

# Groups larger than a minibatch are cut into parts. A minibatch has at most JOINED of these parts.
JOINED = 10


class StratifiedBatchSampler:
    r"""Sampler for shuffled minibatches that all contain positives.

    Let n, :math:`n_+` and :math:`n_-` be the numbers of samples, positives and negatives, b the
    batch size and m `min_positives`.

    - With enough positives (:math:`n_+ \ge m \lceil n / b \rceil`), each sample is in exactly one
      of :math:`\lceil n / b \rceil` batches. Each class is spread evenly over the batches.
    - Otherwise there are :math:`\max(\lceil n_- / (b - m) \rceil, \lceil n_+ / m \rceil)` batches
      with m positives each. Each negative is in one batch. Positives are used repeatedly, each time
      in a new order. A batch may contain the same positive twice.

    A loop over the sampler is an epoch. Batch sizes differ by at most one. ``DataLoader`` takes the
    sampler as ``batch_sampler``. The default `batch_size` and `min_positives` are from [1]_.

    Parameters
    ----------
    target : array-like of shape (n_samples,)
        Class labels in {0, 1}. Samples with label 1 are the positives.
    batch_size : int, default=32
        Largest number of samples per batch. Must be larger than `min_positives`.
    min_positives : int, default=5
        Smallest number of positives per batch. With 0, a batch may have none.
    generator : torch.Generator, default=None
        Random generator for the order in each epoch. None means a new generator with seed 0.

    Raises
    ------
    TypeError, ValueError
        If `target` contains values other than 0 and 1, or no 1, or if a number is out of range.

    References
    ----------
    .. [1] L. Adam, V. Macha, V. Smidl. DeepTopPush: Simple and Scalable Method for Accuracy at
       the Top. 2020, section 4.2.

    Examples
    --------
    >>> from sktopk.samplers import StratifiedBatchSampler
    >>> target = [1, 1, 0, 0, 0, 0, 0, 0]
    >>> sampler = StratifiedBatchSampler(target, batch_size=3, min_positives=1)
    >>> [len(index) for index in sampler]
    [3, 3, 3]
    >>> [sum(target[i] for i in index) for index in sampler]
    [1, 1, 1]
    """

    def __init__(
        self,
        target: ArrayLike,
        batch_size: int = 32,
        *,
        min_positives: int = 5,
        generator: torch.Generator | None = None,
    ) -> None:
        target = np.asarray(target)
        if target.ndim != 1:
            raise ValueError(f"target must have shape (n_samples,); got shape {target.shape}")
        refused = target[~np.isin(target, (0, 1))] if target.dtype.kind in "buif" else target
        if len(refused):
            raise ValueError(f"target must be 0 or 1; got {refused[:5].tolist()} ({target.dtype})")
        if not target.any():
            raise ValueError("target must have a positive sample (1); got none")
        check_number(batch_size, "batch_size", 1, integer=True)
        check_number(min_positives, "min_positives", 0, integer=True)
        if min_positives >= batch_size:
            raise ValueError(
                f"batch_size must be larger than min_positives={min_positives}; got {batch_size}"
            )
        self.batch_size, self.min_positives = batch_size, min_positives
        self.positives = torch.from_numpy(np.flatnonzero(target == 1))
        self.negatives = torch.from_numpy(np.flatnonzero(target == 0))
        if not isinstance(generator, torch.Generator | None):
            raise TypeError(f"generator must be a torch.Generator or None; got {generator!r}")
        self.generator = torch.Generator().manual_seed(0) if generator is None else generator
        self.fold = None  # the training sets the fold of each sample, see `evenly`
        self._n_batches = -(-len(target) // batch_size)
        # Number of positives per epoch, including repetitions.
        self._n_positives = len(self.positives)
        if self._n_positives < min_positives * self._n_batches:
            n_batches = -(-len(self.negatives) // (batch_size - min_positives))
            self._n_batches = max(n_batches, -(-self._n_positives // min_positives))
            self._n_positives = min_positives * self._n_batches

    def __len__(self) -> int:
        return self._n_batches

    @property
    def repeats_positives(self) -> bool:
        """Whether some positives occur more than once per epoch, and possibly twice in a batch."""
        return self._n_positives > len(self.positives)

    def __iter__(self) -> Iterator[list[int]]:
        return (index.tolist() for index in self._batches())

    def _batches(self):
        # tensor_split puts larger parts first. Reverse the parts of negatives to balance the sizes.
        positives = self._shuffled(self.positives, self._n_positives).tensor_split(len(self))
        negatives = self._shuffled(self.negatives, len(self.negatives)).tensor_split(len(self))
        for positive, negative in zip(positives, reversed(negatives), strict=True):
            yield torch.cat([positive, negative])

    def _shuffled(self, rows, n):
        """Return `n` indices from `rows` in random order. Use all indices before repeating any."""
        n_orders = -(-n // max(1, len(rows)))
        order = [evenly(rows, self.fold, self.generator) for _ in range(n_orders)]
        return torch.cat([rows[:0], *order])[:n]


class StratifiedBatches(StratifiedBatchSampler):
    """Sampler that yields each minibatch of `StratifiedBatchSampler` as a tensor."""

    def __iter__(self):
        return self._batches()


def evenly(rows, fold, generator):
    """Return `rows` in random order. With `fold`, each fold is spread evenly over this order."""
    rows = rows[torch.randperm(len(rows), generator=generator)]
    if fold is None:
        return rows
    of_row = fold[rows] + 1
    order, size = of_row.argsort(stable=True), torch.bincount(of_row)
    start = size.cumsum(0) - size
    # Sample i of a fold with n samples gets the sort key (i + u) / n, with a random u per fold.
    shift = torch.rand(len(size), generator=generator, dtype=torch.float64)
    of_place = of_row[order]
    place = (torch.arange(len(rows)) - start[of_place] + shift[of_place]) / size[of_place]
    return rows[order[place.argsort(stable=True)]]


class ShuffledBatches:
    """Shuffled minibatches of sample indices. Each fold is spread evenly over the minibatches.

    If one sample remains, it joins the last minibatch, because batch normalization needs two.
    """

    def __init__(self, n_samples, batch_size, generator, fold=None):
        self.n_samples, self.batch_size, self.generator = n_samples, batch_size, generator
        self.fold = fold

    def __len__(self):
        return -(-self.n_samples // self.batch_size) - (self.n_samples % self.batch_size == 1)

    def __iter__(self):
        order = evenly(torch.arange(self.n_samples), self.fold, self.generator)
        return iter(order.tensor_split([i * self.batch_size for i in range(1, len(self))]))


class GroupBatches:
    """Shuffled minibatches of whole groups. Groups larger than `batch_size` are cut into parts.

    A minibatch has either whole groups, or at most `n_joined` parts, each of a different group. The
    array `n_parts` has the number of parts of each group: 1 if it is not cut, 0 if it is empty.
    """

    def __init__(self, target, groups, batch_size, min_positives, generator):
        self.generator = generator
        order, size = np.argsort(groups, kind="stable"), np.bincount(groups)
        stop = np.cumsum(size)
        self.n_parts = (size > 0).astype(np.int64)
        self._cut, large = [], size > batch_size
        # With fewer parts per minibatch, a part can have at least 2 * min_positives samples.
        most = min(JOINED, np.count_nonzero(large), batch_size // (2 * max(1, min_positives)))
        self.n_joined = max(1, int(most))
        part_size = batch_size // self.n_joined
        options = {"min_positives": min_positives, "generator": generator}
        for group in np.flatnonzero(large):
            rows = order[stop[group] - size[group] : stop[group]]
            positive = target[rows] == 1
            if positive.any():
                sampler = StratifiedBatches(positive, part_size, **options)
            else:
                sampler = ShuffledBatches(len(rows), part_size, generator)
            self.n_parts[group] = len(sampler)
            self._cut.append((torch.from_numpy(rows), sampler))
        of_each = self.n_parts[large]
        # Make enough minibatches to put all parts of each group into different minibatches.
        self._n_cut = max(-(-int(of_each.sum()) // self.n_joined), int(of_each.max(initial=0)))
        # Join groups of one sample in pairs, because batch normalization needs two samples.
        own, several = groups[order], (size > 1) & ~large
        rows, single = order[several[own]], order[size[own] == 1]
        together = np.concatenate([size[several], np.full(len(single) // 2, 2)])
        if len(single) % 2:
            # If a single group of one sample remains, add it to the last group or pair.
            together = np.append(together[:-1], together[-1:].sum() + 1)
        self._order = torch.from_numpy(np.concatenate([rows, single]))
        self._start, self._size = map(torch.from_numpy, (np.cumsum(together) - together, together))
        self._n_whole = min(-(-int(together.sum()) // batch_size), len(together))

    def __len__(self):
        return self._n_whole + self._n_cut

    def __iter__(self):
        cut = [self._cut[i] for i in torch.randperm(len(self._cut), generator=self.generator)]
        parts = [rows[index] for rows, sampler in cut for index in sampler]
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
        # Divide the samples into equal intervals. A group joins the interval of its middle sample.
        batch = (2 * stop - size) * self._n_whole // (2 * n_rows)
        # Move groups into empty minibatches. The number of groups is always sufficient.
        place = torch.arange(len(batch))
        batch = batch.maximum(place + self._n_whole - len(batch))
        batch = place + (batch - place).cummin(0).values
        within = torch.arange(n_rows) - (stop - size).repeat_interleave(size)
        rows = self._order[start.repeat_interleave(size) + within]
        lengths = torch.bincount(batch.repeat_interleave(size), minlength=self._n_whole)
        return list(rows.split(lengths.tolist()))
