"""Criterion of binary losses that compare the samples of a minibatch, such as AUC."""

from torch import distributed

from sktopk._training._process import all_objects, all_rows
from sktopk.losses._loss import check_binary

from ._base import TwoClassCriterion, remedies_of


class ProgramCriterion(TwoClassCriterion):
    """Binary loss of a minibatch that is weighted to the class proportions of the training set.

    With groups, the loss is the mean over groups (see :class:`GroupRows`). This criterion keeps no
    hard examples.

    Parameters
    ----------
    loss : nn.Module
        Called as ``loss(scores, target, sample_weight)``; groups are passed as fourth argument.
    """

    def __init__(self, loss):
        super().__init__()
        self.loss, self.remedies, self.groups = loss, remedies_of(loss), None

    def forward(self, scores, target, sample_weight=None):
        scores, positive = check_binary(scores.flatten(), target)
        return self.loss(scores, positive, self.proportional(scores, positive, sample_weight))

    def set_groups(self, make):
        self.groups = self.hard_rows = None if make is None else make(0)
        if make is not None:
            self.groups.hold(0)

    def gradient(self, scores, target, weight):
        rows, positive = scores.detach(), target == 1
        if self.groups is not None:
            codes, weight, share = self.groups.in_proportion(positive, weight)
            rows = rows.requires_grad_()
            loss = share * self.loss(rows.flatten(), positive, weight, codes)
            loss.backward()
            return loss.detach(), rows.grad
        if self.n_processes == 1:
            return super().gradient(rows, positive, weight)
        lengths = all_objects(len(scores))
        rows = all_rows(rows.flatten(), lengths)
        positive = all_rows(positive.to(scores.dtype), lengths) == 1
        weight = None if weight is None else all_rows(weight, lengths)
        loss, gradient = super().gradient(rows, positive, weight)
        # Multiply by the number of processes, because gradients are later averaged over processes.
        start = sum(lengths[: distributed.get_rank()])
        return loss, len(lengths) * gradient[start : start + len(scores)].view_as(scores)
