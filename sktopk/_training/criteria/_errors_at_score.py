"""Errors at a threshold that is one of the scores: value and gradient in one pass.

The functions take the arrays of NumPy or the tensors of torch, and `xp` is the library of
both: on the few numbers of a minibatch NumPy's steps cost a fifth of torch's, and on a GPU
nothing may wait for the CPU.
"""

import math

import numpy as np
import torch


def arrays(scores, target, weight):
    """Return the library and what it computes with: scores, mask of positives, weights.

    The scores are flat and have no gradient; half precision becomes float32.
    """
    scores = scores.detach()
    if scores.dtype in (torch.float16, torch.bfloat16):
        scores = scores.float()
    positive = target if target.dtype == torch.bool else target == 1
    if scores.device.type != "cpu":
        return torch, scores.flatten(), positive, weight
    weight = None if weight is None else weight.numpy()
    return np, scores.numpy().ravel(), positive.numpy(), weight


def as_arrays(xp, tensor):
    """A tensor as what `xp` computes with."""
    return tensor.numpy() if xp is np else tensor


def _quadratic(xp, z):
    z = z + 1
    z = xp.where(z > 0, z, 0.0)
    return z * z, 2 * z


def _hinge(xp, z):
    z = z + 1
    above = z > 0
    return xp.where(above, z, 0.0), above


def _logistic(xp, z):
    # log(1 + exp z) and its derivative exp(z) / (1 + exp z)
    value = xp.logaddexp(z, xp.zeros_like(z))
    return value / math.log(2), xp.exp(z - value) / math.log(2)


# Surrogates with their derivatives.
SURROGATES_WITH_SLOPE = {"quadratic": _quadratic, "hinge": _hinge, "logistic": _logistic}


def errors_at_score(xp, scores, counted, weight, total, t, position, above, surrogate):
    r"""Weighted sum of l(t - s) over rows, or of l(s - t), over `total`, and its gradient.

    With d the distances, the gradient is :math:`\mp w_i \ell'(d_i) / W` at the counted rows and
    :math:`\pm \sum_i w_i \ell'(d_i) / W` at the row of the threshold (Adam, Macha, Smidl 2020,
    eq. 6): it is at hand when the value is, and autograd need not record a dozen small steps.

    Parameters
    ----------
    xp : module
    scores, counted, weight : array of shape (n_samples,)
        `counted` is the mask of the rows that count; `weight` may be None.
    total : scalar
        W; without rows 0, and the errors are 0.
    t, position : array of shape (1,)
        The threshold and where it stands among the scores. It is infinite if it is that of no
        rows: then there are no errors.
    above : bool
        Whether the errors are scores above the threshold.
    surrogate : {"quadratic", "hinge", "logistic"}

    Returns
    -------
    value, gradient : scalar and array of shape (n_samples,)
    """
    # Rows that do not count must not reach the surrogate, where an infinite score is a NaN.
    behind = xp.where(counted, scores - t if above else t - scores, -xp.inf)
    value, slope = SURROGATES_WITH_SLOPE[surrogate](xp, behind)
    if weight is not None:
        # Rows of weight 0 are no rows.
        value, slope = (xp.where(weight > 0, weight * each, 0.0) for each in (value, slope))
    scale = xp.asarray(1.0 / (total + (total == 0)), dtype=scores.dtype)
    gradient = slope * (scale if above else -scale)
    gradient[position] -= gradient.sum()
    return value.sum() * scale, gradient
