"""Thresholds t(s, y): one of the scores, a mean of them, or the root of an equation in them.

A threshold is called as ``threshold(scores, positive, weight)`` with scores of shape
(n_samples,), the mask of the positives, and weights or None. It returns a scalar with its
gradient, -inf over no samples. With a fourth argument, the integer group of each sample, it
returns a threshold for each group, of shape (n_groups,).

A threshold that sorting finds also has a method `locate`, which returns it together with its
gradient, so that training on minibatches needs no graph. It computes with the arrays of NumPy or
torch, the library `xp`. Scores of shape (n_members, n_samples) have one threshold per member.
`locate_each` does the same for all groups at once, with tensors.
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
# In float32, sums of weights that should be whole numbers are a little off. The error over many
# samples may reach a whole sample, so no more than this part of one is forgiven.
PART = 5e-4


def in_group(positive, of):
    """Return the mask of the samples that a threshold is computed from."""
    positive = positive.bool()  # ~ of labels 0 and 1 would be -1 and -2
    if of == "all":
        return torch.ones_like(positive)
    return positive if of == "positives" else ~positive


def group_weight(group, weight):
    """Weights in float64, 0 outside the group."""
    return group.double() if weight is None else torch.where(group, weight.double(), 0.0)


def forgiven(rank):
    """Return how far below a rank a weight may be to reach it."""
    return (rank * 1e-7).clip(max=PART)


def falling(xp, scores, weight, outside=math.inf):
    """Return the negated scores, `outside` for samples of weight 0."""
    return fill(xp, -scores, weight == 0, outside)


def linear_in_scores(located, scores):
    """Return the thresholds that `locate_each` found, connected to their gradient."""
    t, index, share, codes = located
    part = torch.where(share != 0, share * scores[index], 0.0)
    return torch.where(t == -math.inf, t, sum_in(codes, len(t), part))


@dataclass(frozen=True)
class Largest:
    """The largest score of a group; the first of tied ones carries the gradient."""

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
        """Return the threshold of each group, and its gradient.

        `key` has the scores with their sign changed, infinite for samples that do not count,
        `weight` their weights in float64 and `codes` the number of their group, each of shape
        (n_samples,). The result is (t, index, share, codes): thresholds t of shape (n_groups,),
        -inf for a group without samples that count, and for each sample `index` the derivative
        `share` of the threshold of its group.
        """
        t = largest_in(codes, n_groups, -key)
        row = first_in(codes, n_groups, -key == t[codes])
        groups = torch.arange(n_groups, device=key.device)
        return t, row.clamp(max=len(key) - 1), (t > -math.inf).to(key.dtype), groups


@dataclass(frozen=True)
class _Ranked:
    """Threshold among the largest scores of a group, up to a rank; see KthLargest."""

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
        """Return the weight j of the samples at or above the threshold."""
        if self.tau is None:
            return total.clip(max=min(self.k, 2**53))
        if self.tau == 1:  # all samples, however light the last ones
            return total
        share = total * float(self.tau)
        least = share - forgiven(share)
        # A whole sample is too much if the weights sum to 1.
        return xp.minimum(xp.where(least < 1, share, -(-least // 1)), total)

    def locate(self, xp: Any, key: Any, order: Any, reached: Any) -> tuple[Any, Any, Any]:
        """Return the threshold of a weighted sample, and its gradient.

        `xp` is NumPy or torch, the library of the arrays of shape (..., n_samples): `key`, the
        scores with their sign changed, `order`, the samples by rising key, and `reached`, their
        cumulative weight in this order. The result is (t, index, share): the threshold of shape
        (..., 1), and for each sample `index` its derivative `share`.
        """
        raise NotImplementedError(f"{type(self).__name__} must define locate")

    def locate_each(
        self, key: Tensor, weight: Tensor | None, codes: Tensor, n_groups: int
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return the threshold of each group, and its gradient; see Largest."""
        raise NotImplementedError(f"{type(self).__name__} must define locate_each")


