"""Recall at a given precision, and precision among the k highest scores."""

import torch
from torch import Tensor

from sktopk.losses._docs import documented_like
from sktopk.losses._loss import LossModule, check_count, check_fraction, check_nonnegative

from ._batch import batch_loss, hinge_multipliers, hinge_rows, sort_kinks, split_classes
from ._matrices import or_one, sparse_matrix
from ._operating_points import fbeta_loss


@documented_like(fbeta_loss)
def recall_at_precision_loss(
    scores: Tensor,
    target: Tensor,
    *,
    precision: float,
    margin: float = 1.0,
    penalty: float = 2.0,
    solver: str = "closed_form",
    groups: Tensor | None = None,
    sample_weight: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    r"""Compute the mean hinge loss of positives, plus a penalty if the precision is too low.

    .. math::
        L = \min_\tau \; \frac{P}{n_+} + \frac{M}{n_-} \max(0, V), \qquad
        V = p N - (1 - p) (n_+ - P),

        P = \sum_{i : y_i = 1} \max\Bigl(0, 1 - \frac{s_i - \tau}{m}\Bigr), \qquad
        N = \sum_{j : y_j = 0} \max\Bigl(0, 1 + \frac{s_j - \tau}{m}\Bigr)

    where :math:`\tau` is the threshold, p is `precision`, m is `margin` and M is `penalty`. If
    :math:`V \le 0`, the precision at this threshold is at least p, and the recall is at least
    :math:`1 - P / n_+`. Often no threshold satisfies :math:`V \le 0`, so a positive V is allowed,
    with a penalty. The loss is the optimum of a linear program [1]_, computed in O(n log n).

    Parameters
    ----------
    precision : float
        Required precision p, in (0, 1].
    penalty : float, default=2.0
        Penalty M, positive. With a larger M, a precision below p costs more.

    Examples
    --------
    >>> scores, target = torch.tensor([3.0, 2.0, 0.5, 0.0]), torch.tensor([1, 1, 0, 0])
    >>> recall_at_precision_loss(scores, target, precision=1.0)
    tensor(0.2500)
    """
    batch = split_classes(scores, target, margin, sample_weight, groups)
    parameters = {"precision": check_fraction(precision, "precision")}
    parameters["penalty"] = check_nonnegative(penalty, "penalty", positive=True)
    return batch_loss(batch, _elastic, elastic_program, solver, reduction, **parameters)


def _elastic(batch, precision, penalty):
    batch = batch.balanced
    kinks = sort_kinks(batch)
    tau, P, N = kinks.value, kinks.positive_hinges(), kinks.negative_hinges()
    n_positive, n_negative = (or_one(batch.groups.sum(w)) for w in (batch.positive, batch.negative))
    groups, in_all = kinks.groups, kinks.groups.of_rows(n_positive)
    violation = precision * N + (1 - precision) * (P - in_all)
    price = penalty / n_negative
    error, at_kink = groups.least(P / in_all + groups.of_rows(price) * violation.relu())
    # The minimum may also be between two kinks, at the tau where V falls to 0. At this tau, the
    # multiplier of V is the number for which P / n_+ + multiplier * V has the slope 0.
    start = groups.previous(violation)
    way = start / (start - violation)
    root = torch.lerp(groups.previous(P), P, way) / in_all
    root, end = groups.least(root.masked_fill((start <= 0) | (violation > 0), torch.inf))
    begin = groups.before(end)
    below, above = kinks.positive_below.gather(0, begin), kinks.negative_above.gather(0, begin)
    in_gap = below / n_positive / (precision * above - (1 - precision) * below)

    in_a_gap = root <= error
    root_tau = torch.lerp(tau.gather(0, begin), tau.gather(0, end), way.gather(0, end))
    tau = torch.where(in_a_gap, root_tau, tau.gather(0, at_kink))
    multiplier = torch.where(violation.gather(0, at_kink) > 0, price, 0.0)
    multiplier = torch.where(in_a_gap, in_gap, multiplier)
    costs = 1 / n_positive + (1 - precision) * multiplier, precision * multiplier
    return torch.minimum(root, error), hinge_multipliers(batch, tau, *costs)


def elastic_program(batch, precision, penalty):
    # The variables are tau, the hinges and max(0, V).
    entries, right, i = hinge_rows(batch)
    n, zero = len(i), right.new_zeros(1)
    n_positive, n_negative = batch.positive.sum(), batch.negative.sum()
    counted = precision * batch.negative + (1 - precision) * batch.positive
    entries += [(2 * n, 1 + i, counted), (2 * n, n + 1, -1.0), (2 * n + 1, n + 1, -1.0)]
    return {
        "c": torch.cat([zero, batch.positive / n_positive, (penalty / n_negative).reshape(1)]),
        "A_ub": sparse_matrix(entries, (2 * n + 2, n + 2), right),
        "b_ub": torch.cat([right, ((1 - precision) * n_positive).reshape(1), zero]),
    }


@documented_like(fbeta_loss)
def precision_at_k_loss(
    scores: Tensor,
    target: Tensor,
    *,
    k: int,
    margin: float = 1.0,
    solver: str = "closed_form",
    groups: Tensor | None = None,
    sample_weight: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    r"""Compute the structured hinge loss for the precision among the k largest scores.

    .. math::
        L = \max_{|T| = k} \Bigl[\frac{|\{j \in T : y_j = 0\}|}{k}
            + \frac{1}{k m} \sum_{i \in T} s_i\Bigr]
            - \frac{1}{k m} \max_{T^*} \sum_{i \in T^*} s_i

    where m is `margin`. The first maximum is over all sets T of k samples. It comes from the
    structured hinge [1]_. The second maximum, from the ramp loss [2]_, is over the sets :math:`T^*`
    of k samples that contain as many positives as possible. L is at least 1 minus the precision at
    k. If there are more than k positives, L ignores all positives except the k with the highest
    scores, and is not convex.

    If both classes have at least k samples, the loss L compares the k best positives with the k
    best negatives, the k-th best positive with the best negative, and so on: L is the mean of
    :math:`\max(0, 1 - (s^+_{[k+1-i]} - s^-_{[i]}) / m)` over i = 1, ..., k. Here,
    :math:`s^+_{[i]}` and :math:`s^-_{[i]}` are the i-th largest scores of positives and negatives.

    Parameters
    ----------
    k : int
        Number of top samples, at least 1. With `groups`, each group has k top samples. With
        `sample_weight`, k is the total weight of the top samples. If the number or weight of the
        samples in a group is below k, all samples of the group are top samples. Without `groups`
        and `sample_weight`, k must be at most n_samples.

    Returns
    -------
    loss : Tensor of shape ()
        Nonnegative. Zero, with gradient 0, if a class is missing. Tied scores rank in sample order.

    References
    ----------
    .. [1] T. Joachims. A support vector method for multivariate performance measures. ICML 2005.
    .. [2] P. Kar et al. Surrogate functions for maximizing precision at the top. ICML 2015.

    Examples
    --------
    >>> scores, target = torch.tensor([3.0, 2.5, 2.0, 0.0]), torch.tensor([1, 0, 1, 0])
    >>> precision_at_k_loss(scores, target, k=2)
    tensor(0.7500)
    """
    batch = split_classes(scores, target, margin, sample_weight, groups)
    check_count(k, "k")
    if groups is None and sample_weight is None and k > len(batch.scores):
        raise ValueError(f"k={k} must be at most the number of samples ({len(batch.scores)})")
    return batch_loss(batch, _top_sums, precision_at_k_program, solver, reduction, k=int(k))


def _counts(batch, k):
    """Return three weights: of the best possible top k, of its positives and of its negatives."""
    n_positive, n_negative = map(batch.groups.sum, (batch.positive, batch.negative))
    k = (n_positive + n_negative).clamp(max=k)
    from_positive = torch.minimum(k, n_positive)
    return k, from_positive, k - from_positive


def _top_sums(batch, k):
    scores, positive, negative, sign = batch[:4]
    groups = batch.groups
    k, *right = _counts(batch, k)
    wrong = (sign < 0).to(scores.dtype)
    exact = scores.double()  # the loss is a small difference of sums that may be large
    (chosen,) = _tops(groups, exact + wrong, [(positive + negative, k)])
    gradient = chosen - sum(_tops(groups, exact, zip((positive, negative), right, strict=True)))
    value = groups.sum(chosen * wrong + gradient * exact)
    scale = torch.where(groups.defined(positive, negative), 1 / or_one(k), 0.0)
    return (scale * value).clamp(min=0), groups.of_rows(scale) * gradient


def _tops(groups, key, taken):
    # For each pair (weight, amount), keep the weights of the best samples, `amount` in total.
    _, order, ordered = groups.sort(-key)
    found = []
    for weight, amount in taken:
        own = weight[order]
        before = ordered.within(own) - own
        part = torch.minimum((ordered.of_rows(amount) - before).relu(), own)
        found.append(torch.zeros_like(part).scatter(0, order, part))
    return found


def precision_at_k_program(batch, k):
    # The variables are [lambda, z, u]. By duality, k times the first maximum in the loss is the
    # minimum of k lambda + w'z, subject to z >= 0 and lambda + z_i >= s_i + [y_i = 0]. Here, w are
    # sample weights, and u the weights in T*.
    scores, positive, negative, sign = batch[:4]
    n = len(scores)
    i = torch.arange(n, device=scores.device)
    k, *right = _counts(batch, k)
    weight, none = positive + negative, scores.new_zeros(n)
    entries = [(i, 0, -1.0), (i, 1 + i, -1.0), (n + i, 1 + i, -1.0)]
    entries += [(2 * n + i, 1 + n + i, 1.0), (3 * n + i, 1 + n + i, -1.0)]
    of_class = [(0, 1 + n + i, (sign > 0)), (1, 1 + n + i, (sign < 0))]
    return {
        "c": torch.cat([k.reshape(1), weight, -scores]) / k,
        "A_ub": sparse_matrix(entries, (4 * n, 2 * n + 1), scores),
        "b_ub": torch.cat([-(scores + (sign < 0)), none, weight, none]),
        "A_eq": sparse_matrix(of_class, (2, 2 * n + 1), scores),
        "b_eq": torch.stack(right),
    }


class RecallAtPrecisionLoss(LossModule, of=recall_at_precision_loss): ...


class PrecisionAtKLoss(LossModule, of=precision_at_k_loss): ...
