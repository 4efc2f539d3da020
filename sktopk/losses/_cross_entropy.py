"""Cross-entropy, trained alone or together with another loss."""

import math

import torch
from torch.nn import functional as F

from ._loss import check_nonnegative, check_soft, reduce, value_range

_NO_LABEL = torch.iinfo(torch.int64).min


def cross_entropy_loss(
    scores, target, *, label_smoothing=0.0, sample_weight=None, reduction="mean"
):
    r"""Compute the cross-entropy of the softmax with class indices or probabilities.

    .. math::
        L(s, y) = -s_y + \log \sum_j \exp s_j

    `label_smoothing`, in [0, 1], is the share of the target that is spread equally over all classes
    (Szegedy et al., CVPR 2016, section 7). Classes of score -inf are absent and get no share. The
    loss is infinite if the label is absent, and NaN if all classes are.
    """
    scores, target = check_soft(scores, target, sample_weight)
    label_smoothing = check_nonnegative(label_smoothing, "label_smoothing")
    if label_smoothing > 1:
        raise ValueError(f"label_smoothing={label_smoothing:g} must be at most 1")
    hard = not target.is_floating_point()
    plain = not label_smoothing and sample_weight is None and reduction == "mean"
    if hard and plain and len(scores):
        # torch computes this case in one kernel. Set `ignore_index`, or it would ignore -100.
        return F.cross_entropy(scores, target, ignore_index=_NO_LABEL)
    log_proba = F.log_softmax(scores, dim=1)
    loss = negative_log_likelihood(log_proba, target)
    if label_smoothing > 0:
        mean = log_proba.mean(1)
        ends = value_range(mean)
        if ends is None or not ends[0] > -math.inf:
            present = scores > -math.inf
            share = present.to(scores.dtype) / present.sum(1, keepdim=True)
            mean = (share * torch.where(present, log_proba, 0.0)).sum(1)
        # Without this case, the loss of an absent label would be 0 * inf.
        kept = (1 - label_smoothing) * loss if label_smoothing < 1 else 0.0
        loss = kept - label_smoothing * mean
    return reduce(loss, sample_weight, reduction)


def negative_log_likelihood(log_proba, target):
    r"""Return :math:`-\sum_j t_j \log q_j` for each sample, or :math:`-\log q_y` for indices.

    A class with target 0 contributes 0 even if its probability is zero.
    """
    if target.is_floating_point():
        return -torch.where(target == 0, 0.0, target * log_proba).sum(1)
    # Do not use nll_loss, which would ignore the index -100.
    return -log_proba.gather(1, target.unsqueeze(1)).squeeze(1)
