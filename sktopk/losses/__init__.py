"""Losses on torch tensors: functions, and an nn.Module shell of each."""

from ._cross_entropy import CrossEntropyLoss, cross_entropy_loss
from ._reduction import reduce
from ._smooth_topk import SmoothTopKLoss, smooth_topk_loss, topk_inclusion_proba

__all__ = [
    "CrossEntropyLoss",
    "SmoothTopKLoss",
    "cross_entropy_loss",
    "reduce",
    "smooth_topk_loss",
    "topk_inclusion_proba",
]
