"""Cross-entropy, used for pretraining and as a baseline."""

import torch
from torch import Tensor
from torch.nn import functional as F

from ._loss import check_nonnegative, check_soft, reduce

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

    `label_smoothing`, in [0, 1], is the share of the target that is spread over all classes
    (Szegedy et al., CVPR 2016, section 7). :func:`smooth_topk_loss` has the other parameters.
    """
    scores, target = check_soft(scores, target)
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
        present = scores > -torch.inf
        spread = -torch.where(present, log_proba, 0.0).sum(1) / present.sum(1)
        loss = (1 - label_smoothing) * loss + label_smoothing * spread
    return reduce(loss, sample_weight, reduction)


def cross_entropy_of_rows(scores, target, *, label_smoothing=0.0):
    """Return loss and gradient of each sample with a class index, without a graph."""
    label = target.unsqueeze(1)
    if scores.shape[1] < _SHORT_ROW:
        log_proba = scores - scores.logsumexp(1, keepdim=True)
    else:
        log_proba = torch.log_softmax(scores, dim=1)
    label_smoothing = float(label_smoothing)
    loss = (1 - label_smoothing) * negative_log_likelihood(log_proba, target)
    if label_smoothing > 0:
        loss = loss - label_smoothing * log_proba.mean(1)
    gradient = log_proba.exp_().sub_(label_smoothing / scores.shape[1])
    one = gradient.new_full((1, 1), label_smoothing - 1).expand(len(label), 1)
    return loss, gradient.scatter_add_(1, label, one)


def negative_log_likelihood(log_proba, target):
    r"""Return :math:`-\sum_j t_j \log q_j` for each sample, or :math:`-\log q_y` for indices.

    A class with target 0 contributes 0 even if its probability is zero.
    """
    if target.is_floating_point():
        return -torch.where(target == 0, 0.0, target * log_proba).sum(1)
    # Do not use nll_loss, which would ignore the index -100.
    return -log_proba.gather(1, target.unsqueeze(1)).squeeze(1)
