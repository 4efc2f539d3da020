"""Sums along sorted samples, over all samples or within each group."""

import torch

from sktopk.losses._groups import first_in, largest_in, order_in, smallest_in, sum_in


class OneGroup:
    """All samples as one group. Samples are along the last axis, and results are scalars."""

    def sum(self, values):
        """Return the sum of the values of the group."""
        return values.sum(-1)

    def largest(self, weight):
        """Return the largest weight of the group."""
        return weight.amax(-1)

    def of_rows(self, numbers):
        """Return for each sample the value of its group. `numbers` has one value per group."""
        return numbers

    def mean(self, value, gradient, batch):
        """Return the mean of `value` over the groups, and the gradient of the mean."""
        return value, gradient

    def sort(self, key):
        """Sort the samples by key. Return the sorted keys, the order, and the sorted groups."""
        return *key.sort(dim=-1, stable=True), self

    def some(self, mask):
        """Return an index of the samples in the mask. Other samples may be included."""
        return slice(None)

    def with_again(self, rows):
        """Return the groups for all samples followed by copies of the samples `rows`."""
        return self

    # The methods below take values in sorted order.

    def previous(self, values):
        """Return for each value the previous value in its group; the first value stays the same."""
        return torch.cat([values[..., :1], values[..., :-1]], -1)

    def before(self, place):
        """Return the position before `place` in the group; the first position stays the same."""
        return (place - 1).clamp(min=0)

    def within(self, values):
        """Return the cumulative sum of the values within the group."""
        return values.cumsum(-1)

    def after(self, values):
        """Return for each value the sum of the later values in the group, added from the end."""
        sums = values.flip(-1).cumsum(-1).flip(-1)
        return torch.cat([sums[..., 1:], torch.zeros_like(sums[..., :1])], -1)

    def last(self, mask):
        """Return the last position of the mask that is true. All earlier positions must be true."""
        return mask.sum() - 1

    def least(self, values):
        """Return the smallest value of the group, and the position of this value."""
        return values.min(0)


class Groups:
    """Samples of several groups, numbered by `codes`. Results have shape (n_groups,)."""

    def __init__(self, codes, n_groups):
        self.codes, self.n_groups = codes, n_groups

    def sum(self, values):
        return sum_in(self.codes, self.n_groups, values)

    def largest(self, weight):
        return largest_in(self.codes, self.n_groups, weight).clamp(min=0)

    def of_rows(self, numbers):
        return numbers.index_select(0, self.codes)

    def mean(self, value, gradient, batch):
        defined = self.defined(batch.positive, batch.negative)
        n_defined = defined.sum().clamp(min=1)
        value = value.masked_fill(~defined, 0.0).sum() / n_defined
        return value, (gradient / n_defined).masked_fill(~self.of_rows(defined), 0.0)

    def defined(self, positive, negative):
        """Return whether each group has samples of both classes."""
        return (self.sum(positive) > 0) & (self.sum(negative) > 0)

    def sort(self, key):
        order, size = order_in(self.codes, self.n_groups, key.detach())
        return key.index_select(0, order).double(), order, OrderedGroups(size, len(order))

    def some(self, mask):
        return mask.nonzero().squeeze(1)

    def with_again(self, rows):
        return Groups(torch.cat([self.codes, self.codes.index_select(0, rows)]), self.n_groups)


class OrderedGroups(Groups):
    """Sorted samples of several groups, which follow each other and have the given sizes."""

    def __init__(self, size, n_rows):
        numbers = torch.arange(len(size), device=size.device)
        super().__init__(numbers.repeat_interleave(size, output_size=n_rows), len(size))
        self.stop = size.cumsum(0)
        self.start = self.stop - size
        place = torch.arange(n_rows, device=size.device)
        self._previous = torch.maximum(place - 1, self.of_rows(self.start))

    def previous(self, values):
        return values.index_select(0, self._previous)

    def before(self, place):
        return self._previous.take(place)

    def within(self, values):
        sums = values.cumsum(0)
        before = sums.index_select(0, (self.start - 1).clamp(min=0))
        return sums - self.of_rows(before.masked_fill(self.start == 0, 0.0))

    def after(self, values):
        sums = torch.cat([values.flip(0).cumsum(0).flip(0), values.new_zeros(1)])
        return sums[1:] - self.of_rows(sums.index_select(0, self.stop))

    def last(self, mask):
        return (self.start + self.sum(mask.long()) - 1).clamp(min=0)

    def least(self, values):
        value = smallest_in(self.codes, self.n_groups, values)
        place = first_in(self.codes, self.n_groups, values == self.of_rows(value))
        return value, place.clamp(max=len(values) - 1)
