"""Losses made of others: soft targets of the smooth loss, several k at once."""

from functools import partial

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
from tests.losses import references


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
    [(topk_hinge_loss, {}), (noised_topk_loss, {"sigma": 0.0})],
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


@pytest.mark.parametrize("params", [{}, {"tau": 0.3}, {"tau": 0.3, "margin": 0.5}], ids=str)
def test_every_k_divides_scores_by_the_same(scores, params):
    target = torch.arange(6)
    options = {"k": {1: 1.0, 2: 4.0, 4: 3.0}, "reduction": "none"}
    found = topk_distribution_loss(scores, target, loss=smooth_topk_loss, **options, **params)
    tau, margin = params.get("tau", 1.0), params.get("margin", 1.0)
    expected = []
    for row, label in zip(scores.tolist(), target.tolist(), strict=True):
        terms = [
            weight * references.smooth_topk(row, label, k, tau * 4 / k, margin)
            for k, weight in ((1, 1.0), (2, 4.0), (4, 3.0))
        ]
        expected.append(sum(terms) / 8)
    torch.testing.assert_close(found, torch.tensor(expected).double())
    bound = partial(smooth_topk_loss, **params)
    again = topk_distribution_loss(scores, target, loss=bound, **options)
    torch.testing.assert_close(again, found)


def test_without_temperature_a_mixture_of_hinges(scores):
    options = {"k": {1: 1.0, 4: 3.0}, "reduction": "none"}
    hinge, smooth = (
        topk_distribution_loss(scores, torch.arange(6), loss=loss, **options, **params)
        for loss, params in ((topk_hinge_loss, {}), (smooth_topk_loss, {"tau": 0}))
    )
    torch.testing.assert_close(smooth, hinge)


def test_module_and_function_agree(scores):
    target = torch.arange(6)
    module = TopKDistributionLoss([SmoothTopKLoss(k=1, tau=4.0), SmoothTopKLoss(k=4)], [1.0, 3.0])
    expected = topk_distribution_loss(scores, target, loss=smooth_topk_loss, k={1: 1, 4: 3})
    torch.testing.assert_close(module(scores, target), expected)


@pytest.mark.parametrize(
    ("k", "error"),
    [
        (3, TypeError),
        ({}, ValueError),
        ({1: 0.0}, ValueError),
        ({9: 1}, ValueError),
        ({0: 1, 2: 1}, ValueError),
        ({"a": 1, 2: 1}, TypeError),
    ],
)
def test_wrong_distributions_are_refused(scores, k, error):
    with pytest.raises(error, match="k"):
        topk_distribution_loss(scores, torch.arange(6), loss=smooth_topk_loss, k=k)


def test_weights_belong_to_losses():
    with pytest.raises(ValueError, match="weights must have 1 numbers; got 2"):
        TopKDistributionLoss([SmoothTopKLoss()], [1.0, 2.0])
