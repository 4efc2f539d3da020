"""Cross-entropy first, the top after."""

import torch
from torch.nn import functional as F

from ._base import Criterion, TwoClassCriterion


class TwoClassCrossEntropy(TwoClassCriterion):
    """Cross-entropy of one score a row, the logarithm of the odds of the positives."""

    is_mean = True

    def forward(self, scores, target, sample_weight=None):
        """Return the mean over rows in the proportions of the training, a Tensor of shape ()."""
        scores, positive = scores.flatten(), target == 1
        weight = self.proportional(scores.detach(), positive, sample_weight)
        each = F.binary_cross_entropy_with_logits(scores, positive.to(scores.dtype), weight)
        return each * len(scores) / weight.sum()


class WarmUp(Criterion):
    r"""A loss that is easy to train with, then the one that counts, perhaps beside it.

    .. math::
        L_1(f), \quad \text{then} \quad a\, L_1(f) + (1 - a)\, L_2(c f)

    Parameters
    ----------
    first, then : Criterion
        L_1 and L_2.
    share : float
        The a of the second phase, in [0, 1).
    scale : float
        The c: what the second loss multiplies scores by.

    Attributes
    ----------
    warm : Tensor of bool of shape ()
        Whether the first phase is over.
    """

    def __init__(self, first, then, share, scale):
        super().__init__()
        self.first, self.then, self.share, self.scale = first, then, share, scale
        self.is_mean, self.draws = then.is_mean and first.is_mean, then.draws
        self.hard_rows, self.remedies = then.hard_rows, then.remedies
        self.trace = then.trace
        self.register_buffer("warm", torch.zeros((), dtype=torch.bool))

    @property
    def losses(self):
        """The criteria of the second loss, of each member of the network."""
        return self.then.losses

    def begin(self, class_total, mean_weight, n_rows, *, resumed=False):
        for each in (self.first, self.then):
            each.n_processes = self.n_processes
            each.begin(class_total, mean_weight, n_rows, resumed=resumed)

    def seed(self, generator):
        super().seed(generator)
        for each in (self.first, self.then):
            each.seed(generator)

    def end_warm_up(self):
        """Begin with the second phase."""
        self.warm = torch.ones_like(self.warm)
        for hard in [] if self.hard_rows is None else self.hard_rows.each:
            # None was looked for yet.
            hard.forget()

    def get_extra_state(self):
        """Nothing: the two losses keep their state, the generator among it."""
        return None

    def set_extra_state(self, state):
        """Take back nothing."""

    def forward(self, scores, target, sample_weight=None):
        """Return the loss of the phase of rows that are no batch, a Tensor of shape ()."""
        if not self.warm:
            return self.first(scores, target, sample_weight)
        loss = (1 - self.share) * self.then(self.scale * scores, target, sample_weight)
        if self.share:
            loss = loss + self.share * self.first(scores, target, sample_weight)
        return loss

    def backward(self, scores, target, weight):
        """Send the gradient of the loss of the phase into the network; see the base."""
        if not self.warm:
            return self.first.backward(scores, target, weight)
        own = (self.scale * scores.detach()).requires_grad_()
        loss = (1 - self.share) * self.then.backward(own, target, weight)
        gradient = (1 - self.share) * self.scale * own.grad
        if self.share:
            # Rows that joined the batch for being hard are no sample.
            hard = self.hard_rows
            n_fresh = len(scores) if hard is None else hard.n_fresh_of(len(scores))
            own = scores.detach()[:n_fresh].requires_grad_()
            weight = None if weight is None else weight[:n_fresh]
            loss = loss + self.share * self.first.backward(own, target[:n_fresh], weight)
            gradient[:n_fresh] += self.share * own.grad
        scores.backward(gradient)
        return loss
