"""Minibatches that always contain positives."""

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from ._common._scalars import check_number

__all__ = ["StratifiedBatchSampler"]


class StratifiedBatchSampler:
    r"""Shuffled minibatches of sample indices, with positives in each of them.

    With :math:`n_+` positives among n samples, batches of size b and at least m positives in each:

    - if :math:`n_+ \ge m \lceil n / b \rceil` there are :math:`\lceil n / b \rceil` batches, each
      sample is in one of them, and both classes are spread evenly;
    - otherwise each negative is in one of
      :math:`\max(\lceil n_- / (b - m) \rceil, \lceil n_+ / m \rceil)` batches, together with m
      positives. All positives come once before any comes again; a batch may have some of them
      more than once where one such round ends and the next begins.

    Batches differ by at most one sample in size. The paper asks for 5 positives in 32 samples [1]_.
    A loop reads an epoch from each iteration; the sampler is also what a torch ``DataLoader``
    takes as ``batch_sampler``.

    Parameters
    ----------
    target : array-like of shape (n_samples,)
        Class labels in {0, 1}; samples with 1 are the positives.
    batch_size : int, default=32
        Largest number of samples of a batch, more than `min_positives`.
    min_positives : int, default=5
        Least number of positives of a batch; 0 only spreads them evenly.
    generator : torch.Generator, default=None
        Draws the order of each epoch. None: a generator of its own with seed 0. Torch's own
        generator stays as it is.

    Raises
    ------
    TypeError, ValueError
        If `target` holds other values than 0 and 1 or no 1, or a number is out of its range.

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
            raise ValueError("target must have a positive row (1); got none")
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
        n_batches = _n_parts(len(target), batch_size)
        # Positives of an epoch: all once, or as many as the batches need.
        self._n_positives = len(self.positives)
        if self._n_positives < min_positives * n_batches:
            n_batches = max(
                _n_parts(len(self.negatives), batch_size - min_positives),
                _n_parts(self._n_positives, min_positives),
            )
            self._n_positives = min_positives * n_batches
        self._n_batches = n_batches

    def __len__(self) -> int:
        return self._n_batches

    @property
    def repeats_positives(self) -> bool:
        """Whether positives come more than once in an epoch, perhaps twice in a batch."""
        return self._n_positives > len(self.positives)

    def __iter__(self) -> Iterator[Tensor]:
        # The larger parts come first: a batch that gets one positive more gets the fewer negatives.
        positives = self._shuffled(self.positives, self._n_positives).tensor_split(len(self))
        negatives = self._shuffled(self.negatives, len(self.negatives)).tensor_split(len(self))
        for positive, negative in zip(positives, reversed(negatives), strict=True):
            yield torch.cat([positive, negative])

    def _shuffled(self, rows, n):
        """`n` of the rows in random order, each once before any comes again."""
        if not len(rows):
            return rows
        rounds = _n_parts(n, len(rows))
        order = [torch.randperm(len(rows), generator=self.generator) for _ in range(rounds)]
        return rows[torch.cat(order)[:n]] if n else rows[:0]


def _n_parts(n, size):
    """The least number of parts of at most `size` rows that hold n."""
    return -(-n // size)
