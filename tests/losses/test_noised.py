"""The noise of the noised losses: distribution, random generator and limits."""

import pytest
import torch
from scipy.stats import ks_2samp

from sktopk import losses
from sktopk.losses import _order_statistics
from tests.losses.cases import function_called
from tests.losses.data import seeded, value_and_gradient


def random_scores(n_classes, spread, seed=3):
    return spread * torch.randn((1, n_classes), dtype=torch.float64, generator=seeded(seed)) - 9


def kth_largest(scores, k, sigma, **noise):
    label, options = torch.zeros(len(scores), dtype=torch.long), {"reduction": "none", **noise}
    loss, gradient = value_and_gradient(
        losses.noised_topk_loss, scores, label, k=k - 1, sigma=sigma, margin=100.0, **options
    )
    # The loss is 100 plus the k-th largest noised score minus the score of the label.
    gradient[:, 0] += 1
    return loss - 100 + scores[:, 0], gradient


def chi_square(deviation, variance):
    """Return how many standard deviations the chi-square statistic is above its mean."""
    seen = variance > 10
    statistic, freedom = (deviation**2 / variance)[seen].sum(), seen.sum() - 1
    return ((statistic - freedom) / (2 * freedom) ** 0.5).item()


# n_classes, k, standard deviation of the scores (0: all are equal) and of the noise.
REGIMES = [(60, 3, 1.0, 0.3), (60, 2, 0.0, 1.0), (200, 6, 0.3, 0.5)]


@pytest.mark.parametrize("completed", [False, True])
@pytest.mark.parametrize(("n_classes", "k", "spread", "sigma"), REGIMES)
def test_the_kth_largest_noised_score_is_distributed_as_if_every_class_gets_noise(
    n_classes, k, spread, sigma, completed, monkeypatch
):
    if completed:
        # A higher level: most draws have fewer than k classes above it, so all classes get noise.
        monkeypatch.setattr(_order_statistics, "_expected_rises", lambda k: 0.6 * k)
    n_draws, scores = 50_000, random_scores(n_classes, spread)
    every = scores.expand(n_draws, -1)
    value, winner = kth_largest(every, k, sigma, n_noise=1, generator=seeded(1))
    noise = torch.randn(every.shape, dtype=scores.dtype, generator=seeded(2))
    slow_value, slow_winner = (each[:, -1] for each in (every + sigma * noise).topk(k, dim=1))
    assert ks_2samp(value, slow_value).pvalue > 0.001
    counts, slow_counts = winner.sum(0), torch.bincount(slow_winner, minlength=n_classes)
    assert counts.sum().item() == pytest.approx(n_draws)
    assert chi_square(counts - slow_counts, counts + slow_counts) < 4.5
    expected, proba = kth_largest(scores, k, sigma, n_noise="exact")
    assert proba.sum().item() == pytest.approx(1.0, abs=1e-9)
    for drawn, number in ((value, counts), (slow_value, slow_counts)):
        error = (drawn.mean() - expected).abs() / (drawn.std() / n_draws**0.5)
        assert error.item() < 4.5
        assert chi_square(number - n_draws * proba[0], n_draws * proba[0]) < 4.5


@pytest.mark.parametrize("n_noise", [3, "exact"])
@pytest.mark.parametrize("n_present", [1, 3, 30])
def test_a_masked_class_is_never_the_kth_largest(n_noise, n_present):
    scores = torch.full((4, 90), -torch.inf)
    scores[:, :n_present] = torch.linspace(0, 1, n_present)
    options = {"k": 3, "sigma": 0.5, "n_noise": n_noise, "reduction": "none"}
    target = torch.zeros(4, dtype=torch.long)
    loss, gradient = value_and_gradient(losses.noised_topk_loss, scores, target, **options)
    assert (loss > 0).all() == (n_present > 3)
    assert loss.isfinite().all()
    assert gradient.isfinite().all()
    assert (gradient[:, n_present:] == 0).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("scale", [0.0, 1e-30, 1e30])
@pytest.mark.parametrize("sigma", [1e-20, 1e10])
def test_the_loss_with_drawn_noise_is_finite_at_every_scale_of_scores(dtype, scale, sigma):
    scores, target = scale * random_scores(90, 1.0).to(dtype), torch.tensor([3])
    found = value_and_gradient(losses.noised_topk_loss, scores, target, k=2, sigma=sigma)
    assert all(each.isfinite().all() for each in found)


@pytest.mark.parametrize("n_classes", [10, 90])
def test_each_call_draws_new_noise_from_its_generator(n_classes):
    def loss(generator=None):
        options = {"k": 2, "sigma": 0.5, "margin": 9.0, "generator": generator}
        return losses.noised_topk_loss(random_scores(n_classes, 1.0), torch.tensor([0]), **options)

    generator = seeded()
    first, second = loss(generator), loss(generator)
    assert first != second
    state = torch.get_rng_state()
    assert first == loss(seeded())
    assert torch.equal(torch.get_rng_state(), state)
    assert loss() != loss()
    assert not torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("name", ["noised_topk_loss", "noised_topk_imbalanced_loss"])
@pytest.mark.parametrize(
    ("noise", "error", "message"),
    [
        ({"noise": torch.zeros(1, 5)}, ValueError, r"shape \(1, 5, n_draws\); got \(1, 5\)"),
        ({"noise": torch.zeros(1, 5, 0)}, ValueError, "noise must have shape"),
        ({"noise": [[[0.0]] * 5]}, TypeError, r"noise must be a torch\.Tensor; got list"),
        ({"n_noise": 0}, ValueError, "n_noise=0 must be at least 1"),
        ({"n_noise": 2.5}, TypeError, r'n_noise must be an integer or "exact"; got 2\.5'),
    ],
)
def test_wrong_noise_parameters_raise(name, noise, error, message):
    if name == "noised_topk_imbalanced_loss":
        noise = noise | {"class_counts": [1] * 5}
    scores, target = random_scores(5, 1.0), torch.tensor([0])
    with pytest.raises(error, match=message):
        function_called(name)(scores, target, k=2, sigma=0.5, **noise)
