"""Common parts of the losses that are the optimum of a linear program over a whole batch.

Scores are in units of the margin. The hinges at a threshold tau,

    z_i = max(0, 1 - (s_i - tau)) of a positive,    z_j = max(0, 1 + (s_j - tau)) of a negative,

are at least 1 if the prediction s > tau is wrong. Each has its kink at s_i - 1 or s_j + 1, and
between kinks all sums of hinges are linear in tau.
"""

from math import isfinite
from typing import NamedTuple

import torch

from sktopk.losses._groups import check_groups
from sktopk.losses._loss import (
    check_binary,
    check_name,
    check_nonnegative,
    check_once,
    check_weight,
    look,
    nan_above,
    reduce,
)

from ._matrices import or_one
from ._order import Groups, OneGroup

SOLVERS = ("closed_form", "program")


class Batch(NamedTuple):
    """Scores in units of the margin, the weights of the samples of each class, and the kinks."""

    scores: torch.Tensor
    positive: torch.Tensor  # 0 for negatives
    negative: torch.Tensor  # 0 for positives
    sign: torch.Tensor  # 1 for positives, -1 for negatives
    kink: torch.Tensor
    # Whether a low number stands for a score of minus infinity; None if there is none.
    bottom: torch.Tensor | None = None
    groups: OneGroup | Groups = OneGroup()

    @property
    def mirrored(self):
        """The batch with the classes and the order of scores exchanged."""
        return self._replace(
            scores=-self.scores,
            positive=self.negative,
            negative=self.positive,
            sign=-self.sign,
            kink=-self.kink,
        )

    @property
    def balanced(self):
        """The batch with weights in units of the largest: their products and inverses stay."""
        largest = self.groups.largest(torch.maximum(self.positive, self.negative))
        unit = self.groups.of_rows(or_one(largest))
        return self._replace(positive=self.positive / unit, negative=self.negative / unit)

    def select(self, rows):
        """The batch of some samples of one group."""
        return Batch(*(None if part is None else part[rows] for part in self[:-1]))


def split_classes(scores, target, margin, sample_weight, groups=None):
    """Check the arguments of a binary loss and return its :class:`Batch`.

    With groups the weights are in float64, as sums go on from group to group.
    """
    scores, is_positive = check_binary(scores, target)
    margin = check_nonnegative(margin, "margin", positive=True)
    sample_weight = check_weight(sample_weight, scores)
    if sample_weight is not None:
        # Samples of weight 0 may have any score, also an infinite one.
        scores = scores.masked_fill(sample_weight == 0, 0.0)
    # The loss depends on differences of scores. Near 0, thresholds between them keep their digits.
    # A shift by one of the scores keeps ties.
    scores, bottom = in_units(scores, margin, centred=True)
    positive = is_positive.to(scores.dtype)
    negative = 1 - positive
    sign = positive - negative
    if sample_weight is not None:
        positive, negative = sample_weight * positive, sample_weight * negative
    if groups is None:
        return Batch(scores, positive, negative, sign, scores - sign, bottom)
    groups = Groups(*check_groups(groups, scores))
    positive, negative = positive.double(), negative.double()
    return Batch(scores, positive, negative, sign, scores - sign, bottom, groups)


def in_units(scores, margin, *, centred=False):
    """Return scores in units of the margin, and which of them were minus infinity or None.

    These become numbers so far below the others along the first axis that no hinge and no sigmoid
    tells. Beside a NaN or plus infinity all become NaN. Where `centred`, the median is 0.
    """
    known = scores.detach()
    ends = look(known)
    if not len(scores) or (ends is not None and isfinite(ends[0]) and isfinite(ends[1])):
        return (scores - known.median() if centred else scores) / margin, None
    bottom, largest = scores == -torch.inf, known.amax()
    if centred:
        scores = scores - known.masked_fill(bottom, largest).median()
    scores = nan_above(scores, largest) / margin
    known = scores.detach()
    lowest = known.masked_fill(bottom, torch.inf).amin(0)
    low = lowest - (known.amax(0) - lowest) - 1e4
    return torch.where(bottom, torch.where(lowest < torch.inf, low, 0.0), scores), bottom


class WithGradient(torch.autograd.Function):
    """A value, or one per sample of the scores, with the gradient that was found with it."""

    @staticmethod
    def forward(ctx, scores, value, gradient):
        ctx.save_for_backward(gradient)
        return value.clone()

    @staticmethod
    def backward(ctx, grad_output):
        check_once("this loss")
        return grad_output.unsqueeze(-1) * ctx.saved_tensors[0], None, None


