"""Weights and reduction of per-sample losses: the only copy."""

import torch

from ._checks import check_weight

REDUCTIONS = ("none", "sum", "mean")


def reduce(loss, sample_weight=None, reduction="mean"):
    r"""Weight per-sample losses and reduce them.

    .. math::
        \text{sum} = \sum_i w_i \ell_i, \qquad
        \text{mean} = \frac{\sum_i w_i \ell_i}{\sum_i w_i}

    so that a sample of weight 2 counts as the sample given twice. An empty batch, or one
    whose weights are all zero, has mean 0 (not NaN) and still carries a gradient of 0.

    Parameters
    ----------
    loss : Tensor of shape (n_samples,)
        Loss of each sample.
    sample_weight : Tensor of shape (n_samples,), default=None
        Nonnegative weights; None means 1 for every sample.
    reduction : {"none", "sum", "mean"}, default="mean"
        "none" returns the weighted losses themselves.

    Returns
    -------
    loss : Tensor of shape () or (n_samples,)
        In the dtype of `loss`.

    Raises
    ------
    ValueError
        If `reduction` is unknown or `sample_weight` has another shape than `loss`.

    Examples
    --------
    >>> import torch
    >>> from sktopk.losses import reduce
    >>> reduce(torch.tensor([1.0, 4.0]), torch.tensor([2.0, 1.0]))
    tensor(2.)
    """
    if reduction not in REDUCTIONS:
        allowed = ", ".join(map(repr, REDUCTIONS))
        raise ValueError(f"reduction={reduction!r} must be one of {allowed}")
    if sample_weight is None:
        if reduction == "mean":
            return loss.sum() / max(loss.numel(), 1)
        return loss.sum() if reduction == "sum" else loss
    sample_weight, dtype = check_weight(sample_weight, loss), loss.dtype
    if reduction == "mean":
        # It lies among the losses, though products with large weights may leave float32.
        sample_weight, loss = sample_weight.double(), loss.double()
    # A sample of weight 0 counts as absent, even where its loss is infinite (0 * inf is NaN).
    weighted = torch.where(sample_weight == 0, torch.zeros_like(loss), sample_weight * loss)
    if reduction == "none":
        return weighted
    total = weighted.sum()
    if reduction == "sum":
        return total
    weight_sum = sample_weight.sum()
    mean = total / torch.where(weight_sum == 0, torch.ones_like(weight_sum), weight_sum)
    return mean.to(dtype)
