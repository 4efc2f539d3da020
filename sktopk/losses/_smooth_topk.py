"""The exact smooth top-k SVM loss, also with logits adjusted for class frequencies."""

from collections.abc import Sequence

import torch
from torch import Tensor

from . import _elementary_symmetric as symmetric
from ._cross_entropy import log_prior, logit_adjusted_loss
from ._docs import documented_like
from ._loss import (
    LossModule,
    WithGradient,
    check_k,
    check_nonnegative,
    check_scores,
    check_soft,
    from_largest,
    nan_above,
    reduce,
)
from ._topk_hinge import topk_hinge_loss


def _loss_and_gradient(scores, target, k, tau, margin, *, gradient_needed):
    """Return the loss of each sample and its gradient, which is None unless `gradient_needed`."""
    label = target.unsqueeze(1)
    label_score = scores.gather(1, label).squeeze(1)
    if k == 1:  # sigma_1 is a plain sum, and sigma_0 is 1
        shares = scores.scatter(1, label, -torch.inf)
        head = shares.amax(1, keepdim=True)
    else:
        head, classes = symmetric.largest_others(scores, target, min(2 * k, scores.shape[1] - 1))
    largest = torch.maximum(head[:, 0], label_score)
    undefined = (head[:, k - 1] == -torch.inf) & (largest < torch.inf)
    head = head.masked_fill(undefined.unsqueeze(1), 0.0)
    if k == 1:
        shares.sub_(head).div_(tau).exp_()
        total = shares.sum(1).double()
        log_ratio = total.log()
    else:
        left_out = torch.cat([classes, label], dim=1)
        sums = symmetric.subset_sums(scores, head, left_out, k, k * tau, keep_rest=gradient_needed)
        log_ratio = sums.log_ratio
    gap = (head[:, k - 1].double() - label_score.double()) / (k * tau)
    x = nan_above(margin / tau + gap + log_ratio, largest)
    loss = (tau * torch.logaddexp(x, torch.zeros_like(x))).masked_fill(undefined, 0.0)
    if not gradient_needed:
        return loss, None
    weight = torch.sigmoid(x).masked_fill(undefined, 0.0)
    if k == 1:
        shares.mul_(torch.where(undefined, 0.0, weight / total).to(scores.dtype).unsqueeze(1))
        return loss, shares.scatter_(1, label, -weight.to(scores.dtype).unsqueeze(1))
    weight = weight / k
    in_k, in_k_less_1 = symmetric.head_inclusion(sums)
    inner = (in_k - in_k_less_1)[: head.shape[1]] * weight
    if sums.rest is None:
        gradient = torch.zeros_like(scores)
    else:
        y = symmetric.rest_coefficients(sums)
        gradient = symmetric.rest_inclusion(sums, (y[:-1] - y[1:]) * weight)
    inner = torch.cat([inner, -weight.unsqueeze(0)]).t().to(scores.dtype)
    return loss, gradient.scatter_(1, left_out, inner)


