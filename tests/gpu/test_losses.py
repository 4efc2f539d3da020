"""Every loss has the same value and gradient on a GPU and on the CPU."""

from itertools import product

import pytest
import torch

from sktopk.losses import NoisedTopKLoss, pairwise_auc_loss, smooth_topk_loss
from tests.gpu import DEVICE, needs_gpu
from tests.losses.cases import CLASSES, OF_TWO
from tests.losses.data import binary_batch, class_batch, value_and_gradient

pytestmark = needs_gpu

SIZES = [(64, 100, 1), (64, 100, 50), (32, 5_000, 5), (4, 100_000, 5), (2, 1_000_003, 1)]


def assert_same(gpu, cpu, **tolerance):
    for result, expected in zip(gpu, cpu, strict=True):
        torch.testing.assert_close(result.cpu(), expected, **tolerance)


def test_multi_class_losses_on_the_gpu_equal_those_on_the_cpu():
    for case, dtype in product(CLASSES, (torch.float64, torch.float32)):
        scores, target = class_batch(40, dtype=dtype)
        cpu = value_and_gradient(case, scores, target)
        gpu = value_and_gradient(case, scores.to(DEVICE), target.to(DEVICE))
        assert_same(gpu, cpu)


def test_binary_losses_on_the_gpu_equal_those_on_the_cpu():
    for case, dtype in product(OF_TWO, (torch.float64, torch.float32)):
        scores, target = (each.detach() for each in binary_batch(40, dtype=dtype))
        scores[7], weight = scores[8], torch.linspace(0.1, 1, 40, dtype=dtype)
        cpu = value_and_gradient(case, scores, target, sample_weight=weight)
        scores, target, weight = (each.to(DEVICE) for each in (scores, target, weight))
        gpu = value_and_gradient(case, scores, target, sample_weight=weight)
        assert_same(gpu, cpu)


@pytest.mark.parametrize("surrogate", ["hinge", "logistic", "ramp"])
@pytest.mark.parametrize("multi_class", ["ovr", "mu"])
def test_the_pairwise_auc_loss_of_several_classes_is_equal_on_gpu_and_cpu(surrogate, multi_class):
    scores, target = class_batch(40, n_classes=5)
    options = {"surrogate": surrogate, "multi_class": multi_class}
    cpu = value_and_gradient(pairwise_auc_loss, scores, target, **options)
    gpu = value_and_gradient(pairwise_auc_loss, scores.to(DEVICE), target.to(DEVICE), **options)
    assert_same(gpu, cpu)


@pytest.mark.parametrize("size", SIZES, ids=str)
def test_the_smooth_topk_loss_of_many_classes_is_equal_on_gpu_and_cpu(size):
    n_samples, n_classes, k = size
    scores, target = class_batch(n_samples, n_classes, dtype=torch.float32)
    for tau in (1.0, 0.01):
        options = {"k": k, "tau": tau, "reduction": "none"}
        cpu = value_and_gradient(smooth_topk_loss, scores, target, **options)
        gpu = value_and_gradient(smooth_topk_loss, scores.to(DEVICE), target.to(DEVICE), **options)
        assert_same(gpu, cpu, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("n_classes", [20, 3000])
def test_noise_comes_from_the_generator_of_the_device(n_classes):
    scores = torch.randn(8, n_classes, device=DEVICE)
    target = torch.zeros(8, dtype=torch.long, device=DEVICE)
    before, values = torch.cuda.get_rng_state(), []
    for seed in (3, 3, 4):
        loss = NoisedTopKLoss(k=3, generator=torch.Generator(DEVICE).manual_seed(seed))
        values.append([loss(scores, target).item() for _ in range(3)])
    assert values[0] == values[1]
    assert values[0] != values[2]
    assert len(set(values[0])) == 3
    assert torch.equal(torch.cuda.get_rng_state(), before)
