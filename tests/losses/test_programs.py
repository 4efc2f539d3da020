"""Losses that are linear programs: ties, solvers, margins."""

import numpy as np
import pytest
import torch

from sktopk import losses
from tests.losses.cases import (
    PROGRAMS,
    SOLVED,
    assert_same,
    binary_batch,
    every,
    tied_batch,
    value_and_gradient,
)


@every(PROGRAMS)
def test_equals_definition_whatever_ties(case):
    rng = np.random.default_rng(len(str(case)))
    for _ in range(300):
        scores, target, weight = tied_batch(rng, float_weights=case.name != "precision_at_k_loss")
        expected = case.defined(scores, target, weight)
        assert_same(case(scores, target, sample_weight=weight), expected)


@every(SOLVED)
def test_equals_the_program_and_its_multipliers(case):
    rng = np.random.default_rng(1)
    # Multipliers are not unique where scores tie, so only the optimum is compared.
    for batch in [*(tied_batch(rng, n_max=12) for _ in range(20)), binary_batch(128, share=0.1)]:
        scores, target, *weight = batch
        options = {"sample_weight": weight[0]} if weight else {}
        closed = case(scores, target, **options)
        assert_same(case(scores, target, solver="program", **options), closed, 1e-9)
    for seed in range(4):
        scores, target = binary_batch(seed=seed)
        options = {"sample_weight": torch.linspace(0.0, 2.0, len(scores))} if seed % 2 else {}
        closed = value_and_gradient(case, scores, target, **options)
        solved = value_and_gradient(case, scores, target, solver="program", **options)
        assert_same(solved, closed, 1e-8)


@every([case for case in PROGRAMS if case.convex])
def test_gradient_is_a_subgradient_where_scores_tie(case):
    rng = np.random.default_rng(2)
    for _ in range(50):
        scores, target, _ = tied_batch(rng, n_max=9)
        scores = (2 * scores).round() / 2
        loss, gradient = value_and_gradient(case, scores, target)
        for scale in (1e-3, 0.3, 2.0):
            step = scale * torch.from_numpy(rng.normal(size=len(scores)))
            bound = loss + gradient @ step
            assert case(scores + step, target) >= bound - 1e-12, (scores, target, step)


@every(PROGRAMS)
def test_gradient_where_scores_tie(case):
    scores, target = binary_batch(n_samples=12)
    scores = (2 * scores.detach()).round() / 2
    scores[:3], target[:3] = 0.5, 1
    scores[3:6], target[3:6] = -0.5, 0
    _, gradient = value_and_gradient(case, scores, target)
    if case.shares:
        for s in scores.unique():
            for of_class in (target == 0, target == 1):
                tied = gradient[of_class & (scores == s)]
                assert_same(tied, tied[:1].expand_as(tied))
    # Equal scores are pushed apart. The ramp has no gradient for pairs that do not lead.
    equal, target = torch.zeros(12, dtype=torch.float64), torch.arange(12) < 3
    loss, gradient = value_and_gradient(case, equal, target)
    if case.parameters.get("surrogate") != "ramp":
        assert gradient.abs().sum() > 0
        assert case(equal - 1e-3 * gradient, target) < loss


def test_all_samples_are_at_the_top_where_their_weights_sum_to_less():
    scores, target = binary_batch(n_samples=40)
    options = {"k": 5, "sample_weight": torch.full((40,), 0.1)}
    loss, gradient = value_and_gradient(losses.precision_at_k_loss, scores, target, **options)
    assert_same(loss, (target == 0).double().mean(), 1e-6)
    assert (gradient == 0).all()


@pytest.mark.parametrize("solver", ["closed_form", "program"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_beyond_any_precision_beta_leaves_recall_alone(solver, dtype):
    scores = torch.randn(12, generator=torch.Generator().manual_seed(0), dtype=dtype)
    target = torch.arange(12) % 3 == 0
    options = {"beta": 1e30, "solver": solver}
    loss, gradient = value_and_gradient(losses.fbeta_loss, scores, target, **options)
    # All are flagged at some threshold, where no positive has an error.
    assert abs(loss.item()) < 1e-6
    assert gradient.isfinite().all()
