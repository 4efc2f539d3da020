"""Losses for accuracy at the top: surrogates of false negatives and false positives."""

import math
from collections.abc import Callable, Mapping

import torch
from torch import Tensor
from torch.nn import functional as F

from ._groups import check_groups, check_takes_groups
from ._loss import (
    REDUCTIONS,
    check_binary,
    check_name,
    check_nonnegative,
    nan_above,
    reduce,
)

ERRORS = ("false_negatives", "false_positives")


def quadratic(z):
    return hinge(z).square()


def hinge(z):
    return F.relu(z + 1)


def logistic(z):
    # torch sets softplus(z) to z for z above `threshold`. The default 20 causes a jump of 2e-9.
    return F.softplus(z, threshold=40) / math.log(2)


# All surrogates are convex, nondecreasing, 1 at z = 0, and upper bounds of the step function.
SURROGATES = {"quadratic": quadratic, "hinge": hinge, "logistic": logistic}
SLOPES = {
    "quadratic": lambda z: 2 * hinge(z),
    "hinge": lambda z: z > -1,
    "logistic": lambda z: z.sigmoid() / math.log(2),
}


def check_errors(errors):
    """Check `errors`, and return a pair (name, weight) for each kind of error in it."""
    if not isinstance(errors, Mapping):
        check_name(errors, "errors", ERRORS)
        return ((errors, 1.0),)
    if unknown := [name for name in errors if name not in ERRORS]:
        raise ValueError(f"keys of errors must be in {ERRORS}; got {unknown[0]!r}")
    weights = tuple((kind, check_nonnegative(w, f"errors[{kind!r}]")) for kind, w in errors.items())
    if not any(weight for _, weight in weights):
        raise ValueError(f"errors must have at least one positive weight; got {dict(errors)!r}")
    return weights


def check_threshold(threshold):
    if not callable(threshold) or isinstance(threshold, type):
        raise TypeError(f"threshold must be a function or a callable instance; got {threshold!r}")


