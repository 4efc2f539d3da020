"""The baseline of paper 000: class-balanced cross-entropy, trained as its losses are."""

import torch
from sktopk._estimators.ranking._ranking import RankingClassifier
from torch.nn import functional as F

from sktopk._estimators._parameters import estimator
from sktopk._training.criteria._base import Criterion


class BalancedCrossEntropy(Criterion):
    """The paper's baseline as a loss of the batch."""

    is_mean = False

    def forward(self, scores, target, sample_weight=None):
        """Return the mean over the positives plus the mean over the negatives."""
        each = F.binary_cross_entropy_with_logits(
            scores.flatten(), target.to(scores.dtype), reduction="none"
        )
        n_positives = target.sum()
        return (torch.where(target, each / n_positives, each / (len(target) - n_positives))).sum()


@estimator
class Baseline(RankingClassifier):
    """Class-balanced cross-entropy on the same base as the others: one output, same batches."""

    def _task(self, dtype):
        return self._task_of(dtype, BalancedCrossEntropy(), 1)

    def _scorer(self):
        return "positives_at_top", {}

    def _score_threshold(self, scores, positive, weight):
        return torch.zeros(())