def batch_loss(batch, closed_form, program, solver, reduction, bound=torch.inf, **parameters):
    """Return the loss of a batch by one of two ways; it is 0 where a class is missing.

    With groups it is the mean over those that have samples of both classes.

    `closed_form` returns the optimum and its derivative by the scores, which the multipliers
    of the program are; `program` returns the arguments of :func:`linear_program`. The loss tends
    to its `bound` where a score that it depends on tends to minus infinity.
    """
    check_name(solver, "solver", SOLVERS)
    refuse_program(solver, batch)
    scores, positive, negative = batch[:3]
    if not len(scores) or (solver == "program" and not (positive.any() and negative.any())):
        loss = 0.0 * scores.sum()
    elif solver == "program":
        check_finite(batch.scores, batch.bottom)
        loss = optimum(program(batch.select(positive + negative > 0), **parameters))
    else:
        with torch.no_grad():
            # In float32 a light class would be nothing beside a heavy one.
            weights = {"positive": positive.double(), "negative": negative.double()}
            value, gradient = closed_form(batch._replace(**weights), **parameters)
            if batch.bottom is not None:
                # Where the slope at the number is not 0, the loss falls or rises on and on.
                unbounded = batch.groups.sum((gradient * batch.bottom != 0).long()) > 0
                value = torch.where(unbounded, value.clamp(min=bound), value)
            value, gradient = batch.groups.mean(value, gradient, batch)
        loss = WithGradient.apply(scores, value.to(scores.dtype), gradient.to(scores.dtype))
    return reduce_batch(loss, positive + negative, reduction)


def refuse_program(solver, batch):
    """Raise if the program of many groups is asked for."""
    if solver == "program" and isinstance(batch.groups, Groups):
        raise ValueError(
            "solver='program' must come without groups: it solves one program; call the loss for "
            "each group, or take solver='closed_form'"
        )


def check_finite(scores, bottom):
    """Raise unless all scores of a program are finite."""
    if (bottom is not None and bottom.any()) or not scores.isfinite().all():
        raise ValueError("scores must be finite for solver='program'; got NaN or infinity")


def reduce_batch(loss, weight, reduction):
    """Reduce a loss that every sample of the batch has; their mean is the loss itself."""
    if reduction == "none":
        raise ValueError(
            "reduction='none' must be 'sum' or 'mean': the loss is one number for the batch"
        )
    return loss if reduction == "mean" else reduce(loss.expand_as(weight), weight, reduction)


def optimum(program):
    """Return the optimal value of the arguments of :func:`linear_program`."""
    from ._linear_program import linear_program

    return linear_program(**program).fun.to(program["c"].dtype)


class Kinks(NamedTuple):
    """The kinks in ascending order, and the weights of the samples around them, in each group."""

    value: torch.Tensor
    positive_below: torch.Tensor  # weight of the positives up to the kink
    negative_above: torch.Tensor  # weight of the negatives after it
    groups: OneGroup | Groups

    # Sums of slope times gap, of terms of one sign: no digits are lost.

    @property
    def gap(self):
        """How far each kink is from the one before it."""
        return self.value - self.groups.previous(self.value)

    def positive_hinges(self):
        """The weighted sum of the hinges of the positives at each kink."""
        return self.groups.within(self.groups.previous(self.positive_below) * self.gap)

    def negative_hinges(self):
        """The weighted sum of the hinges of the negatives at each kink."""
        return self.groups.after(self.groups.previous(self.negative_above) * self.gap)


def sort_kinks(batch):
    """Return the :class:`Kinks` of a batch."""
    value, row, groups = batch.groups.sort(batch.kink)
    positive, negative = batch.positive.gather(0, row), batch.negative.gather(0, row)
    return Kinks(value, groups.within(positive), groups.after(negative), groups)


def hinge_multipliers(batch, tau, positive_cost, negative_cost):
    """Return the derivative by the scores of the smallest weighted sum of hinges.

    At its best `tau` the sum is ``positive_cost * sum(z_i) + negative_cost * sum(z_j)``. A
    hinge has its cost times its weight for multiplier where it is positive, 0 where it is
    negative, and those at their kink share what makes the multipliers of both classes equal.
    """
    groups, of_rows = batch.groups, batch.groups.of_rows
    multiplier = of_rows(negative_cost) * batch.negative - of_rows(positive_cost) * batch.positive
    side = batch.sign * (of_rows(tau) - batch.kink)
    inside = multiplier * (side > 0)
    missing = -groups.sum(inside)
    at_kink = multiplier * ((side == 0) & (batch.sign * of_rows(missing) < 0))
    total = groups.sum(at_kink)
    return inside + at_kink * of_rows(missing / torch.where(total == 0, 1.0, total))


def sparse_matrix(entries, shape, like):
    """Return a sparse matrix in the dtype and on the device of `like`.

    Entries are triples (rows, columns, values) of numbers or vectors, each of which is broadcast.
    Values may carry a gradient.
    """
    triples = []
    for entry in entries:
        parts = (torch.as_tensor(part, device=like.device).reshape(-1) for part in entry)
        triples.append(torch.broadcast_tensors(*parts))
    *indices, values = (torch.cat(parts) for parts in zip(*triples, strict=True))
    values = values.to(like.dtype)
    return torch.sparse_coo_tensor(torch.stack(indices), values, shape, check_invariants=False)


def hinge_rows(batch):
    """Return the entries and the right sides of sign tau - z <= sign kink and -z <= 0.

    Their variables are x = [tau, z_1, ..., z_n]; they take the samples 0 to 2n - 1. The numbers of
    the samples of the batch come with them.
    """
    i = torch.arange(len(batch.scores), device=batch.scores.device)
    entries = [(i, 0, batch.sign), (i, 1 + i, -1.0), (len(i) + i, 1 + i, -1.0)]
    right = batch.sign * batch.kink
    return entries, torch.cat([right, torch.zeros_like(right)]), i
