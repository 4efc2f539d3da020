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
    r"""Push every positive among the k samples of largest score.

    .. math::
        L = \frac{1}{n_+} \sum_{i : y_i = 1} \ell(t - s_i), \qquad t = s_{[k]}

    Rec@K, eq. 5 with Table 1 of [1]_. The threshold may be the score of a positive.
    The gradient also flows through t into the sample at that rank. Ties rank in input order.

    Parameters
    ----------
    scores : Tensor of shape (n_samples,)
        Raw scores; the larger, the more likely positive. Half precision is computed in float32.
    target : Tensor of shape (n_samples,)
        Class labels in {0, 1}.
    k : int
        Rank of the threshold, at least 1. With fewer samples it is the smallest score.
    surrogate : {"quadratic", "hinge", "logistic"}, default="quadratic"
        The function l: max(0, 1 + z)^2, max(0, 1 + z) or log2(1 + exp z).
    groups : Tensor of int of shape (n_samples,), default=None
        Group of each sample, such as a day or a query. Each group has its own threshold, and
        "mean" averages the means of the groups with positives. None means one group.
    sample_weight : Tensor of shape (n_samples,), default=None
        Nonnegative weights, for the mean and the threshold (see :class:`KthLargest`).
    reduction : {"none", "sum", "mean"}, default="mean"
        "none" returns 0 for negatives; "mean" is over the positives.

    Returns
    -------
    loss : Tensor of shape () or (n_samples,)
        Nonnegative. Zero, with zero gradient, if the batch lacks a class that the loss needs.

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type, shape or range.

    References
    ----------
    .. [1] Adam, Macha and Smidl (2020). DeepTopPush: simple and scalable method for accuracy
       at the top. Equation 5, Table 1.

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
    """The score that a share tau of the samples reaches."""
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
    r"""Push every positive into the top share tau of all samples.

    .. math::
        L = \frac{1}{n_+} \sum_{i : y_i = 1} \ell(t - s_i), \qquad
        t = s_{[j]}, \quad j = \max(1, \lceil n \tau \rceil)

    Pat&Mat, eq. 5 with Table 1 of [1]_.
    The gradient also flows through t into the sample at that rank. Ties rank in input order.

    Parameters
    ----------
    scores : Tensor of shape (n_samples,)
        Raw scores; the larger, the more likely positive. Half precision is computed in float32.
    target : Tensor of shape (n_samples,)
        Class labels in {0, 1}.
    tau : float
        Share of the samples, in (0, 1].
    surrogate : {"quadratic", "hinge", "logistic"}, default="quadratic"
        The function l: max(0, 1 + z)^2, max(0, 1 + z) or log2(1 + exp z).
    groups : Tensor of int of shape (n_samples,), default=None
        Group of each sample, such as a day or a query. Each group has its own threshold, and
        "mean" averages the means of the groups with positives. None means one group.
    sample_weight : Tensor of shape (n_samples,), default=None
        Nonnegative weights, for the mean and the threshold (see :class:`KthLargest`).
    reduction : {"none", "sum", "mean"}, default="mean"
        "none" returns 0 for negatives; "mean" is over the positives.

    Returns
    -------
    loss : Tensor of shape () or (n_samples,)
        Nonnegative. Zero, with zero gradient, if the batch lacks a class that the loss needs.

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type, shape or range.

    References
    ----------
    .. [1] Adam, Macha and Smidl (2020). DeepTopPush: simple and scalable method for accuracy
       at the top. Equation 5, Table 1.

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

    Prec@Rec, eq. 4 and 5 of [1]_. Few false positives at recall r mean a high precision there.
    The gradient also flows through t into the sample at that rank. Ties rank in input order.

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
        Group of each sample, such as a day or a query. Each group has its own threshold, and
        "mean" averages the means of the groups with negatives. None means one group.
    sample_weight : Tensor of shape (n_samples,), default=None
        Nonnegative weights, for the mean and the threshold (see :class:`KthLargest`).
    reduction : {"none", "sum", "mean"}, default="mean"
        "none" returns 0 for positives; "mean" is over the negatives.

    Returns
    -------
    loss : Tensor of shape () or (n_samples,)
        Nonnegative. Zero, with zero gradient, if the batch lacks a class that the loss needs.

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type, shape or range.

    References
    ----------
    .. [1] Adam, Macha and Smidl (2020). DeepTopPush: simple and scalable method for accuracy
       at the top. Equations 4 and 5.

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
