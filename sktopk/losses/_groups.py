"""Rows in groups: what is computed of each group, for all groups at once."""

import inspect
import math

import torch

from ._loss import check_tensor, look


def check_groups(groups, scores):
    """Return a number from 0 to n_groups - 1 for each row, and n_groups.

    Numbers below n_samples are kept, those of absent groups included; others are numbered anew.
    """
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
    ends = look(groups)
    if ends is not None and 0 <= ends[0] and ends[1] < len(groups):
        return groups.long(), int(ends[1]) + 1
    codes = torch.unique(groups, return_inverse=True)[1]
    return codes, int(codes.max()) + 1


def takes_groups(threshold):
    """Tell whether a threshold can be called with groups."""
    try:
        inspect.signature(threshold).bind(*[None] * 4)
    except (TypeError, ValueError):
        return False
    return True


def check_takes_groups(threshold):
    """Raise unless a threshold can be called with groups."""
    if not takes_groups(threshold):
        raise TypeError(
            "threshold must take groups, called as threshold(scores, positive, weight, groups), "
            f"and return one threshold for each of them; got {threshold!r}"
        )


def sum_in(codes, n_groups, values):
    """The sum of the values of each group."""
    return values.new_zeros(n_groups).index_add(0, codes, values)


def smallest_in(codes, n_groups, values):
    """The smallest value of each group, infinity of none."""
    most = values.new_full((n_groups,), math.inf)
    return most.scatter_reduce(0, codes, values, "amin")


def largest_in(codes, n_groups, values):
    """The largest value of each group, minus infinity of none."""
    least = values.new_full((n_groups,), -math.inf)
    return least.scatter_reduce(0, codes, values, "amax")


def first_in(codes, n_groups, mask):
    """The first row of each group at which the mask is true; n_samples if there is none."""
    rows = mask.nonzero().squeeze(1)
    last = rows.new_full((n_groups,), len(mask))
    return last.scatter_reduce(0, codes[rows], rows, "amin")


def _as_integers(key):
    """Integers in the order of floats: their bits, those of the negative ones turned."""
    key = key + 0.0  # of two zeros
    bits = key.view(torch.int64 if key.dtype == torch.float64 else torch.int32)
    return torch.where(bits < 0, bits ^ torch.iinfo(bits.dtype).max, bits)


def order_in(codes, n_groups, key):
    """Rows by group and, in each, by rising key, tied ones as they stand; and sizes of groups."""
    # Integers are sorted in a quarter of the time that floats take, short ones in less.
    order = _as_integers(key).argsort(stable=True)
    short = codes.to(torch.int16 if n_groups < 2**15 else torch.int32)
    order = order.index_select(0, short.index_select(0, order).argsort(stable=True))
    return order, torch.bincount(codes, minlength=n_groups)


class Ordered:
    """Rows ordered by group and, in each group, by rising key, tied ones as they stand.

    Parameters
    ----------
    key : Tensor of shape (n_samples,)
    weight : Tensor of shape (n_samples,), float64
    codes : Tensor of int of shape (n_samples,)
    n_groups : int

    Attributes
    ----------
    order : Tensor of shape (n_samples,)
        The rows in this order.
    own : Tensor of shape (n_samples,), float64
        What each of them weighs.
    start, stop : Tensor of shape (n_groups,)
        Where each group begins and ends.
    total : Tensor of shape (n_groups,), float64
        What it weighs.
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
        """What cumulative sums have reached before each group."""
        return torch.cat([sums.new_zeros(1), sums])[self.start]

    @property
    def codes(self):
        """The groups of the ordered rows."""
        groups = torch.arange(self.n_groups, device=self.order.device)
        return groups.repeat_interleave(self._size, output_size=len(self.order))

    def within(self, values=None):
        """The cumulative sums of ordered values, or of the weights, in each group."""
        sums = self._sums if values is None else values.cumsum(0)
        return sums - self._at_start(sums)[self.codes]

    def where_reached(self, rank, missing, part):
        """The place in the order at which each group reaches a weight; its last one at most.

        The one before it does if no more is missing there, nor this part of the row that follows.
        """
        # Whatever rounding makes of its total, a group ends at a row that weighs something.
        goal = torch.minimum(self._before + rank, self._sums[self.stop - 1])
        place = torch.searchsorted(self._sums, goal)
        place = torch.minimum(torch.maximum(place, self.start), self.stop - 1).clamp(min=0)
        previous = torch.where(place > self.start, place - 1, place)
        most = torch.minimum(missing, part * self.own[place])
        return torch.where(goal - self._sums[previous] <= most, previous, place)
