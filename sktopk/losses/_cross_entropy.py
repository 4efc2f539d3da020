"""Cross-entropy and its variants: focal, LDAM and logit-adjusted losses."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from ._docs import documented_like
from ._loss import (
    LossModule,
    as_tensor,
    check_hard,
    check_length,
    check_nonnegative,
    check_soft,
    from_largest,
    reduce,
    score_of_label,
    value_range,
)
from ._topk_hinge import topk_hinge_loss

_NO_LABEL = torch.iinfo(torch.int64).min


def cross_entropy_loss(
    scores, target, *, label_smoothing=0.0, sample_weight=None, reduction="mean"
):
    """Compute the cross-entropy of the softmax with class indices or probabilities.

    `label_smoothing`, in [0, 1], is the share of the target that is spread equally over all classes
    with a score above -inf (Szegedy et al., CVPR 2016, section 7).
    """
    scores, target, weight = check_soft(scores, target, sample_weight)
    label_smoothing = check_nonnegative(label_smoothing, "label_smoothing")
    if label_smoothing > 1:
        raise ValueError(f"label_smoothing={label_smoothing:g} must be at most 1")
    plain = not label_smoothing and sample_weight is None and reduction == "mean"
    if plain and len(scores) and not target.is_floating_point():
        # One kernel of torch is fastest. Its default `ignore_index` would ignore targets of -100.
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
        # If label_smoothing is 1, omit the loss: for a label of score -inf, it would be 0 * inf.
        kept = (1 - label_smoothing) * loss if label_smoothing < 1 else 0.0
        loss = kept - label_smoothing * mean
    return reduce(loss, weight, reduction)


def negative_log_likelihood(log_proba, target):
    """Return -log q_y for class indices y, or -sum_j t_j log q_j for soft targets (0 log 0 = 0)."""
    if target.is_floating_point():
        absent = (target == 0) & (log_proba == -math.inf)
        return -torch.where(absent, 0.0, target * log_proba).sum(1)
    # Do not use nll_loss, which would ignore the index -100.
    return -score_of_label(log_proba, target)


def check_class_counts(class_counts, scores):
    """Return the class counts as a tensor with the dtype and device of `scores`."""
    counts = as_tensor(class_counts, "class_counts", scores.dtype)
    if counts.shape != scores.shape:
        check_length(counts, "class_counts", scores.shape[1], "one count per class")
    ends = value_range(counts)
    if ends is not None and not 0 < ends[0] <= ends[1] < math.inf:
        raise ValueError(f"class_counts must be in (0, inf); got {ends[0]:g} to {ends[1]:g}")
    return counts.to(scores.device)


def log_prior(class_counts, scores):
    """Return the logarithm of the share of each class in `class_counts`."""
    counts = check_class_counts(class_counts, scores)
    return (counts / counts.sum(-1, keepdim=True)).log()


def margin_of_label(class_counts, max_margin, scores, target):
    """Return each label's margin, proportional to count ** -0.25 (rarest class: `max_margin`)."""
    max_margin = check_nonnegative(max_margin, "max_margin")
    margins = check_class_counts(class_counts, scores) ** -0.25
    margins = max_margin * margins / margins.amax(-1, keepdim=True)
    return score_of_label(margins.expand_as(scores), target)


