"""Cross-entropy: the baseline that every top-k loss is held against."""

from torch.nn import functional as F

from ._checks import check_scores, is_soft
from ._module import LossModule
from ._reduction import reduce


def cross_entropy_loss(scores, target, *, sample_weight=None, reduction="mean"):
    r"""Cross-entropy of the softmax of the scores.

    .. math::
        L(s, y) = -s_y + \log \sum_j \exp s_j

    It is calibrated for every k at once: with enough data and a large enough network it
    ranks the classes by their probability, which is optimal for top-k accuracy.

    Parameters
    ----------
    scores : Tensor of shape (n_samples, n_classes)
        Raw scores, floating point; half precision is computed in float32.
    target : Tensor of shape (n_samples,) or (n_samples, n_classes)
        Integer class indices, or soft targets (floating point rows that sum to 1).
    sample_weight : Tensor of shape (n_samples,), default=None
        Nonnegative weights; None means 1 for every sample.
    reduction : {"none", "sum", "mean"}, default="mean"
        "mean" divides by the sum of the weights.

    Returns
    -------
    loss : Tensor of shape () or (n_samples,)
        Nonnegative, in nats.

    Raises
    ------
    TypeError, ValueError
        If `scores`, `target` or `sample_weight` have the wrong type or shape.

    Examples
    --------
    >>> import torch
    >>> from sktopk.losses import cross_entropy_loss
    >>> cross_entropy_loss(torch.zeros(1, 4), torch.tensor([2]))
    tensor(1.3863)
    """
    scores = check_scores(scores)
    if is_soft(scores, target):
        target = target.to(scores.dtype)
    else:
        target = target.long()
    loss = F.cross_entropy(scores, target, reduction="none")
    return reduce(loss, sample_weight, reduction)


class CrossEntropyLoss(LossModule):
    """Module shell of :func:`cross_entropy_loss`."""

    function = staticmethod(cross_entropy_loss)

    def __init__(self, reduction="mean"):
        super().__init__()
        self.reduction = reduction
