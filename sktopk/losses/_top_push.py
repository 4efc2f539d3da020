"""Accuracy at the top with a threshold among the negative scores."""

from torch import Tensor

from ._accuracy_at_top import loss_at
from ._loss import LossModule
from ._thresholds import KthLargest, Largest


def top_push_threshold():
    """The largest negative score."""
    return Largest("negatives")


def top_push_loss(
    scores: Tensor,
    target: Tensor,
    *,
    surrogate: str = "quadratic",
    groups: Tensor | None = None,
    sample_weight: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    r"""Push every positive above the largest negative score.

    .. math::
        L = \frac{1}{n_+} \sum_{i : y_i = 1} \ell(t - s_i), \qquad t = \max_{j : y_j = 0} s_j

    TopPush, eq. 5 with Table 1 of [1]_. DeepTopPush (Algorithm 3.1) minimises it over minibatches,
    each with the highest-scored negative of the minibatch before it. The gradient also flows
    through t into the first sample that attains it.

    Parameters
    ----------
    scores : Tensor of shape (n_samples,)
        Raw scores; the larger, the more likely positive. Half precision is computed in float32.
    target : Tensor of shape (n_samples,)
        Class labels in {0, 1}.
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
    >>> from sktopk.losses import top_push_loss
    >>> scores, target = torch.tensor([2.0, 1.0, 1.5]), torch.tensor([1, 1, 0])
    >>> top_push_loss(scores, target)
    tensor(1.2500)
    """
    threshold = top_push_threshold()
    return loss_at(threshold, scores, target, surrogate, groups, sample_weight, reduction)


def top_push_k_threshold(k):
    """The k-th largest negative score."""
    return KthLargest("negatives", k=k)


def top_push_k_loss(
    scores: Tensor,
    target: Tensor,
    *,
    k: int,
    surrogate: str = "quadratic",
    groups: Tensor | None = None,
    sample_weight: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    r"""Push every positive above the k-th largest negative score.

    .. math::
        L = \frac{1}{n_+} \sum_{i : y_i = 1} \ell(t - s_i), \qquad t = s^-_{[k]}

    TopPushK, eq. 5 with Table 1 of [1]_. The threshold leaves k - 1 negatives above it.
    The gradient also flows through t into the sample at that rank. Ties rank in input order.

    Parameters
    ----------
    scores, target, surrogate, groups, sample_weight, reduction
        As in :func:`top_push_loss`.
    k : int
        Rank of the threshold, at least 1. With fewer negatives it is the smallest one.

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
    >>> from sktopk.losses import top_push_k_loss
    >>> scores, target = torch.tensor([2.0, 1.0, 1.5, 1.0]), torch.tensor([1, 1, 0, 0])
    >>> top_push_k_loss(scores, target, k=2)
    tensor(0.5000)
    """
    threshold = top_push_k_threshold(k)
    return loss_at(threshold, scores, target, surrogate, groups, sample_weight, reduction)


def pat_mat_np_threshold(tau):
    """The score that a share tau of the negatives reaches."""
    return KthLargest("negatives", tau=tau)


def pat_mat_np_loss(
    scores: Tensor,
    target: Tensor,
    *,
    tau: float,
    surrogate: str = "quadratic",
    groups: Tensor | None = None,
    sample_weight: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    r"""Push every positive above the top share tau of the negative scores.

    .. math::
        L = \frac{1}{n_+} \sum_{i : y_i = 1} \ell(t - s_i), \qquad
        t = s^-_{[j]}, \quad j = \max(1, \lceil n_- \tau \rceil)

    Pat&Mat-NP, eq. 5 with Table 1 of [1]_. It aims at a false-positive rate of tau.
    The gradient also flows through t into the sample at that rank. Ties rank in input order.

    Parameters
    ----------
    scores, target, surrogate, groups, sample_weight, reduction
        As in :func:`top_push_loss`.
    tau : float
        Share of the negatives, in (0, 1].

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
    >>> from sktopk.losses import pat_mat_np_loss
    >>> scores, target = torch.tensor([2.0, 1.0, 1.5, 0.0]), torch.tensor([1, 1, 0, 0])
    >>> pat_mat_np_loss(scores, target, tau=0.5)
    tensor(1.2500)
    """
    threshold = pat_mat_np_threshold(tau)
    return loss_at(threshold, scores, target, surrogate, groups, sample_weight, reduction)


class DeepTopPushLoss(LossModule, of=top_push_loss):
    """Module of :func:`top_push_loss`.

    In Algorithm 3.1 of the paper each minibatch also has the negative of largest score from the
    minibatch before it. :class:`sktopk.DeepTopPushClassifier` adds it. In a loop of your own,
    append that sample to the minibatch.

    Examples
    --------
    >>> import torch
    >>> from sktopk.losses import DeepTopPushLoss
    >>> DeepTopPushLoss()(torch.tensor([2.0, 1.0, 1.5]), torch.tensor([1, 1, 0]))
    tensor(1.2500)
    """


class TopPushKLoss(LossModule, of=top_push_k_loss):
    """>>> TopPushKLoss(k=2)(torch.tensor([2.0, 1.0, 1.5, 1.0]), torch.tensor([1, 1, 0, 0]))
    tensor(0.5000)
    """


class PatMatNPLoss(LossModule, of=pat_mat_np_loss):
    """>>> PatMatNPLoss(tau=0.5)(torch.tensor([2.0, 1.0, 1.5, 0.0]), torch.tensor([1, 1, 0, 0]))
    tensor(1.2500)
    """
