"""Errors at a threshold that is one of the scores: value and gradient in one pass."""

import math

import torch
from torch.nn import functional as F


def _quadratic(z):
    z = z.add_(1).relu_()
    return z.square(), z.mul_(2)


def _hinge(z):
    z = z.add_(1).relu_()
    return z, (z > 0).to(z.dtype)


def _logistic(z):
    return F.softplus(z, threshold=40) / math.log(2), z.sigmoid_() / math.log(2)


# Surrogates with their derivatives; they may overwrite their argument.
SURROGATES_WITH_SLOPE = {"quadratic": _quadratic, "hinge": _hinge, "logistic": _logistic}


class ErrorsAtScore(torch.autograd.Function):
    r"""Weighted mean of l(t - s) over rows, or of l(s - t), with t the score of one row.

    With d the distances, the gradient is :math:`\mp w_i \ell'(d_i) / W` at the counted rows and
    :math:`\pm \sum_i w_i \ell'(d_i) / W` at the row of the threshold (Adam, Macha, Smidl 2020,
    eq. 6): it is at hand when the value is, and autograd need not record a dozen small steps.

    Called as ``apply(scores, t, position, counted, weight, errors, surrogate)`` with t and its
    position of shape (1,), the mask of the rows that count, and weights or None. Rows that have
    no threshold, t = -inf, are no errors.
    """

    @staticmethod
    def forward(ctx, scores, t, position, counted, weight, errors, surrogate):
        above = errors == "false_positives"
        if above:
            counted = counted & (t > -torch.inf)
        distance = scores - t if above else t - scores
        # Where the distance is -inf, value and derivative are 0.
        value, slope = SURROGATES_WITH_SLOPE[surrogate](distance.masked_fill_(~counted, -torch.inf))
        if weight is None:
            total, value = counted.sum().clamp(min=1), value.sum()
        else:
            weight = torch.where(counted, weight, 0.0)
            value, slope = torch.dot(weight, value), slope.mul_(weight)
            total = weight.sum().clamp(min=torch.finfo(scores.dtype).tiny)
        gradient = slope.mul_((1.0 if above else -1.0) / total)
        gradient.index_add_(0, position, gradient.sum(0, keepdim=True), alpha=-1)
        ctx.save_for_backward(gradient)
        return value / total

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, gradient):
        return (gradient * ctx.saved_tensors[0], *[None] * 6)
