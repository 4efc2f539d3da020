"""Accuracy at the top: a threshold, the errors on one side of it, a surrogate of the step."""

import torch

from ._checks import check_binary, check_name, check_weight
from ._loss import reduce
from ._surrogates import get_surrogate
from ._thresholds import check_threshold

ERRORS = ("false_negatives", "false_positives")


def accuracy_at_top_loss(
    scores,
    target,
    *,
    threshold,
    errors="false_negatives",
    surrogate="quadratic",
    sample_weight=None,
    reduction="mean",
):
    r"""Count the errors on one side of a threshold that depends on the scores.

    .. math::
        L = \frac{1}{n_+} \sum_{i : y_i = 1} \ell(t(s) - s_i)
        \quad \text{or} \quad
        L = \frac{1}{n_-} \sum_{i : y_i = 0} \ell(s_i - t(s))

    Eq. 5 of [1]_ with any threshold, as a mean where the paper has a sum. The other losses of
    this family are its special cases.

    Parameters
    ----------
    scores : Tensor of shape (n_samples,)
        Raw scores; the larger, the more likely positive. Half precision is computed in float32.
    target : Tensor of shape (n_samples,)
        Class labels in {0, 1}.
    threshold : callable
        Called as ``threshold(scores, positive, weight)``: :class:`KthLargest`,
        :class:`TopMean`, :class:`SurrogateQuantile`, :class:`FixedThreshold` or a function.
    errors : {"false_negatives", "false_positives"}, default="false_negatives"
        Which rows should be on the other side.
    surrogate : {"quadratic", "hinge", "logistic"}, default="quadratic"
        The function l: max(0, 1 + z)^2 as in the paper, max(0, 1 + z) or log2(1 + exp z).
    sample_weight : Tensor of shape (n_samples,), default=None
        Nonnegative weights, in the mean and in the threshold.
    reduction : {"none", "sum", "mean"}, default="mean"
        "none" has a loss per row, 0 for those that cannot be such errors.

    Returns
    -------
    loss : Tensor of shape () or (n_samples,)
        Nonnegative. Zero, with zero gradient, if a class is missing that the loss needs.

    Raises
    ------
    TypeError, ValueError
        If a tensor has another shape or kind, `target` other values, or an option is unknown.

    References
    ----------
    .. [1] L. Adam, V. Macha, V. Smidl. DeepTopPush: Simple and Scalable Method for Accuracy at
       the Top. 2020. Equation 5.

    Examples
    --------
    >>> import torch
    >>> from sktopk.losses import TopMean, accuracy_at_top_loss
    >>> scores, target = torch.tensor([2.0, 1.5, 0.5]), torch.tensor([1, 0, 0])
    >>> accuracy_at_top_loss(scores, target, threshold=TopMean("negatives", k=2))
    tensor(0.)
    """
    scores, positive = check_binary(scores, target)
    sample_weight = check_weight(sample_weight, scores)
    check_threshold(threshold)
    t = threshold(scores, positive, sample_weight)
    return top_errors(scores, positive, t, errors, surrogate, sample_weight, reduction)


def top_errors(scores, positive, threshold, errors, surrogate, sample_weight, reduction):
    """Reduce l(t - s) over the positives, or l(s - t) over the negatives."""
    check_name(errors, "errors", ERRORS)
    if errors == "false_negatives":
        counted, distance = positive, threshold - scores
    else:
        counted, distance = ~positive, scores - threshold
    # Nothing is on the other side of the threshold of an empty group.
    counted = counted & (threshold != -torch.inf)
    weight = counted.to(scores.dtype)
    if sample_weight is not None:
        counted = counted & (sample_weight != 0)
        weight = weight * sample_weight
    # Rows that do not count must not reach the surrogate, where an infinite score is a NaN.
    return reduce(
        get_surrogate(surrogate)(distance.masked_fill(~counted, -torch.inf)), weight, reduction
    )
