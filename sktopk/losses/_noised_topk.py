"""Calibrated top-k hinge losses with a threshold that is smoothed by Gaussian noise."""

from collections.abc import Sequence

import torch
from torch import Tensor

from ._cross_entropy import ldam_loss, margin_of_label
from ._docs import documented_like
from ._loss import (
    LossModule,
    check_hard,
    check_k,
    check_nonnegative,
    from_largest,
    reduce,
    score_of_label,
)
from ._order_statistics import lead, noised_kth_largest
from ._topk_hinge import topk_hinge_calibrated_loss


@documented_like(topk_hinge_calibrated_loss)
def noised_topk_loss(
    scores: Tensor,
    target: Tensor,
    *,
    k: int,
    sigma: float,
    n_noise: int = 5,
    margin: float = 1.0,
    noise: Tensor | None = None,
    generator: torch.Generator | None = None,
    sample_weight: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    r"""Compute the calibrated top-k hinge with a threshold that is averaged over noise.

    .. math::
        L(s, y) = \max(0,\; m + t(s) - s_y), \qquad
        t(s) = \frac{1}{B} \sum_{b=1}^B (s + \sigma Z_b)_{[k+1]}, \qquad Z_b \sim N(0, I)

    where m is the margin. The threshold t is the mean of the (k+1)-th largest noised score over B
    draws of noise [1]_. The derivative of t by the score of a class is the share of draws in which
    this class has rank k+1. Add cross-entropy: without it, training can end at chance level.

    Parameters
    ----------
    sigma : float
        Standard deviation of the noise, nonnegative. 0 means no noise.
    n_noise : int or "exact", default=5
        Number of draws B. "exact" computes the expectation by quadrature. Its time and memory are
        about proportional to ``100 k n_samples n_classes``.
    noise : Tensor of shape (n_samples, n_classes, n_draws), default=None
        Standard normal noise to use instead of `n_noise` random draws. It gets no gradient.
    generator : torch.Generator, default=None
        Source of the noise. None means torch's default generator.

    References
    ----------
    .. [1] Garcin et al. (2022). Stochastic smoothing of the top-K calibrated hinge loss for deep
       imbalanced classification. ICML. Equations 8 to 13.

    Examples
    --------
    >>> scores = torch.tensor([[3.0, 2.0, 1.0, 0.5]])
    >>> noised_topk_loss(scores, torch.tensor([1]), k=1, sigma=0.5, n_noise="exact")
    tensor(1.0028)
    """
    scores, target, weight = check_hard(scores, target, sample_weight, "noised_topk_loss")
    margin = check_nonnegative(margin, "margin")
    loss = (margin + _lead(scores, target, k, sigma, n_noise, noise, generator)).relu()
    return reduce(loss, weight, reduction)


@documented_like(noised_topk_loss, ldam_loss)
def noised_topk_imbalanced_loss(
    scores: Tensor,
    target: Tensor,
    *,
    class_counts: Tensor | Sequence[float],
    k: int,
    sigma: float,
    n_noise: int = 5,
    max_margin: float = 0.2,
    scale: float = 50.0,
    noise: Tensor | None = None,
    generator: torch.Generator | None = None,
    sample_weight: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    r"""Compute the noised top-k hinge with larger margins for rare classes.

    .. math::
        L(s, y) = \max\bigl(0,\; \alpha (m_y + t(s) - s_y)\bigr), \qquad
        m_c = m \frac{n_c^{-1/4}}{\max_j n_j^{-1/4}}

    where :math:`t` is the threshold of :func:`noised_topk_loss`, :math:`n_c` is the number of
    training samples of class c, :math:`m` is ``max_margin`` and :math:`\alpha` is ``scale`` [1]_.
    The noise is added before the scores are scaled, like in the published code.

    Parameters
    ----------
    scores : Tensor of shape (n_samples, n_classes)
        Scores, which should be cosines. A score of -inf masks a class.
    max_margin : float, default=0.2
        Margin of the rarest class, nonnegative.
    scale : float, default=50.0
        Factor for the loss, positive.

    Examples
    --------
    >>> scores, options = torch.tensor([[0.75, 0.5, 0.0]]), {"k": 1, "sigma": 0.0, "scale": 10.0}
    >>> noised_topk_imbalanced_loss(scores, torch.tensor([1]), class_counts=[16, 1, 1], **options)
    tensor(2.)
    """
    scores, target, weight = check_hard(
        scores, target, sample_weight, "noised_topk_imbalanced_loss"
    )
    scale = check_nonnegative(scale, "scale", positive=True)
    margin = margin_of_label(class_counts, max_margin, scores, target)
    loss = scale * (margin + _lead(scores, target, k, sigma, n_noise, noise, generator)).relu()
    return reduce(loss, weight, reduction)


def _lead(scores, target, k, sigma, n_noise, noise, generator):
    """Return how far the smoothed (k+1)-th largest score is above the score of the label."""
    rank = check_k(k, scores.shape[1]) + 1
    # Shift the scores to near 0, so that adding noise loses no digits.
    scores = from_largest(scores, rank)
    threshold = noised_kth_largest(scores, rank, sigma, n_noise, noise, generator)
    return lead(threshold, score_of_label(scores, target))


class NoisedTopKLoss(LossModule, of=noised_topk_loss, k=5, sigma=0.2): ...


class NoisedTopKImbalancedLoss(LossModule, of=noised_topk_imbalanced_loss, k=5, sigma=0.2): ...