@documented_like(topk_hinge_loss)
def smooth_topk_loss(
    scores: Tensor,
    target: Tensor,
    *,
    k: int,
    tau: float = 1.0,
    margin: float = 1.0,
    sample_weight: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    r"""Compute the smooth top-k SVM loss, exact in value and gradient.

    .. math::
        L(s, y) = \tau \log\left[1 + e^{m / \tau} \frac{\sigma_k(e_{\setminus y})}
        {e_y\, \sigma_{k-1}(e_{\setminus y})}\right], \qquad e_j = \exp\frac{s_j}{k \tau}

    where m is the margin [1]_. To get :math:`\sigma_k(e_{\setminus y})`, multiply the
    :math:`e_j` of each set of k classes without y, and add these products. For k = 1, m = 0 and
    :math:`\tau` = 1, the loss is cross-entropy.

    For :math:`\tau > 0`, classes with equal scores have equal gradients, except for class y, and
    second derivatives raise an error. The time per sample is O(k n_classes). The loss ignores the
    order of the top k classes. To learn this order in your own training loop, add cross-entropy.

    Parameters
    ----------
    target : Tensor of shape (n_samples,) or (n_samples, n_classes)
        Integer class indices, or nonnegative weights of the classes. With weights, the loss is the
        weighted sum of L(s, y) over classes y. Time and memory grow with the number of weights > 0.
    k : int
        Number of predicted classes, 1 <= k < n_classes, at most 600.
    tau : float, default=1.0
        Temperature, nonnegative. Scores are divided by k tau. 0 means :func:`topk_hinge_loss`.
    margin : float, default=1.0
        Margin m: the cost of a label outside the top k, nonnegative.

    References
    ----------
    .. [1] Berrada, Zisserman and Kumar (2018). Smooth loss functions for deep top-k classification.
       ICLR. Equations 9 and 10.

    Examples
    --------
    >>> scores = torch.tensor([[4.0, 3.0, 2.0, 1.0]])
    >>> smooth_topk_loss(scores, torch.tensor([1]), k=2)
    tensor(1.0633)
    """
    scores, target, weight = check_soft(scores, target, sample_weight)
    k = check_k(k, scores.shape[1], most=symmetric.MAX_K)
    if target.is_floating_point():
        # Evaluate classes with a nonzero target, or all classes if the target needs a gradient.
        rows, classes = torch.where((target != 0) | (scores > -torch.inf) & target.requires_grad)
        own = smooth_topk_loss(scores[rows], classes, k=k, tau=tau, margin=margin, reduction="none")
        loss = (own * target[rows, classes]).to(scores.dtype)
        loss = torch.zeros_like(scores[:, 0]).index_add(0, rows, loss)
        return reduce(loss, weight, reduction)
    tau = check_nonnegative(tau, "tau")
    margin = check_nonnegative(margin, "margin")
    if tau == 0:
        weighting = {"sample_weight": sample_weight, "reduction": reduction}
        return topk_hinge_loss(scores, target, k=k, margin=margin, **weighting)
    needed = scores.requires_grad and torch.is_grad_enabled()
    with torch.no_grad(), torch.autocast(scores.device.type, enabled=False):
        loss, gradient = _loss_and_gradient(scores, target, k, tau, margin, gradient_needed=needed)
    loss = loss.to(scores.dtype)
    if needed:
        loss = WithGradient.apply(scores, loss, gradient)
    return reduce(loss, weight, reduction)


class SmoothTopKLoss(LossModule, of=smooth_topk_loss, k=5): ...


@documented_like(smooth_topk_loss, logit_adjusted_loss)
def smooth_topk_adjusted_loss(
    scores: Tensor,
    target: Tensor,
    *,
    class_counts: Tensor | Sequence[float],
    k: int,
    tau: float = 1.0,
    margin: float = 1.0,
    sample_weight: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    r"""Compute the smooth top-k loss with logits adjusted for class frequencies.

    .. math::
        L(s, y) = \tau \log\left[1 + e^{m / \tau} \frac{\sigma_k(e_{\setminus y})}
        {e_y\, \sigma_{k-1}(e_{\setminus y})}\right], \qquad e_j = \pi_j \exp\frac{s_j}{k \tau}

    The loss is :func:`smooth_topk_loss` [1]_ of the scores :math:`s_j + k \tau \log \pi_j`, where
    :math:`\pi_j` is the share of class j among the training samples. Training with this loss raises
    scores :math:`s_j` of rare classes, but frequent classes usually keep an advantage. For k = 1,
    use :func:`logit_adjusted_loss` instead, because it removes this advantage. For k > 1, train
    with a weighted sum of this loss and :func:`logit_adjusted_loss`, as `TopKClassifier` does by
    default. Do not add plain cross-entropy, because it would undo the adjustment.

    Examples
    --------
    >>> scores, target = torch.zeros(1, 3), torch.tensor([1])
    >>> smooth_topk_adjusted_loss(scores, target, class_counts=[2, 1, 1], k=1, margin=0.0)
    tensor(1.3863)
    """
    scores, _ = check_scores(scores, sample_weight)
    k = check_k(k, scores.shape[1], most=symmetric.MAX_K)
    unit = k * check_nonnegative(tau, "tau")
    # Subtract the k-th largest score: scores near it get more digits, and the loss is the same.
    scores = from_largest(scores, k).add(unit * log_prior(class_counts, scores))
    weighting = {"sample_weight": sample_weight, "reduction": reduction}
    return smooth_topk_loss(scores, target, k=k, tau=tau, margin=margin, **weighting)


class SmoothTopKAdjustedLoss(LossModule, of=smooth_topk_adjusted_loss, k=5): ...
