"""Losses that are linear programs: ties, solvers, pairs."""

import math

import numpy as np
import pytest
import torch
from sklearn.metrics import roc_auc_score

from sktopk import losses
from sktopk.losses import pairwise_auc_loss
from tests.losses import program_references as references
from tests.losses.cases import PROGRAMS, SOLVED, every
from tests.losses.data import assert_same, binary_batch, class_batch, tied_batch, value_and_gradient


@every(PROGRAMS)
def test_a_loss_with_any_ties_equals_its_definition(case):
    rng = np.random.default_rng(len(str(case)))
    for _ in range(150):
        scores, target, weight = tied_batch(rng, float_weights=case.name != "precision_at_k_loss")
        expected = case.defined(scores, target, weight)
        assert_same(case(scores, target, sample_weight=weight), expected)


@every(SOLVED)
def test_the_closed_form_of_a_loss_and_its_gradient_equal_the_solved_linear_program(case):
    rng = np.random.default_rng(1)
    # The gradient is not unique where scores tie, so only the losses are compared.
    for batch in [*(tied_batch(rng, n_max=12) for _ in range(12)), binary_batch(128, share=0.1)]:
        scores, target, *weight = batch
        options = {"sample_weight": weight[0]} if weight else {}
        closed = case(scores, target, **options)
        assert_same(case(scores, target, solver="program", **options), closed, 1e-9)
    for seed in range(2):
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


def test_kinks_that_differ_only_by_rounding_share_the_gradient():
    scores = torch.tensor([1.5, -0.1, 0.1, 1.9, 0.3, -0.2], dtype=torch.float64, requires_grad=True)
    target = torch.tensor([0, 1, 0, 1, 1, 1])
    losses.recall_at_precision_loss(scores, target, precision=0.9, margin=0.1).backward()
    assert scores.grad.tolist() == pytest.approx([9, -3.5, 0, 0, -2, -3.5])


@every(PROGRAMS)
def test_ties_have_equal_gradients_and_the_gradient_at_equal_scores_reduces_the_loss(case):
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
    # At equal scores, a step against the gradient reduces the loss.
    equal, target = torch.zeros(12, dtype=torch.float64), torch.arange(12) < 3
    loss, gradient = value_and_gradient(case, equal, target)
    assert gradient.abs().sum() > 0
    assert case(equal - 1e-3 * gradient, target) < loss


def test_all_samples_are_at_the_top_if_their_weights_sum_to_less_than_k():
    scores, target = binary_batch(n_samples=40)
    options = {"k": 5, "sample_weight": torch.full((40,), 0.1)}
    loss, gradient = value_and_gradient(losses.precision_at_k_loss, scores, target, **options)
    assert_same(loss, (target == 0).double().mean(), 1e-6)
    assert (gradient == 0).all()


