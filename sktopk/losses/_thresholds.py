"""Thresholds t(s, y): one of the scores, a mean of them, or the root of an equation in them.

A threshold is called as ``threshold(scores, positive, weight)`` with scores (n_samples,), the
mask of the positive rows and weights or None; it returns a scalar that carries its gradient.
Over an empty group it is -inf: nothing is above it.

One that sorting finds has a method `locate` in addition. It computes with the
arrays of NumPy or of torch, whose library `xp` is, and returns with the threshold what flows
back through it, so that a training on minibatches needs no graph.
"""

import math
from dataclasses import dataclass

import torch

from ._accuracy_at_top import SLOPES, SURROGATES, check_threshold, fill, get_surrogate
from ._loss import check_count, check_fraction, check_name

GROUPS = ("negatives", "positives", "all")
# Sums of weights that should be whole numbers miss them by the rounding of float32.
NEARLY = 1 - 1e-7


def in_group(positive, of):
    """Mask of the rows that a threshold is computed from."""
    positive = positive.bool()  # ~ of labels 0 and 1 would be -1 and -2
    if of == "all":
        return torch.ones_like(positive)
    return positive if of == "positives" else ~positive


def group_weight(group, weight):
    """Weights in float64, 0 outside the group."""
    return group.double() if weight is None else torch.where(group, weight.double(), 0.0)


def falling(xp, scores, weight, outside=math.inf):
    """Keys that rise where the scores fall; `outside` for rows of weight 0."""
    return fill(xp, -scores, weight == 0, outside)


@dataclass(frozen=True)
class Largest:
    """The largest score of a group; the first of tied ones carries the gradient."""

    of: str = "negatives"

    def __call__(self, scores, positive, weight=None):
        if not len(scores):
            return scores.new_tensor(-torch.inf)
        group = in_group(positive, self.of)
        group = group if weight is None else group & (weight != 0)
        return -falling(torch, scores, group).min(dim=0).values

    def locate(self, key, order=None):
        """Return the threshold, its row and how much it depends on it; see KthLargest."""
        index = key.argmin(0, keepdims=True) if order is None else order[:1]
        return -key[index], index, 1.0


