"""Thresholds of scores: an order statistic, a mean of scores, or the root of an equation.

A threshold is a function of scores of shape (..., n_samples), the mask of the positives, and
weights or None. The result has shape (...), with -inf where there are no samples. If a fourth
argument gives group numbers, scores have shape (n_samples,), and the result has shape (n_groups,).
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from ._accuracy_at_top import SLOPES, SURROGATES
from ._docs import documented_like
from ._groups import EachRow, check_groups
from ._loss import check_count, check_fraction, check_name

GROUPS = ("negatives", "positives", "all")
# Largest tolerance for rounding errors of cumulative weights, as a share of a sample's weight.
MAX_TOLERANCE = 5e-4


def in_group(positive, of):
    """Return the mask of the samples from which a threshold is computed."""
    if of == "all":
        return torch.ones_like(positive, dtype=torch.bool)
    return positive == (of == "positives")


def within_group(weight, positive, of):
    return weight if of == "all" else weight.masked_fill(positive != (of == "positives"), 0.0)


def rank_tolerance(rank):
    """Return the tolerance for rounding errors when a cumulative weight is compared with `rank`."""
    return (rank * 1e-7).clip(max=MAX_TOLERANCE)


@dataclass(frozen=True)
class Largest:
    """Threshold at the largest score. If scores tie, only the first of these has a gradient."""

    of: str = "negatives"  # "negatives", "positives" or "all" samples

    def __call__(self, scores, positive, weight=None, groups=None):
        group = in_group(positive, self.of)
        group = group if weight is None else group & (weight != 0)
        scores = scores.masked_fill(~group, -math.inf)
        if groups is not None:
            groups, known = check_groups(groups, scores), scores.detach()
            t = groups.largest(known)
            row = groups.first(known == groups.of_rows(t))
            return torch.where(t > -math.inf, scores[row], t)
        if not scores.shape[-1]:
            return scores.new_full(scores.shape[:-1], -torch.inf)
        return scores.max(dim=-1).values


class _OfGroup:
    """Base class of thresholds with weights in float64: sums in float32 would lose digits."""

    def __call__(
        self,
        scores: Tensor,
        positive: Tensor,
        weight: Tensor | None = None,
        groups: Tensor | None = None,
    ) -> Tensor:
        weight = torch.ones_like(positive) if weight is None else weight
        weight = within_group(weight.double(), positive, self.of)
        if groups is not None:
            t = self._in_groups(scores, weight, check_groups(groups, scores))
        elif not scores.shape[-1]:
            t = scores.new_full(scores.shape[:-1], -torch.inf)
        else:
            t = self._in_groups(scores, weight, EachRow()).squeeze(-1)
        return t.to(scores.dtype)


@dataclass(frozen=True)
class _Ranked(_OfGroup):
    """Base class of thresholds that depend only on the j largest of the selected scores."""

    of: str
    k: int | None = None
    tau: float | None = None

    def __post_init__(self):
        check_name(self.of, "of", GROUPS)
        if (self.k is None) == (self.tau is None):
            raise ValueError(f"pass either k or tau; got k={self.k!r} and tau={self.tau!r}")
        if self.k is None:
            check_fraction(self.tau, "tau")
        else:
            check_count(self.k, "k")

    def _in_groups(self, scores, weight, groups):
        key = (-scores.detach().double()).nan_to_num_(-math.inf, math.inf, -math.inf)
        # NaN sorts last. It stands for samples of weight 0; scores of NaN count as the largest.
        _, order, groups = groups.sort(key.masked_fill(weight == 0, math.nan))
        own = weight.gather(-1, order)
        reached = groups.within(own)
        total = groups.largest(reached).clamp(min=0.0)
        t = self._of_sorted(scores.gather(-1, order), own, reached, total, groups)
        return t.masked_fill(total == 0, -math.inf)

    def rank(self, total: Tensor) -> Tensor:
        if self.tau is None:
            return total.clip(max=min(self.k, 2**53))
        return total * float(self.tau)


class KthLargest(_Ranked):
    r"""Threshold at the j-th largest score of the negatives, the positives or all samples.

    .. math::
        t = s_{[j]}, \qquad j = k \;\text{ or, with tau, }\; \max(1, \lceil n \tau \rceil)

    where n is the number of selected samples (see `of`) [1]_. If n < j, t is the smallest score.
    Only the j-th largest score has a gradient. Tied scores rank in the order of samples. Without
    samples, t is -inf. Call the object: ``threshold(scores, positive, weight=None, groups=None)``.

    With weights, n is the total weight of the samples that `of` selects, and j = n tau is not
    rounded. The threshold is the largest score t for which samples at or above t weigh at least j.

    Parameters
    ----------
    of : {"negatives", "positives", "all"}
        Samples whose scores determine the threshold.
    k : int, default=None
        The rank j of the threshold, at least 1. Pass either `k` or `tau`.
    tau : float, default=None
        The rank j as a share of the selected samples (see `of`), in (0, 1]. None if `k` is given.

    References
    ----------
    .. [1] Adam, Macha and Smidl (2020). DeepTopPush: simple and scalable method for accuracy at the
       top. Table 1.

    Examples
    --------
    >>> import torch
    >>> from sktopk.losses import KthLargest
    >>> scores, positive = torch.tensor([4.0, 3.0, 2.0, 1.0]), torch.tensor([1, 0, 0, 1]) == 1
    >>> KthLargest("negatives", k=2)(scores, positive)
    tensor(2.)
    """

    def _of_sorted(self, scores, own, reached, total, groups):
        rank = groups.of_rows(self.rank(total))
        following = torch.cat([own[..., 1:], own[..., -1:]], -1)
        most = torch.minimum(rank_tolerance(rank), MAX_TOLERANCE * following)
        place = groups.start + groups.sum((reached + most < rank).long())
        return scores.gather(-1, place.clamp(max=own.shape[-1] - 1))


@documented_like(KthLargest)
class TopMean(_Ranked):
    r"""Threshold at the mean of the j largest scores of negatives, positives or all samples.

    .. math::
        t = \frac{1}{j} \sum_{i=1}^{j} s_{[i]}

    where :math:`s_{[i]}` is the i-th largest score of the n selected samples (see `of`) [1]_. With
    `k`, j is min(k, n). With `tau`, j is n tau, rounded up. Without samples, t is -inf. The
    code of TopPushK uses this threshold. The code of tau-FPL uses j = floor(n tau) + 1.

    With weights, n is the total weight of the selected samples, and j is the total weight of the
    averaged scores. To reach exactly j, the lowest averaged score can count with only a part of its
    weight. With `tau`, n tau is rounded up to an integer. But if the mean weight is below 1, n tau
    is rounded up to a multiple of the mean weight. In both cases, j is at most n.

    Examples
    --------
    >>> scores, positive = torch.tensor([4.0, 3.0, 2.0, 1.0]), torch.tensor([1, 0, 0, 1]) == 1
    >>> TopMean("negatives", k=2)(scores, positive)
    tensor(2.5000)
    """

    def rounded(self, total, n_samples):
        if self.tau is None:
            return self.rank(total)
        # If the mean weight is below 1, round to its multiples: 1 can exceed the total weight.
        unit = (total / n_samples.clamp(min=1)).clamp(max=1)
        n_units = self.rank(total) / torch.where(total == 0, 1.0, unit)
        return torch.minimum((n_units - rank_tolerance(n_units)).ceil() * unit, total)

    def _of_sorted(self, scores, own, reached, total, groups):
        rank = groups.of_rows(self.rounded(total, groups.sum((own > 0).double())))
        share = torch.minimum(own, (rank - (reached - own)).clamp(min=0)) / rank.clamp(min=1e-300)
        return groups.sum(share * scores.masked_fill(share == 0, 0.0))


@documented_like(KthLargest)
@dataclass(frozen=True)
class SurrogateQuantile(_OfGroup):
    r"""Threshold t at which the mean of l(s - t) over the scores s is tau, for a surrogate l.

    .. math::
        \frac{1}{n} \sum_i \ell(s_i - t) = \tau

    where the sum is over the n selected samples (see `of`). Without samples, t is -inf. Pat&Mat
    uses this threshold (arXiv:2002.10923). With equal `tau`, t is at least that of
    :class:`KthLargest`. The derivative of t with respect to :math:`s_i` is
    :math:`\ell'(s_i - t) / \sum_j \ell'(s_j - t)`.

    Parameters
    ----------
    tau : float
        In (0, 1]. The threshold t is the number for which the mean of l(s - t) over the scores s
        is `tau`, where l is the surrogate. At most the share `tau` of these scores is above t.
    surrogate : {"quadratic", "hinge", "logistic"}, default="quadratic"
        The surrogate l, defined in :func:`accuracy_at_top_loss`.

    Examples
    --------
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
        check_name(self.surrogate, "surrogate", SURROGATES)

    def _in_groups(self, scores, weight, groups):
        scores, total = scores.double(), groups.sum(weight)
        share = weight / groups.of_rows(total.masked_fill(total == 0, 1.0))
        # A sample with score -inf adds 0 to the sum, but counts in n.
        share = share.masked_fill(scores == -torch.inf, 0.0)
        if self.surrogate == "hinge":
            return self._hinge_root(scores, share, groups)
        root = self._newton_root(scores.detach(), share.detach(), groups)
        root = _Root.apply(root, scores, share, self, groups)
        return root.masked_fill(groups.sum(share.detach()) == 0, -math.inf)

    def weighted(self, functions, scores, share, threshold):
        """Return `share` times the surrogate (or its slope) of `scores - threshold`."""
        return share * functions[self.surrogate](torch.where(share > 0, scores - threshold, 0.0))

    def _newton_root(self, scores, share, groups):
        total = groups.sum(share)
        none = total == 0
        total = torch.where(none, 1.0, total)
        # Start below the solution: there, by Jensen's inequality, the mean surrogate exceeds tau.
        mean = groups.sum(torch.where(share > 0, share * scores, 0.0)) / total
        root = mean - 2 / total
        while True:
            # Newton steps never pass the root: the mean surrogate is convex and decreasing in t.
            t = groups.of_rows(root)
            value = groups.sum(self.weighted(SURROGATES, scores, share, t))
            slope = groups.sum(self.weighted(SLOPES, scores, share, t))
            further = root + (value - self.tau) / torch.where(none, 1.0, slope)
            going = (further > root) & ~none
            if not going.any():
                return root
            root = torch.where(going, further, root)

    def _hinge_root(self, scores, share, groups):
        # For m = 1, ..., n, let t_m solve: the sum of 1 + s - t over the m best samples is n tau.
        # The sum of hinges is the largest of the n sums, so the result is the largest t_m.
        # Subtract the largest score first, because sums of large scores lose digits.
        absent = share == 0
        top = groups.largest(scores.detach().masked_fill(absent, -math.inf))
        above = (scores - groups.of_rows(top)).masked_fill(absent, 0.0)
        with torch.no_grad():
            _, order, ordered = groups.sort((-above).masked_fill(absent, math.nan))
            own = share.gather(-1, order)
            reached = ordered.within(own).clamp(min=0)  # a GPU's sums of tiny weights may fall
            lines = (ordered.within(own * above.gather(-1, order)) - self.tau) / reached
            best = groups.of_rows(ordered.largest(lines))
        own = share.masked_fill((above < best) | absent, 0.0)
        total, reached = groups.sum(own * above), groups.sum(own)
        # Without samples, `top` is -inf.
        return 1 + top + (total - self.tau) / reached.masked_fill(reached == 0, 1.0)


class _Root(torch.autograd.Function):
    """Autograd function: the threshold of `SurrogateQuantile`, differentiated implicitly."""

    @staticmethod
    def forward(ctx, root, scores, share, threshold, groups):
        root = root.clone()
        ctx.save_for_backward(scores, share, root)
        ctx.threshold, ctx.groups = threshold, groups
        return root

    @staticmethod
    def backward(ctx, gradient):
        # Compute the slopes in `backward`, so that autograd can differentiate the gradient again.
        scores, share, root = ctx.saved_tensors
        t = ctx.groups.of_rows(root)
        slope = ctx.threshold.weighted(SLOPES, scores, share, t)
        total = ctx.groups.sum(slope)
        factor = ctx.groups.of_rows(gradient / torch.where(total == 0, 1.0, total))
        surrogate = ctx.threshold.weighted(SURROGATES, scores, share.sign(), t)
        return None, factor * slope, factor * surrogate, None, None
