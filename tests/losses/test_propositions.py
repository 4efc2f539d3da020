"""What papers 001 and 003 prove of their losses, on scores where it can be seen."""

import itertools
import math

import numpy as np
import pytest
import torch

from sktopk.losses import noised_topk_loss, smooth_topk_loss, topk_hinge_loss


def scores_of(n_samples, n_classes, seed=0, spread=2.0):
    generator = torch.Generator().manual_seed(seed)
    scores = spread * torch.randn(n_samples, n_classes, dtype=torch.float64, generator=generator)
    # Of some rows the scores tie.
    scores[::3] = scores[::3].round()
    return scores, torch.randint(n_classes, (n_samples,), generator=generator)


# Berrada, Zisserman, Kumar (2018), proposition 3: an upper bound of the hinge if and only if k = 1.


@pytest.mark.parametrize("tau", [0.01, 0.3, 1.0, 10.0])
def test_smooth_loss_of_one_label_bounds_the_hinge(tau):
    scores, target = scores_of(400, 6)
    smooth = smooth_topk_loss(scores, target, k=1, tau=tau, reduction="none")
    hinge = topk_hinge_loss(scores, target, k=1, reduction="none")
    assert (smooth >= hinge - 1e-12).all()


@pytest.mark.parametrize("k", [2, 3, 5])
def test_of_several_labels_it_is_below_the_hinge_somewhere(k):
    for tau in (0.1, 1.0):
        # The example of the proof: k others at beta, the label at alpha, nothing else near.
        n_classes = k + 3
        scores = torch.full((1, n_classes), -1e4, dtype=torch.float64)
        scores[0, 1 : k + 1] = 0.0
        scores[0, 0] = -20 * k * tau
        target = torch.tensor([0])
        smooth = smooth_topk_loss(scores, target, k=k, tau=tau).item()
        hinge = topk_hinge_loss(scores, target, k=k).item()
        assert hinge == pytest.approx(1 + 20 * tau)
        assert smooth < hinge - 0.1 * tau
        # One k-subset has the label out, k have it in: below by tau log k.
        assert smooth == pytest.approx(hinge - tau * math.log(k), abs=1e-6 * tau)


# Proposition 8: of the hinge, a margin is a weight decay of the last layer.


def objective(loss, weight, rows, target, decay, margin):
    value = loss(rows @ weight, target, k=3, margin=margin)
    return (decay / 2 * weight.square().sum() + value).item()


@pytest.mark.parametrize(("decay", "margin"), list(itertools.product([0.01, 1.0], [0.2, 3.0])))
def test_a_margin_of_the_hinge_is_a_weight_decay(decay, margin):
    rows, target = scores_of(50, 4)
    for seed in range(5):
        weight = scores_of(4, 7, seed, spread=0.3 * margin)[0]
        given = objective(topk_hinge_loss, weight, rows, target, decay, margin)
        # The same problem but for a factor, with the weights over the margin: its minima are those.
        unit = objective(topk_hinge_loss, weight / margin, rows, target, margin * decay, 1.0)
        assert given == pytest.approx(margin * unit, rel=1e-12)


# Garcin, Servajean, Joly, Salmon (2022), proposition 3.5, of the smoothed k-th largest score.


def smoothed(scores, k, sigma):
    """The expected k-th largest of scores with noise: the loss at a label far below, less margin.

    The label is a class of its own, so low that noise never brings it up.
    """
    lowest = torch.full((len(scores), 1), -1e3, dtype=scores.dtype)
    both = torch.cat([scores, lowest], 1)
    target = torch.full((len(scores),), scores.shape[1])
    options = {"k": k - 1, "sigma": sigma, "n_noise": "exact", "reduction": "none"}
    return noised_topk_loss(both, target, **options) - 1 - 1e3


@pytest.mark.parametrize(("k", "n_classes"), [(2, 4), (3, 8), (6, 30)])
def test_smoothed_score_is_near_the_score(k, n_classes):
    for sigma in (0.01, 1.0):
        scores, _ = scores_of(30, n_classes)
        scores[0] = 0.0  # all tie
        exact = scores.sort(descending=True).values[:, k - 1]
        distance = (smoothed(scores, k, sigma) - exact).abs().max().item()
        assert distance <= sigma * k * math.sqrt(2 * math.log(n_classes))
        # The bound is far: whatever the number of classes, about sigma times the spread of ranks.
        assert distance <= 2.1 * sigma
        # At ties it is the expected k-th largest of normal numbers.
        rng = np.random.default_rng(0)
        drawn = np.sort(rng.standard_normal((200_000, n_classes)))[:, -k].mean()
        assert smoothed(scores[:1], k, sigma).item() == pytest.approx(
            sigma * drawn, abs=0.01 * sigma
        )


@pytest.mark.parametrize("sigma", [0.2, 1.0])
def test_gradient_of_the_smoothed_score_is_lipschitz(sigma):
    k, n_classes = 3, 8
    scores, _ = scores_of(60, n_classes, spread=sigma)
    other = scores + 0.3 * sigma * scores_of(60, n_classes, seed=1, spread=1.0)[0]
    gradients = []
    for each in (scores, other):
        leaf = each.clone().requires_grad_()
        gradients.append(torch.autograd.grad(smoothed(leaf, k, sigma).sum(), leaf)[0])
    change = (gradients[0] - gradients[1]).norm(dim=1)
    assert (change <= math.sqrt(4 * k * n_classes) / sigma * (scores - other).norm(dim=1)).all()
    assert change.max() > 0.1
    # Without noise the gradient jumps from class to class.
    assert torch.allclose(gradients[0].sum(1), torch.ones(60, dtype=torch.float64), atol=1e-4)