class KthLargest(_Ranked):
    r"""Threshold at the j-th largest score of a group of samples.

    .. math::
        t = s_{[j]}, \qquad j = k \;\text{ or }\; \max(1, \lceil n \tau \rceil)

    for the n samples of the group (Table 1 of [1]_). The gradient flows into the sample at that
    rank; ties rank in input order. With sample weights, the j-th largest is the first score at
    which the cumulative weight reaches j, n is the sum of the weights, and
    :math:`j = n \tau` if :math:`n \tau < 1`. A group that weighs less than j has its smallest
    score as threshold; an empty group has t = -inf.

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
        # The last sample always reaches the rank, also with weights of NaN.
        n_before = (reached[..., :-1] < rank).sum(-1, keepdims=True)
        previous = (n_before - 1).clip(min=0)
        before, there = (reached[along(xp, reached, n)] for n in (previous, n_before))
        nearly = rank - before <= xp.minimum(forgiven(rank), PART * (there - before))
        n_before = xp.where(nearly, previous, n_before)
        index = order[along(xp, order, n_before)]
        # In an empty group every key is infinite.
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

    With ``of="negatives"`` it is the threshold of the published code of tau-FPL and TopPushK. The
    j samples share the gradient. Weights, j and empty groups are as for :class:`KthLargest`; the
    sample that passes j counts in part.

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
        # 0 / 0 in an empty group would be a NaN in the gradient.
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
    r"""Threshold at a quantile defined by a surrogate instead of the step.

    .. math::
        \frac{1}{n} \sum_i \ell(s_i - t) = \tau

    for the n samples of the group: the threshold of the original Pat&Mat. The root is unique and
    lies above the quantile. The gradient is
    :math:`\partial t / \partial s_i = \ell'(s_i - t) / \sum_j \ell'(s_j - t)`. An empty group has
    t = -inf.

    Parameters
    ----------
    of : {"negatives", "positives", "all"}
        Samples of the mean.
    tau : float
        In (0, 1].
    surrogate : {"quadratic", "hinge", "logistic"}, default="quadratic"
        The function l.

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
        # A score of -inf adds nothing to the mean, but its sample is one of the n.
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
        """Return the threshold of each group, and its gradient; see Largest."""
        scores = (-key).requires_grad_()
        adding = (weight > 0) & (key < math.inf)
        with torch.enable_grad():
            t = self._in_each_group(scores, weight, adding, codes, n_groups)
            (share,) = torch.autograd.grad(torch.where(t == -math.inf, 0.0, t).sum(), scores)
        return t.detach(), torch.arange(len(key), device=key.device), share, codes

    @property
    def locate(self) -> Callable | None:
        """That of :class:`KthLargest` with the hinge, whose root is a closed form; else None."""
        return self._locate_hinge if self.surrogate == "hinge" else None

    def _locate_hinge(self, xp, key, order, reached):
        """The root and its gradient; see KthLargest.

        The sum of the hinges is the maximum over m of the sums of 1 + s - t over the m largest
        scores. So its root is the maximum of the roots of these straight lines in t.
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
        # 0 / 0 in an empty group would be a NaN in the gradient.
        share = own * (weight <= weight[last]) / (weight[last] + none[last])
        t = fill(xp, roots[last], none[last], -math.inf)
        return xp.asarray(t, dtype=key.dtype), order, xp.asarray(share, dtype=key.dtype)

    def weighted(
        self, functions: dict[str, Callable], scores: Tensor, share: Tensor, threshold: Tensor
    ) -> Tensor:
        """What the surrogate, or its slope, is at each sample, times its share."""
        inside = torch.where(share > 0, scores - threshold, 0.0)
        return share * functions[self.surrogate](torch, inside)

    def root(self, scores: Tensor, share: Tensor) -> Tensor:
        """The largest number at which the mean is above tau, and so is not flat."""
        members = scores[share > 0]
        # l(z) <= tau at z = -reach, and the mean is above 1 at z = 2 / share.sum().
        reach = 1.0 - math.log2(self.tau) if self.surrogate == "logistic" else 1.0
        low, high = members.min() - 2 / share.sum(), members.max() + reach
        while low < (middle := (low + high) / 2) < high:
            above = self.weighted(SURROGATES, scores, share, middle).sum() > self.tau
            low, high = (middle, high) if above else (low, middle)
        return low

    def roots(self, scores: Tensor, share: Tensor, codes: Tensor, n_groups: int) -> Tensor:
        """The `root` of each group, where the share of a sample is one of its group."""
        if self.surrogate == "hinge":
            return self._hinge_roots(scores, share, codes, n_groups)
        total = sum_in(codes, n_groups, share)
        none = total == 0
        total = torch.where(none, 1.0, total)
        # Left of the root: the mean of a convex function is at least that of the mean score.
        mean = sum_in(codes, n_groups, torch.where(share > 0, share * scores, 0.0)) / total
        root = mean - 2 / total
        while True:
            # Newton's steps never pass the root: the mean is convex and falls.
            value = sum_in(codes, n_groups, self.weighted(SURROGATES, scores, share, root[codes]))
            slope = sum_in(codes, n_groups, self.weighted(SLOPES, scores, share, root[codes]))
            further = root + (value - self.tau) / torch.where(none, 1.0, slope)
            going = further > root
            if not going[~none].any():
                return root
            root = torch.where(going & ~none, further, root)

    def _hinge_roots(self, scores, share, codes, n_groups):
        """The largest of the roots of straight lines, see `_locate_hinge`."""
        key = torch.where(share > 0, -scores, math.inf)
        ordered = Ordered(key, share, codes, n_groups)
        # From the largest score down, as sums of distances, so that its size costs no digits.
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
    """The root of an equation in the scores, with the gradient of the implicit function."""

    @staticmethod
    def forward(ctx, root, scores, share, threshold, codes=None):
        root = root.clone()
        ctx.save_for_backward(scores, share, root)
        ctx.threshold, ctx.codes = threshold, codes
        return root

    @staticmethod
    def backward(ctx, gradient):
        # A second derivative flows through the slopes to the scores and to the root again.
        scores, share, root = ctx.saved_tensors
        if ctx.codes is None:
            slope = ctx.threshold.weighted(SLOPES, scores, share, root)
            return None, gradient * slope / slope.sum(), None, None, None
        slope = ctx.threshold.weighted(SLOPES, scores, share, root[ctx.codes])
        total = sum_in(ctx.codes, len(root), slope)
        factor = gradient / torch.where(total == 0, 1.0, total)
        return None, factor[ctx.codes] * slope, None, None, None