@pytest.mark.parametrize("solver", ["closed_form", "program"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_with_a_huge_beta_the_fbeta_loss_depends_on_recall_only(solver, dtype):
    scores = torch.randn(12, generator=torch.Generator().manual_seed(0), dtype=dtype)
    target, options = torch.arange(12) % 3 == 0, {"beta": 1e30, "solver": solver}
    loss, gradient = value_and_gradient(losses.fbeta_loss, scores, target, **options)
    # A low threshold flags all samples, so the recall is 1 and the loss is 0.
    assert abs(loss.item()) < 1e-6
    assert gradient.isfinite().all()


# Tests of the pairwise loss.

every_surrogate = pytest.mark.parametrize("surrogate", ["hinge", "quadratic", "logistic", "ramp"])
every_average = pytest.mark.parametrize("multi_class", ["ovr", "ovo", "mu"])


def random_batch(rng, n_classes=4):
    n_samples = int(rng.integers(2, 10))
    scores = rng.normal(size=(n_samples, n_classes))
    if rng.random() < 0.5:
        scores = scores.round()
    target = rng.integers(0, n_classes, n_samples)
    weight = rng.integers(0, 3, n_samples) * rng.choice([1.0, 0.37])
    return tuple(map(torch.from_numpy, (scores, target, weight)))


@every_average
@every_surrogate
def test_the_pairwise_loss_of_several_classes_equals_its_definition(multi_class, surrogate, rng):
    for _ in range(60):
        scores, target, weight = random_batch(rng)
        parameters = {"multi_class": multi_class, "surrogate": surrogate, "margin": 0.7}
        arrays = (each.numpy() for each in (scores, target, weight))
        expected = references.multi_class_auc(*arrays, **parameters)
        loss = pairwise_auc_loss(scores, target, sample_weight=weight, **parameters)
        assert loss.item() == pytest.approx(expected, rel=1e-12, abs=1e-12)


@every_average
@pytest.mark.parametrize("weighted", [False, True])
def test_the_pairwise_loss_and_its_gradient_equal_the_solved_linear_program(multi_class, weighted):
    scores, target = class_batch(n_samples=12, n_classes=4, seed=2)
    weight = torch.linspace(0, 2, 12, dtype=torch.float64) if weighted else None
    parameters = {"multi_class": multi_class, "sample_weight": weight}
    closed = value_and_gradient(pairwise_auc_loss, scores, target, **parameters)
    solved = value_and_gradient(pairwise_auc_loss, scores, target, solver="program", **parameters)
    assert_same(solved, closed, 1e-9)


@every_surrogate
def test_the_pairwise_loss_of_a_large_batch_equals_the_mean_of_all_pairs(surrogate):
    scores, target = binary_batch(n_samples=1500, share=0.1)
    assert (target == 0).sum() * (target == 1).sum() > 1 << 17  # several blocks
    z = (scores[target == 0] - scores[target == 1].unsqueeze(1)) / 0.8
    pairs = {
        "hinge": (1 + z).relu(),
        "quadratic": (1 + z).relu().square(),
        "logistic": torch.logaddexp(z, torch.zeros_like(z)) / math.log(2),
        "ramp": (1 + z).clamp(0, 1),
    }
    expected = pairs[surrogate].mean()
    result = value_and_gradient(pairwise_auc_loss, scores, target, surrogate=surrogate, margin=0.8)
    assert_same(result, (expected.detach(), torch.autograd.grad(expected, scores)[0]))


@pytest.mark.parametrize("surrogate", ["hinge", "quadratic", "ramp"])
def test_the_pairwise_loss_of_200_000_samples_fits_into_memory(surrogate):
    # Scores are 0, 1, 2, ..., and odd scores are positives. The negatives above a positive have
    # the distances 1, 3, 5, ...
    n = 100_000
    scores = torch.arange(2 * n, dtype=torch.float64, requires_grad=True)
    loss = pairwise_auc_loss(scores, torch.arange(2 * n) % 2, surrogate=surrogate)
    distance = torch.arange(1, 2 * n, 2, dtype=torch.float64)
    n_pairs = torch.arange(n - 1, -1, -1, dtype=torch.float64)
    hinge = 1 + distance
    pairs = {"hinge": hinge, "quadratic": hinge.square(), "ramp": torch.ones(n)}[surrogate]
    assert_same(loss.detach(), (n_pairs * pairs).sum() / n**2, 1e-10)
    assert torch.autograd.grad(loss, scores)[0].isfinite().all()


@pytest.mark.parametrize("multi_class", ["ovr", "ovo"])
@pytest.mark.parametrize("n_classes", [3, 5])
def test_the_ramp_loss_tends_to_1_minus_the_auc_of_scikit_learn(multi_class, n_classes, rng):
    # Scores sum to 1 in each row, as scikit-learn requires, and every class has labels.
    scores = torch.from_numpy(rng.dirichlet(np.ones(n_classes), 40))
    target = torch.from_numpy(rng.permutation(np.arange(40) % n_classes))
    options = {"surrogate": "ramp", "margin": 1e-9, "multi_class": multi_class}
    area = roc_auc_score(target, scores, multi_class=multi_class, average="macro")
    loss = pairwise_auc_loss(scores, target, **options)
    assert loss.item() == pytest.approx(1 - area, abs=1e-6)


@every_average
@pytest.mark.parametrize("solver", ["closed_form", "program"])
@pytest.mark.parametrize("shape", [(5, 3), (1, 3), (0, 3)])
def test_a_batch_of_one_class_has_zero_pairwise_loss_and_gradient(multi_class, solver, shape):
    scores, target = class_batch(*shape)[0], torch.zeros(shape[0], dtype=torch.int64)
    parameters = {"multi_class": multi_class, "solver": solver}
    result = value_and_gradient(pairwise_auc_loss, scores, target, **parameters)
    assert_same(result, (torch.zeros(()).double(), torch.zeros_like(scores)), 0)


@pytest.mark.parametrize(
    ("parameters", "error", "message"),
    [
        ({"multi_class": "all"}, ValueError, "multi_class='all' must be one of 'ovr', 'ovo', 'mu'"),
        ({"surrogate": "step"}, ValueError, "surrogate='step' must be one of 'hinge', 'quadratic'"),
        (
            {"surrogate": "ramp", "solver": "program"},
            *(ValueError, "solver='program' needs surrogate='hinge'; got 'ramp'"),
        ),
        ({"target": torch.ones(6, 7) / 7}, TypeError, "is defined for integer class indices"),
        ({"target": torch.full((6,), 7)}, ValueError, "class indices from 0 to 6; got 7 to 7"),
        ({"scores": torch.zeros(1, 6, 7)}, ValueError, r"must have shape \(n_samples,\); got sh"),
    ],
)
def test_wrong_arguments_of_pairwise_auc_loss_raise(parameters, error, message):
    scores, target = class_batch()
    with pytest.raises(error, match=message):
        pairwise_auc_loss(**{"scores": scores, "target": target} | parameters)
