"""Losses for soft targets and for several values of k, composed of other losses."""

from inspect import Parameter, signature

import torch

from ._loss import check_count, reduce


def expected_loss(loss, scores, target, sample_weight, reduction, **params):
    """Return the mean of a loss for class indices under soft targets: sum_j t_j L(s, j).

    Only classes with a target other than 0 are evaluated, such as two per sample after mixup.
    """
    rows, classes = target.nonzero(as_tuple=True)
    each = loss(scores[rows], classes, **params, reduction="none") * target[rows, classes]
    mean = torch.zeros_like(scores[:, 0]).index_add(0, rows, each.to(scores.dtype))
    return reduce(mean, sample_weight, reduction)


def topk_distribution_loss(
    scores, target, *, loss, k, sample_weight=None, reduction="mean", **params
):
    r"""Compute the weighted mean of a top-k loss over several k.

    .. math::
        L(s, y) = \frac{\sum_i p_i L_{k_i, \tau_i}(s, y)}{\sum_i p_i},
        \qquad \tau_i = \tau \frac{k_{\max}}{k_i}

    `k` is a dict that maps each k to its positive weight p. `params` are further parameters of the
    function `loss`. A loss with a temperature divides the scores by :math:`k_i \tau_i`. This equals
    :math:`k_{\max} \tau` in every term, so all terms use the same scale of scores.
    """
    weights = check_k_distribution(k)
    for each in weights:
        check_count(each, "k")
    options = {"sample_weight": sample_weight, "reduction": reduction, **params}
    default = signature(loss).parameters.get("tau")
    default = None if default is None or default.default is Parameter.empty else default.default
    tau = options.get("tau", default)
    total, value = sum(weights.values()), 0.0
    for each, p in weights.items():
        if tau is not None:
            options["tau"] = tau * max(weights) / each
        value = value + p / total * loss(scores, target, k=each, **options)
    return value


def check_k_distribution(k):
    """Return `k` after a check that this dict maps every k to a finite positive weight."""
    if not isinstance(k, dict):
        raise TypeError(f"k must be a dict {{k: weight}}, such as {{1: 0.1, 5: 0.9}}; got {k!r}")
    if not k or not all(0 < weight < float("inf") for weight in k.values()):
        raise ValueError(f"k must have at least one k, each of finite positive weight; got {k!r}")
    return k
