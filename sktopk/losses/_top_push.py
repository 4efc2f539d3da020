"""Accuracy at the top with a threshold among the negative scores."""

from torch import Tensor

from ._accuracy_at_top import accuracy_at_top_loss, loss_at
from ._docs import documented_like
from ._loss import LossModule
from ._thresholds import KthLargest, Largest


def top_push_threshold():
    return Largest("negatives")


@documented_like(accuracy_at_top_loss)
def top_push_loss(
    scores: Tensor,
    target: Tensor,
    *,
    surrogate: str = "quadratic",
    groups: Tensor | None = None,
    sample_weight: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    r"""Compute a surrogate of the share of positives below the largest score of a negative.

    .. math::
        L = \frac{1}{n_+} \sum_{i : y_i = 1} \ell(t - s_i), \qquad t = \max_{j : y_j = 0} s_j

    This is TopPush (eq. 5 and Table 1 of [1]_). The gradient includes the derivative of t by the
    first score that equals t. DeepTopPush (Algorithm 3.1) minimizes this loss on minibatches, and
    adds to each minibatch the highest-scoring negative of the previous one.
    :class:`sktopk.DeepTopPushClassifier` does this. A training loop of your own has to add it.

    Examples
    --------
    >>> scores, target = torch.tensor([2.0, 1.0, 1.5]), torch.tensor([1, 1, 0])
    >>> top_push_loss(scores, target)
    tensor(1.2500)
    """
    threshold = top_push_threshold()
    return loss_at(threshold, scores, target, surrogate, groups, sample_weight, reduction)


def top_push_k_threshold(k):
    return KthLargest("negatives", k=k)


@documented_like(accuracy_at_top_loss)
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
    r"""Compute a surrogate of the share of positives below the k-th largest score of a negative.

    .. math::
        L = \frac{1}{n_+} \sum_{i : y_i = 1} \ell(t - s_i), \qquad t = s^-_{[k]}

    This is TopPushK (eq. 5 and Table 1 of [1]_). At most k - 1 negatives are above the threshold.
    The gradient includes the derivative of t by the k-th score. The first of
    several tied samples ranks first.

    Parameters
    ----------
    k : int
        Rank of the threshold, at least 1. With fewer than k negatives, t is their smallest score.

    Examples
    --------
    >>> scores, target = torch.tensor([2.0, 1.0, 1.5, 1.0]), torch.tensor([1, 1, 0, 0])
    >>> top_push_k_loss(scores, target, k=2)
    tensor(0.5000)
    """
    threshold = top_push_k_threshold(k)
    return loss_at(threshold, scores, target, surrogate, groups, sample_weight, reduction)


def pat_mat_np_threshold(tau):
    return KthLargest("negatives", tau=tau)


@documented_like(accuracy_at_top_loss)
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
    r"""Compute a surrogate of the share of positives below the top share tau of the negatives.

    .. math::
        L = \frac{1}{n_+} \sum_{i : y_i = 1} \ell(t - s_i), \qquad
        t = s^-_{[j]}, \quad j = \max(1, \lceil n_- \tau \rceil)

    This is Pat&Mat-NP (eq. 5 and Table 1 of [1]_). The false-positive rate is about tau. The
    gradient includes the derivative of t by the j-th score. The first of
    several tied samples ranks first.

    Parameters
    ----------
    tau : float
        Share of the negatives, in (0, 1].

    Examples
    --------
    >>> scores, target = torch.tensor([2.0, 1.0, 1.5, 0.0]), torch.tensor([1, 1, 0, 0])
    >>> pat_mat_np_loss(scores, target, tau=0.5)
    tensor(1.2500)
    """
    threshold = pat_mat_np_threshold(tau)
    return loss_at(threshold, scores, target, surrogate, groups, sample_weight, reduction)


class DeepTopPushLoss(LossModule, of=top_push_loss): ...


class TopPushKLoss(LossModule, of=top_push_k_loss): ...


class PatMatNPLoss(LossModule, of=pat_mat_np_loss): ...
