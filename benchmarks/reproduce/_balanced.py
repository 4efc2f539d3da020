"""The baseline of paper 000: class-balanced cross-entropy, trained like the losses of the paper."""

import torch
from torch.nn import functional as F

from sktopk._estimators._parameters import estimator
from sktopk._estimators._ranking import RankingClassifier
from sktopk._training._objectives import Objective
from sktopk.metrics import positives_at_top_score


class BalancedCrossEntropy(Objective):
    """Mean cross-entropy of the positives plus mean cross-entropy of the negatives."""

    compares = True

    def forward(self, scores, target, weight, drawn):
        """Return the loss of each network."""
        positive = target == 1
        each = F.binary_cross_entropy_with_logits(
            scores.squeeze(-1), positive.to(scores.dtype), reduction="none"
        )
        means = [(each * mask).sum(1) / mask.sum(1) for mask in (positive, ~positive)]
        return sum(means)


@estimator
class Baseline(RankingClassifier):
    """Class-balanced cross-entropy with one output and the same minibatches as the rankers."""

    log_loss_share: float = 0.0

    def _objective(self):
        return BalancedCrossEntropy()

    def _metric(self, positive, scores, weight):
        return positives_at_top_score(positive, scores)

    def _cut(self, scores, positive, weight):
        return torch.zeros(())
