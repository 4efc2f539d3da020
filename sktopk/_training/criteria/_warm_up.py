"""Cross-entropy first, the top after."""

import torch
from torch import distributed
from torch.nn import functional as F

from ._base import Criterion, TwoClassCriterion, rows_of_classes


class TwoClassCrossEntropy(TwoClassCriterion):
    """Cross-entropy of one score a row, the logarithm of the odds of the positives."""

    is_mean = True

    def forward(self, scores, target, sample_weight=None):
        """Return the mean over rows in the proportions of the training, a Tensor of shape ()."""
        seen = self.expected(target == 1, sample_weight)
        return self._mean(scores, target == 1, sample_weight, seen)

    def loss_and_gradient(self, scores, target, weight):
        """Return the loss of a batch and its gradient; see the base."""
        one = scores.detach().view(-1, 1, 1)
        weight = None if weight is None else weight.unsqueeze(1)
        loss, gradient = cross_entropy_of_members([self], one, target, weight)
        return loss, gradient.view_as(scores)

    def _mean(self, scores, positive, weight, seen):
        """The mean over rows, those of each class taken for `seen`."""
        positive = positive.unsqueeze(1)
        weight = None if weight is None else weight.unsqueeze(1)
        share = _shares(scores.dtype, positive, weight, seen[:, None], self.class_total[:, None])
        target = positive.to(scores.dtype)
        return F.binary_cross_entropy_with_logits(
            scores.view(-1, 1), target, share, reduction="sum"
        )


def cross_entropy_of_members(criteria, scores, target, weight):
    """The mean of what criteria say of the scores of a member each, and the gradient of the sum.

    Parameters
    ----------
    criteria : sequence of TwoClassCrossEntropy
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
        # Of one in the mean, as gradients are averaged over the processes afterwards.
        distributed.all_reduce(seen)
        seen = seen / n_processes
    share = _shares(scores.dtype, positive, weight, seen, class_total)
    target = positive.to(scores.dtype).expand_as(scores)
    loss = F.binary_cross_entropy_with_logits(scores, target, share, reduction="sum")
    # Autograd would record more small steps than there are members.
    gradient = share * (scores.sigmoid() - target)
    return loss / len(criteria), gradient.unsqueeze(2)


def _shares(dtype, positive, weight, seen, class_total):
    """The weight of each row in the mean of each member, whose classes have columns."""
    # A class may have no row here that weighs something, with one member's weights for example.
    share = torch.where(seen > 0, class_total / class_total.sum(0) / seen, 0.0).to(dtype)
    share = torch.where(positive, share[1], share[0])
    return share if weight is None else share * weight


class WarmUp(Criterion):
    r"""A loss that is easy to train with, then the one that counts, perhaps beside it.

    .. math::
        L_1(f), \quad \text{then} \quad a\, L_1(f) + (1 - a)\, L_2(c f)

    With two heads f is a pair of score vectors, of which L_1 has the second and L_2 the first:
    :math:`L_1(f_1) + L_1(f_2)`, then :math:`a\, L_1(f_2) + (1 - a)\, L_2(c f_1)`.

    Parameters
    ----------
    first, then : Criterion
        L_1 and L_2.
    share : float
        The a of the second phase, in [0, 1).
    scale : float
        The c: what the second loss multiplies scores by.
    n_heads : {1, 2}, default=1
        Two: the last dimension of scores holds those of one head after those of the other.

    Attributes
    ----------
    warm : bool
        Whether the first phase is over.
    rate : float
        What the learning rate is multiplied by in this phase.
    """

    def __init__(self, first, then, share, scale, n_heads=1):
        super().__init__()
        self.first, self.then, self.share, self.scale = first, then, share, scale
        self.n_heads, self.warm = n_heads, False
        self.is_mean, self.draws = then.is_mean and first.is_mean, then.draws
        self.hard_rows, self.remedies = then.hard_rows, then.remedies
        self.takes_scores = then.takes_scores
        self.trace = then.trace
        self.losses = then.losses

    def begin(self, class_total, mean_weight, n_rows, *, resumed=False):
        for each in (self.first, self.then):
            each.n_processes = self.n_processes
            each.begin(class_total, mean_weight, n_rows, resumed=resumed)

    def set_groups(self, make):
        """Take a mean over groups in the second loss; see the base."""
        self.then.set_groups(make)
        self.hard_rows = self.then.hard_rows

    def seed(self, generator):
        super().seed(generator)
        for each in (self.first, self.then):
            each.seed(generator)

    def end_warm_up(self, rate=1.0):
        """Begin with the second phase, at this multiple of the learning rate."""
        self.warm, self.rate = True, rate

    def get_extra_state(self):
        """The phase; the two losses keep their own state, the generator among it."""
        return {"warm": self.warm, "rate": self.rate}

    def set_extra_state(self, state):
        """Put back what `get_extra_state` returned."""
        # Files of earlier versions do not have the rate, but an optimizer that has it.
        self.warm, self.rate = bool(state["warm"]), float(state.get("rate", 1.0))

    def _heads(self, scores):
        """Views of the scores of the second and of the first loss."""
        return scores.chunk(2, dim=-1) if self.n_heads == 2 else (scores, scores)

    def forward(self, scores, target, sample_weight=None):
        """Return the loss of the phase of rows that are no batch, a Tensor of shape ()."""
        of_then, of_first = self._heads(scores)
        if not self.warm:
            return self.first(of_first, target, sample_weight)
        loss = (1 - self.share) * self.then(self.scale * of_then, target, sample_weight)
        if self.share:
            loss = loss + self.share * self.first(of_first, target, sample_weight)
        return loss

    def backward(self, scores, target, weight):
        """Send the gradient of the loss of the phase into the network; see the base."""
        gradient = torch.zeros_like(scores)
        pairs = zip(self._heads(scores.detach()), self._heads(gradient), strict=True)
        (of_then, to_then), (of_first, to_first) = pairs
        # Rows that joined the batch for being hard are no sample.
        hard = self.hard_rows
        n_fresh = len(scores) if hard is None else hard.n_fresh_of(len(scores))
        fresh = target[:n_fresh], None if weight is None else weight[:n_fresh]
        loss = 0.0
        if self.warm:
            value, own = self.then.gradient(self.scale * of_then, target, weight)
            loss = (1 - self.share) * value
            to_then += (1 - self.share) * self.scale * own
        elif self.n_heads == 2:
            to_then[:n_fresh] += self.first.gradient(of_then[:n_fresh], *fresh)[1]
        share = self.share if self.warm else 1.0
        if share:
            value, own = self.first.gradient(of_first[:n_fresh], *fresh)
            loss = loss + share * value
            to_first[:n_fresh] += share * own
        scores.backward(gradient)
        return loss
