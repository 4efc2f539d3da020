"""Sums, extremes and sorting of samples within all groups at once."""

import inspect
import math

import torch

from ._loss import check_tensor, value_range


def check_groups(groups, scores):
    """Return group numbers from 0 to n_groups - 1 (renumbered if necessary), and n_groups."""
    check_tensor(groups, "groups")
    if groups.is_floating_point() or groups.is_complex() or groups.dtype == torch.bool:
        raise TypeError(f"groups must hold integers, one for each group; got {groups.dtype}")
    if groups.shape != scores.shape:
        raise ValueError(
            f"groups must have the shape of scores {tuple(scores.shape)}; got {tuple(groups.shape)}"
        )
    groups = groups.to(scores.device)
    if not len(groups):
        return groups.long(), 0
    ends = value_range(groups)
    if ends is not None and 0 <= ends[0] and ends[1] < len(groups):
        return groups.long(), int(ends[1]) + 1
    codes = torch.unique(groups, return_inverse=True)[1]
    return codes, int(codes.max()) + 1


def check_takes_groups(threshold):
    """Check that `threshold` can be called with groups."""
    try:
        inspect.signature(threshold).bind(*[None] * 4)
    except (TypeError, ValueError):
        raise TypeError(
            "threshold must take groups, called as threshold(scores, positive, weight, groups), "
            f"and return one threshold per group; got {threshold!r}"
        ) from None


def sum_in(codes, n_groups, values):
    """Return the sum of the values of each group."""
    return values.new_zeros(n_groups).index_add(0, codes, values)


def smallest_in(codes, n_groups, values):
    """Return the smallest value of each group; infinity for an empty group."""
    most = values.new_full((n_groups,), math.inf)
    return most.scatter_reduce(0, codes, values, "amin")


def largest_in(codes, n_groups, values):
    """Return the largest value of each group; minus infinity for an empty group."""
    least = values.new_full((n_groups,), -math.inf)
    return least.scatter_reduce(0, codes, values, "amax")


def first_in(codes, n_groups, mask):
    """Return each group's first sample where the mask is true; n_samples if there is none."""
    rows = mask.nonzero().squeeze(1)
    last = rows.new_full((n_groups,), len(mask))
    return last.scatter_reduce(0, codes[rows], rows, "amin")


def _as_integers(key):
    """Return the bits of floats as integers that sort alike: flip the bits of negative floats."""
    key = key + 0.0  # -0.0 becomes 0.0
    bits = key.view(torch.int64 if key.dtype == torch.float64 else torch.int32)
    return torch.where(bits < 0, bits ^ torch.iinfo(bits.dtype).max, bits)


def order_in(codes, n_groups, key):
    """Return the indices that sort samples by group, then by key (stable), and the group sizes."""
    # Sorting integers takes a quarter of the time of sorting floats. 16-bit integers are faster.
    order = _as_integers(key).argsort(stable=True)
    short = codes.to(torch.int16 if n_groups < 2**15 else torch.int32)
    order = order.index_select(0, short.index_select(0, order).argsort(stable=True))
    return order, torch.bincount(codes, minlength=n_groups)


class Ordered:
    """Samples sorted by group and, within each group, by ascending key. Ties keep their order.

    A group has the positions from `start` to `stop - 1`. Its weights sum to `total`.
    """

    def __init__(self, key, weight, codes, n_groups):
        self.order, size = order_in(codes, n_groups, key)
        self.own, self.n_groups = weight.index_select(0, self.order), n_groups
        self.stop = size.cumsum(0)
        self.start = self.stop - size
        self._sums = self.own.cumsum(0)
        self._before = self._at_start(self._sums)
        self.total = sum_in(codes, n_groups, weight)
        self._size = size

    def _at_start(self, sums):
        """Return for each group the cumulative sum before the first sample of the group."""
        return torch.cat([sums.new_zeros(1), sums])[self.start]

    @property
    def codes(self):
        """Return the group of each sorted sample."""
        groups = torch.arange(self.n_groups, device=self.order.device)
        return groups.repeat_interleave(self._size, output_size=len(self.order))

    def within(self, values=None):
        """Return cumulative sums of sorted values (default: the weights) within each group."""
        sums = self._sums if values is None else values.cumsum(0)
        return sums - self._at_start(sums)[self.codes]

    def where_reached(self, rank, missing, part):
        """Return each group's first place where the cumulative weight reaches `rank`, or the last.

        It may miss `rank` by at most `missing` and at most `part` times the next weight.
        """
        # Limit the goal to the cumulative sum at the end of the group. Rounding could exceed it.
        goal = torch.minimum(self._before + rank, self._sums[self.stop - 1])
        place = torch.searchsorted(self._sums, goal)
        place = torch.minimum(torch.maximum(place, self.start), self.stop - 1).clamp(min=0)
        previous = torch.where(place > self.start, place - 1, place)
        most = torch.minimum(missing, part * self.own[place])
        return torch.where(goal - self._sums[previous] <= most, previous, place)
