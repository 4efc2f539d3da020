"""Mean of the estimator's loss and cross-entropy, trained from the first step."""

import torch
from torch import distributed
from torch.nn import functional as F

from sktopk.losses._cross_entropy import cross_entropy_loss, cross_entropy_of_rows

from ._base import Criterion, RowLoss, TwoClassCriterion, known_scores, rows_of_classes

# Label smoothing of cross-entropy. It increases top-1 accuracy.
LABEL_SMOOTHING = 0.1


class CrossEntropy(RowLoss):
    r"""Cross-entropy of :math:`\alpha s + \tau \log \pi`, with label smoothing.

    Here s are the scores and :math:`\pi` the class frequencies. Partners of losses that scale
    cosines have :math:`\alpha \ne 1`. Partners of losses that correct for class frequencies have
    :math:`\tau \ne 0` and `n_counts`, the number of classes. There, smoothed labels raise the
    scores of rare classes further, which increases accuracy on long tails
    (benchmarks/results/label_tasks.md).
    """

    def __init__(self, scale=1.0, tau=0.0, n_counts=None):
        super().__init__(
            cross_entropy_loss,
            {"label_smoothing": LABEL_SMOOTHING},
            n_counts=n_counts,
            gradient_of_rows=cross_entropy_of_rows,
        )
        self.scale, self.tau = scale, tau

    def _logits(self, scores):
        scores = self.scale * scores if self.scale != 1 else scores
        if self.class_counts is None:
            return scores
        prior = (self.class_counts / self.class_counts.sum()).log()
        return scores + (self.tau * prior).to(scores.dtype)

    def forward(self, scores, target, sample_weight=None):
        values = self._logits(scores), target
        return self.function(*values, sample_weight=sample_weight, **self.parameters)

    def losses_and_gradient(self, scores, target):
        losses, gradient = super().losses_and_gradient(self._logits(scores), target)
        return losses, gradient if self.scale == 1 else gradient.mul_(self.scale)


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
    scores, positive = known_scores(scores.squeeze(2), weight), (target == 1).unsqueeze(1)
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


class Mixture(Criterion):
    r"""Weighted mean of the estimator's loss and of a cross-entropy of the same scores.

    .. math::
        (1 - \lambda) L(f) + \lambda L_{CE}(f)

    Hard examples of earlier minibatches belong to L alone.

    Parameters
    ----------
    named, cross_entropy : Criterion
        The estimator's loss L, and its partner.
    share : float
        The share of cross-entropy, in (0, 1].
    """

    def __init__(self, named, cross_entropy, share):
        super().__init__()
        self.named, self.cross_entropy, self.share = named, cross_entropy, share
        self.hard_rows, self.trace, self.losses = named.hard_rows, named.trace, named.losses
        self.draws = named.draws

    def begin(self, class_total, mean_weight, *, resumed=False):
        for each in (self.named, self.cross_entropy):
            each.n_processes = self.n_processes
            each.begin(class_total, mean_weight, resumed=resumed)

    def set_groups(self, make):
        self.named.set_groups(make)
        self.hard_rows = self.named.hard_rows

    def seed(self, generator):
        super().seed(generator)
        self.named.seed(generator)

    def get_extra_state(self):
        # Save nothing here: both criteria save their own state.
        return None

    def set_extra_state(self, state):
        pass

    def forward(self, scores, target, sample_weight=None):
        values = scores, target, sample_weight
        return (1 - self.share) * self.named(*values) + self.share * self.cross_entropy(*values)

    def gradient(self, scores, target, weight):
        loss, gradient = self.named.gradient(scores, target, weight)
        gradient, hard = gradient.mul_(1 - self.share), self.hard_rows
        fresh = gradient
        if hard is not None and hard.each[0].batch is not None:
            fresh, scores, target, weight = (
                None if each is None else each[: hard.each[0].n_fresh]
                for each in (gradient, scores, target, weight)
            )
        other, of_fresh = self.cross_entropy.gradient(scores, target, weight)
        fresh.add_(of_fresh, alpha=self.share)
        return (1 - self.share) * loss + self.share * other, gradient
