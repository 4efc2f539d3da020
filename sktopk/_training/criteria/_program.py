"""Losses of a whole batch, on batches whose classes have other proportions than the data."""

import torch
from torch import distributed

from sktopk._training._process import all_objects, all_rows
from sktopk.losses._loss import check_binary

from ._base import TwoClassCriterion, remedies_of


class ProgramCriterion(TwoClassCriterion):
    """A binary loss of the batch as a whole, with rows weighted to the proportions in training.

    With groups its mean over groups: see :class:`GroupRows`, of which it remembers no hard ones.

    Parameters
    ----------
    loss : nn.Module
        Called as ``loss(scores, target, sample_weight)``, with groups as a fourth argument.

    Attributes
    ----------
    n_batches, n_without_class : Tensor of shape ()
        How many batches there were, and how many of them had rows of one class only.
    """

    def __init__(self, loss):
        super().__init__()
        self.loss, self.remedies, self.groups = loss, remedies_of(loss), None
        self.register_buffer("n_batches", torch.zeros((), dtype=torch.long))
        self.register_buffer("n_without_class", torch.zeros((), dtype=torch.long))

    def forward(self, scores, target, sample_weight=None):
        """Return the loss of rows that are no batch, such as validation rows."""
        scores, positive = check_binary(scores.flatten(), target)
        return self.loss(scores, positive, self.proportional(scores, positive, sample_weight))

    def set_groups(self, make):
        """Take a mean over groups from now on; see the base."""
        self.groups = self.hard_rows = None if make is None else make(0)
        if make is not None:
            self.groups.hold(0, False, None)

    def loss_and_gradient(self, scores, target, weight):
        """Return the loss of a batch, or of the batches of all processes together; see the base."""
        if self.groups is not None:
            codes, weight, share = self.groups.in_proportion(target == 1, weight)
            rows = scores.detach().requires_grad_()
            # A batch without a group of both classes teaches nothing: such days there are.
            loss = share * self.loss(rows.flatten(), target == 1, weight, codes)
            loss.backward()
            return loss.detach(), rows.grad
        rows, positive = scores.detach(), target == 1
        if self.n_processes > 1:
            lengths = all_objects(len(scores))
            rows = all_rows(rows.flatten(), lengths)
            positive = all_rows(positive.to(scores.dtype), lengths) == 1
            weight = None if weight is None else all_rows(weight, lengths)
        self.n_batches += 1
        self.n_without_class += positive.all() | ~positive.any()
        loss, gradient = super().loss_and_gradient(rows, positive, weight)
        if self.n_processes > 1:
            # Gradients are averaged over the processes afterwards.
            start = sum(lengths[: distributed.get_rank()])
            gradient = len(lengths) * gradient[start : start + len(scores)].view_as(scores)
        return loss, gradient
