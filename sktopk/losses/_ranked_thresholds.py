"""Accuracy-at-the-top losses with a threshold at the j-th largest score of some samples."""

from torch import Tensor

from ._accuracy_at_top import accuracy_at_top_loss, loss_at
from ._docs import documented_like
from ._loss import LossModule, check_fraction
from ._thresholds import KthLargest, Largest


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
    r"""Compute a surrogate of the share of positives below the highest-scoring negative.

    .. math::
        L = \frac{1}{n_+} \sum_{i : y_i = 1} \ell(t - s_i), \qquad t = \max_{j : y_j = 0} s_j

    The loss is TopPush [1]_. The threshold t is the largest score of a negative, :math:`n_+` is the
    number of positives, and :math:`\ell` is the `surrogate`.

    Examples
    --------
    >>> scores, target = torch.tensor([2.0, 1.0, 1.5]), torch.tensor([1, 1, 0])
    >>> top_push_loss(scores, target)
    tensor(1.2500)
    """
    threshold = Largest("negatives")
    return loss_at(threshold, scores, target, surrogate, groups, sample_weight, reduction)


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
    r"""Compute a surrogate of the share of positives below the k-th highest-scoring negative.

    .. math::
        L = \frac{1}{n_+} \sum_{i : y_i = 1} \ell(t - s_i), \qquad t = s^-_{[k]}

    The loss is TopPushK [1]_. The threshold t is the k-th largest score of a negative.

    Parameters
    ----------
    k : int
        Rank of the threshold t among the scores of the negatives, at least 1. With fewer than k
        negatives, t is their smallest score.

    Examples
    --------
    >>> scores, target = torch.tensor([2.0, 1.0, 1.5, 1.0]), torch.tensor([1, 1, 0, 0])
    >>> top_push_k_loss(scores, target, k=2)
    tensor(0.5000)
    """
    threshold = KthLargest("negatives", k=k)
    return loss_at(threshold, scores, target, surrogate, groups, sample_weight, reduction)


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
    r"""Compute a surrogate of the share of positives below the (1 - tau)-quantile of negatives.

    .. math::
        L = \frac{1}{n_+} \sum_{i : y_i = 1} \ell(t - s_i), \qquad
        t = s^-_{[j]}, \quad j = \max(1, \lceil n_- \tau \rceil)

    The loss is Pat&Mat-NP [1]_. The threshold t is the j-th largest score of a negative, at which
    the false-positive rate is about tau.

    Parameters
    ----------
    tau : float
        Share of the negatives at or above the threshold t, in (0, 1].

    Examples
    --------
    >>> scores, target = torch.tensor([2.0, 1.0, 1.5, 0.0]), torch.tensor([1, 1, 0, 0])
    >>> pat_mat_np_loss(scores, target, tau=0.5)
    tensor(1.2500)
    """
    threshold = KthLargest("negatives", tau=tau)
    return loss_at(threshold, scores, target, surrogate, groups, sample_weight, reduction)


@documented_like(accuracy_at_top_loss)
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
    r"""Compute a surrogate of the share of positives below the k-th largest score.

    .. math::
        L = \frac{1}{n_+} \sum_{i : y_i = 1} \ell(t - s_i), \qquad t = s_{[k]}

    The loss is Rec@K [1]_. The threshold t is the k-th largest of all scores.

    Parameters
    ----------
    k : int
        Rank of the threshold t, at least 1. With fewer than k samples, t is the smallest score.

    Examples
    --------
    >>> recall_at_k_loss(torch.tensor([2.0, 1.0, 1.5]), torch.tensor([1, 1, 0]), k=2)
    tensor(1.2500)
    """
    threshold = KthLargest("all", k=k)
    return loss_at(threshold, scores, target, surrogate, groups, sample_weight, reduction)


@documented_like(accuracy_at_top_loss)
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
    r"""Compute a surrogate of the share of positives below the (1 - tau)-quantile of all scores.

    .. math::
        L = \frac{1}{n_+} \sum_{i : y_i = 1} \ell(t - s_i), \qquad
        t = s_{[j]}, \quad j = \max(1, \lceil n \tau \rceil)

    The loss is Pat&Mat [1]_. The threshold t is the j-th largest of all n scores. About a share tau
    of the scores is at or above t.

    Parameters
    ----------
    tau : float
        Share of the samples at or above the threshold t, in (0, 1].

    Examples
    --------
    >>> pat_mat_loss(torch.tensor([2.0, 1.0, 1.5]), torch.tensor([1, 1, 0]), tau=0.5)
    tensor(1.2500)
    """
    threshold = KthLargest("all", tau=tau)
    return loss_at(threshold, scores, target, surrogate, groups, sample_weight, reduction)


@documented_like(accuracy_at_top_loss)
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
    r"""Compute a surrogate of the share of negatives above the threshold for a given recall.

    .. math::
        L = \frac{1}{n_-} \sum_{i : y_i = 0} \ell(s_i - t), \qquad
        t = s^+_{[j]}, \quad j = \max(1, \lceil n_+ r \rceil)

    The loss is Prec@Rec [1]_. The threshold t is the highest score of a positive for which the
    recall is at least r. At a fixed recall, fewer false positives mean a higher precision.

    Parameters
    ----------
    recall : float
        The recall r, in (0, 1]: the share of the positives at or above the threshold t.

    Examples
    --------
    >>> precision_at_recall_loss(torch.tensor([2.0, 1.0, 1.5]), torch.tensor([1, 1, 0]), recall=1.0)
    tensor(2.2500)
    """
    threshold = KthLargest("positives", tau=check_fraction(recall, "recall"))
    errors = "false_positives"
    return loss_at(threshold, scores, target, surrogate, groups, sample_weight, reduction, errors)


class DeepTopPushLoss(LossModule, of=top_push_loss): ...


class TopPushKLoss(LossModule, of=top_push_k_loss): ...


class PatMatNPLoss(LossModule, of=pat_mat_np_loss): ...


class RecallAtKLoss(LossModule, of=recall_at_k_loss): ...


class PatMatLoss(LossModule, of=pat_mat_loss): ...


class PrecisionAtRecallLoss(LossModule, of=precision_at_recall_loss): ...
