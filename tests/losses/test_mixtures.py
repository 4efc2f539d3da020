"""Losses made of others: soft targets of the smooth loss, several k at once."""

import pytest
import torch

from sktopk.losses import (
    SmoothTopKLoss,
    TopKDistributionLoss,
    noised_topk_loss,
    smooth_topk_loss,
    topk_distribution_loss,
    topk_hinge_loss,
)


@pytest.fixture
def scores():
    return torch.randn(6, 7, generator=torch.Generator().manual_seed(0)).double().requires_grad_()


def test_soft_targets_are_the_expectation(scores):
    target = torch.softmax(torch.randn(6, 7).double(), dim=1)
    target[0] = torch.eye(7)[3]
    target[1] = 0.0
    loss = smooth_topk_loss(scores, target, k=3, tau=0.5, reduction="none")
    expected = sum(
        target[:, j] * smooth_topk_loss(scores, torch.full((6,), j), k=3, tau=0.5, reduction="none")
        for j in range(7)
    )
    torch.testing.assert_close(loss, expected)
    assert loss[1] == 0
    mine, theirs = (torch.autograd.grad(v.sum(), scores)[0] for v in (loss, expected))
    torch.testing.assert_close(mine, theirs)


def test_mixup_of_two_labels(scores):
    a, b = torch.arange(6), torch.arange(6).flip(0)
    target = 0.3 * torch.eye(7)[a] + 0.7 * torch.eye(7)[b]
    mixed = smooth_topk_loss(scores, target, k=2)
    expected = 0.3 * smooth_topk_loss(scores, a, k=2) + 0.7 * smooth_topk_loss(scores, b, k=2)
    torch.testing.assert_close(mixed, expected)


@pytest.mark.parametrize(
    ("loss", "params"),
    [(smooth_topk_loss, {"tau": 0.3}), (topk_hinge_loss, {}), (noised_topk_loss, {"sigma": 0.0})],
)
@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
def test_several_k_are_averaged(scores, loss, params, reduction):
    target, weight = torch.arange(6), torch.arange(6.0).double()
    options = {"sample_weight": weight, "reduction": reduction, **params}
    value = topk_distribution_loss(scores, target, loss=loss, k={1: 1.0, 4: 3.0}, **options)
    expected = 0.25 * loss(scores, target, k=1, **options) + 0.75 * loss(
        scores, target, k=4, **options
    )
    torch.testing.assert_close(value, expected)


def test_module_and_function_agree(scores):
    target = torch.arange(6)
    module = TopKDistributionLoss([SmoothTopKLoss(k=1), SmoothTopKLoss(k=4)], [1.0, 3.0])
    expected = topk_distribution_loss(scores, target, loss=smooth_topk_loss, k={1: 1, 4: 3})
    torch.testing.assert_close(module(scores, target), expected)


@pytest.mark.parametrize(
    ("k", "error"), [(3, TypeError), ({}, ValueError), ({1: 0.0}, ValueError), ({9: 1}, ValueError)]
)
def test_wrong_distributions_are_refused(scores, k, error):
    with pytest.raises(error, match="k"):
        topk_distribution_loss(scores, torch.arange(6), loss=smooth_topk_loss, k=k)


def test_weights_belong_to_losses():
    with pytest.raises(ValueError, match="weights must have 1 numbers; got 2"):
        TopKDistributionLoss([SmoothTopKLoss()], [1.0, 2.0])
