"""The losses that TopKClassifier knows by name, and how it calls any other."""

from collections.abc import Callable
from typing import NamedTuple

from torch import nn

from . import losses
from .losses._module import LossModule


class Criterion(NamedTuple):
    """A loss, the estimator's parameters that it takes, and what its scores mean."""

    module: type
    params: tuple = ()
    # softmax(scores) estimates class probabilities.
    models_proba: bool = False
    # (k, tau) -> how much the loss shrinks the scores that it sees; None: not at all.
    unit: Callable | None = None


_NOISED = ("k", "sigma", "n_noise")

CRITERIA = {
    "cross_entropy": Criterion(losses.CrossEntropyLoss, models_proba=True),
    "smooth_topk": Criterion(
        losses.SmoothTopKLoss, ("k", "tau", "margin"), unit=lambda k, tau: k * tau
    ),
    "topk_hinge": Criterion(losses.TopKHingeLoss, ("k", "margin")),
    "topk_hinge_convex": Criterion(losses.TopKHingeConvexLoss, ("k", "margin")),
    "topk_hinge_calibrated": Criterion(losses.TopKHingeCalibratedLoss, ("k", "margin")),
    "topk_grouping": Criterion(losses.TopKGroupingLoss, ("k",)),
    "topk_transition": Criterion(losses.TopKTransitionLoss, ("k",)),
    "noised_topk": Criterion(losses.NoisedTopKLoss, (*_NOISED, "margin")),
    "noised_topk_imbalanced": Criterion(
        losses.NoisedTopKImbalancedLoss, ("class_counts", *_NOISED, "max_margin", "scale")
    ),
    "focal": Criterion(losses.FocalLoss, ("gamma",)),
    "ldam": Criterion(losses.LDAMLoss, ("class_counts", "max_margin", "scale")),
    "logit_adjusted": Criterion(losses.LogitAdjustedLoss, ("class_counts",)),
}

# score_scale="auto" is this times the unit: benchmarks/defaults.py compares others.
SCORE_SCALE = 10.0


class CustomLoss(nn.Module):
    """Give a user's ``loss(scores, target)`` the sample weights that ours take.

    Parameters
    ----------
    loss : nn.Module
        Returns a mean or a loss per sample. Weights need a loss of ours, or a `reduction`
        attribute, which is then "none".
    """

    def __init__(self, loss):
        super().__init__()
        self.loss = loss

    def forward(self, scores, target, sample_weight=None):
        if sample_weight is None:
            return self.loss(scores, target).mean()
        if isinstance(self.loss, LossModule):
            return self.loss(scores, target, sample_weight)
        if not hasattr(self.loss, "reduction"):
            raise TypeError(
                "sample_weight and class_weight need a loss from sktopk.losses or one with a "
                f"reduction attribute; got loss={type(self.loss).__name__}"
            )
        reduction, self.loss.reduction = self.loss.reduction, "none"
        try:
            return losses.reduce(self.loss(scores, target), sample_weight)
        finally:
            self.loss.reduction = reduction
