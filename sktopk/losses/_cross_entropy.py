"""Cross-entropy, trained alone or together with another loss."""

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from ._loss import check_nonnegative, check_soft, reduce, value_range

_NO_LABEL = torch.iinfo(torch.int64).min
# With fewer classes than this, torch.log_softmax takes three times as long as a difference.
_SHORT_ROW = 16


def cross_entropy_loss(
    scores: Tensor,
    target: Tensor,
    *,
    label_smoothing: float = 0.0,
    sample_weight: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    r"""Compute the cross-entropy of the softmax with class indices or probabilities.

    .. math::
        L(s, y) = -s_y + \log \sum_j \exp s_j

    `label_smoothing`, in [0, 1], is the share of the target that is spread equally over all classes
    (Szegedy et al., CVPR 2016, section 7). Classes of score -inf are absent and get no share. The
    loss is infinite if the label is absent, and NaN if all classes are. :func:`smooth_topk_loss`
    has the other parameters.
    """
    scores, target = check_soft(scores, target, sample_weight)
    label_smoothing = check_nonnegative(label_smoothing, "label_smoothing")
    if label_smoothing > 1:
        raise ValueError(f"label_smoothing={label_smoothing:g} must be at most 1")
    hard = not target.is_floating_point()
    if (
        hard
        and not label_smoothing
        and sample_weight is None
        and reduction == "mean"
        and len(scores)
    ):
        # torch computes this case in one kernel. Set `ignore_index`, or it would ignore -100.
        return F.cross_entropy(scores, target, ignore_index=_NO_LABEL)
    log_proba = F.log_softmax(scores, dim=1)
    loss = negative_log_likelihood(log_proba, target)
    if label_smoothing > 0:
        loss, _ = _smoothed(loss, log_proba, scores, label_smoothing)
    return reduce(loss, sample_weight, reduction)


def cross_entropy_of_rows(scores, target, *, label_smoothing=0.0):
    """Return loss and gradient of each sample with a class index, without a graph."""
    label, label_smoothing = target.unsqueeze(1), float(label_smoothing)
    if scores.shape[1] < _SHORT_ROW:
        # Subtract the largest score first: the logarithm of the sum is then near 0.
        log_proba = scores - scores.amax(1, keepdim=True)
        log_proba -= log_proba.exp().sum(1, keepdim=True).log_()
    else:
        log_proba = torch.log_softmax(scores, dim=1)
    loss, share = negative_log_likelihood(log_proba, target), None
    if label_smoothing > 0:
        loss, share = _smoothed(loss, log_proba, scores, label_smoothing)
    gradient = log_proba.exp_()
    if share is not None:
        gradient -= share
    one = gradient.new_full((1, 1), label_smoothing - 1).expand(len(label), 1)
    return loss, gradient.scatter_add_(1, label, one)


def _smoothed(loss, log_proba, scores, label_smoothing):
    """Return the loss with label smoothing, and the part of the target that each class gets."""
    mean, share = log_proba.mean(1), label_smoothing / scores.shape[1]
    ends = value_range(mean)
    if ends is None or not ends[0] > -math.inf:
        present = scores > -math.inf
        share = present.to(scores.dtype) / present.sum(1, keepdim=True)
        mean = (share * torch.where(present, log_proba, 0.0)).sum(1)
        share = label_smoothing * share
    # Without this case, the loss of an absent label would be 0 * inf.
    kept = (1 - label_smoothing) * loss if label_smoothing < 1 else 0.0
    return kept - label_smoothing * mean, share


def negative_log_likelihood(log_proba, target):
    r"""Return :math:`-\sum_j t_j \log q_j` for each sample, or :math:`-\log q_y` for indices.

    A class with target 0 contributes 0 even if its probability is zero.
    """
    if target.is_floating_point():
        return -torch.where(target == 0, 0.0, target * log_proba).sum(1)
    # Do not use nll_loss, which would ignore the index -100.
    return -log_proba.gather(1, target.unsqueeze(1)).squeeze(1)
