"""The smooth loss with many classes and large k, where sums over subsets overflow."""

import math

import pytest
import torch

from sktopk.losses import smooth_topk_loss
from tests.losses.data import value_and_gradient


def log_sums(exponent, k):
    """Logarithms of the elementary symmetric polynomials 0 to k of exp(exponent), in O(n k)."""
    # Use -1e300 instead of minus infinity, which autograd turns into NaN.
    log_sigma = torch.full((k + 1, exponent.shape[1]), -1e300, dtype=torch.float64)
    log_sigma[0] = 0.0
    for e in exponent:
        log_sigma = torch.cat([log_sigma[:1], torch.logaddexp(log_sigma[1:], log_sigma[:-1] + e)])
    return log_sigma


def definition(scores, labels, k, tau, margin):
    """Eq. 10 of Berrada et al. for each row, with autograd for the gradient."""
    rows = zip(scores, labels.tolist(), strict=True)
    others = torch.stack([torch.cat([row[:y], row[y + 1 :]]) for row, y in rows], dim=1)
    log_sigma = log_sums(others / (k * tau), k)
    x = margin / tau + log_sigma[k] - log_sigma[k - 1]
    x = x - scores[torch.arange(len(labels)), labels] / (k * tau)
    return tau * torch.logaddexp(x, torch.zeros_like(x))


# Cases of the implementation: a selection of the largest scores in two steps (n_classes >= 4096, or
# n_classes / (2 k + 1) between 32 and 64), k = 1, and k in the hundreds.
CASES = [
    (405, 5, 1.0), (50, 1, 0.1), (5000, 5, 1.0), (5000, 50, 0.1), (2000, 100, 1e-3),
    (1500, 300, 1.0), (400, 399, 1.0),
]  # fmt: skip


@pytest.mark.parametrize(("n_classes", "k", "tau"), CASES)
@pytest.mark.parametrize("tied", [False, True])
def test_value_and_gradient_equal_the_definition(n_classes, k, tau, tied):
    generator = torch.Generator().manual_seed(n_classes + k)
    scores = 3 * torch.randn(2, n_classes, generator=generator, dtype=torch.float64)
    # The largest scores are in the last, incomplete group of the selection in two steps.
    scores[:, -2:] += 100
    scores = scores.round() if tied else scores
    # One label has a very high score, one a very low score.
    labels = torch.stack([scores[0].argmax(), scores[1].argmin()])
    options = {"k": k, "tau": tau, "reduction": "none"}
    loss, gradient = value_and_gradient(smooth_topk_loss, scores, labels, **options)
    expected, slope = value_and_gradient(definition, scores, labels, k=k, tau=tau, margin=1.0)
    torch.testing.assert_close(loss, expected, rtol=1e-9, atol=1e-9)
    # The gradient of the definition has about n_classes rounding errors.
    torch.testing.assert_close(gradient, slope, rtol=0, atol=1e-10)


SIZES = [(6, 5), (700, 1), (700, 600), (100_000, 3), (100_000, 150), (3000, 600)]


@pytest.mark.parametrize(("n_classes", "k"), SIZES)
def test_the_loss_of_equal_scores_has_its_closed_form_for_every_k(n_classes, k):
    scores = torch.full((1, n_classes), 7.0, dtype=torch.float64)
    loss = smooth_topk_loss(scores, torch.tensor([0]), k=k)
    # For n - 1 equal numbers x, sigma_k / sigma_(k-1) is x (n - k) / k.
    assert loss.item() == pytest.approx(math.log1p(math.e * (n_classes - k) / k), rel=1e-12)


@pytest.mark.parametrize("tau", [1e-4, 1.0, 1e3])
@pytest.mark.parametrize("k", [1, 49])
@pytest.mark.parametrize("size", [1e-30, 1e4, 1e30])
def test_loss_and_gradient_are_finite_for_every_float32_score(tau, k, size):
    generator = torch.Generator().manual_seed(1)
    scores = size * torch.randn(64, 50, generator=generator)
    scores[::4] = size * torch.randint(-1, 2, (16, 50), generator=generator)
    options = {"k": k, "tau": tau, "reduction": "none"}
    loss, gradient = value_and_gradient(smooth_topk_loss, scores, torch.arange(64) % 50, **options)
    assert loss.isfinite().all()
    assert (loss >= 0).all()
    assert gradient.isfinite().all()
