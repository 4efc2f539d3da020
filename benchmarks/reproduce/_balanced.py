"""The baseline of paper 000: class-balanced cross-entropy, trained as its losses are."""

import torch
from torch import nn
from torch.nn import functional as F

from sktopk._estimators._heads import RankingHead
from sktopk._estimators._parameters import estimator
from sktopk._estimators._ranking import RankingClassifier
from sktopk._training.criteria._base import BatchCriterion
from sktopk.metrics import positives_at_top_score


class BalancedCrossEntropy(nn.Module):
    """Mean over the positives plus mean over the negatives."""

    def forward(self, scores, target, sample_weight=None):
        """Return the loss of a minibatch."""
        target = target.to(scores.dtype)
        each = F.binary_cross_entropy_with_logits(scores.flatten(), target, reduction="none")
        return each[target > 0].mean() + each[target == 0].mean()


@estimator
class Baseline(RankingClassifier):
    """Class-balanced cross-entropy on the same base as the others: one output, same batches."""

    def _make_head(self):
        return RankingHead(
            make=lambda: BatchCriterion(BalancedCrossEntropy()),
            metric=lambda y, scores, weight: positives_at_top_score(y, scores),
            cut=lambda scores, positive, weight: torch.zeros(()),
            share=0.0,
        )
