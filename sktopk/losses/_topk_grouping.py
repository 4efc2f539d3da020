"""Cross-entropy that treats the top k classes as one class: grouping and transition losses."""

import math

from torch import Tensor
from torch.nn import functional as F

from ._cross_entropy import negative_log_likelihood
from ._docs import documented_like
from ._loss import LossModule, check_k, check_soft, reduce, value_range
from ._topk_hinge import topk_hinge_loss


@documented_like(topk_hinge_loss)
def topk_grouping_loss(
    scores: Tensor,
    target: Tensor,
    *,
    k: int,
    sample_weight: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    r"""Compute cross-entropy, where the k classes with the largest scores count as one class.

    .. math::
        L(s, t) = -\Bigl(\sum_{i=1}^k t_{[i]}\Bigr) \log \Bigl(\sum_{i=1}^k q_{[i]}\Bigr)
        - \sum_{i=k+1}^n t_{[i]} \log q_{[i]}

    where :math:`q` is the softmax, :math:`[i]` is the class of the i-th largest score and :math:`t`
    is the target, one-hot or soft [1]_. The loss is discontinuous where a class enters the top k.

    Parameters
    ----------
    target : Tensor of shape (n_samples,) or (n_samples, n_classes)
        Integer class indices, or probabilities of the classes.
    k : int
        The k classes with the largest scores are treated as one class, ``1 <= k < n_classes``. With
        k=1, L is cross-entropy.

    Returns
    -------
    loss : Tensor of shape () or (n_samples,)
        Nonnegative, in nats. At least log(k+1) if the label is not in the top k. Zero if fewer than
        k classes have a score above -inf. If scores tie at rank k, ``torch.topk`` decides.

    References
    ----------
    .. [1] Sawada, Kaneko and Sagi (2020). Trade-offs in top-k classification accuracies on losses
       for deep learning. Equations 5 and 6.

    Examples
    --------
    >>> scores = torch.tensor([[0.5, 0.3, 0.2]]).log()
    >>> topk_grouping_loss(scores, torch.tensor([1]), k=2).exp()
    tensor(1.2500)
    """
    scores, target, weight = check_soft(scores, target, sample_weight)
    k = check_k(k, scores.shape[1])
    _, log_grouped, _ = _group(scores, k)
    return reduce(negative_log_likelihood(log_grouped, target), weight, reduction)


@documented_like(topk_grouping_loss)
def topk_transition_loss(
    scores: Tensor,
    target: Tensor,
    *,
    k: int,
    detach_weight: bool = False,
    sample_weight: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    r"""Compute a mixture of cross-entropy and the grouping loss.

    .. math::
        L(s, t) = (1 - Q) \, L_{CE}(s, t) + Q \, L_k(s, t), \qquad Q = \sum_{i=1}^k q_{[i]}

    where :math:`q` is the softmax, :math:`q_{[i]}` its i-th largest entry and :math:`L_k` is
    :func:`topk_grouping_loss` [1]_. If the label is not in the top k, L is cross-entropy.

    Parameters
    ----------
    detach_weight : bool, default=False
        Whether gradients treat the mixture weight Q as constant. The paper does not specify this.

    Examples
    --------
    >>> scores = torch.tensor([[0.5, 0.3, 0.2]]).log()
    >>> topk_transition_loss(scores, torch.tensor([2]), k=2).exp()
    tensor(5.)
    """
    scores, target, weight = check_soft(scores, target, sample_weight)
    k = check_k(k, scores.shape[1])
    log_proba, log_grouped, top = _group(scores, k)
    grouping = negative_log_likelihood(log_grouped, target)
    # The loss is L_k + (1 - Q) (CE - L_k). Compute 1 - Q as a sum: subtracting loses digits.
    cross_entropy = negative_log_likelihood(log_proba, target)
    outside = log_proba.exp().scatter(1, top, 0.0).sum(1)
    # Set CE - L_k to 0 if CE = L_k = inf or Q = 1, because inf - inf and 0 * inf are NaN.
    nothing = (grouping == math.inf) | (outside == 0)
    gain = (cross_entropy - grouping).masked_fill(nothing, 0.0)
    loss = grouping + (outside.detach() if detach_weight else outside) * gain
    return reduce(loss, weight, reduction)


def _group(scores, k):
    """Return (log_proba, log_grouped, top). In `log_grouped`, the top k classes count as one."""
    values, top = scores.topk(k, dim=1, sorted=False)
    ends = value_range(values)
    if masked := ends is None or not ends[0] > -math.inf:
        # With fewer than k scores above -inf, all classes count as one class, so the loss is 0.
        least, most = values.amin(1, keepdim=True), values.amax(1, keepdim=True)
        few = (least == -math.inf) & (most < math.inf)
        scores = scores.scatter(1, top, values.masked_fill(few, 0.0))
    log_proba = F.log_softmax(scores, dim=1)
    # Rounding may raise the sum of probabilities above 1, which would make the loss negative.
    joint = log_proba.gather(1, top).logsumexp(1, keepdim=True).clamp(max=0)
    log_grouped = log_proba.scatter(1, top, joint.expand(-1, k))
    return log_proba, log_grouped.masked_fill(few, 0.0) if masked else log_grouped, top


class TopKGroupingLoss(LossModule, of=topk_grouping_loss, k=5): ...


class TopKTransitionLoss(LossModule, of=topk_transition_loss, k=5): ...
