"""Losses at a given recall or false-positive rate, as linear programs."""

import torch
from torch import Tensor

from sktopk.losses._docs import documented_like
from sktopk.losses._loss import LossModule, check_fraction

from ._batch import batch_loss, hinge_rows, sort_kinks, split_classes
from ._fbeta import fbeta_loss
from ._matrices import or_one, sparse_matrix


@documented_like(fbeta_loss)
def precision_at_recall_program_loss(
    scores: Tensor,
    target: Tensor,
    *,
    recall: float,
    margin: float = 1.0,
    solver: str = "closed_form",
    groups: Tensor | None = None,
    sample_weight: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    r"""Compute the mean hinge of negatives at the highest threshold with at least a given recall.

    .. math::
        L = \min_\tau \; \frac{1}{n_-} \sum_{j : y_j = 0}
            \max\Bigl(0, 1 + \frac{s_j - \tau}{m}\Bigr)
        \quad \text{subject to} \quad
        \frac{1}{n_+} \sum_{i : y_i = 1} \max\Bigl(0, 1 - \frac{s_i - \tau}{m}\Bigr) \le 1 - r

    This is one of the measures of [1]_, as a linear program that always has a solution. Hinges are
    upper bounds of errors. At the best threshold, the recall is therefore at least r, and the
    false-positive rate is at most the loss. At the best threshold, the mean hinge of the positives
    is exactly 1 - r. Sorting finds this threshold in O(n log n). Positives below it plus the margin
    share its gradient in proportion to their weights.

    Parameters
    ----------
    recall : float
        The recall r, in (0, 1].

    References
    ----------
    .. [1] Meng et al. (2021). Differentiable optimization of generalized nondecomposable
       functions using linear programs. NeurIPS. Section 3.

    Examples
    --------
    The hinges of the positives at the threshold 2 are 0 and 1, so their mean is 1/2:

    >>> scores, target = torch.tensor([3.0, 2.0, 1.5, 0.0]), torch.tensor([1, 1, 0, 0])
    >>> precision_at_recall_program_loss(scores, target, recall=0.5)
    tensor(0.2500)
    """
    batch = split_classes(scores, target, margin, sample_weight, groups)
    budget = 1 - check_fraction(recall, "recall")
    return batch_loss(batch, _at_budget, budget_program, solver, reduction, budget=budget)


@documented_like(fbeta_loss)
def recall_at_fpr_loss(
    scores: Tensor,
    target: Tensor,
    *,
    fpr: float,
    margin: float = 1.0,
    solver: str = "closed_form",
    groups: Tensor | None = None,
    sample_weight: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    r"""Compute the mean hinge of positives at the lowest threshold with at most a given FPR.

    .. math::
        L = \min_\tau \; \frac{1}{n_+} \sum_{i : y_i = 1}
            \max\Bigl(0, 1 - \frac{s_i - \tau}{m}\Bigr)
        \quad \text{subject to} \quad
        \frac{1}{n_-} \sum_{j : y_j = 0} \max\Bigl(0, 1 + \frac{s_j - \tau}{m}\Bigr) \le \varphi

    This linear program always has a solution. Hinges are upper bounds of errors. At the best
    threshold, the false-positive rate (FPR) is therefore at most :math:`\varphi`, and the recall is
    at least 1 minus the loss. The loss equals Pat&Mat-NP (eq. 11 of [1]_) with the hinge and
    :class:`SurrogateQuantile` as threshold. Sorting finds the threshold in O(n log n). Negatives
    above it minus the margin share its gradient in proportion to their weights.

    Parameters
    ----------
    fpr : float
        The false-positive rate, in (0, 1].

    References
    ----------
    .. [1] Adam, Macha and Smidl (2020). DeepTopPush: simple and scalable method for accuracy
       at the top. Equation 11.

    Examples
    --------
    The hinges of the negatives at the threshold 1.5 are 1 and 0, so their mean is 1/2:

    >>> scores, target = torch.tensor([3.0, 2.0, 1.5, 0.0]), torch.tensor([1, 1, 0, 0])
    >>> recall_at_fpr_loss(scores, target, fpr=0.5)
    tensor(0.2500)
    """
    batch = split_classes(scores, target, margin, sample_weight, groups).mirrored
    budget = check_fraction(fpr, "fpr")
    return batch_loss(batch, _at_budget, budget_program, solver, reduction, budget=budget)


def _at_budget(batch, budget):
    """Return the loss, at the tau where the positives' mean hinge is `budget`, and its gradient."""
    batch = batch.balanced
    groups, kinks = batch.groups, sort_kinks(batch)
    spent, allowed = kinks.positive_hinges(), budget * groups.sum(batch.positive)
    # Find the tau at which the hinges of the positives sum to `allowed`. The sum grows with tau.
    last = kinks.groups.last(spent <= kinks.groups.of_rows(allowed))
    last_kink, slope = kinks.value.take(last), or_one(kinks.positive_below.take(last))
    tau = groups.of_rows(last_kink + (allowed - spent.take(last)) / slope)
    hinge = (batch.kink - tau).relu()
    total = or_one(groups.sum(batch.negative))
    # The second term of the gradient is due to tau, which depends on the positives below tau + 1.
    above = batch.negative * (hinge > 0)
    below = batch.positive * (batch.kink <= groups.of_rows(last_kink))
    gradient = above - groups.of_rows(groups.sum(above) / slope) * below
    return groups.sum(batch.negative * hinge) / total, gradient / groups.of_rows(total)


def budget_program(batch, budget):
    """Return the linear program of the loss. The variables are the threshold and the hinges."""
    entries, right, i = hinge_rows(batch)
    n = len(i)
    entries.append((2 * n, 1 + i, batch.positive / batch.positive.sum()))
    return {
        "c": torch.cat([right.new_zeros(1), batch.negative / batch.negative.sum()]),
        "A_ub": sparse_matrix(entries, (2 * n + 1, n + 1), right),
        "b_ub": torch.cat([right, right.new_tensor([budget])]),
    }


class PrecisionAtRecallProgramLoss(LossModule, of=precision_at_recall_program_loss): ...


class RecallAtFPRLoss(LossModule, of=recall_at_fpr_loss): ...
