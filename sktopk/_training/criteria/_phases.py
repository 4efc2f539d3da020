"""Cross-entropy first, then the named loss."""

import torch
from torch import distributed
from torch.nn import functional as F

from ._base import Criterion, TwoClassCriterion, rows_of_classes

# The weight of the loss beside the cross-entropy of the other head.
SET_WEIGHT = 3.0


class TwoClassCrossEntropy(TwoClassCriterion):
    """Cross-entropy of one score per sample, the log-odds of the positive class."""

    is_mean, of_rows = True, True

    def forward(self, scores, target, sample_weight=None):
        """Return the mean over samples, with the class proportions of the training set."""
        positive = (target == 1).unsqueeze(1)
        weight = None if sample_weight is None else sample_weight.unsqueeze(1)
        seen = self.expected(target == 1, sample_weight)[:, None]
        share = _shares(scores.dtype, positive, weight, seen, self.class_total[:, None])
        target = positive.to(scores.dtype)
        return F.binary_cross_entropy_with_logits(
            scores.view(-1, 1), target, share, reduction="sum"
        )

    def loss_and_gradient(self, scores, target, weight):
        """Return the loss of a minibatch and its gradient; see the base."""
        one = scores.detach().view(-1, 1, 1)
        weight = None if weight is None else weight.unsqueeze(1)
        loss, gradient = cross_entropy_of_members([self], one, target, weight)
        return loss, gradient.view_as(scores)


def cross_entropy_of_members(criteria, scores, target, weight):
    """The mean cross-entropy of the ensemble members, and the gradient of the sum.

    Parameters
    ----------
    criteria : sequence of TwoClassCrossEntropy
        One per member.
    scores : Tensor of shape (n_samples, n_members, 1)
    target : Tensor of shape (n_samples,)
    weight : Tensor of shape (n_samples,) or (n_samples, n_members), or None

    Returns
    -------
    loss, gradient : Tensor of shape (), without a graph, and Tensor like `scores`
    """
    scores, positive = scores.detach().squeeze(2), (target == 1).unsqueeze(1)
    weight = weight.unsqueeze(1) if weight is not None and weight.ndim == 1 else weight
    class_total = torch.stack([each.class_total for each in criteria], dim=1)
    mean_weight = torch.stack([each.mean_weight for each in criteria], dim=1)
    seen = rows_of_classes(positive, weight) * mean_weight
    if (n_processes := criteria[0].n_processes) > 1:
        # The mean over the processes, as their gradients are averaged afterwards.
        distributed.all_reduce(seen)
        seen = seen / n_processes
    share = _shares(scores.dtype, positive, weight, seen, class_total)
    target = positive.to(scores.dtype).expand_as(scores)
    loss = F.binary_cross_entropy_with_logits(scores, target, share, reduction="sum")
    gradient = share * (scores.sigmoid() - target)
    return loss / len(criteria), gradient.unsqueeze(2)


def _shares(dtype, positive, weight, seen, class_total):
    """The weight of each sample in the mean of each member, whose classes have columns."""
    # A class may have no sample with a positive weight in this minibatch.
    share = torch.where(seen > 0, class_total / class_total.sum(0) / seen, 0.0).to(dtype)
    share = torch.where(positive, share[1], share[0])
    return share if weight is None else share * weight


class Phases(Criterion):
    r"""Cross-entropy for the first epochs, then the named loss alone, or on a head of its own.

    .. math::
        L_1(f), \quad \text{then} \quad L_2(f)

    With two heads f consists of two score vectors: :math:`f_s` for the set of the k labels,
    :math:`f_o` for their order,

    .. math::
        L_1(f_o) + L_1(f_s), \quad \text{then} \quad L_1(f_o) + L_2(f_s)

    Parameters
    ----------
    first, then : Criterion
        The cross-entropy L_1 and the loss L_2.
    n_heads : {1, 2}, default=1
        With 2 the last dimension of the scores holds f_s, then f_o.

    Attributes
    ----------
    pretraining : bool
        Whether the cross-entropy is trained now.
    """

    def __init__(self, first, then, n_heads=1):
        super().__init__()
        self.first, self.then, self.n_heads = first, then, n_heads
        self.pretraining = True
        self.is_mean, self.draws = then.is_mean and first.is_mean, then.draws
        self.hard_rows, self.remedies = then.hard_rows, then.remedies
        self.takes_scores, self.trace, self.losses = then.takes_scores, then.trace, then.losses

    @property
    def joins_hard_rows(self):
        """Whether hard examples of earlier minibatches are needed now."""
        return not self.pretraining

    def begin(self, class_total, mean_weight, n_rows, *, resumed=False):
        """Pass on what the training set consists of; see the base."""
        for each in (self.first, self.then):
            each.n_processes = self.n_processes
            each.begin(class_total, mean_weight, n_rows, resumed=resumed)

    def set_groups(self, make):
        """Average the second loss over groups of samples; see the base."""
        self.then.set_groups(make)
        self.hard_rows = self.then.hard_rows

    def seed(self, generator):
        """Draw from this torch.Generator from now on."""
        super().seed(generator)
        for each in (self.first, self.then):
            each.seed(generator)

    def get_extra_state(self):
        """The phase; the two losses keep their own state, and with it the generator."""
        return {"pretraining": self.pretraining}

    def set_extra_state(self, state):
        """Put back what `get_extra_state` returned."""
        self.pretraining = bool(state["pretraining"])

    def forward(self, scores, target, sample_weight=None):
        """Return the loss of this phase of samples that are no minibatch."""
        now = self.first if self.pretraining else self.then
        if self.n_heads == 1:
            return now(scores, target, sample_weight)
        of_set, of_order = scores.chunk(2, dim=-1)
        loss = self.first(of_order, target, sample_weight)
        return loss + SET_WEIGHT * now(of_set, target, sample_weight)

    def backward(self, scores, target, weight):
        """Send the gradient of the loss of this phase into the network; see the base."""
        now = self.first if self.pretraining else self.then
        if self.n_heads == 1:
            return now.backward(scores, target, weight)
        of_set, of_order = scores.detach().chunk(2, dim=-1)
        set_loss, to_set = now.gradient(of_set, target, weight)
        order_loss, to_order = self.first.gradient(of_order, target, weight)
        scores.backward(torch.cat([SET_WEIGHT * to_set, to_order], dim=-1))
        return order_loss + SET_WEIGHT * set_loss