@documented_like(topk_hinge_loss)
def focal_loss(
    scores: Tensor,
    target: Tensor,
    *,
    gamma: float = 2.0,
    sample_weight: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    r"""Compute a cross-entropy that gives well-classified samples less weight.

    .. math::
        L(s, y) = -(1 - q_y)^\gamma \log q_y

    where :math:`q` is the softmax of the scores [1]_. For ``gamma=0``, the loss is cross-entropy.
    For each k, the loss is at least :math:`(1 + 1/k)^{-\gamma} \log(k+1)` times the top-k error.

    Parameters
    ----------
    gamma : float, default=2.0
        Exponent, nonnegative. Larger values put more focus on misclassified samples.

    Returns
    -------
    loss : Tensor of shape () or (n_samples,)
        Nonnegative, in nats.

    References
    ----------
    .. [1] Lin et al. (2017). Focal loss for dense object detection. ICCV. Equation 4.

    Examples
    --------
    >>> focal_loss(torch.zeros(1, 4), torch.tensor([2]), gamma=1.0)
    tensor(1.0397)
    """
    scores, target, weight = check_hard(scores, target, sample_weight, "focal_loss")
    gamma = check_nonnegative(gamma, "gamma")
    cross_entropy = negative_log_likelihood(F.log_softmax(scores, dim=1), target)
    # Keep 1 - q_y above 0: if gamma < 1, the power (1 - q_y)^gamma has an infinite slope at 0. If
    # q_y is 0, use the constant 1 for 1 - q_y: its gradient would be 0 * inf, which is NaN.
    absent = cross_entropy == torch.inf
    miss = -torch.expm1(-cross_entropy.masked_fill(absent, 0.0))
    miss = miss.clamp_min(torch.finfo(scores.dtype).tiny).masked_fill(absent, 1.0)
    return reduce(miss**gamma * cross_entropy, weight, reduction)


@documented_like(focal_loss)
def logit_adjusted_loss(
    scores: Tensor,
    target: Tensor,
    *,
    class_counts: Tensor | Sequence[float],
    tau: float = 1.0,
    sample_weight: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    r"""Compute cross-entropy with logits adjusted for class frequencies.

    .. math::
        L(s, y) = -\log \frac{\pi_y^\tau \exp s_y}{\sum_j \pi_j^\tau \exp s_j}

    where :math:`\pi_c` is the share of class c among the training samples [1]_. Trained scores rank
    the classes as if all were equally frequent, which is optimal for macro-averaged accuracy.

    Parameters
    ----------
    class_counts : array-like of shape (n_classes,) or (n_samples, n_classes)
        Positive number of training samples per class. With shape (n_samples, n_classes), each
        sample has its own numbers. Values on a GPU are not checked.
    tau : float, default=1.0
        Strength of the adjustment, nonnegative. With 0 the loss is cross-entropy.

    References
    ----------
    .. [1] Menon, Jayasumana, Rawat, Jain, Veit and Kumar (2021). Long-tail learning via logit
       adjustment. ICLR. Equation 10.

    Examples
    --------
    >>> logit_adjusted_loss(torch.zeros(1, 2), torch.tensor([1]), class_counts=[3, 1])
    tensor(1.3863)
    """
    scores, target, weight = check_hard(scores, target, sample_weight, "logit_adjusted_loss")
    tau = check_nonnegative(tau, "tau")
    adjusted = from_largest(scores).add(tau * log_prior(class_counts, scores))
    loss = negative_log_likelihood(F.log_softmax(adjusted, dim=1), target)
    return reduce(loss, weight, reduction)


@documented_like(logit_adjusted_loss)
def ldam_loss(
    scores: Tensor,
    target: Tensor,
    *,
    class_counts: Tensor | Sequence[float],
    max_margin: float = 0.5,
    scale: float = 30.0,
    sample_weight: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    r"""Compute cross-entropy with larger margins for rare classes.

    .. math::
        L(s, y) = -\log \frac{\exp(\alpha (s_y - m_y))}{\exp(\alpha (s_y - m_y)) + \sum_{j \neq y}
        \exp(\alpha s_j)}, \qquad m_c = m \frac{n_c^{-1/4}}{\max_j n_j^{-1/4}}

    where :math:`n_c` is the number of training samples of class c, :math:`m` is ``max_margin`` and
    :math:`\alpha` is ``scale`` [1]_. For each k, L is at least log(k+1) times the top-k error.

    Parameters
    ----------
    scores : Tensor of shape (n_samples, n_classes)
        Cosines, such as outputs of ``sktopk.modules.MLP(normalize=True)``, so that the margin has
        the same meaning for every sample. A score of -inf masks a class.
    max_margin : float, default=0.5
        Margin of the rarest class, nonnegative.
    scale : float, default=30.0
        Factor for scores and margins, positive.

    References
    ----------
    .. [1] Cao, Wei, Gaidon, Arechiga and Ma (2019). Learning imbalanced datasets with
       label-distribution-aware margin loss. NeurIPS. Equations 12 and 13.

    Examples
    --------
    >>> scores = torch.tensor([[0.9, 0.8], [0.9, 0.8]])
    >>> ldam_loss(scores, torch.tensor([0, 1]), class_counts=[160, 10], scale=1.0, reduction="none")
    tensor([0.7710, 1.0375])
    """
    scores, target, weight = check_hard(scores, target, sample_weight, "ldam_loss")
    scale = check_nonnegative(scale, "scale", positive=True)
    margin = margin_of_label(class_counts, max_margin, scores, target)
    demanded = from_largest(scores).scatter_add_(1, target.unsqueeze(1), -margin.unsqueeze(1))
    loss = negative_log_likelihood(F.log_softmax(scale * demanded, dim=1), target)
    return reduce(loss, weight, reduction)


class FocalLoss(LossModule, of=focal_loss): ...


class LDAMLoss(LossModule, of=ldam_loss): ...


class LogitAdjustedLoss(LossModule, of=logit_adjusted_loss): ...
