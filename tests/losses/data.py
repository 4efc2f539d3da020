"""Random scores and labels for losses, and comparisons of values and gradients."""

import numpy as np
import torch

N_CLASSES = 7
CLASS_COUNTS = (500, 120, 1, 60, 30, 10, 5)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def assert_same(result, expected, tolerance=1e-12):
    torch.testing.assert_close(result, expected, rtol=tolerance, atol=tolerance)


def value_and_gradient(loss, scores, *args, **changes):
    scores = scores.detach().clone().requires_grad_()
    value = loss(scores, *args, **changes)
    (gradient,) = torch.autograd.grad(value.sum(), scores)
    return value.detach(), gradient


def class_batch(n_samples=6, n_classes=N_CLASSES, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    scores = 2 * torch.randn((n_samples, n_classes), dtype=dtype, generator=generator)
    target = torch.randint(n_classes, (n_samples,), generator=generator)
    return scores.requires_grad_(), target


def binary_batch(n_samples=14, seed=0, dtype=torch.float64, share=0.4):
    generator = torch.Generator().manual_seed(seed)
    scores = 1.5 * torch.randn(n_samples, dtype=dtype, generator=generator)
    target = torch.randperm(n_samples, generator=generator) < share * n_samples
    return (scores + 0.5 * target).requires_grad_(), target.long()


def tied_batch(rng, n_max=7, float_weights=True):
    n_samples = int(rng.integers(3, n_max))
    if rng.random() < 0.6:
        scores = rng.integers(-3, 4, n_samples) / 2
    else:
        scores = rng.normal(size=n_samples)
    kind = rng.integers(3)
    if kind == 0:
        weight = np.ones(n_samples)
    elif kind == 1 or not float_weights:
        weight = rng.integers(0, 3, n_samples).astype(float)
    else:
        weight = rng.random(n_samples) * (rng.random(n_samples) < 0.9)
    target = rng.random(n_samples) < 0.5
    return tuple(map(torch.from_numpy, (scores, target, weight)))


def fixed_noise(scores):
    generator = torch.Generator().manual_seed(7)
    return torch.randn((*scores.shape, 4), dtype=torch.float64, generator=generator)
