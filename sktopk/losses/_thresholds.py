"""Thresholds t(s, y): an order statistic, a mean of scores, or the root of an equation.

A threshold is called as ``threshold(scores, positive, weight)`` with scores of shape (n_samples,),
the mask of the positives, and weights or None. It returns a differentiable scalar, which is -inf
without samples. With group numbers as fourth argument, it returns a tensor of shape (n_groups,).

If a threshold is found by sorting, its method `locate` returns the threshold and the gradient.
Training on minibatches then needs no graph. `locate` takes arrays of `xp`, NumPy or torch. Scores
of shape (n_members, n_samples) give one threshold per member. `locate_each` returns thresholds and
gradients for all groups at once.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ._accuracy_at_top import SLOPES, SURROGATES, along, fill, get_surrogate
from ._groups import Ordered, check_groups, first_in, largest_in, sum_in
from ._loss import check_count, check_fraction, check_name

GROUPS = ("negatives", "positives", "all")
# Largest tolerance for float32 rounding errors in sums of weights, as a part of a sample. Over many
# samples, the errors may reach 1.
PART = 5e-4


def in_group(positive, of):
    """Return the mask of the samples from which a threshold is computed."""
    positive = positive.bool()  # ~ of the integers 0 and 1 would be -1 and -2
    if of == "all":
        return torch.ones_like(positive)
    return positive if of == "positives" else ~positive


def group_weight(group, weight):
    """Return float64 weights that are 0 for samples outside the group."""
    return group.double() if weight is None else torch.where(group, weight.double(), 0.0)


def forgiven(rank):
    """Return the tolerance for a rank. A cumulative weight this close to the rank reaches it."""
    return (rank * 1e-7).clip(max=PART)


def falling(xp, scores, weight, outside=math.inf):
    """Return a sort key: the negated scores, and `outside` for samples of weight 0."""
    return fill(xp, -scores, weight == 0, outside)


def linear_in_scores(located, scores):
    """Return the thresholds of `locate_each` as differentiable functions of the scores."""
    t, index, share, codes = located
    part = torch.where(share != 0, share * scores[index], 0.0)
    return torch.where(t == -math.inf, t, sum_in(codes, len(t), part))


@dataclass(frozen=True)
class Largest:
    """The largest score of a group. Of tied scores, only the first has a gradient."""

    of: str = "negatives"

    def __call__(
        self,
        scores: Tensor,
        positive: Tensor,
        weight: Tensor | None = None,
        groups: Tensor | None = None,
    ) -> Tensor:
        group = in_group(positive, self.of)
        group = group if weight is None else group & (weight != 0)
        if groups is not None:
            codes, n_groups = check_groups(groups, scores)
            key = falling(torch, scores.detach(), group)
            return linear_in_scores(self.locate_each(key, None, codes, n_groups), scores)
        if not len(scores):
            return scores.new_tensor(-torch.inf)
        return -falling(torch, scores, group).min(dim=0).values

    def locate(self, xp: Any, key: Any, order: Any = None) -> tuple[Any, Any, float]:
        """Return the threshold and its gradient; see KthLargest."""
        if order is None:
            return -xp.amin(key, -1, keepdims=True), key.argmin(-1, keepdims=True), 1.0
        index = order[..., :1]
        return -key[along(xp, key, index)], index, 1.0

    def locate_each(
        self, key: Tensor, weight: Tensor | None, codes: Tensor, n_groups: int
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return the threshold of each group and its gradient.

        The arguments have shape (n_samples,). `key` holds the negated scores, infinite for samples
        that do not count. `weight` is in float64, and `codes` holds group numbers. The result is
        (t, index, share, codes). The thresholds t have shape (n_groups,) and are -inf for empty
        groups. Entries of `share` are derivatives of t[codes] by the scores of the samples `index`.
        """
        t = largest_in(codes, n_groups, -key)
        row = first_in(codes, n_groups, -key == t[codes])
        groups = torch.arange(n_groups, device=key.device)
        return t, row.clamp(max=len(key) - 1), (t > -math.inf).to(key.dtype), groups


