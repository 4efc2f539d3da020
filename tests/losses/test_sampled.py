"""Losses of a sample of the classes compared with losses of all classes."""

from itertools import product

import pytest
import torch

from sktopk.losses import focal_loss, sample_candidates, smooth_topk_loss
from tests.losses.cases import cross_entropy_loss
from tests.losses.data import seeded

LABELS = torch.tensor([4, 1, 4])


def distinct(candidates):
    present = candidates.log_weight > -torch.inf
    pairs = zip(candidates.classes[present].tolist(), candidates.log_weight[present], strict=True)
    return {j: log_weight.item() for j, log_weight in pairs}


@pytest.mark.parametrize("seed", range(5))
def test_candidates_are_the_labels_and_the_classes_that_were_drawn(seed):
    target = torch.randint(50, (9,), generator=seeded(seed + 100))
    candidates = sample_candidates(target, 50, 20, generator=seeded(seed))
    drawn = torch.randint(50, (20,), generator=seeded(seed)).tolist()
    labels, rest = set(target.tolist()), set(drawn) - set(target.tolist())
    stands_for = torch.tensor((50 - len(labels)) / len(rest)).log().item()
    expected = dict.fromkeys(labels, 0.0) | dict.fromkeys(rest, pytest.approx(stands_for))
    assert distinct(candidates) == expected
    assert candidates.classes.tolist() == sorted([*target.tolist(), *drawn])
    assert torch.equal(candidates.classes[candidates.target], target)
    assert (candidates.log_weight[candidates.target] == 0).all()


def test_the_mean_over_all_possible_draws_is_the_sum_of_exponentials_of_all_classes(monkeypatch):
    scores = torch.randn(3, 7, dtype=torch.float64, generator=seeded())
    # exp(loss) is the sum of exponentials divided by the exponential of the label.
    whole, estimates = cross_entropy_loss(scores, LABELS, reduction="none").exp(), []
    # All pairs of two draws; the pairs are equally likely.
    for draw in product(range(7), repeat=2):
        monkeypatch.setattr(torch, "randint", lambda *a, draw=draw, **k: torch.tensor(draw))
        c = sample_candidates(LABELS, 7, 2)
        if len(distinct(c)) > 2:
            sampled = scores[:, c.classes] + c.log_weight
            estimates.append(cross_entropy_loss(sampled, c.target, reduction="none").exp())
    torch.testing.assert_close(torch.stack(estimates).mean(0), whole, rtol=1e-6, atol=0)


@pytest.mark.parametrize(
    ("loss", "parameters", "unit"),  # the loss divides scores by `unit`
    [
        (cross_entropy_loss, {}, 1.0),
        (focal_loss, {"gamma": 1.0}, 1.0),
        (smooth_topk_loss, {"k": 3, "tau": 0.7}, 3 * 0.7),
    ],
)
def test_the_mean_loss_and_gradient_are_near_those_with_all_classes(loss, parameters, unit):
    n_classes, n_candidates, n_draws, generator = 600, 150, 400, seeded()
    # A layer of 8 features: the gradient of its weights has a row per class.
    weight = torch.randn(n_classes, 8, dtype=torch.float64, generator=generator) * unit / 2
    features = torch.randn(16, 8, dtype=torch.float64, generator=generator)
    target = torch.randint(n_classes, (16,), generator=generator)
    weight.requires_grad_()
    whole = loss(features @ weight.T, target, **parameters)
    (gradient,) = torch.autograd.grad(whole, weight)
    losses, mean = [], torch.zeros_like(gradient)
    for _ in range(n_draws):
        candidates = sample_candidates(target, n_classes, n_candidates, generator=generator)
        scores = features @ weight[candidates.classes].T + unit * candidates.log_weight
        losses.append(loss(scores, candidates.target, **parameters, reduction="none"))
        mean += torch.autograd.grad(losses[-1].mean(), weight)[0] / n_draws
    losses = torch.stack(losses).detach()
    # The tolerance is the bias from the docstring of `sample_candidates`, plus 5 standard errors.
    # For v, it uses var(loss) / tau^2: about v for cross-entropy, and k^2 v for the smooth loss.
    tau, k = parameters.get("tau", 1.0), parameters.get("k", 1)
    bias = (2 * k - 1) * losses.var(0).mean() / (2 * tau) + tau * (k - 1) / n_candidates
    chance = losses.mean(1).std() / n_draws**0.5
    assert abs(whole - losses.mean()) <= bias + 5 * chance
    assert bias + 5 * chance < 0.025 * whole
    cosine = torch.nn.functional.cosine_similarity(mean.flatten(), gradient.flatten(), dim=0)
    assert cosine > 0.995
    assert mean.norm() == pytest.approx(gradient.norm().item(), rel=0.05)


def test_a_generator_makes_draws_reproducible_and_is_the_only_one_used():
    state = torch.get_rng_state()
    one, other = (sample_candidates(LABELS, 10**6, 50, generator=seeded()) for _ in range(2))
    assert all(map(torch.equal, one, other))
    assert torch.equal(torch.get_rng_state(), state)
    assert not torch.equal(one.classes, sample_candidates(LABELS, 10**6, 50).classes)


def test_labels_of_any_integer_type_are_accepted_and_not_modified():
    target = torch.tensor([9, 2], dtype=torch.int32)
    candidates = sample_candidates(target, 100, 5, generator=seeded())
    assert len(candidates.classes) == 7
    assert candidates.classes[candidates.target].tolist() == [9, 2]
    assert target.tolist() == [9, 2]
    assert len(sample_candidates(target[:0], 100, 5).classes) == 5


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (([1, 2], 10, 3), TypeError, "target must be a torch.Tensor; got list"),
        ((torch.tensor([1.0]), 10, 3), TypeError, "integer class indices; got torch.float32"),
        ((torch.tensor([True]), 10, 3), TypeError, "integer class indices; got torch.bool"),
        ((torch.tensor([[1]]), 10, 3), ValueError, r"shape \(n_samples,\); got \(1, 1\)"),
        ((torch.tensor([1, 10]), 10, 3), ValueError, "class indices from 0 to 9; got 10"),
        ((torch.tensor([1, -1]), 10, 30), ValueError, "class indices from 0 to 9; got -1"),
        ((torch.tensor([1]), 10, 0), ValueError, "n_candidates=0 must be at least 1"),
        ((torch.tensor([1]), 10, 2.5), TypeError, "n_candidates must be an integer; got 2.5"),
        ((torch.tensor([1]), 0, 3), ValueError, "n_classes=0 must be at least 1"),
    ],
)
def test_wrong_arguments_of_sampled_losses_raise_errors_that_name_them(arguments, error, message):
    with pytest.raises(error, match=message):
        sample_candidates(*arguments)
