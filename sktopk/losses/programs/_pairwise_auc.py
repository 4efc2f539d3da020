"""Pairwise losses for the area under the ROC curve, binary and multi-class."""

import math

import torch
from torch import Tensor
from torch.nn import functional as F

from sktopk.losses._docs import documented_like
from sktopk.losses._groups import Groups, OneGroup
from sktopk.losses._loss import (
    LossModule,
    WithGradient,
    check_constant,
    check_hard,
    check_name,
    check_nonnegative,
)

from ._batch import check_solver, in_units, optimum, reduce_batch, split_classes
from ._matrices import or_one, sparse_matrix
from ._operating_points import fbeta_loss

_PAIRS_AT_ONCE = 1 << 16


@documented_like(fbeta_loss)
def pairwise_auc_loss(
    scores: Tensor,
    target: Tensor,
    *,
    margin: float = 1.0,
    surrogate: str = "hinge",
    multi_class: str = "ovr",
    solver: str = "closed_form",
    groups: Tensor | None = None,
    sample_weight: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    r"""Compute the mean surrogate loss over pairs of a positive and a negative sample.

    .. math::
        L = \frac{1}{n_+ n_-} \sum_{i : y_i = 1} \; \sum_{j : y_j = 0}
            \ell\Bigl(\frac{s_j - s_i}{m}\Bigr)

    where m is `margin`. L is at least 1 minus the area under the ROC curve. With the hinge, L is
    the optimum of a linear program [1]_. The time is O(n log n), or O(n^2) for "logistic".

    The loss of multi-class scores is the mean over binary problems:

    - "ovr": each class c against the rest, with the score :math:`s_c`;
    - "ovo": each ordered pair of classes (a, b), with the score :math:`s_a` [2]_;
    - "mu": each unordered pair, with the score :math:`s_a - s_b` [3]_ (a score of -inf gives NaN).

    Binary problems with an empty class are omitted. The "ovr" and "ovo" losses are at least 1 minus
    scikit-learn's macro-averaged ``roc_auc_score``. The "mu" loss is at least 1 minus AUC_mu.

    Parameters
    ----------
    scores : Tensor of shape (n_samples,) or (n_samples, n_classes)
        Raw scores of the positive class, or of all classes. Half precision is converted to float32.
    target : Tensor of shape (n_samples,)
        Class labels in {0, 1} or, for scores of all classes, integer class indices.
    surrogate : {"hinge", "quadratic", "squared_hinge", "logistic", "ramp"}, default="hinge"
        Loss l(z) of a pair, where z is (score of the negative - score of the positive) / margin.
        "hinge" is max(0, 1 + z), and both "quadratic" and "squared_hinge" are its square.
        "logistic" is log2(1 + exp z). "ramp" clips 1 + z to [0, 1]: misranked pairs get no
        gradient. ``solver="program"`` requires the hinge.
    multi_class : {"ovr", "ovo", "mu"}, default="ovr"
        Binary problems of multi-class scores. "ovr": a class against the rest. "ovo": an ordered
        pair (a, b) of classes, by the score of a. "mu": an unordered pair, by the score difference.

    Returns
    -------
    loss : Tensor of shape ()
        Nonnegative. Zero, with zero gradient, if the batch has only one class. A pair with equal
        scores has the loss l(0) = 1. In the area under the ROC curve, this pair counts 1/2.

    References
    ----------
    .. [1] Meng et al. (2021). Differentiable optimization of generalized nondecomposable functions
       using linear programs. NeurIPS. Section 3.
    .. [2] D. J. Hand, R. J. Till. A simple generalisation of the area under the ROC curve for
       multiple class classification problems. Machine Learning 45, 2001.
    .. [3] R. Kleiman, D. Page. AUC_mu: A performance metric for multi-class machine learning
       models. ICML 2019.

    Examples
    --------
    The pair of the positive 1.0 and the negative 1.5 has the hinge 1.5, and all other pairs 0:

    >>> scores, target = torch.tensor([3.0, 1.0, 1.5, 0.0]), torch.tensor([1, 1, 0, 0])
    >>> pairwise_auc_loss(scores, target)
    tensor(0.3750)
    """
    check_name(surrogate, "surrogate", _PAIR_SUMS)
    check_name(multi_class, "multi_class", ("ovr", "ovo", "mu"))
    if solver == "program" and surrogate != "hinge":
        raise ValueError(f"solver='program' needs surrogate='hinge'; got {surrogate!r}")
    check_solver(solver, groups is not None)
    if groups is not None:
        return _in_groups(scores, target, margin, surrogate, sample_weight, reduction, groups)
    if isinstance(scores, torch.Tensor) and scores.ndim == 2 and scores.shape[1] > 1:
        problems, weight = _multi_class(scores, target, margin, multi_class, sample_weight)
        scores, positive, negative, bottom = problems
    else:
        batch = split_classes(scores, target, margin, sample_weight)
        scores, positive, negative = (part.unsqueeze(0) for part in batch[:3])
        bottom = None if batch.bottom is None else batch.bottom.unsqueeze(0)
        weight = batch.positive + batch.negative
    if not scores.numel():
        loss = scores.sum()
    elif solver == "closed_form":
        # Divide by the largest weight, to avoid overflow. Gradients need the digits of float64.
        weights = [(w / or_one(w.amax(-1, keepdim=True))).double() for w in (positive, negative)]
        pairs = _PAIR_SUMS[surrogate](scores.double(), *weights, OneGroup())
        loss = (_scale(*weights) * pairs).sum().to(scores.dtype)
        loss = _with_bottom(loss, surrogate, *weights, bottom, OneGroup())
    else:
        loss = optimum(pairwise_auc_program(scores, positive, negative), scores, bottom)
    return reduce_batch(loss, weight, reduction)


def _scale(positive, negative):
    # The factor of each binary problem: the mean loss is the sum of factor * (sum over pairs).
    pairs = positive.sum(-1) * negative.sum(-1)
    defined = pairs > 0
    return defined / (or_one(pairs) * defined.sum().clamp(min=1))


def _with_bottom(loss, surrogate, positive, negative, bottom, groups):
    """Return the loss, or infinity if a positive with the score -inf is paired with a negative."""
    if bottom is None or surrogate == "ramp":  # the ramp is bounded
        return loss
    unbounded = (groups.sum(positive * bottom) * groups.sum(negative)).any()
    return torch.where(unbounded, loss.clamp(min=torch.inf), loss)


def _in_groups(scores, target, margin, surrogate, sample_weight, reduction, groups):
    """Return the mean loss of the groups that have samples of both classes."""
    if isinstance(scores, torch.Tensor) and scores.ndim == 2:
        raise ValueError(
            "groups must be None for multi-class scores, because many groups lack some classes; "
            f"got groups and scores of shape {tuple(scores.shape)}"
        )
    batch = split_classes(scores, target, margin, sample_weight, groups)
    rows, weight = batch.groups, batch.positive + batch.negative
    defined = rows.defined(batch.positive, batch.negative)
    # Scale the weights so that the weights of the pairs in each group sum to 1.
    batch = batch.balanced
    weights = [w / rows.of_rows(or_one(rows.sum(w))) for w in (batch.positive, batch.negative)]
    # Detach groups without pairs. Otherwise, rounding errors could give them a gradient.
    scores = torch.where(rows.of_rows(defined), batch.scores, batch.scores.detach())
    pairs = _PAIR_SUMS[surrogate](scores, *weights, rows)
    loss = (pairs / defined.sum().clamp(min=1)).to(batch.scores.dtype)
    loss = _with_bottom(loss, surrogate, *weights, batch.bottom, rows)
    return reduce_batch(loss, weight, reduction)


def _multi_class(scores, target, margin, multi_class, sample_weight):
    """Return (scores, positive, negative, bottom) with a row per problem, and sample weights."""
    scores, target, weight = check_hard(scores, target, sample_weight, "pairwise_auc_loss")
    margin = check_nonnegative(margin, "margin", positive=True)
    n_samples, n_classes = scores.shape
    if weight is None:
        weight = scores.new_ones(n_samples)
    # `index_add` raises an error if a target is not a class index.
    class_weight = scores.new_zeros(n_classes).index_add(0, target, weight)
    of_class = target == torch.arange(n_classes, device=target.device).unsqueeze(1)
    positive, scores = weight * of_class, scores.T
    if multi_class == "mu":
        a, b = torch.triu_indices(n_classes, n_classes, 1, device=target.device)
        # Replace -inf by NaN, because the difference of two scores of -inf is undefined.
        scores = scores.masked_fill(scores == -torch.inf, torch.nan)
        scores, _ = in_units(scores[a] - scores[b], weight, margin)
        return (scores, positive[a], positive[b], None), weight
    scores, bottom = in_units(scores, weight, margin)
    if multi_class == "ovo":
        # Merge the pairs (a, b) of each class a into one problem, where each class b has weight 1.
        negative = weight / or_one(class_weight).take(target) * ~of_class
    else:
        negative = weight * ~of_class
    return (scores, positive, negative, bottom), weight


# The functions below return sums of l(s_j - s_i) over pairs, where l is the surrogate.


def _around_gaps(kink, rise, fall, groups):
    """Sort the kinks. Return (gap, before, after, groups): `gap` are distances of adjacent kinks.

    For each gap, `before` sums `rise` over kinks on its left, `after` sums `fall` over the rest.
    """
    kink, order, groups = groups.sort(kink)
    before = groups.within(rise.gather(-1, order))
    after = groups.after(fall.gather(-1, order))
    gap = kink - groups.previous(kink)
    return gap, groups.previous(before), groups.previous(after), groups


def _hinge_pairs(scores, positive, negative, groups):
    # A hinge is the distance from s_i - 1 up to s_j: a sum of distances between adjacent kinks.
    gap, before, after, _ = _around_gaps(scores - positive.sign(), positive, negative, groups)
    return (gap * (before * after)).sum(-1)


def _quadratic_pairs(scores, positive, negative, groups):
    # A squared hinge is twice the integral of the hinge, which is linear between adjacent kinks.
    gap, before, after, groups = _around_gaps(scores - positive.sign(), positive, negative, groups)
    growth = gap * before
    hinges = groups.within(growth)
    # Multiply by `after` first: `gap * hinges` may overflow, and 0 * inf would be NaN.
    return (gap * after * (2 * hinges - growth)).sum(-1)


def _ramp_pairs(scores, positive, negative, groups):
    # For large s_i, s_i - 1 rounds to s_i. Clip distances of neighbors to 2: no ramp changes.
    scores, order, groups = groups.sort(scores)
    scores = (scores - groups.previous(scores)).clamp(max=2).cumsum(-1)
    positive, negative = positive.gather(-1, order), negative.gather(-1, order)
    # The ramp of a positive i and a negative j is the length of the interval from s_i - 1 to
    # min(s_i, s_j). As a function of s_j, the ramp has kinks at s_i - 1 and at s_i.
    rows = groups.some(positive > 0)
    kink = torch.cat([scores - positive.sign(), scores[..., rows]], -1)
    again = positive[..., rows]
    rise = torch.cat([positive, -again], -1)
    fall = torch.cat([negative, torch.zeros_like(again)], -1)
    gap, before, after, _ = _around_gaps(kink, rise, fall, groups.with_again(rows))
    return (gap * (before * after)).sum(-1)


def _logistic_pairs(scores, positive, negative, groups):
    check_constant(positive)
    with torch.no_grad():
        if isinstance(groups, Groups):
            value, gradient = _logistic_pairs_of(groups, scores.double(), positive, negative)
        else:
            pairs = map(_all_logistic_pairs, scores, positive, negative)
            value, gradient = map(torch.stack, zip(*pairs, strict=True))
    return WithGradient.apply(scores, value, gradient.to(scores.dtype))


def _logistic_pairs_of(groups, scores, positive, negative):
    """Return the sum of the logistic losses of all pairs in all groups, and its gradient."""
    high, low = positive.nonzero().squeeze(1), negative.nonzero().squeeze(1)
    # Sort the negatives by group. `first` is the first negative in the group of each positive.
    low = low[groups.codes[low].argsort(stable=True)]
    n_low = torch.bincount(groups.codes[low], minlength=groups.n_groups)
    n_pairs, first = n_low[groups.codes[high]], (n_low.cumsum(0) - n_low)[groups.codes[high]]
    block = (n_pairs.cumsum(0) - n_pairs) // _PAIRS_AT_ONCE
    lengths = torch.unique_consecutive(block, return_counts=True)[1].tolist()
    value, gradient = scores.new_zeros(()), torch.zeros_like(scores)
    for of_block in zip(*(each.split(lengths) for each in (high, first, n_pairs)), strict=True):
        rows, start, count = of_block
        i, start = rows.repeat_interleave(count), start - (count.cumsum(0) - count)
        j = low[start.repeat_interleave(count) + torch.arange(len(i), device=i.device)]
        weight, z = positive[i] * negative[j], scores[j] - scores[i]
        value -= (weight * F.logsigmoid(-z)).sum()
        slope = weight * z.sigmoid()
        gradient.index_add_(0, i, -slope).index_add_(0, j, slope)
    return value / math.log(2), gradient / math.log(2)


def _all_logistic_pairs(scores, positive, negative):
    """Return the sum of the logistic losses of all pairs of one problem, and its gradient."""
    if scores.device.type == "cpu":
        high, low = positive.nonzero().squeeze(1), negative.nonzero().squeeze(1)
    else:  # Keep pairs of weight 0, because counting other pairs would synchronize with the GPU.
        high = low = torch.arange(len(scores), device=scores.device)
    low_scores, low_weight = scores[low], negative[low]
    value, gradient = scores.new_zeros(()), torch.zeros_like(scores)
    for rows in high.split(max(1, _PAIRS_AT_ONCE // max(1, len(low)))):
        weight = positive[rows].unsqueeze(1) * low_weight
        z = (low_scores - scores[rows].unsqueeze(1)).masked_fill(weight == 0, 0.0)
        value -= (weight * F.logsigmoid(-z)).sum()
        slope = weight * z.sigmoid()
        gradient[rows] -= slope.sum(1)
        gradient[low] += slope.sum(0)
    return value / math.log(2), gradient / math.log(2)


_PAIR_SUMS = {
    "hinge": _hinge_pairs,
    "quadratic": _quadratic_pairs,
    "squared_hinge": _quadratic_pairs,
    "logistic": _logistic_pairs,
    "ramp": _ramp_pairs,
}


def pairwise_auc_program(scores, positive, negative):
    """Return the linear program with a variable z >= max(0, 1 - (s_i - s_j)) for each pair."""
    is_pair = (positive > 0).unsqueeze(2) & (negative > 0).unsqueeze(1)
    problem, i, j = is_pair.nonzero(as_tuple=True)
    lead = scores[problem, i] - scores[problem, j]
    cost = _scale(positive, negative)[problem] * positive[problem, i] * negative[problem, j]
    n = len(cost)
    pair = torch.arange(n, device=cost.device)
    return {
        "c": cost,
        "A_ub": sparse_matrix([(pair, pair, -1.0), (n + pair, pair, -1.0)], (2 * n, n), cost),
        "b_ub": torch.cat([lead - 1, torch.zeros_like(lead)]),
    }


class PairwiseAUCLoss(LossModule, of=pairwise_auc_loss): ...
