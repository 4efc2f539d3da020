"""Groups of samples: checks, sums, extremes and sorting, for all groups at the same time."""

import inspect
import math
from functools import cached_property

import torch

from ._loss import check_shape, check_tensor, value_range


def check_groups(groups, scores):
    check_tensor(groups, "groups")
    if groups.is_floating_point() or groups.is_complex() or groups.dtype == torch.bool:
        raise TypeError(f"groups must hold integers, one per sample; got {groups.dtype}")
    check_shape(groups, "groups", scores)
    groups = groups.to(scores.device)
    ends = value_range(groups)
    if ends is not None and 0 <= ends[0] and ends[1] < len(groups):
        return Groups(groups.long(), int(ends[1]) + 1)
    numbers, codes = torch.unique(groups, return_inverse=True)
    return Groups(codes, len(numbers))


def check_takes_groups(threshold):
    try:
        inspect.signature(threshold).bind(*[None] * 4)
    except (TypeError, ValueError):
        raise TypeError(
            "threshold must take groups, called as threshold(scores, positive, weight, groups), "
            f"and return one threshold per group; got {threshold!r}"
        ) from None


class OneGroup:
    """All samples as one group. Samples are along the last axis, and results are scalars."""

    start = 0  # position of the first sample of the group, in sorted order

    def sum(self, values):
        return values.sum(-1)

    def largest(self, values):
        return values.amax(-1)

    def of_rows(self, numbers):
        """Return for each sample the value of its group. `numbers` has one value per group."""
        return numbers

    def defined(self, positive, negative):
        """Return for each group whether both of its classes have a weight above 0."""
        return (self.sum(positive) > 0) & (self.sum(negative) > 0)

    def mean(self, value, gradient, batch):
        return value, gradient  # a mean of one value

    def sort(self, key):
        """Return three values: the sorted keys, their indices, and the groups in sorted order."""
        return *key.sort(dim=-1, stable=True), self

    def some(self, mask):
        return slice(None)  # all samples, also those that `mask` omits

    def with_again(self, rows):
        """Return the groups after appending a copy of the samples `rows`."""
        return self

    # The methods below take values in sorted order.

    def previous(self, values):
        """Return for each value the previous value in its group; the first value stays the same."""
        return torch.cat([values[..., :1], values[..., :-1]], -1)

    def before(self, place):
        return (place - 1).clamp(min=0)

    def within(self, values):
        """Return the cumulative sum of the values within the group."""
        return values.cumsum(-1)

    def after(self, values):
        """Return for each value the sum of all later values in its group; 0 for the last value."""
        sums = values.flip(-1).cumsum(-1).flip(-1)
        return torch.cat([sums[..., 1:], torch.zeros_like(sums[..., :1])], -1)

    def last(self, mask):
        """Return each group's last position with True. In a group, True must precede False."""
        return (self.start + self.sum(mask.long()) - 1).clamp(min=0)

    def least(self, values):
        """Return the smallest value of the group, and the position of this value."""
        return values.min(0)


class EachRow(OneGroup):
    """Each row of an array as a group. Results have shape (n_rows, 1)."""

    def sum(self, values):
        return values.sum(-1, keepdim=True)

    def largest(self, values):
        return values.amax(-1, keepdim=True)


class Groups(OneGroup):
    """Several groups. `codes` has the group of each sample. Results have shape (n_groups,)."""

    def __init__(self, codes, n_groups):
        self.codes, self.n_groups = codes, n_groups

    def sum(self, values):
        return values.new_zeros(self.n_groups).index_add(0, self.codes, values)

    def largest(self, values):
        """Return the largest value of each group; minus infinity for an empty group."""
        least = values.new_full((self.n_groups,), -math.inf)
        return least.scatter_reduce(0, self.codes, values, "amax")

    def first(self, mask):
        """Return each group's first index with True in `mask`, or the last index if it has none."""
        rows = mask.nonzero().squeeze(1)
        last = rows.new_full((self.n_groups,), len(mask) - 1)
        return last.scatter_reduce(0, self.codes[rows], rows, "amin")

    def of_rows(self, numbers):
        return numbers.index_select(0, self.codes)

    def mean(self, value, gradient, batch):
        defined = self.defined(batch.positive, batch.negative)
        n_defined = defined.sum().clamp(min=1)
        value = value.masked_fill(~defined, 0.0).sum() / n_defined
        return value, (gradient / n_defined).masked_fill(~self.of_rows(defined), 0.0)

    def sort(self, key):
        # Sorting integers takes a quarter of the time of sorting floats, 16-bit integers even less.
        # The bits sort like the floats after flipping all bits but the sign of negative floats.
        bits = key.detach() + 0.0  # -0.0 becomes 0.0
        bits = bits.view(torch.int64 if key.dtype == torch.float64 else torch.int32)
        bits = torch.where(bits < 0, bits ^ torch.iinfo(bits.dtype).max, bits)
        order = bits.argsort(stable=True)
        short = self.codes.to(torch.int16 if self.n_groups < 2**15 else torch.int32)
        order = order.index_select(0, short.index_select(0, order).argsort(stable=True))
        size = torch.bincount(self.codes, minlength=self.n_groups)
        return key.index_select(0, order).double(), order, OrderedGroups(size, len(order))

    def some(self, mask):
        return mask.nonzero().squeeze(1)

    def with_again(self, rows):
        return Groups(torch.cat([self.codes, self.codes.index_select(0, rows)]), self.n_groups)


class OrderedGroups(Groups):
    """Several groups, with samples sorted by group. `size` has each group's number of samples."""

    def __init__(self, size, n_rows):
        numbers = torch.arange(len(size), device=size.device)
        super().__init__(numbers.repeat_interleave(size, output_size=n_rows), len(size))
        self.stop = size.cumsum(0)
        self.start = self.stop - size

    @cached_property
    def _previous(self):
        place = torch.arange(len(self.codes), device=self.codes.device)
        return torch.maximum(place - 1, self.of_rows(self.start))

    def previous(self, values):
        return values.index_select(0, self._previous)

    def before(self, place):
        return self._previous.take(place)

    def within(self, values):
        # Scale each group by a power of 2: large sums of one group would cost other groups digits.
        unit = self.of_rows(torch.frexp(self.sum(values.detach().abs())).exponent.double().exp2())
        sums = (values / unit).cumsum(0)
        before = sums.index_select(0, (self.start - 1).clamp(min=0)).masked_fill(self.start == 0, 0)
        return (sums - self.of_rows(before)) * unit

    def after(self, values):
        sums = torch.cat([values.flip(0).cumsum(0).flip(0), values.new_zeros(1)])
        return sums[1:] - self.of_rows(sums.index_select(0, self.stop))

    def least(self, values):
        value = -self.largest(-values)
        return value, self.first(values == self.of_rows(value))
