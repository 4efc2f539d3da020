"""F-measure at the best threshold, and errors at a given recall or false-positive rate."""

import torch
from torch import Tensor

from sktopk.losses._accuracy_at_top import accuracy_at_top_loss
from sktopk.losses._docs import documented_like
from sktopk.losses._loss import LossModule, check_fraction, check_nonnegative

from ._batch import batch_loss, hinge_multipliers, hinge_rows, sort_kinks, split_classes
from ._matrices import or_one, sparse_matrix


@documented_like(accuracy_at_top_loss)
def fbeta_loss(
    scores: Tensor,
    target: Tensor,
    *,
    beta: float = 1.0,
    margin: float = 1.0,
    solver: str = "closed_form",
    groups: Tensor | None = None,
    sample_weight: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    r"""Compute an upper bound of 1 minus the F-measure at the best threshold.

    .. math::
        L = \min_\tau \; 1 - \frac{(1 + \beta^2) (n_+ - P)}{(1 + \beta^2) n_+ - P + N},

        P = \sum_{i : y_i = 1} \max\Bigl(0, 1 - \frac{s_i - \tau}{m}\Bigr), \qquad
        N = \sum_{j : y_j = 0} \max\Bigl(0, 1 + \frac{s_j - \tau}{m}\Bigr)

    where m is `margin` and :math:`n_+` counts the positives. The minimum is over thresholds with
    :math:`P < n_+`. P is at least the number of false negatives. N is at least the number of false
    positives. The loss is in [0, 1). It is the optimum of a linear program [1]_, after the
    substitution of Charnes and Cooper (1962). Gradients include the threshold. Time: O(n log n).

    Parameters
    ----------
    beta : float, default=1.0
        Weight of recall relative to precision, positive.
    margin : float, default=1.0
        Margin m, positive. All scores are divided by m.
    solver : {"closed_form", "program"}, default="closed_form"
        "closed_form" is fast. "program" calls :func:`linear_program`, to check the closed form.
    groups : Tensor of int of shape (n_samples,), default=None
        Group of each sample. The loss is the mean over the groups with both classes.
    sample_weight : Tensor of shape (n_samples,), default=None
        Nonnegative weights. A sample of weight 2 counts like two identical samples.
    reduction : {"sum", "mean"}, default="mean"
        "mean" returns the loss of the batch, "sum" this loss times the sum of the weights.

    Returns
    -------
    loss : Tensor of shape ()
        Nonnegative. Zero, with zero gradient, if the batch lacks a class. Samples of the same class
        with tied scores share their gradient in proportion to their weights.

    References
    ----------
    .. [1] Meng et al. (2021). Differentiable optimization of generalized nondecomposable functions
       using linear programs. NeurIPS. Section 3.

    Examples
    --------
    The best threshold is 0.5. Negatives should score at most 0.5 - margin = -0.5, but one scores 0:

    >>> scores, target = torch.tensor([3.0, 1.5, 0.0, -1.0]), torch.tensor([1, 1, 0, 0])
    >>> fbeta_loss(scores, target)
    tensor(0.1111)
    """
    beta = check_nonnegative(beta, "beta", positive=True)
    batch = split_classes(scores, target, margin, sample_weight, groups)
    return batch_loss(batch, _closed_form, fbeta_program, solver, reduction, bound=1.0, beta=beta)


def beta_shares(beta):
    """Return the weights of recall and precision: beta^2 and 1, divided by their sum."""
    return beta**2 / (1 + beta**2), 1 / (1 + beta**2)


def _closed_form(batch, beta):
    # The formulas below divide the numerator and the denominator of the loss by 1 + beta^2.
    recall, precision = beta_shares(beta)
    batch = batch.balanced
    kinks = sort_kinks(batch)
    total = kinks.groups.of_rows(or_one(batch.groups.sum(batch.positive)))
    P, N = kinks.positive_hinges(), kinks.negative_hinges()
    denominator = total + precision * (N - P)
    # Exclude thresholds with P >= n_+, where the denominator may be negative.
    error = ((recall * P + precision * N) / denominator).masked_fill(P >= total, torch.inf)
    # Search the kinks only: between kinks, the error is a monotone function of tau.
    error, best = kinks.groups.least(error)
    denominator = denominator.gather(0, best)
    costs = (recall + precision * error) / denominator, precision * (1 - error) / denominator
    return error, hinge_multipliers(batch, kinks.value.gather(0, best), *costs)


def fbeta_program(batch, beta):
    """Return the linear program of `fbeta_loss`, as arguments of `linear_program`."""
    # The variables are [t tau, t z, t]: z are the hinges, and 1 / t is the denominator of the loss.
    recall, precision = beta_shares(beta)
    # Dividing all weights by n_+ keeps the numbers near 1.
    positive, negative = (w / batch.positive.sum() for w in (batch.positive, batch.negative))
    entries, right, i = hinge_rows(batch)
    n, t, zero = len(i), len(i) + 1, right.new_zeros(1)
    # After multiplication by t, the right-hand side becomes the coefficient of the variable t.
    entries += [(i, t, -right[:n]), (2 * n, t, -1.0)]
    denominator = [(0, 1 + i, precision * (negative - positive)), (0, t, 1.0)]
    return {
        "c": torch.cat([zero, recall * positive + precision * negative, zero]),
        "A_ub": sparse_matrix(entries, (2 * n + 1, n + 2), right),
        "b_ub": right.new_zeros(2 * n + 1),
        "A_eq": sparse_matrix(denominator, (1, n + 2), right),
        "b_eq": right.new_ones(1),
    }


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
    r"""Compute the mean hinge loss of negatives at a threshold that guarantees a recall.

    .. math::
        L = \min_\tau \; \frac{1}{n_-} \sum_{j : y_j = 0}
            \max\Bigl(0, 1 + \frac{s_j - \tau}{m}\Bigr)
        \quad \text{subject to} \quad
        \frac{1}{n_+} \sum_{i : y_i = 1} \max\Bigl(0, 1 - \frac{s_i - \tau}{m}\Bigr) \le 1 - r

    where m is `margin` and r is `recall`. Hinges are upper bounds of errors. Therefore, at the
    minimizing :math:`\tau`, the recall is at least r, and the false-positive rate is at most L. The
    loss L is the optimum of a linear program [1]_. By default, sorting computes L in O(n log n).

    Parameters
    ----------
    recall : float
        Required recall r, in (0, 1].

    Examples
    --------
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
    r"""Compute the mean hinge loss of positives at a threshold that limits the false-positive rate.

    .. math::
        L = \min_\tau \; \frac{1}{n_+} \sum_{i : y_i = 1}
            \max\Bigl(0, 1 - \frac{s_i - \tau}{m}\Bigr)
        \quad \text{subject to} \quad
        \frac{1}{n_-} \sum_{j : y_j = 0} \max\Bigl(0, 1 + \frac{s_j - \tau}{m}\Bigr) \le \varphi

    where m is `margin` and :math:`\varphi` is `fpr`. Hinges are upper bounds of errors. Therefore,
    at the minimizing :math:`\tau`, the false-positive rate is at most :math:`\varphi`, and the
    recall is at least 1 - L. The loss L is Pat&Mat-NP [1]_ with the hinge as surrogate and the
    threshold :class:`SurrogateQuantile`. Sorting finds the minimum in O(n log n).

    Parameters
    ----------
    fpr : float
        Largest allowed false-positive rate :math:`\varphi`, in (0, 1].

    References
    ----------
    .. [1] Adam, Macha and Smidl (2020). DeepTopPush: simple and scalable method for accuracy at the
       top. Equation 11.

    Examples
    --------
    >>> scores, target = torch.tensor([3.0, 2.0, 1.5, 0.0]), torch.tensor([1, 1, 0, 0])
    >>> recall_at_fpr_loss(scores, target, fpr=0.5)
    tensor(0.2500)
    """
    batch = split_classes(scores, target, margin, sample_weight, groups).mirrored
    budget = check_fraction(fpr, "fpr")
    return batch_loss(batch, _at_budget, budget_program, solver, reduction, budget=budget)


def _at_budget(batch, budget):
    """Return the loss and its gradient. The threshold sets the mean positive hinge to `budget`."""
    batch = batch.balanced
    groups, kinks = batch.groups, sort_kinks(batch)
    spent, allowed = kinks.positive_hinges(), budget * groups.sum(batch.positive)
    last = kinks.groups.last(spent <= kinks.groups.of_rows(allowed))
    last_kink, slope = kinks.value.gather(0, last), or_one(kinks.positive_below.gather(0, last))
    tau = groups.of_rows(last_kink + (allowed - spent.gather(0, last)) / slope)
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


class FBetaLoss(LossModule, of=fbeta_loss): ...


class PrecisionAtRecallProgramLoss(LossModule, of=precision_at_recall_program_loss): ...


class RecallAtFPRLoss(LossModule, of=recall_at_fpr_loss): ...
