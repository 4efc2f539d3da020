"""Accuracy at the top with a threshold among all scores or the positive ones."""

from torch import Tensor

from ._accuracy_at_top import loss_at
from ._loss import LossModule, check_fraction
from ._thresholds import KthLargest


def recall_at_k_threshold(k):
    """The k-th largest score."""
    return KthLargest("all", k=k)


def recall_at_k_loss(
    scores: Tensor,
    target: Tensor,
    *,
    k: int,
    surrogate: str = "quadratic",
    groups: Tensor | None = None,
    sample_weight: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    r"""Push every positive among the k highest scored rows.

    .. math::
        L = \frac{1}{n_+} \sum_{i : y_i = 1} \ell(t - s_i), \qquad t = s_{[k]}

    Rec@K, eq. 5 with Table 1 of [1]_. The threshold may be the score of a positive.
    The gradient also flows through t, into the row of that rank; tied rows rank in their order.

    Parameters
    ----------
    scores : Tensor of shape (n_samples,)
        Raw scores; the larger, the more likely positive. Half precision is computed in float32.
    target : Tensor of shape (n_samples,)
        Class labels in {0, 1}.
    k : int
        Rank of the score that is the threshold, at least 1. With fewer rows, the smallest is.
    surrogate : {"quadratic", "hinge", "logistic"}, default="quadratic"
        The function l: max(0, 1 + z)^2, max(0, 1 + z) or log2(1 + exp z).
    groups : Tensor of int of shape (n_samples,), default=None
        Group of each row, such as a day or a query, by any numbers. Each has a threshold of its
        own, and "mean" is the mean over the groups with positives of the mean of each. None: all
        rows are one group.
    sample_weight : Tensor of shape (n_samples,), default=None
        Nonnegative weights, in the mean and in the threshold (see :class:`KthLargest`).
    reduction : {"none", "sum", "mean"}, default="mean"
        "none" has a loss per row, 0 for negatives; the mean is over the positives.

    Returns
    -------
    loss : Tensor of shape () or (n_samples,)
        Nonnegative. Zero, with zero gradient, if a class is missing that the loss needs.

    Raises
    ------
    TypeError, ValueError
        If a tensor has another shape or kind, `target` other values, or a parameter is out of
        its range.

    References
    ----------
    .. [1] L. Adam, V. Macha, V. Smidl. DeepTopPush: Simple and Scalable Method for Accuracy at
       the Top. 2020. Equation 5, Table 1.

    Examples
    --------
    >>> import torch
    >>> from sktopk.losses import recall_at_k_loss
    >>> scores, target = torch.tensor([2.0, 1.0, 1.5]), torch.tensor([1, 1, 0])
    >>> recall_at_k_loss(scores, target, k=2)
    tensor(1.2500)
    """
    threshold = recall_at_k_threshold(k)
    return loss_at(threshold, scores, target, surrogate, groups, sample_weight, reduction)


def pat_mat_threshold(tau):
    """The score that a share tau of the rows reaches."""
    return KthLargest("all", tau=tau)


def pat_mat_loss(
    scores: Tensor,
    target: Tensor,
    *,
    tau: float,
    surrogate: str = "quadratic",
    groups: Tensor | None = None,
    sample_weight: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    r"""Push every positive into the top share tau of all rows.

    .. math::
        L = \frac{1}{n_+} \sum_{i : y_i = 1} \ell(t - s_i), \qquad
        t = s_{[j]}, \quad j = \max(1, \lceil n \tau \rceil)

    Pat&Mat, eq. 5 with Table 1 of [1]_.
    The gradient also flows through t, into the row of that rank; tied rows rank in their order.

    Parameters
    ----------
    scores : Tensor of shape (n_samples,)
        Raw scores; the larger, the more likely positive. Half precision is computed in float32.
    target : Tensor of shape (n_samples,)
        Class labels in {0, 1}.
    tau : float
        Share of the rows, in (0, 1].
    surrogate : {"quadratic", "hinge", "logistic"}, default="quadratic"
        The function l: max(0, 1 + z)^2, max(0, 1 + z) or log2(1 + exp z).
    groups : Tensor of int of shape (n_samples,), default=None
        Group of each row, such as a day or a query, by any numbers. Each has a threshold of its
        own, and "mean" is the mean over the groups with positives of the mean of each. None: all
        rows are one group.
    sample_weight : Tensor of shape (n_samples,), default=None
        Nonnegative weights, in the mean and in the threshold (see :class:`KthLargest`).
    reduction : {"none", "sum", "mean"}, default="mean"
        "none" has a loss per row, 0 for negatives; the mean is over the positives.

    Returns
    -------
    loss : Tensor of shape () or (n_samples,)
        Nonnegative. Zero, with zero gradient, if a class is missing that the loss needs.

    Raises
    ------
    TypeError, ValueError
        If a tensor has another shape or kind, `target` other values, or a parameter is out of
        its range.

    References
    ----------
    .. [1] L. Adam, V. Macha, V. Smidl. DeepTopPush: Simple and Scalable Method for Accuracy at
       the Top. 2020. Equation 5, Table 1.

    Examples
    --------
    >>> import torch
    >>> from sktopk.losses import pat_mat_loss
    >>> scores, target = torch.tensor([2.0, 1.0, 1.5]), torch.tensor([1, 1, 0])
    >>> pat_mat_loss(scores, target, tau=0.5)
    tensor(1.2500)
    """
    threshold = pat_mat_threshold(tau)
    return loss_at(threshold, scores, target, surrogate, groups, sample_weight, reduction)


PRECISION_AT_RECALL_ERRORS = "false_positives"


def precision_at_recall_threshold(recall):
    """The score that a share of the positives reaches."""
    return KthLargest("positives", tau=check_fraction(recall, "recall"))


def precision_at_recall_loss(
    scores: Tensor,
    target: Tensor,
    *,
    recall: float,
    surrogate: str = "quadratic",
    groups: Tensor | None = None,
    sample_weight: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    r"""Push every negative below the score that a share of the positives reaches.

    .. math::
        L = \frac{1}{n_-} \sum_{i : y_i = 0} \ell(s_i - t), \qquad
        t = s^+_{[j]}, \quad j = \max(1, \lceil n_+ r \rceil)

    Prec@Rec, eq. 4 and 5 of [1]_: few false positives at recall r are a high precision there.
    The gradient also flows through t, into the row of that rank; tied rows rank in their order.

    Parameters
    ----------
    scores : Tensor of shape (n_samples,)
        Raw scores; the larger, the more likely positive. Half precision is computed in float32.
    target : Tensor of shape (n_samples,)
        Class labels in {0, 1}.
    recall : float
        The recall r, in (0, 1]: the share of the positives at or above t.
    surrogate : {"quadratic", "hinge", "logistic"}, default="quadratic"
        The function l: max(0, 1 + z)^2, max(0, 1 + z) or log2(1 + exp z).
    groups : Tensor of int of shape (n_samples,), default=None
        Group of each row, such as a day or a query, by any numbers. Each has a threshold of its
        own, and "mean" is the mean over the groups with negatives of the mean of each. None: all
        rows are one group.
    sample_weight : Tensor of shape (n_samples,), default=None
        Nonnegative weights, in the mean and in the threshold (see :class:`KthLargest`).
    reduction : {"none", "sum", "mean"}, default="mean"
        "none" has a loss per row, 0 for positives; the mean is over the negatives.

    Returns
    -------
    loss : Tensor of shape () or (n_samples,)
        Nonnegative. Zero, with zero gradient, if a class is missing that the loss needs.

    Raises
    ------
    TypeError, ValueError
        If a tensor has another shape or kind, `target` other values, or a parameter is out of
        its range.

    References
    ----------
    .. [1] L. Adam, V. Macha, V. Smidl. DeepTopPush: Simple and Scalable Method for Accuracy at
       the Top. 2020. Equations 4 and 5.

    Examples
    --------
    >>> import torch
    >>> from sktopk.losses import precision_at_recall_loss
    >>> scores, target = torch.tensor([2.0, 1.0, 1.5]), torch.tensor([1, 1, 0])
    >>> precision_at_recall_loss(scores, target, recall=1.0)
    tensor(2.2500)
    """
    threshold, errors = precision_at_recall_threshold(recall), PRECISION_AT_RECALL_ERRORS
    return loss_at(threshold, scores, target, surrogate, groups, sample_weight, reduction, errors)


class RecallAtKLoss(LossModule, of=recall_at_k_loss):
    """Module of :func:`recall_at_k_loss`.

    Examples
    --------
    >>> import torch
    >>> from sktopk.losses import RecallAtKLoss
    >>> RecallAtKLoss(k=2)(torch.tensor([2.0, 1.0, 1.5]), torch.tensor([1, 1, 0]))
    tensor(1.2500)
    """


class PatMatLoss(LossModule, of=pat_mat_loss):
    """Module of :func:`pat_mat_loss`.

    Examples
    --------
    >>> import torch
    >>> from sktopk.losses import PatMatLoss
    >>> PatMatLoss(tau=0.5)(torch.tensor([2.0, 1.0, 1.5]), torch.tensor([1, 1, 0]))
    tensor(1.2500)
    """


class PrecisionAtRecallLoss(LossModule, of=precision_at_recall_loss):
    """Module of :func:`precision_at_recall_loss`.

    Examples
    --------
    >>> import torch
    >>> from sktopk.losses import PrecisionAtRecallLoss
    >>> PrecisionAtRecallLoss(recall=1.0)(torch.tensor([2.0, 1.0, 1.5]), torch.tensor([1, 1, 0]))
    tensor(2.2500)
    """
