"""Losses put together from others: soft targets, several k at once."""

import torch
from torch import nn

from ._loss import reduce


def expected_loss(loss, scores, target, sample_weight, reduction, **params):
    r"""Mean of a loss for class indices under soft targets.

    .. math::
        L(s, t) = \sum_j t_j L(s, j)

    Only classes with :math:`t_j \ne 0` are computed: twice the cost for mixup's two labels, n
    times for label smoothing's n.
    """
    rows, classes = target.nonzero(as_tuple=True)
    each = loss(scores[rows], classes, **params, reduction="none") * target[rows, classes]
    mean = torch.zeros_like(scores[:, 0]).index_add(0, rows, each.to(scores.dtype))
    return reduce(mean, sample_weight, reduction)


def topk_distribution_loss(
    scores, target, *, loss, k, sample_weight=None, reduction="mean", **params
):
    r"""Mean of a top-k loss over several k, to be good at each of them.

    .. math::
        L(s, y) = \frac{\sum_i p_i L_{k_i}(s, y)}{\sum_i p_i}

    Parameters
    ----------
    scores : Tensor of shape (n_samples, n_classes)
        Raw scores, floating point.
    target : Tensor of shape (n_samples,)
        Integer class indices, or what else `loss` takes.
    loss : callable
        A function of this module with a parameter `k`, such as
        :func:`sktopk.losses.smooth_topk_loss`.
    k : dict
        Positive weight of each k, such as ``{1: 0.5, 5: 0.5}``.
    sample_weight : Tensor of shape (n_samples,), default=None
        Nonnegative weights; None means 1 for every sample.
    reduction : {"none", "sum", "mean"}, default="mean"
        "mean" divides by the sum of the weights.
    **params
        Further parameters of `loss`.

    Returns
    -------
    loss : Tensor of shape () or (n_samples,)
        Ties and empty batches as in `loss`.

    Raises
    ------
    TypeError, ValueError
        If `k` is no dict of positive weights; whatever `loss` raises.

    Examples
    --------
    >>> import torch
    >>> from sktopk.losses import smooth_topk_loss, topk_distribution_loss
    >>> scores, target = torch.tensor([[3.0, 2.0, 1.0, 0.0]]), torch.tensor([1])
    >>> topk_distribution_loss(scores, target, loss=smooth_topk_loss, k={1: 0.5, 2: 0.5})
    tensor(1.6707)
    """
    weights = check_k_distribution(k)
    options = {"sample_weight": sample_weight, "reduction": reduction, **params}
    total = sum(weights.values())
    return sum(p / total * loss(scores, target, k=each, **options) for each, p in weights.items())


def check_k_distribution(k):
    """Return the dict `k` if it gives each k a positive weight."""
    if not isinstance(k, dict):
        raise TypeError(f"k must be a dict {{k: weight}}, such as {{1: 0.5, 5: 0.5}}; got {k!r}")
    if not k or not all(0 < weight < float("inf") for weight in k.values()):
        raise ValueError(f"k must have at least one k, each of finite positive weight; got {k!r}")
    return k


class TopKDistributionLoss(nn.Module):
    """Mean of loss modules, one for each k: the module of :func:`topk_distribution_loss`.

    Parameters
    ----------
    losses : sequence of nn.Module
        Called as ``loss(scores, target, sample_weight)``.
    weights : sequence of float, default=None
        Positive; None means equal weights. Only their proportions matter.

    Raises
    ------
    ValueError
        If there are no losses, or `weights` are not as many positive numbers.

    Examples
    --------
    >>> import torch
    >>> from sktopk.losses import SmoothTopKLoss, TopKDistributionLoss
    >>> loss = TopKDistributionLoss([SmoothTopKLoss(k=1), SmoothTopKLoss(k=2)])
    >>> loss(torch.tensor([[3.0, 2.0, 1.0, 0.0]]), torch.tensor([1]))
    tensor(1.6707)
    """

    def __init__(self, losses, weights=None):
        super().__init__()
        self.losses = nn.ModuleList(losses)
        weights = [1.0] * len(self.losses) if weights is None else list(weights)
        if len(weights) != len(self.losses):
            raise ValueError(f"weights must have {len(self.losses)} numbers; got {len(weights)}")
        self.weights = list(check_k_distribution(dict(enumerate(weights))).values())

    def forward(self, scores, target, sample_weight=None):
        """Return the weighted mean of the losses of `scores` against `target`."""
        total = sum(self.weights)
        return sum(
            weight / total * loss(scores, target, sample_weight)
            for weight, loss in zip(self.weights, self.losses, strict=True)
        )