@dataclass(frozen=True)
class _Ranked:
    """A group ordered from its largest score down, up to a number of rows or a share of them.

    Rows count by their weight: the j-th largest is the first at which the cumulative weight
    reaches j, where j is `k` or, of a total weight n, max(1, ceil(n tau)). A group that weighs
    less than j ends at its smallest score.
    """

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

    def __call__(self, scores, positive, weight=None):
        if not len(scores):
            return scores.new_tensor(-torch.inf)
        weight = group_weight(in_group(positive, self.of), weight)
        key = falling(torch, scores, weight)
        order = key.argsort(stable=True)
        return self.locate(torch, key, order, weight[order].cumsum(0))[0].squeeze(0)

    def rank(self, xp, total):
        """The weight j that stands above the threshold and at it."""
        if self.tau is None:
            return total.clip(max=min(self.k, 2**53))
        return xp.minimum(-(-total * (float(self.tau) * NEARLY) // 1), total)

    def locate(self, xp, key, order, reached):
        """Return the threshold of a weighted sample and its gradient.

        Parameters
        ----------
        xp : module
            The library of the arrays: NumPy or torch.
        key, order : array of shape (n_samples,)
            The scores with their sign changed, and the rows by rising key.
        reached : array of shape (n_samples,)
            What the ordered rows up to each of them count for; the others count for nothing.

        Returns
        -------
        t, index, share : array of shape (1,), array of shape (m,), scalar or array (m,)
            The threshold, the rows that it depends on, and how much it does on each.
        """
        raise NotImplementedError(f"{type(self).__name__} must define locate")


class KthLargest(_Ranked):
    r"""Threshold at the j-th largest score of a group.

    .. math::
        t = s_{[j]}, \qquad j = k \;\text{ or }\; \max(1, \lceil n \tau \rceil)

    over the n rows of the group (Table 1 of [1]_). Called as
    ``threshold(scores, positive, weight)``; the gradient flows into the row of that rank, where
    tied rows rank in their order. Rows count by their weight: j is reached where the cumulative
    weight reaches it, and n is the sum of the weights. A group that weighs less than j ends at
    its smallest score; an empty one has t = -inf.

    Parameters
    ----------
    of : {"negatives", "positives", "all"}
        The rows whose scores are ordered.
    k : int, default=None
        The rank j, at least 1.
    tau : float, default=None
        The rank as a share of the group, in (0, 1]. One of k and tau is passed.

    Raises
    ------
    ValueError
        If `of` is no group, or not exactly one of `k` and `tau` is passed, or it is out of its
        range.
    TypeError
        If it is no number.

    References
    ----------
    .. [1] L. Adam, V. Macha, V. Smidl. DeepTopPush: Simple and Scalable Method for Accuracy at
       the Top. 2020, Table 1.

    Examples
    --------
    >>> import torch
    >>> from sktopk.losses import KthLargest
    >>> scores, positive = torch.tensor([4.0, 3.0, 2.0, 1.0]), torch.tensor([1, 0, 0, 1]) == 1
    >>> KthLargest("negatives", k=2)(scores, positive)
    tensor(2.)
    """

    def locate(self, xp, key, order, reached):
        rank = self.rank(xp, reached[-1:])
        # The last row reaches the rank: it need not be asked, and weights of NaN find a row, too.
        index = order[xp.searchsorted(reached[:-1], rank * NEARLY)]
        # Of an empty group the key of any row, which is infinite.
        return -key[index], index, 1.0


class TopMean(_Ranked):
    r"""Threshold at the mean of the j largest scores of a group.

    .. math::
        t = \frac{1}{j} \sum_{i=1}^{j} s_{[i]}

    With ``of="negatives"`` the threshold of the published code of tau-FPL, and of its TopPushK;
    the gradient is shared by the j rows. Weights, j and empty groups are as for
    :class:`KthLargest`; a row that reaches past j counts for the part that is missing.

    Parameters
    ----------
    of : {"negatives", "positives", "all"}
        The rows whose scores are ordered.
    k : int, default=None
        The number j of scores, at least 1.
    tau : float, default=None
        Their share of the group, in (0, 1]. One of k and tau is passed.

    Raises
    ------
    ValueError
        If `of` is no group, or not exactly one of `k` and `tau` is passed, or it is out of its
        range.
    TypeError
        If it is no number.

    Examples
    --------
    >>> import torch
    >>> from sktopk.losses import TopMean
    >>> scores, positive = torch.tensor([4.0, 3.0, 2.0, 1.0]), torch.tensor([1, 0, 0, 1]) == 1
    >>> TopMean("negatives", k=2)(scores, positive)
    tensor(2.5000)
    """

    def locate(self, xp, key, order, reached):
        rank = self.rank(xp, reached[-1:])
        share = xp.minimum(reached, rank)
        share[1:] = share[1:] - share[:-1]
        # Of an empty group 0 / 0 would be a NaN in the gradient.
        share = xp.asarray(share / (rank + (rank == 0)), dtype=key.dtype)
        t = -(share * fill(xp, key[order], share == 0, 0.0)).sum(0, keepdims=True)
        return fill(xp, t, rank == 0, -math.inf), order, share


@dataclass(frozen=True)
class SurrogateQuantile:
    r"""Threshold of the original Pat&Mat: a quantile with a surrogate in place of the step.

    .. math::
        \frac{1}{n} \sum_i \ell(s_i - t) = \tau

    over the n rows of the group. The mean falls in t, so that the root is unique; it lies above
    the quantile that it stands for. The gradient is that of the implicit function,
    :math:`\partial t / \partial s_i = \ell'(s_i - t) / \sum_j \ell'(s_j - t)`. Over an empty
    group t = -inf.

    Parameters
    ----------
    of : {"negatives", "positives", "all"}
        The rows of the mean.
    tau : float
        In (0, 1].
    surrogate : {"quadratic", "hinge", "logistic"}, default="quadratic"
        The function l.

    Raises
    ------
    TypeError, ValueError
        If `of` is no group, `surrogate` no surrogate, or `tau` is out of its range.

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

    def __call__(self, scores, positive, weight=None):
        weight = group_weight(in_group(positive, self.of), weight)
        # A score of -inf adds nothing to the mean, but its row is one of the n.
        adding = (weight > 0) & (scores != -torch.inf)
        if not adding.any():
            return scores.new_tensor(-torch.inf)
        share = torch.where(adding, weight / weight.sum(), 0.0)
        scores, dtype = scores.double(), scores.dtype
        root = self.root(scores.detach(), share)
        return _Root.apply(root, scores, share, self).to(dtype)

    @property
    def locate(self):
        """That of :class:`KthLargest` with the hinge, whose root is a closed form; else None."""
        return self._locate_hinge if self.surrogate == "hinge" else None

    def _locate_hinge(self, xp, key, order, reached):
        """The root and its gradient; see KthLargest.

        The sum of the hinges is the largest of the sums of 1 + s - t over the first rows, however
        many: so its root is the largest of the roots of those, which are straight lines in t.
        """
        scores = xp.asarray(-key[order], dtype=xp.float64)
        own = xp.asarray(reached, dtype=xp.float64) + 0.0
        own[1:] = own[1:] - own[:-1]
        absent = (own == 0) | (scores == -math.inf)
        own = fill(xp, own, absent, 0.0)
        weight = own.cumsum(0)
        total = (own * fill(xp, scores, absent, 0.0)).cumsum(0)
        none = weight == 0
        roots = 1 + (total - self.tau * reached[-1:]) / (weight + none)
        last = fill(xp, roots, none, -math.inf).argmax(0, keepdims=True)
        # Of an empty group 0 / 0 would be a NaN in the gradient.
        share = own * (weight <= weight[last]) / (weight[last] + none[last])
        t = fill(xp, roots[last], none[last], -math.inf)
        return xp.asarray(t, dtype=key.dtype), order, xp.asarray(share, dtype=key.dtype)

    def weighted(self, functions, scores, share, threshold):
        """What the surrogate, or its slope, is at each row, times its share."""
        inside = torch.where(share > 0, scores - threshold, 0.0)
        return share * functions[self.surrogate](torch, inside)

    def root(self, scores, share):
        """The largest number at which the mean is above tau, and so is not flat."""
        members = scores[share > 0]
        # l(z) <= tau at z = -reach, and the mean is above 1 at z = 2 / share.sum().
        reach = 1.0 - math.log2(self.tau) if self.surrogate == "logistic" else 1.0
        low, high = members.min() - 2 / share.sum(), members.max() + reach
        while low < (middle := (low + high) / 2) < high:
            above = self.weighted(SURROGATES, scores, share, middle).sum() > self.tau
            low, high = (middle, high) if above else (low, middle)
        return low


class _Root(torch.autograd.Function):
    """The root of an equation in the scores, with the gradient of the implicit function."""

    @staticmethod
    def forward(ctx, root, scores, share, threshold):
        root = root.clone()
        ctx.save_for_backward(scores, share, root)
        ctx.threshold = threshold
        return root

    @staticmethod
    def backward(ctx, gradient):
        # A second derivative flows through the slopes to the scores and to the root again.
        slope = ctx.threshold.weighted(SLOPES, *ctx.saved_tensors)
        return None, gradient * slope / slope.sum(), None, None


@dataclass(frozen=True)
class FixedThreshold:
    r"""Another threshold with its gradient cut off: an ablation, which may diverge.

    .. math::
        t = t(s), \qquad \nabla t := 0

    The published Grill does so. Positives are pushed above a value that follows them up
    (eq. 13 of [1]_): its appendix E has data on which the weights grow without bound.

    Parameters
    ----------
    threshold : callable
        For example ``KthLargest("negatives", k=1)``.

    Raises
    ------
    TypeError
        If `threshold` is not callable.

    References
    ----------
    .. [1] L. Adam, V. Macha, V. Smidl. DeepTopPush: Simple and Scalable Method for Accuracy at
       the Top. 2020. Equation 13, appendix E.

    Examples
    --------
    >>> import torch
    >>> from sktopk.losses import FixedThreshold, KthLargest
    >>> scores = torch.tensor([4.0, 3.0], requires_grad=True)
    >>> FixedThreshold(KthLargest("all", k=1))(scores, torch.tensor([True, False]))
    tensor(4.)
    """

    threshold: object

    def __post_init__(self):
        check_threshold(self.threshold)

    def __call__(self, scores, positive, weight=None):
        return self.threshold(scores, positive, weight).detach()
