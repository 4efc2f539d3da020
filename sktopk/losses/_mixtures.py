"""The weighted mean of a loss over several values of k."""


def topk_distribution_loss(scores, target, *, loss, k, **params):
    r"""Compute the weighted mean of a top-k loss over several k.

    .. math::
        L(s, y) = \frac{\sum_i p_i L_{k_i, \tau_i}(s, y)}{\sum_i p_i},
        \qquad \tau_i = \tau \frac{k_{\max}}{k_i}

    `k` is the dict {k_i: p_i}, and :math:`k_{\max}` is its largest key. `params` are other
    parameters of the function `loss`. If `params` contain tau, the loss for k_i has the temperature
    :math:`\tau_i`, so that scores are divided by :math:`k_i \tau_i = k_{\max} \tau` for every k_i.
    """
    check_k_distribution(k)
    total, value = sum(k.values()), 0.0
    for each, p in k.items():
        scaled = {"tau": params["tau"] * max(k) / each} if "tau" in params else {}
        value = value + p / total * loss(scores, target, k=each, **params | scaled)
    return value


def check_k_distribution(k):
    """Check that the dict `k` maps every k to a finite positive weight."""
    if not isinstance(k, dict):
        raise TypeError(f"k must be a dict {{k: weight}}, such as {{1: 0.1, 5: 0.9}}; got {k!r}")
    if not k or not all(0 < weight < float("inf") for weight in k.values()):
        raise ValueError(f"k must be a nonempty dict with finite positive weights; got {k!r}")