def accuracy_at_top_loss(
    scores: Tensor,
    target: Tensor,
    *,
    threshold: Callable[..., Tensor],
    errors: str | dict[str, float] = "false_negatives",
    surrogate: str = "quadratic",
    groups: Tensor | None = None,
    sample_weight: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    r"""Compute a surrogate of the false-positive and false-negative rates at a threshold.

    .. math::
        L(s, y) = \frac{\lambda_1}{n_-} \sum_{i : y_i = 0} \ell(s_i - t(s))
        + \frac{\lambda_2}{n_+} \sum_{i : y_i = 1} \ell(t(s) - s_i)

    where :math:`\ell` is the surrogate, t is the threshold, and :math:`n_-` and :math:`n_+` count
    the negatives and positives. `errors` sets the weights :math:`\lambda_1` (of false positives)
    and :math:`\lambda_2` (of false negatives). Adam et al. [1]_ use sums instead of means.

    Parameters
    ----------
    scores : Tensor of shape (n_samples,)
        Raw scores; larger means more likely positive. Half precision is computed in float32.
    target : Tensor of shape (n_samples,)
        Class labels in {0, 1}.
    threshold : callable
        Either a :class:`KthLargest`, :class:`TopMean` or :class:`SurrogateQuantile`, or a function
        ``threshold(scores, positive, weight)``. With `groups`, the function gets a fourth argument
        g, the group index of each sample, and returns ``max(g) + 1`` thresholds, one per group. If
        a sample of weight 0 has a NaN or infinite score, the function gets the score 0 instead.
    errors : {"false_negatives", "false_positives"} or dict, default="false_negatives"
        The kind of error that the loss counts. A dict sets the weights of both kinds, such as
        ``{"false_positives": 0.1, "false_negatives": 0.9}``.
    surrogate : {"quadratic", "hinge", "logistic"}, default="quadratic"
        Loss l(z) of a score that is on the wrong side of the threshold by z. "quadratic" is
        max(0, 1 + z)^2, "hinge" is max(0, 1 + z), and "logistic" is log2(1 + exp z).
    groups : Tensor of int of shape (n_samples,), default=None
        Group of each sample. Each group has its own threshold. With ``reduction="mean"``, the loss
        of a class is the average of its mean losses in the groups that contain this class.
    sample_weight : Tensor of shape (n_samples,), default=None
        Nonnegative weights for the mean and for the threshold (see :class:`KthLargest`).
    reduction : {"none", "sum", "mean"}, default="mean"
        "mean" adds the mean losses of both classes. "sum" adds the losses of all samples. "none"
        returns the loss of each sample. If false positives do not count, negatives have loss 0.

    Returns
    -------
    loss : Tensor of shape () or (n_samples,)
        Nonnegative. A class without samples adds 0. With the threshold -inf, loss and gradient are
        0. Gradients also flow through the threshold. Tied scores rank in the order of the samples.

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type, shape or range.

    References
    ----------
    .. [1] Adam, Macha and Smidl (2020). DeepTopPush: simple and scalable method for accuracy at the
       top. Equations 1, 4 and 5, Table 1.

    Examples
    --------
    >>> import torch
    >>> from sktopk.losses import TopMean, accuracy_at_top_loss
    >>> scores, target = torch.tensor([2.0, 1.5, 0.5]), torch.tensor([1, 0, 0])
    >>> accuracy_at_top_loss(scores, target, threshold=TopMean("negatives", k=2))
    tensor(0.)
    """
    return loss_at(threshold, scores, target, surrogate, groups, sample_weight, reduction, errors)


def loss_at(
    threshold, scores, target, surrogate, groups, sample_weight, reduction, errors="false_negatives"
):
    """Compute :func:`accuracy_at_top_loss`. Losses such as `top_push_loss` call this function."""
    given = scores
    scores, positive, sample_weight = check_binary(scores, target, sample_weight)
    dtype = scores.dtype
    check_threshold(threshold)
    kinds = check_errors(errors)
    check_name(reduction, "reduction", REDUCTIONS)
    check_name(surrogate, "surrogate", SURROGATES)
    largest = largest_score(scores.detach(), sample_weight)
    if hasattr(threshold, "of"):
        given = scores.double()
    else:  # Keep finite scores of weight 0, which a function of the user may use.
        given = torch.where(given.isfinite(), given, scores)
    scores = scores.double()  # distances from a threshold need the digits of float64
    if groups is None:
        t, shape = threshold(given, positive, sample_weight), ()
    else:
        check_takes_groups(threshold)
        groups = check_groups(groups, scores)
        t, shape = threshold(given, positive, sample_weight, groups.codes), (groups.n_groups,)
    if not isinstance(t, Tensor) or t.shape != shape:
        raise ValueError(f"threshold must return shape {shape}; got {getattr(t, 'shape', t)}")
    arguments = t, scores, positive, groups, SURROGATES[surrogate], sample_weight, reduction
    losses = [factor * _loss_of(kind, *arguments) for kind, factor in kinds if factor]
    return nan_above(sum(losses[1:], losses[0]).to(dtype), largest)


def _loss_of(errors, t, scores, positive, groups, surrogate, weight, reduction):
    """Return the loss of one kind of error. With groups, "mean" is the mean of the group means."""
    is_class = positive if errors == "false_negatives" else ~positive
    weight = is_class.double() if weight is None else is_class * weight.double()
    level = t if groups is None else t[groups.codes]
    loss = surrogate(distance(level, scores, weight != 0, errors))
    if groups is None or reduction != "mean":
        return reduce(loss, weight, reduction)
    total = groups.sum(weight)
    share = weight / groups.of_rows(total.masked_fill(total == 0, 1.0))
    return (share * loss).sum() / (total > 0).sum().clamp(min=1)


def largest_score(scores, weight):
    """Return the largest score with weight > 0, or -inf if no weight is positive."""
    if weight is not None:
        scores = torch.where(weight != 0, scores, -math.inf)
    return scores.amax(-1) if scores.shape[-1] else scores.new_tensor(-math.inf)


def distance(t, scores, counted, errors):
    """Return how far each score is on the wrong side of t (negative on the right side)."""
    wrong = t - scores if errors == "false_negatives" else scores - t
    # If an error does not count or t is -inf, return -inf, whose surrogate is 0, and not NaN.
    return torch.where(counted & (t != -math.inf), wrong, -math.inf)
