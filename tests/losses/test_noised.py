"""The noise of the noised losses: its distribution, its source and its limit."""

import math

import pytest
import torch

from sktopk import losses
from sktopk.losses import _order_statistics as order_statistics
from sktopk.losses._order_statistics import expected_kth_largest


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def random_scores(n_classes, spread, seed=3):
    return spread * torch.randn((1, n_classes), dtype=torch.float64, generator=seeded(seed)) - 9


def sampled_draws(scores, k, sigma, n_draws):
    """Return the k-th largest of each draw and its class, from the fast sampler."""
    value, winner = order_statistics._sample_kth_largest(scores, k, sigma, n_draws, seeded(1))
    return value[0], winner[0]


def naive_draws(scores, k, sigma, n_draws):
    noise = torch.randn((n_draws, scores.shape[1]), dtype=scores.dtype, generator=seeded(2))
    value, winner = (scores + sigma * noise).topk(k, dim=1)
    return value[:, -1], winner[:, -1]


def kolmogorov_smirnov(first, second):
    """Return the statistic, scaled so that it exceeds 1.95 with probability 0.001."""
    n = len(first)
    order = torch.cat([first, second]).argsort()
    steps = torch.where(order < n, 1.0, -1.0).double()
    return (steps.cumsum(0).abs().max() / n).item() * math.sqrt(n / 2)


def chi_square(deviation, variance):
    """Return the statistic of Poisson counts, in standard deviations above its mean."""
    seen = variance > 10
    statistic = (deviation**2 / variance)[seen].sum()
    freedom = seen.sum() - 1
    return ((statistic - freedom) / (2 * freedom) ** 0.5).item()


# The rest of the classes far below, among and equal to the largest ones.
REGIMES = [(60, 3, 1.0, 0.3), (60, 2, 0.0, 1.0), (200, 6, 0.3, 0.5)]


@pytest.mark.parametrize("completed", [False, True])
@pytest.mark.parametrize(("n_classes", "k", "spread", "sigma"), REGIMES)
def test_sampler_has_the_distribution_of_full_noise(
    n_classes, k, spread, sigma, completed, monkeypatch
):
    if completed:
        # So high a level that most draws lack k classes above it, and get their other noise.
        monkeypatch.setattr(order_statistics, "_expected_rises", lambda k: 0.6 * k)
    n_draws = 50_000
    scores = random_scores(n_classes, spread)
    value, winner = sampled_draws(scores, k, sigma, n_draws)
    naive_value, naive_winner = naive_draws(scores, k, sigma, n_draws)
    assert kolmogorov_smirnov(value, naive_value) < 1.95
    counts = torch.bincount(winner, minlength=n_classes)
    naive_counts = torch.bincount(naive_winner, minlength=n_classes)
    assert counts.sum() == n_draws
    assert chi_square(counts - naive_counts, counts + naive_counts) < 4.5
    scores.requires_grad_()
    (proba,) = torch.autograd.grad(expected_kth_largest(scores, k, sigma).sum(), scores)
    assert chi_square(counts - n_draws * proba[0], n_draws * proba[0]) < 4.5


@pytest.mark.parametrize(("n_classes", "k", "spread", "sigma"), REGIMES)
def test_expectation_is_the_limit_of_many_draws(n_classes, k, spread, sigma):
    n_draws = 100_000
    scores = random_scores(n_classes, spread).requires_grad_()
    value, winner = naive_draws(scores.detach(), k, sigma, n_draws)
    expected = expected_kth_largest(scores, k, sigma)
    (proba,) = torch.autograd.grad(expected.sum(), scores)
    error = (value.mean() - expected).abs() / (value.std() / n_draws**0.5)
    assert error.item() < 4.5
    assert proba.sum().item() == pytest.approx(1.0, abs=1e-9)
    counts = torch.bincount(winner, minlength=n_classes)
    assert chi_square(counts - n_draws * proba[0], n_draws * proba[0]) < 4.5


@pytest.mark.parametrize("n_noise", [3, "exact"])
@pytest.mark.parametrize("n_present", [1, 3, 30])
def test_masked_classes_never_win(n_noise, n_present):
    scores = torch.full((4, 90), -torch.inf)
    scores[:, :n_present] = torch.linspace(0, 1, n_present)
    scores.requires_grad_()
    target = torch.zeros(4, dtype=torch.long)
    loss = losses.noised_topk_loss(
        scores, target, k=3, sigma=0.5, n_noise=n_noise, reduction="none"
    )
    loss.sum().backward()
    assert (loss > 0).all() == (n_present > 3)
    assert loss.isfinite().all()
    assert scores.grad.isfinite().all()
    assert (scores.grad[:, n_present:] == 0).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("scale", [0.0, 1e-30, 1e30])
@pytest.mark.parametrize("sigma", [1e-20, 1e10])
def test_sampled_loss_is_finite_at_every_scale(dtype, scale, sigma):
    scores = (scale * random_scores(90, 1.0).to(dtype)).requires_grad_()
    loss = losses.noised_topk_loss(scores, torch.tensor([3]), k=2, sigma=sigma)
    loss.backward()
    assert loss.isfinite()
    assert scores.grad.isfinite().all()


@pytest.mark.parametrize("n_classes", [10, 90])
def test_noise_is_fresh_and_follows_the_generator(n_classes):
    scores, target = random_scores(n_classes, 1.0), torch.tensor([0])

    def loss(generator=None):
        return losses.noised_topk_loss(
            scores, target, k=2, sigma=0.5, margin=9.0, generator=generator
        )

    generator = seeded()
    first, second = loss(generator), loss(generator)
    assert first != second
    assert first == loss(seeded())
    state = torch.get_rng_state()
    loss(seeded())
    assert torch.equal(torch.get_rng_state(), state)
    assert loss() != loss()
    assert not torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("name", ["noised_topk_loss", "noised_topk_imbalanced_loss"])
def test_refuses_noise(name):
    scores, target = random_scores(5, 1.0), torch.tensor([0])

    def loss(**parameters):
        counts = {"class_counts": [1] * 5} if name == "noised_topk_imbalanced_loss" else {}
        return getattr(losses, name)(scores, target, k=2, sigma=0.5, **counts, **parameters)

    with pytest.raises(ValueError, match=r"noise must have shape \(1, 5, n_draws\); got \(1, 5\)"):
        loss(noise=torch.zeros(1, 5))
    with pytest.raises(ValueError, match="noise must have shape"):
        loss(noise=torch.zeros(1, 5, 0))
    with pytest.raises(TypeError, match=r"noise must be a torch\.Tensor; got list"):
        loss(noise=[[[0.0]] * 5])
    with pytest.raises(ValueError, match="n_noise=0 must be at least 1"):
        loss(n_noise=0)
    with pytest.raises(TypeError, match=r'n_noise must be an integer or "exact"; got 2\.5'):
        loss(n_noise=2.5)
