"""Functions for all losses that are defined by a linear program over a whole batch.

Scores are divided by the margin. The hinges at a threshold tau are

    z_i = max(0, 1 - (s_i - tau)) for positives,    z_j = max(0, 1 + (s_j - tau)) for negatives.

Sums of hinges are piecewise linear in tau, with kinks at s_i - 1 and s_j + 1.
"""

from math import isfinite
from typing import NamedTuple

import torch

from sktopk.losses._groups import Groups, OneGroup, check_groups
from sktopk.losses._loss import (
    WithGradient,
    check_binary,
    check_constant,
    check_name,
    check_nonnegative,
    nan_above,
    reduce,
    value_range,
)

from ._linear_program import linear_program
from ._matrices import or_one


class Batch(NamedTuple):
    """Samples of a binary problem. `kink` is the threshold at which a sample's hinge becomes 0."""

    scores: torch.Tensor  # (scores - median) / margin
    positive: torch.Tensor  # sample weights of positives, 0 for negatives
    negative: torch.Tensor  # sample weights of negatives, 0 for positives
    sign: torch.Tensor  # 1 for positives, -1 for negatives
    kink: torch.Tensor
    bottom: torch.Tensor | None = None  # mask of the scores that were -inf
    groups: OneGroup | Groups = OneGroup()

    @property
    def mirrored(self):
        """Return the batch with exchanged classes and negated scores."""
        exchanged = self._replace(positive=self.negative, negative=self.positive)
        return exchanged._replace(scores=-self.scores, sign=-self.sign, kink=-self.kink)

    @property
    def balanced(self):
        """Divide weights by the largest weight of the group, because large ones could overflow."""
        largest = self.groups.largest(torch.maximum(self.positive, self.negative))
        unit = self.groups.of_rows(or_one(largest))
        return self._replace(positive=self.positive / unit, negative=self.negative / unit)


def split_classes(scores, target, margin, sample_weight, groups=None):
    """Check the arguments of a binary loss and return its :class:`Batch`."""
    scores, is_positive, sample_weight = check_binary(scores, target, sample_weight)
    margin = check_nonnegative(margin, "margin", positive=True)
    scores, bottom = in_units(scores, sample_weight, margin)
    positive = is_positive.to(scores.dtype)
    negative = 1 - positive
    sign = positive - negative
    if sample_weight is not None:
        positive, negative = sample_weight * positive, sample_weight * negative
    batch = Batch(scores, positive, negative, sign, scores - sign, bottom)
    if groups is None:
        return batch
    weights = {"positive": positive.double(), "negative": negative.double()}  # for large sums
    return batch._replace(**weights, groups=check_groups(groups, scores))


def in_units(scores, weight, margin):
    """Return two tensors: (scores - median) / margin, and a mask of the scores that were -inf.

    Subtracting the median reduces rounding errors. Scores of -inf become a finite score far below
    all others. If one is NaN or inf, all but -inf become NaN. If all are finite, the mask is None.
    """
    if not scores.numel():
        return scores / margin, None
    known = scores.detach()
    ends = value_range(known)
    finite = ends is not None and isfinite(ends[0]) and isfinite(ends[1])
    bottom = None if finite else known == -torch.inf
    counted = known if finite else known.masked_fill(bottom, torch.nan)
    if weight is not None:
        counted = counted.masked_fill(weight == 0, torch.nan)
    scores = scores - counted.nanmedian(-1, keepdim=True).values.nan_to_num(0.0, 0.0, 0.0)
    if weight is not None:
        scores = scores.masked_fill(weight == 0, 0.0)
    if finite:
        return scores / margin, None
    scores = nan_above(scores, known.amax()) / margin
    known = scores.detach()
    lowest = known.masked_fill(bottom, torch.inf).amin(-1, keepdim=True)
    low = lowest - (known.amax(-1, keepdim=True) - lowest) - 1e4
    return torch.where(bottom, torch.where(lowest < torch.inf, low, 0.0), scores), bottom


