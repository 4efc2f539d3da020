"""The smooth loss where sums over subsets are astronomically large: many classes, large k."""

import math

import pytest
import torch

from sktopk.losses import smooth_topk_loss
from sktopk.losses._elementary_symmetric import largest


def log_sums(exponent, k):
    """log sigma_0 ... log sigma_k of exp(exponent), by the O(n k) recurrence in log space."""
    # Not minus infinity, which autograd turns into NaN.
    log_sigma = torch.full((k + 1,), -1e300, dtype=torch.float64)
    log_sigma[0] = 0.0
    for e in exponent:
        log_sigma = torch.cat([log_sigma[:1], torch.logaddexp(log_sigma[1:], log_sigma[:-1] + e)])
    return log_sigma


def definition(scores, label, k, tau, margin):
    """Eq. 10 of Berrada et al. for one row, with autograd for the gradient."""
    others = torch.cat([scores[:label], scores[label + 1 :]]) / (k * tau)
    log_sigma = log_sums(others, k)
    x = margin / tau + log_sigma[k] - log_sigma[k - 1] - scores[label] / (k * tau)
    return tau * torch.logaddexp(x, torch.zeros_like(x))


# n_classes beyond 4096, or between 32 and 64 for each of the 2 k + 1 largest, takes the selection
# in two steps; k of hundreds needs the tilt; k = 1 is a sum.
CASES = [
    (405, 5, 1.0),
    (50, 1, 0.1),
    (5000, 5, 1.0),
    (5000, 50, 0.1),
    (2000, 100, 1e-3),
    (1500, 300, 1.0),
    (400, 399, 1.0),
]


@pytest.mark.parametrize(("n_classes", "m"), [(100, 11), (405, 11), (705, 11), (4099, 11)])
def test_selection_in_two_steps_is_that_in_one(n_classes, m):
    generator = torch.Generator().manual_seed(n_classes)
    for scores in (
        torch.randn(50, n_classes, generator=generator),
        torch.randint(9, (50, n_classes), generator=generator).float(),  # ties
    ):
        values, classes = largest(scores, m)
        assert torch.equal(values, scores.sort(dim=1, descending=True).values[:, :m])
        assert torch.equal(scores.gather(1, classes), values)
        assert all(len(set(row)) == m for row in classes.tolist())


@pytest.mark.parametrize(("n_classes", "k", "tau"), CASES)
def test_value_and_gradient_equal_the_definition(n_classes, k, tau):
    for spread in (0.0, 3.0):
        generator = torch.Generator().manual_seed(n_classes + k)
        scores = spread * torch.randn(2, n_classes, generator=generator, dtype=torch.float64)
        # One label far up, one far down.
        labels = torch.stack([scores[0].argmax(), scores[1].argmin()])
        scores.requires_grad_()
        loss = smooth_topk_loss(scores, labels, k=k, tau=tau, reduction="none")
        (gradient,) = torch.autograd.grad(loss.sum(), scores)
        for i, label in enumerate(labels.tolist()):
            row = scores[i].detach().requires_grad_()
            expected = definition(row, label, k, tau, 1.0)
            (expected_gradient,) = torch.autograd.grad(expected, row)
            torch.testing.assert_close(loss[i], expected, rtol=1e-9, atol=1e-9)
            # The recurrence itself is good to about n_classes rounding errors.
            torch.testing.assert_close(gradient[i], expected_gradient, rtol=0, atol=1e-10)


def test_closed_form_of_equal_scores_for_every_k():
    for n_classes, k in [(6, 5), (700, 1), (700, 600), (100_000, 3), (100_000, 150), (3000, 600)]:
        scores = torch.full((1, n_classes), 7.0, dtype=torch.float64)
        loss = smooth_topk_loss(scores, torch.tensor([0]), k=k)
        # sigma_k / sigma_(k-1) of n - 1 equal elements is (n - k) / k of one.
        assert loss.item() == pytest.approx(math.log1p(math.e * (n_classes - k) / k), rel=1e-12)


@pytest.mark.parametrize("tau", [1e-4, 1.0, 1e3])
@pytest.mark.parametrize("k", [1, 49])
def test_finite_for_every_float32_score(tau, k):
    for magnitude in (1e-30, 1e4, 1e30):
        generator = torch.Generator().manual_seed(1)
        scores = magnitude * torch.randn(64, 50, generator=generator)
        scores[::4] = magnitude * torch.randint(-1, 2, (16, 50), generator=generator)
        scores.requires_grad_()
        loss = smooth_topk_loss(scores, torch.arange(64) % 50, k=k, tau=tau, reduction="none")
        loss.sum().backward()
        assert loss.isfinite().all()
        assert (loss >= 0).all()
        assert scores.grad.isfinite().all()
