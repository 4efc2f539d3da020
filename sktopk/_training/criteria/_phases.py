"""Pretraining with cross-entropy, followed by training with the estimator's loss."""

import torch
from torch import distributed
from torch.nn import functional as F

from ._base import Criterion, TwoClassCriterion, rows_of_classes

# Factor in the loss for scores that choose the top k classes. Regularization makes scores small.
# Without this factor, top-k accuracy is lower on data without label noise.
SET_SCALE = 2.0


class TwoClassCrossEntropy(TwoClassCriterion):
    """Binary cross-entropy. Each sample has one score, the log-odds of the positive class."""

    of_rows = True

    def forward(self, scores, target, sample_weight=None):
        return self._of_one(scores, target, sample_weight, 1)[0]

    def gradient(self, scores, target, weight):
        return self._of_one(scores, target, weight, self.n_processes)

    def _of_one(self, scores, target, weight, n_processes):
        weight = None if weight is None else weight.unsqueeze(1)
        values = scores.detach().view(-1, 1, 1), target, weight
        loss, gradient = cross_entropy_of_members([self], *values, n_processes)
        return loss, gradient.view_as(scores)


def cross_entropy_of_members(criteria, scores, target, weight, n_processes):
    """Return the mean of the members' cross-entropies, and the gradient of their sum.

    Classes are weighted to their training-set proportions. Scores have shape (n_samples,
    n_members, 1) and weights (n_samples, n_members).
    """
    scores, positive = scores.detach().squeeze(2), (target == 1).unsqueeze(1)
    class_total = torch.stack([each.class_total for each in criteria], dim=1)
    mean_weight = torch.stack([each.mean_weight for each in criteria], dim=1)
    seen = rows_of_classes(positive, weight) * mean_weight
    if n_processes > 1:
        # Take the mean over processes, because gradients are later averaged over processes.
        distributed.all_reduce(seen)
        seen = seen / n_processes
    # A class without samples of positive weight in the minibatch gets weight 0, not infinity.
    share = torch.where(seen > 0, class_total / class_total.sum(0) / seen, 0.0)
    share = torch.where(positive, share[1], share[0])
    share = (share if weight is None else share * weight).to(scores.dtype)
    target = positive.to(scores.dtype).expand_as(scores)
    loss = F.binary_cross_entropy_with_logits(scores, target, share, reduction="sum")
    gradient = share * (scores.sigmoid() - target)
    return loss / len(criteria), gradient.unsqueeze(2)


class Phases(Criterion):
    r"""Cross-entropy in the first epochs, then the estimator's loss, with one or two heads.

    .. math::
        L_1(f), \quad \text{then} \quad L_2(f)

    With two heads, the network returns scores :math:`f_s`, which choose the top k classes, and
    scores :math:`f_o`, which rank these k classes. The losses are

    .. math::
        L_1(f_o) + L_1(f_s), \quad \text{then} \quad L_1(f_o) + L_2(c f_s) / c

    where c is `SET_SCALE`.

    Parameters
    ----------
    first, then : Criterion
        The cross-entropy L_1, used while `pretraining` is True, and the estimator's loss L_2.
    n_heads : {1, 2}, default=1
        With 2, the last dimension of the scores holds f_s, followed by f_o.
    """

    def __init__(self, first, then, n_heads=1):
        super().__init__()
        self.first, self.then, self.n_heads = first, then, n_heads
        self.pretraining, self.draws = True, then.draws
        self.hard_rows, self.trace, self.losses = then.hard_rows, then.trace, then.losses

    @property
    def joins_hard_rows(self):
        return not self.pretraining

    @property
    def _now(self):
        return self.first if self.pretraining else self.then

    @property
    def _set_scale(self):
        return 1.0 if self.pretraining else SET_SCALE

    def begin(self, class_total, mean_weight, *, resumed=False):
        for each in (self.first, self.then):
            each.n_processes = self.n_processes
            each.begin(class_total, mean_weight, resumed=resumed)

    def set_groups(self, make):
        self.then.set_groups(make)
        self.hard_rows = self.then.hard_rows

    def seed(self, generator):
        super().seed(generator)
        for each in (self.first, self.then):
            each.seed(generator)

    def get_extra_state(self):
        # Save only the phase: the criteria `first` and `then` save their own state.
        return {"pretraining": self.pretraining}

    def set_extra_state(self, state):
        self.pretraining = bool(state["pretraining"])

    def forward(self, scores, target, sample_weight=None):
        if self.n_heads == 1:
            return self._now(scores, target, sample_weight)
        of_set, of_order = scores.chunk(2, dim=-1)
        loss, c = self.first(of_order, target, sample_weight), self._set_scale
        return loss + self._now(c * of_set, target, sample_weight) / c

    def gradient(self, scores, target, weight):
        if self.n_heads == 1:
            return self._now.gradient(scores, target, weight)
        of_set, of_order = scores.detach().chunk(2, dim=-1)
        c = self._set_scale
        set_loss, to_set = self._now.gradient(c * of_set, target, weight)
        order_loss, to_order = self.first.gradient(of_order, target, weight)
        return order_loss + set_loss / c, torch.cat([to_set, to_order], dim=-1)
