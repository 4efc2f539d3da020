"""Losses put together from others: soft targets, several k at once."""

from collections.abc import Callable, Sequence
from inspect import Parameter, signature
from typing import Any

import torch
from torch import Tensor, nn

from ._loss import check_count, reduce


def expected_loss(loss, scores, target, sample_weight, reduction, **params):
    r"""Mean of a loss for class indices under soft targets.

    .. math::
        L(s, t) = \sum_j t_j L(s, j)

    Only classes with :math:`t_j \ne 0` are computed, two for mixup.
    """
    rows, classes = target.nonzero(as_tuple=True)
    each = loss(scores[rows], classes, **params, reduction="none") * target[rows, classes]
    mean = torch.zeros_like(scores[:, 0]).index_add(0, rows, each.to(scores.dtype))
    return reduce(mean, sample_weight, reduction)


def topk_distribution_loss(
    scores: Tensor,
    target: Tensor,
    *,
    loss: Callable[..., Tensor],
    k: dict[int, float],
    sample_weight: Tensor | None = None,
    reduction: str = "mean",
    **params: Any,
) -> Tensor:
    r"""Compute the weighted mean of a top-k loss over several k.

    .. math::
        L(s, y) = \frac{\sum_i p_i L_{k_i, \tau_i}(s, y)}{\sum_i p_i},
        \qquad \tau_i = \tau \frac{k_{\max}}{k_i}

    A loss with a temperature `tau` divides scores by :math:`k_i \tau_i`, here
    :math:`k_{\max} \tau` in every term, so that all terms have the same scale of scores.

    Parameters
    ----------
    scores : Tensor of shape (n_samples, n_classes)
        Raw scores, floating point.
    target : Tensor of shape (n_samples,)
        Integer class indices, or another target that `loss` takes.
    loss : callable
        A function of this module with a parameter `k`, such as
        :func:`sktopk.losses.smooth_topk_loss`.
    k : dict
        Positive weight of each k, such as ``{1: 0.1, 5: 0.9}``.
    sample_weight : Tensor of shape (n_samples,), default=None
        Nonnegative weights; None means 1 for every sample.
    reduction : {"none", "sum", "mean"}, default="mean"
        "mean" divides by the sum of the weights.
    **params
        Further parameters of `loss`; `tau` is that of the largest k.

    Returns
    -------
    loss : Tensor of shape () or (n_samples,)
        As `loss` returns it, ties and empty batches included.

    Raises
    ------
    TypeError, ValueError
        If `k` is not a dict of positive weights, or `loss` raises.

    Examples
    --------
    >>> import torch
    >>> from sktopk.losses import smooth_topk_loss, topk_distribution_loss
    >>> scores, target = torch.tensor([[3.0, 2.0, 1.0, 0.0]]), torch.tensor([1])
    >>> topk_distribution_loss(scores, target, loss=smooth_topk_loss, k={1: 0.5, 2: 0.5})
    tensor(2.2040)
    """
    weights = check_k_distribution(k)
    for each in weights:
        check_count(each, "k")
    options = {"sample_weight": sample_weight, "reduction": reduction, **params}
    tau = options.get("tau", _default_tau(loss))
    total, value = sum(weights.values()), 0.0
    for each, p in weights.items():
        if tau is not None:
            options["tau"] = tau * max(weights) / each
        value = value + p / total * loss(scores, target, k=each, **options)
    return value


def _default_tau(loss):
    """What the `tau` of a loss is if nobody gives one; None where it has none or no default."""
    tau = signature(loss).parameters.get("tau")
    return None if tau is None or tau.default is Parameter.empty else tau.default


def check_k_distribution(k):
    """Return the dict `k` if it gives each k a positive weight."""
    if not isinstance(k, dict):
        raise TypeError(f"k must be a dict {{k: weight}}, such as {{1: 0.1, 5: 0.9}}; got {k!r}")
    if not k or not all(0 < weight < float("inf") for weight in k.values()):
        raise ValueError(f"k must have at least one k, each of finite positive weight; got {k!r}")
    return k


class TopKDistributionLoss(nn.Module):
    """Weighted mean of loss modules, one for each k, as :func:`topk_distribution_loss`.

    Losses with a temperature should have `tau` times the largest k over their own k.

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
    >>> loss = TopKDistributionLoss([SmoothTopKLoss(k=1, tau=2.0), SmoothTopKLoss(k=2)])
    >>> loss(torch.tensor([[3.0, 2.0, 1.0, 0.0]]), torch.tensor([1]))
    tensor(2.2040)
    """

    def __init__(self, losses: Sequence[nn.Module], weights: Sequence[float] | None = None) -> None:
        super().__init__()
        self.losses = nn.ModuleList(losses)
        weights = [1.0] * len(self.losses) if weights is None else list(weights)
        if len(weights) != len(self.losses):
            raise ValueError(f"weights must have {len(self.losses)} numbers; got {len(weights)}")
        self.weights = list(check_k_distribution(dict(enumerate(weights))).values())

    def forward(
        self, scores: Tensor, target: Tensor, sample_weight: Tensor | None = None
    ) -> Tensor:
        """Return the weighted mean of the losses of `scores` against `target`."""
        total = sum(self.weights)
        return sum(
            weight / total * loss(scores, target, sample_weight)
            for weight, loss in zip(self.weights, self.losses, strict=True)
        )
