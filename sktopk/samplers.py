"""Sampler for minibatches with a minimum number of positives."""

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from ._common._scalars import check_number

__all__ = ["StratifiedBatchSampler"]


class StratifiedBatchSampler:
    r"""Sampler for shuffled minibatches that all contain positives.

    Let n be the number of samples, :math:`n_+` the number of positives, b the batch size and m
    `min_positives`.

    - If :math:`n_+ \ge m \lceil n / b \rceil`, there are :math:`\lceil n / b \rceil` batches. Each
      sample is in exactly one batch, and both classes are spread evenly.
    - Otherwise there are :math:`\max(\lceil n_- / (b - m) \rceil, \lceil n_+ / m \rceil)` batches
      with m positives each. Each negative is in one batch. Positives are repeated in rounds, in
      which each positive is drawn once. A batch that spans two rounds may contain a positive twice.

    Batch sizes differ by at most one. The paper uses 5 positives in batches of 32 samples [1]_.
    Each iteration is one epoch. A torch ``DataLoader`` accepts the sampler as ``batch_sampler``.

    Parameters
    ----------
    target : array-like of shape (n_samples,)
        Class labels in {0, 1}. Samples with label 1 are the positives.
    batch_size : int, default=32
        Largest number of samples per batch, larger than `min_positives`.
    min_positives : int, default=5
        Smallest number of positives per batch. 0 only spreads the positives evenly.
    generator : torch.Generator, default=None
        Source of the random order of each epoch. None means a new generator with seed 0. Torch's
        global generator is not used.

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
            raise ValueError(
                f"target must hold 0 and 1; got {refused[:5].tolist()} of dtype {target.dtype}"
            )
        if not target.any():
            raise ValueError("target must have a positive sample (1); got none")
        check_number(batch_size, "batch_size", 1, integer=True)
        check_number(min_positives, "min_positives", 0, integer=True)
        if min_positives >= batch_size:
            raise ValueError(
                f"min_positives={min_positives} must be smaller than batch_size={batch_size}"
            )
        self.batch_size, self.min_positives = batch_size, min_positives
        self.positives = torch.from_numpy(np.flatnonzero(target == 1))
        self.negatives = torch.from_numpy(np.flatnonzero(target == 0))
        if generator is None:
            generator = torch.Generator().manual_seed(0)
        elif not isinstance(generator, torch.Generator):
            raise TypeError(f"generator must be a torch.Generator or None; got {generator!r}")
        self.generator = generator
        self.fold = None  # the training sets it, see `evenly`
        self._n_batches = _n_parts(len(target), batch_size)
        # Number of positives per epoch, including repetitions.
        self._n_positives = len(self.positives)
        if self._n_positives < min_positives * self._n_batches:
            n_batches = _n_parts(len(self.negatives), batch_size - min_positives)
            self._n_batches = max(n_batches, _n_parts(self._n_positives, min_positives))
            self._n_positives = min_positives * self._n_batches

    def __len__(self) -> int:
        return self._n_batches

    @property
    def repeats_positives(self) -> bool:
        """Whether some positives occur more than once per epoch, and possibly twice in a batch."""
        return self._n_positives > len(self.positives)

    def __iter__(self) -> Iterator[Tensor]:
        # tensor_split puts the larger parts first. Reverse one class to balance the batch sizes.
        positives = self._shuffled(self.positives, self._n_positives).tensor_split(len(self))
        negatives = self._shuffled(self.negatives, len(self.negatives)).tensor_split(len(self))
        for positive, negative in zip(positives, reversed(negatives), strict=True):
            yield torch.cat([positive, negative])

    def _shuffled(self, rows, n):
        """Return `n` indices from `rows` in random order. Use all indices before repeating any."""
        if not n:
            return rows[:0]
        rounds = _n_parts(n, len(rows))
        order = [evenly(rows, self.fold, self.generator) for _ in range(rounds)]
        return torch.cat(order)[:n]


def evenly(rows, fold, generator):
    """Return the rows in random order, each fold spread evenly.

    `fold` has the fold of each sample, from -1. None means no folds.
    """
    rows = rows[torch.randperm(len(rows), generator=generator)]
    if fold is None:
        return rows
    of_row = fold[rows] + 1
    order, size = of_row.argsort(stable=True), torch.bincount(of_row)
    start = size.cumsum(0) - size
    # The i-th of n samples of a fold gets the place (i + u) / n. u is random for each fold.
    shift = torch.rand(len(size), generator=generator, dtype=torch.float64)
    of_place = of_row[order]
    place = (torch.arange(len(rows)) - start[of_place] + shift[of_place]) / size[of_place]
    return rows[order[place.argsort(stable=True)]]


def _n_parts(n, size):
    """Return n / size, rounded up: the number of batches for n samples."""
    return -(-n // size)