@dataclass(frozen=True)
class _Ranked:
    """Base class of thresholds that depend only on scores down to a rank; see KthLargest."""

    of: str
    k: int | None = None
    tau: float | None = None

    def __post_init__(self):
        check_name(self.of, "of", GROUPS)
        if (self.k is None) == (self.tau is None):
            raise ValueError(f"pass one of k and tau; got k={self.k!r} and tau={self.tau!r}")
        if self.k is None:
            check_fraction(self.tau, "tau")
        else:
            check_count(self.k, "k")

    def __call__(
        self,
        scores: Tensor,
        positive: Tensor,
        weight: Tensor | None = None,
        groups: Tensor | None = None,
    ) -> Tensor:
        if groups is not None:
            codes, n_groups = check_groups(groups, scores)
            weight = group_weight(in_group(positive, self.of), weight)
            key = falling(torch, scores.detach(), weight)
            return linear_in_scores(self.locate_each(key, weight, codes, n_groups), scores)
        if not len(scores):
            return scores.new_tensor(-torch.inf)
        weight = group_weight(in_group(positive, self.of), weight)
        key = falling(torch, scores, weight)
        order = key.argsort(stable=True)
        return self.locate(torch, key, order, weight[order].cumsum(0))[0].squeeze(0)

    def rank(self, xp: Any, total: Any) -> Any:
        """Return j, the weight of the samples at or above the threshold."""
        if self.tau is None:
            return total.clip(max=min(self.k, 2**53))
        if self.tau == 1:  # all samples, even with very small weights
            return total
        share = total * float(self.tau)
        least = share - forgiven(share)
        # Shares below 1 are not rounded up, so that weights with the sum 1 are allowed.
        return xp.minimum(xp.where(least < 1, share, -(-least // 1)), total)

    def locate(self, xp: Any, key: Any, order: Any, reached: Any) -> tuple[Any, Any, Any]:
        """Return the threshold of a weighted sample and its gradient.

        `xp` is NumPy or torch. The arrays have shape (..., n_samples): `key` holds the negated
        scores, `order` the samples by ascending key, and `reached` their cumulative weights. The
        result is (t, index, share): the threshold of shape (..., 1), and its derivatives `share` by
        the scores of the samples `index`.
        """
        raise NotImplementedError(f"{type(self).__name__} must define locate")

    def locate_each(
        self, key: Tensor, weight: Tensor | None, codes: Tensor, n_groups: int
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return the threshold of each group and its gradient; see Largest."""
        raise NotImplementedError(f"{type(self).__name__} must define locate_each")


class KthLargest(_Ranked):
    r"""Threshold at the j-th largest score of a group of samples.

    .. math::
        t = s_{[j]}, \qquad j = k \;\text{ or }\; \max(1, \lceil n \tau \rceil)

    where n is the number of samples in the group (Table 1 of [1]_). The gradient flows to the score
    at this rank. Ties are ranked in input order. With sample weights, n is the sum of the weights,
    and the j-th largest score is the first at which the cumulative weight reaches j. If
    :math:`n \tau < 1`, then :math:`j = n \tau`. If the weights sum to less than j, t is the
    smallest score. An empty group has t = -inf.

    Called as ``threshold(scores, positive, weight=None, groups=None)``.

    Parameters
    ----------
    of : {"negatives", "positives", "all"}
        Samples whose scores are ranked.
    k : int, default=None
        The rank j, at least 1.
    tau : float, default=None
        The rank j as a share of the group, in (0, 1]. Pass either `k` or `tau`.

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type or range, or not exactly one of `k` and `tau` is passed.

    References
    ----------
    .. [1] Adam, Macha and Smidl (2020). DeepTopPush: simple and scalable method for accuracy
       at the top. Table 1.

    Examples
    --------
    >>> import torch
    >>> from sktopk.losses import KthLargest
    >>> scores, positive = torch.tensor([4.0, 3.0, 2.0, 1.0]), torch.tensor([1, 0, 0, 1]) == 1
    >>> KthLargest("negatives", k=2)(scores, positive)
    tensor(2.)
    """

    def locate(self, xp: Any, key: Any, order: Any, reached: Any) -> tuple[Any, Any, Any]:
        rank = self.rank(xp, reached[..., -1:])
        # Without the last sample in the count, the position is valid even if weights are NaN.
        n_before = (reached[..., :-1] < rank).sum(-1, keepdims=True)
        previous = (n_before - 1).clip(min=0)
        before, there = (reached[along(xp, reached, n)] for n in (previous, n_before))
        nearly = rank - before <= xp.minimum(forgiven(rank), PART * (there - before))
        n_before = xp.where(nearly, previous, n_before)
        index = order[along(xp, order, n_before)]
        # In an empty group, all keys are infinite, so the threshold is -inf.
        return -key[along(xp, key, index)], index, 1.0

    def locate_each(
        self, key: Tensor, weight: Tensor | None, codes: Tensor, n_groups: int
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        ordered = Ordered(key, weight, codes, n_groups)
        rank, none = self.rank(torch, ordered.total), ordered.total == 0
        index = ordered.order[ordered.where_reached(rank, forgiven(rank), PART)]
        groups = torch.arange(n_groups, device=key.device)
        return fill(torch, -key[index], none, -math.inf), index, (~none).to(key.dtype), groups


class TopMean(_Ranked):
    r"""Threshold at the mean of the j largest scores of a group of samples.

    .. math::
        t = \frac{1}{j} \sum_{i=1}^{j} s_{[i]}

    With ``of="negatives"`` it is the threshold in the published code of tau-FPL and TopPushK. The j
    samples share the gradient. Weights, j and empty groups are treated as in :class:`KthLargest`.
    If j is reached within the weight of a sample, only the needed part of this weight counts.

    Parameters
    ----------
    of, k, tau
        As in :class:`KthLargest`.

    Raises
    ------
    TypeError, ValueError
        As in :class:`KthLargest`.

    Examples
    --------
    >>> import torch
    >>> from sktopk.losses import TopMean
    >>> scores, positive = torch.tensor([4.0, 3.0, 2.0, 1.0]), torch.tensor([1, 0, 0, 1]) == 1
    >>> TopMean("negatives", k=2)(scores, positive)
    tensor(2.5000)
    """

    def locate(self, xp: Any, key: Any, order: Any, reached: Any) -> tuple[Any, Any, Any]:
        rank = self.rank(xp, reached[..., -1:])
        share = xp.minimum(reached, rank)
        share[..., 1:] = share[..., 1:] - share[..., :-1]
        # Add 1 in an empty group, because 0 / 0 would make the gradient NaN.
        share = xp.asarray(share / (rank + (rank == 0)), dtype=key.dtype)
        ordered = key[along(xp, key, order)]
        t = -(share * fill(xp, ordered, share == 0, 0.0)).sum(-1, keepdims=True)
        return fill(xp, t, rank == 0, -math.inf), order, share

    def locate_each(
        self, key: Tensor, weight: Tensor | None, codes: Tensor, n_groups: int
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        ordered = Ordered(key, weight, codes, n_groups)
        rank, codes, reached = self.rank(torch, ordered.total), ordered.codes, ordered.within()
        most = rank[codes]
        share = torch.minimum(reached, most) - torch.minimum(reached - ordered.own, most)
        share = (share.clamp(min=0) / most.clamp(min=1e-300)).to(key.dtype)
        index = (share != 0).nonzero().squeeze(1)
        share, codes, index = share[index], codes[index], ordered.order[index]
        t = -sum_in(codes, n_groups, share * key[index])
        return fill(torch, t, rank == 0, -math.inf), index, share, codes


@dataclass(frozen=True)
class SurrogateQuantile:
    r"""Threshold at a quantile that is defined by a surrogate instead of the step function.

    .. math::
        \frac{1}{n} \sum_i \ell(s_i - t) = \tau

    where n is the number of samples in the group. This is the threshold of the original Pat&Mat.
    The root t is unique and above the quantile. The gradient is
    :math:`\partial t / \partial s_i = \ell'(s_i - t) / \sum_j \ell'(s_j - t)`. For an empty group,
    t = -inf.

    Parameters
    ----------
    of : {"negatives", "positives", "all"}
        Samples over which the mean is computed.
    tau : float
        Value of the mean at the threshold, in (0, 1].
    surrogate : {"quadratic", "hinge", "logistic"}, default="quadratic"
        The surrogate l.

    Raises
    ------
    TypeError, ValueError
        If `of` or `surrogate` is unknown, or `tau` is out of range.

    Examples
    --------
    >>> import torch
    >>> from sktopk.losses import SurrogateQuantile
    >>> scores, positive = torch.tensor([4.0, 3.0, 2.0, 1.0]), torch.tensor([1, 0, 0, 1]) == 1
    >>> SurrogateQuantile("negatives", tau=0.5, surrogate="hinge")(scores, positive)
    tensor(3.)
    """

    of: str
    tau: float
    surrogate: str = "quadratic"

    def __post_init__(self):
        check_name(self.of, "of", GROUPS)
        check_fraction(self.tau, "tau")
        get_surrogate(self.surrogate)

    def __call__(
        self,
        scores: Tensor,
        positive: Tensor,
        weight: Tensor | None = None,
        groups: Tensor | None = None,
    ) -> Tensor:
        weight = group_weight(in_group(positive, self.of), weight)
        # A sample with score -inf adds 0 to the sum, but counts in n.
        adding = (weight > 0) & (scores != -torch.inf)
        if groups is not None:
            return self._in_each_group(scores, weight, adding, *check_groups(groups, scores))
        if not adding.any():
            return scores.new_tensor(-torch.inf)
        share = torch.where(adding, weight / weight.sum(), 0.0)
        scores, dtype = scores.double(), scores.dtype
        root = self.root(scores.detach(), share)
        return _Root.apply(root, scores, share, self).to(dtype)

    def _in_each_group(self, scores, weight, adding, codes, n_groups):
        total = sum_in(codes, n_groups, weight)
        share = torch.where(adding, weight / total.clamp(min=1e-300)[codes], 0.0)
        scores, dtype = scores.double(), scores.dtype
        root = self.roots(scores.detach(), share, codes, n_groups)
        root = _Root.apply(root, scores, share, self, codes)
        none = sum_in(codes, n_groups, share.detach()) == 0
        return root.masked_fill(none, -math.inf).to(dtype)

    def locate_each(
        self, key: Tensor, weight: Tensor | None, codes: Tensor, n_groups: int
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return the threshold of each group and its gradient; see Largest."""
        scores = (-key).requires_grad_()
        adding = (weight > 0) & (key < math.inf)
        with torch.enable_grad():
            t = self._in_each_group(scores, weight, adding, codes, n_groups)
            (share,) = torch.autograd.grad(torch.where(t == -math.inf, 0.0, t).sum(), scores)
        return t.detach(), torch.arange(len(key), device=key.device), share, codes

    @property
    def locate(self) -> Callable | None:
        """Return `locate` (see :class:`KthLargest`) for the hinge, None for other surrogates."""
        return self._locate_hinge if self.surrogate == "hinge" else None

    def _locate_hinge(self, xp, key, order, reached):
        """Return the root and its gradient; see KthLargest.

        The sum of the hinges is the maximum over m of linear functions: the sum of 1 + s - t over
        the m largest scores. Its root is therefore the largest root of these functions of t.
        """
        scores = xp.asarray(-key[along(xp, key, order)], dtype=xp.float64)
        own = xp.asarray(reached, dtype=xp.float64) + 0.0
        own[..., 1:] = own[..., 1:] - own[..., :-1]
        absent = (own == 0) | (scores == -math.inf)
        own = fill(xp, own, absent, 0.0)
        weight = own.cumsum(-1)
        total = (own * fill(xp, scores, absent, 0.0)).cumsum(-1)
        none = weight == 0
        roots = 1 + (total - self.tau * reached[..., -1:]) / (weight + none)
        last = fill(xp, roots, none, -math.inf).argmax(-1, keepdims=True)
        last = along(xp, roots, last)
        # Add 1 in an empty group, because 0 / 0 would make the gradient NaN.
        share = own * (weight <= weight[last]) / (weight[last] + none[last])
        t = fill(xp, roots[last], none[last], -math.inf)
        return xp.asarray(t, dtype=key.dtype), order, xp.asarray(share, dtype=key.dtype)

    def weighted(
        self, functions: dict[str, Callable], scores: Tensor, share: Tensor, threshold: Tensor
    ) -> Tensor:
        """Return the values or slopes of the surrogate at the samples, multiplied by `share`."""
        inside = torch.where(share > 0, scores - threshold, 0.0)
        return share * functions[self.surrogate](torch, inside)

    def root(self, scores: Tensor, share: Tensor) -> Tensor:
        """Return the threshold: the largest number at which the weighted mean exceeds tau."""
        members = scores[share > 0]
        # Bracket the root for the bisection: the weighted mean is above 1 at `low`, and at most tau
        # at `high`, because l(-reach) <= tau.
        reach = 1.0 - math.log2(self.tau) if self.surrogate == "logistic" else 1.0
        low, high = members.min() - 2 / share.sum(), members.max() + reach
        while low < (middle := (low + high) / 2) < high:
            above = self.weighted(SURROGATES, scores, share, middle).sum() > self.tau
            low, high = (middle, high) if above else (low, middle)
        return low

    def roots(self, scores: Tensor, share: Tensor, codes: Tensor, n_groups: int) -> Tensor:
        """Return the `root` of each group. `share` is each sample's share of its group."""
        if self.surrogate == "hinge":
            return self._hinge_roots(scores, share, codes, n_groups)
        total = sum_in(codes, n_groups, share)
        none = total == 0
        total = torch.where(none, 1.0, total)
        # Start below the root: by Jensen, the mean of l is at least l at the mean score.
        mean = sum_in(codes, n_groups, torch.where(share > 0, share * scores, 0.0)) / total
        root = mean - 2 / total
        while True:
            # Newton's steps never pass the root, because the mean is convex and decreasing in t.
            value = sum_in(codes, n_groups, self.weighted(SURROGATES, scores, share, root[codes]))
            slope = sum_in(codes, n_groups, self.weighted(SLOPES, scores, share, root[codes]))
            further = root + (value - self.tau) / torch.where(none, 1.0, slope)
            going = further > root
            if not going[~none].any():
                return root
            root = torch.where(going & ~none, further, root)

    def _hinge_roots(self, scores, share, codes, n_groups):
        """Return the largest root of the linear functions of each group; see `_locate_hinge`."""
        key = torch.where(share > 0, -scores, math.inf)
        ordered = Ordered(key, share, codes, n_groups)
        # Sum distances from the largest score, which loses no digits if the scores are large.
        top = largest_in(codes, n_groups, -key)
        top = torch.where(ordered.total > 0, top, 0.0)
        codes, reached = ordered.codes, ordered.within()
        none = reached <= 0
        below = torch.where(ordered.own > 0, -key[ordered.order] - top[codes], 0.0)
        total = ordered.within(ordered.own * below)
        line = 1 + (total - self.tau) / torch.where(none, 1.0, reached)
        line = torch.where(none, -math.inf, line)
        return torch.where(ordered.total > 0, largest_in(codes, n_groups, line) + top, 0.0)


class _Root(torch.autograd.Function):
    """The root of `SurrogateQuantile` as a function of the scores, with implicit derivatives."""

    @staticmethod
    def forward(ctx, root, scores, share, threshold, codes=None):
        root = root.clone()
        ctx.save_for_backward(scores, share, root)
        ctx.threshold, ctx.codes = threshold, codes
        return root

    @staticmethod
    def backward(ctx, gradient):
        # Compute the slopes here, so that autograd can differentiate them for second derivatives.
        scores, share, root = ctx.saved_tensors
        if ctx.codes is None:
            slope = ctx.threshold.weighted(SLOPES, scores, share, root)
            return None, gradient * slope / slope.sum(), None, None, None
        slope = ctx.threshold.weighted(SLOPES, scores, share, root[ctx.codes])
        total = sum_in(ctx.codes, len(root), slope)
        factor = gradient / torch.where(total == 0, 1.0, total)
        return None, factor[ctx.codes] * slope, None, None, None
