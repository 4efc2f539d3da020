"""Top-k hinge losses: a margin between the label and the k-th largest score."""

import torch
from torch import Tensor

from ._docs import documented_like
from ._loss import (
    LossModule,
    check_hard,
    check_k,
    check_nonnegative,
    nan_above,
    reduce,
    score_of_label,
)
from ._order_statistics import kth_largest, lead


def topk_hinge_loss(
    scores: Tensor,
    target: Tensor,
    *,
    k: int,
    margin: float = 1.0,
    scaled: bool = True,
    sample_weight: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    r"""Compute the hinge loss of the label's score against the k-th largest other score.

    .. math::
        L(s, y) = \max\Bigl(0,\; m + \frac{(s_{\setminus y})_{[k]} - s_y}{k}\Bigr)

    where m is the margin and :math:`s_{\setminus y}` are the scores of all classes except y [2]_.
    With ``scaled=False``, there is no division by k, as in [1]_ and [3]_. With ``margin=1``, the
    loss is at least the top-k error. Deep networks train badly with this loss, because the gradient
    of a sample has only two nonzero entries, even if several scores tie at rank k.

    Parameters
    ----------
    scores : Tensor of shape (n_samples, n_classes)
        Raw scores. Half precision is converted to float32. A score of -inf masks a class.
    target : Tensor of shape (n_samples,)
        Integer class indices.
    k : int
        Number of predicted classes, ``1 <= k < n_classes``.
    margin : float, default=1.0
        Margin m of the hinge, nonnegative.
    scaled : bool, default=True
        Whether to divide the difference of scores by k.
    sample_weight : Tensor of shape (n_samples,), default=None
        Nonnegative weights; None means 1 for every sample.
    reduction : {"none", "sum", "mean"}, default="mean"
        "mean" divides the weighted sum of the losses by the sum of the weights.

    Returns
    -------
    loss : Tensor of shape () or (n_samples,)
        Nonnegative. Zero, with zero gradient, if fewer than k other classes have scores above -inf.

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type, shape or range.

    References
    ----------
    .. [1] Lapin, Hein and Schiele (2015). Top-k multiclass SVM. NeurIPS.
    .. [2] Berrada, Zisserman and Kumar (2018). Smooth loss functions for deep top-k classification.
       ICLR. Equations 6 and 8.
    .. [3] Garcin et al. (2022). Stochastic smoothing of the top-K calibrated hinge loss for deep
       imbalanced classification. ICML. Equation 4.

    Examples
    --------
    >>> import torch
    >>> from sktopk.losses import topk_hinge_loss
    >>> scores = torch.tensor([[3.0, 2.0, 1.0, 0.5]])
    >>> topk_hinge_loss(scores, torch.tensor([2]), k=2)
    tensor(1.5000)
    """
    scores, target, weight = check_hard(scores, target, sample_weight, "topk_hinge_loss")
    k, margin = check_k(k, scores.shape[1]), check_nonnegative(margin, "margin")
    others = scores.scatter(1, target.unsqueeze(1), -torch.inf)
    violation = lead(kth_largest(others, k), score_of_label(scores, target))
    loss = (margin + (violation / k if scaled else violation)).relu()
    return reduce(loss, weight, reduction)


@documented_like(topk_hinge_loss)
def topk_hinge_convex_loss(
    scores: Tensor,
    target: Tensor,
    *,
    k: int,
    margin: float = 1.0,
    sample_weight: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    r"""Compute the mean of the k largest margin violations.

    .. math::
        L(s, y) = \max\Bigl(0,\; \frac{1}{k} \sum_{i=1}^k v_{[i]}\Bigr),
        \qquad v_j = s_j + m \, [j \neq y] - s_y

    where :math:`m` is the margin [1]_. The label itself has the violation :math:`v_y = 0`. The loss
    is a convex upper bound of :func:`topk_hinge_loss` with ``scaled=False``. With ``margin=1``, it
    is also an upper bound of the top-k error. The loss is not top-k calibrated [2]_: its minimizer
    need not minimize the top-k error.

    Returns
    -------
    loss : Tensor of shape () or (n_samples,)
        Nonnegative. Zero, with zero gradient, if fewer than k classes have a score above -inf.

    References
    ----------
    .. [1] Lapin, Hein and Schiele (2015). Top-k multiclass SVM. NeurIPS.
    .. [2] Garcin et al. (2022). Stochastic smoothing of the top-K calibrated hinge loss for deep
       imbalanced classification. ICML. Section 3.4.

    Examples
    --------
    >>> topk_hinge_convex_loss(torch.tensor([[3.0, 2.0, 1.0, 0.5]]), torch.tensor([2]), k=2)
    tensor(2.5000)
    """
    scores, target, weight = check_hard(scores, target, sample_weight, "topk_hinge_convex_loss")
    k, margin = check_k(k, scores.shape[1]), check_nonnegative(margin, "margin")
    label = target.unsqueeze(1)
    best = scores.scatter(1, label, -torch.inf).topk(k, dim=1).values
    label_score = scores.gather(1, label)
    violation = lead(best, label_score) + margin
    # `best` omits the label, whose violation is 0. This 0 replaces a negative k-th violation.
    violation = torch.cat([violation[:, :-1], violation[:, -1:].relu()], dim=1)
    # With fewer than k scores above -inf, the loss is 0, even if the label has the score -inf.
    few = (label_score == -torch.inf) & ((best > -torch.inf).sum(1, keepdim=True) < k)
    loss = nan_above(violation.masked_fill(few, 0.0).mean(1).relu(), best[:, 0])
    return reduce(loss, weight, reduction)


@documented_like(topk_hinge_loss)
def topk_hinge_calibrated_loss(
    scores: Tensor,
    target: Tensor,
    *,
    k: int,
    margin: float = 1.0,
    sample_weight: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    r"""Compute the hinge loss of the label's score against the (k+1)-th largest score.

    .. math::
        L(s, y) = \max(0,\; m + s_{[k+1]} - s_y)

    where :math:`m` is the margin. All classes are ranked, including the label. This makes the loss
    top-k calibrated [1]_, [2]_. With ``margin=1``, the loss is at least the top-k error. If the
    label has rank k+1, the loss is m, and its gradient is zero. Training can then stall, unless you
    add cross-entropy of the same scores.

    Returns
    -------
    loss : Tensor of shape () or (n_samples,)
        Nonnegative. Zero, with zero gradient, if at most k classes have a score above -inf.

    References
    ----------
    .. [1] Yang and Koyejo (2020). On the consistency of top-k surrogate losses. ICML.
    .. [2] Garcin et al. (2022). Stochastic smoothing of the top-K calibrated hinge loss for deep
       imbalanced classification. ICML. Equation 5.

    Examples
    --------
    >>> topk_hinge_calibrated_loss(torch.tensor([[3.0, 2.0, 1.0, 0.5]]), torch.tensor([3]), k=2)
    tensor(1.5000)
    """
    scores, target, weight = check_hard(scores, target, sample_weight, "topk_hinge_calibrated_loss")
    k, margin = check_k(k, scores.shape[1]), check_nonnegative(margin, "margin")
    loss = (margin + lead(kth_largest(scores, k + 1), score_of_label(scores, target))).relu()
    return reduce(loss, weight, reduction)


class TopKHingeLoss(LossModule, of=topk_hinge_loss, k=5): ...


class TopKHingeConvexLoss(LossModule, of=topk_hinge_convex_loss, k=5): ...


class TopKHingeCalibratedLoss(LossModule, of=topk_hinge_calibrated_loss, k=5): ...