def batch_loss(batch, closed_form, program, solver, reduction, bound=torch.inf, **parameters):
    """Return the loss from its closed form or its linear program; 0 if a class is missing.

    `closed_form` returns the loss and its gradient. `program` returns arguments for
    :func:`linear_program`. If the loss of a group depends on a score of -inf, this loss is `bound`,
    which is the limit of the loss as the score goes to -inf.
    """
    check_solver(solver, isinstance(batch.groups, Groups))
    scores, positive, negative = batch[:3]
    if not len(scores) or (solver == "program" and not (positive.any() and negative.any())):
        loss = 0.0 * scores.sum()
    elif solver == "program":
        rows = positive + negative > 0
        selected = Batch(*(None if part is None else part[rows] for part in batch[:-1]))
        loss = optimum(program(selected, **parameters), scores, batch.bottom)
    else:
        check_constant(positive)
        with torch.no_grad():
            # Use float64: in float32, sums with large weights would lose the small weights.
            weights = {"positive": positive.double(), "negative": negative.double()}
            value, gradient = closed_form(batch._replace(**weights), **parameters)
            if batch.bottom is not None:
                unbounded = batch.groups.sum((gradient * batch.bottom != 0).long()) > 0
                value = torch.where(unbounded, value.clamp(min=bound), value)
            value, gradient = batch.groups.mean(value, gradient, batch)
        loss = WithGradient.apply(scores, value.to(scores.dtype), gradient.to(scores.dtype))
    return reduce_batch(loss, positive + negative, reduction)


def check_solver(solver, has_groups):
    check_name(solver, "solver", ("closed_form", "program"))
    if solver == "program" and has_groups:
        raise ValueError(
            "groups must be None for solver='program', which handles a single group. Call the loss "
            "once for each group, or use solver='closed_form'"
        )


def reduce_batch(loss, weight, reduction):
    """Return the loss of the batch, or (for reduction "sum") this loss times the sum of weights."""
    if reduction == "none":
        raise ValueError("reduction must be 'sum' or 'mean': no loss per sample exists; got 'none'")
    return loss if reduction == "mean" else reduce(loss.expand_as(weight), weight, reduction)


def optimum(program, scores, bottom):
    """Return the optimum of the linear program with the arguments in the dict `program`."""
    if (bottom is not None and bottom.any()) or not scores.isfinite().all():
        raise ValueError("scores must be finite for solver='program'; got NaN or infinity")
    if not len(program["c"]):
        return 0.0 * scores.sum()
    return linear_program(**program).fun.to(program["c"].dtype)


class Kinks(NamedTuple):
    """Sorted kinks of the hinges in each group. Methods sum the hinges for each kink as `tau`."""

    value: torch.Tensor
    positive_below: torch.Tensor  # weight of the positives up to the kink
    negative_above: torch.Tensor  # weight of the negatives after the kink
    groups: OneGroup | Groups

    # A sum of hinges is the sum of slope * gap over the gaps. All terms are >= 0: no digits cancel.

    @property
    def gap(self):
        """Return the distance of each kink from the previous kink; 0 for the first kink."""
        return self.value - self.groups.previous(self.value)

    def positive_hinges(self):
        return self.groups.within(self.groups.previous(self.positive_below) * self.gap)

    def negative_hinges(self):
        return self.groups.after(self.groups.previous(self.negative_above) * self.gap)


def sort_kinks(batch):
    value, row, groups = batch.groups.sort(batch.kink)
    positive, negative = batch.positive.gather(0, row), batch.negative.gather(0, row)
    return Kinks(value, groups.within(positive), groups.after(negative), groups)


def hinge_multipliers(batch, tau, positive_cost, negative_cost):
    """Return the gradient for scores of sum(cost * weight * hinge). `tau` minimizes this sum."""
    groups, of_rows = batch.groups, batch.groups.of_rows
    multiplier = of_rows(negative_cost) * batch.negative - of_rows(positive_cost) * batch.positive
    side = batch.sign * (of_rows(tau) - batch.kink)
    # Rounding may separate kinks that are equal.
    side = side.masked_fill(side.abs() < 1e-13 * (1 + batch.kink.abs()), 0.0)
    inside = multiplier * (side > 0)
    # If `tau` is a kink, choose subgradients so that the gradient sums to 0 in each group, because
    # adding a constant to all scores of a group does not change the minimum.
    missing = -groups.sum(inside)
    at_kink = multiplier * ((side == 0) & (batch.sign * of_rows(missing) < 0))
    total = groups.sum(at_kink)
    return inside + at_kink * of_rows(missing / torch.where(total == 0, 1.0, total))


def hinge_rows(batch):
    """Return the constraints on (tau, z): matrix entries, right-hand side and sample indices."""
    # The smallest z_i with z_i >= sign_i * (tau - kink_i) (row i) and z_i >= 0 (row n + i) is the
    # hinge of sample i at the threshold tau.
    i = torch.arange(len(batch.scores), device=batch.scores.device)
    entries = [(i, 0, batch.sign), (i, 1 + i, -1.0), (len(i) + i, 1 + i, -1.0)]
    right = batch.sign * batch.kink
    return entries, torch.cat([right, torch.zeros_like(right)]), i
