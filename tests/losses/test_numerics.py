"""Losses with numbers of every size and dtype, as documented in docs/api/losses.rst."""

import math
import re
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

from sktopk import losses
from tests.losses import cases
from tests.losses.cases import CLASSES, LOSSES, OF_TWO, PROGRAMS, TOP, Case, every, first_of_each
from tests.losses.data import assert_same, binary_batch, class_batch, value_and_gradient
from tests.named_losses import without_address

PAGE = Path(__file__).parents[2] / "docs/api/losses.rst"


class Other(Case):
    """A loss that is not in cases.py and has no slow definition."""

    batch = staticmethod(class_batch)

    def __call__(self, scores, target, **changes):
        if "generator" in self.parameters:
            self.parameters["generator"].manual_seed(0)
        return super().__call__(scores, target, **changes)


def other(name, **parameters):
    return Other(name, None, parameters)


DRAWN = other("noised_topk_loss", k=2, sigma=0.5, n_noise=3, generator=torch.Generator())
MORE = [
    other("noised_topk_loss", k=1, sigma=0.5, n_noise="exact"),
    other("smooth_topk_loss", k=2, tau=0.0),
    other("topk_distribution_loss", loss=losses.smooth_topk_loss, k={1: 0.5, 3: 0.5}),
    other("pairwise_auc_loss", multi_class="ovo"),
    other("pairwise_auc_loss", multi_class="ovr", surrogate="logistic"),
]
not_finite = pytest.mark.parametrize("value", [math.nan, math.inf])
OF_CLASSES = [*CLASSES, *MORE, DRAWN]
# Losses with fewer surrogates, for tests whose result hardly depends on the surrogate.
SOME = [*TOP[:10], *first_of_each(PROGRAMS), PROGRAMS[-1]]
COMPARED = [*CLASSES, *MORE, *SOME]


def put(scores, position, value):
    again = scores.detach().clone()
    again.view(-1)[position] = value
    return again


@every(OF_CLASSES)
@not_finite
def test_nan_or_infinity_anywhere_makes_the_loss_of_its_sample_nan(case, value):
    scores, target = case.batch()
    couples = case.name == "pairwise_auc_loss"
    options = {} if couples else {"reduction": "none"}
    for position in range(scores.numel()):
        row, bad = position // scores.shape[1], put(scores, position, value)
        loss, gradient = value_and_gradient(case, bad, target, **options)
        expected = True if couples else [i == row for i in range(len(scores))]
        assert loss.isnan().tolist() == expected
        assert gradient[row].isnan().any()
        assert case(bad, target).isnan()


@every(first_of_each(OF_TWO))
@not_finite
def test_nan_or_infinity_in_any_sample_makes_the_loss_of_two_classes_nan(case, value):
    scores, target = case.batch()
    for position in range(len(scores)):
        bad = put(scores, position, value)
        loss, gradient = value_and_gradient(case, bad, target)
        assert loss.isnan()
        assert math.isinf(value) or gradient.isnan().any()
        if case in TOP:
            assert case(bad, target, reduction="none").isnan().all()
            # The loss is NaN even if all labels are negative.
            assert case(bad, torch.zeros_like(target)).isnan()


@every(first_of_each(LOSSES))
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -1.0])
def test_weights_that_are_infinite_nan_or_negative_raise(case, value):
    scores, target = case.batch()
    weight = torch.ones(len(scores)).index_fill(0, torch.tensor([1]), value)
    with pytest.raises(ValueError, match=f"sample_weight must be finite and .*; got {value:g}"):
        case(scores, target, sample_weight=weight)


COMPILED = [
    ("topk_hinge_loss", {"k": 3}, class_batch),
    ("pat_mat_loss", {"tau": 0.3}, binary_batch),
    ("fbeta_loss", {}, binary_batch),
]


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
@pytest.mark.parametrize(("name", "parameters", "batch"), COMPILED)
def test_nan_scores_and_invalid_weights_make_a_compiled_loss_nan(name, parameters, batch):
    torch.compiler.reset()
    scores, target = batch()
    target = target if scores.ndim == 2 else target == 1
    loss = partial(getattr(losses, name), **parameters)
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    weight = torch.ones(len(scores), dtype=scores.dtype)
    assert not compiled(scores, target, sample_weight=weight).isnan()
    for value in (math.nan, math.inf, -1.0):
        assert compiled(scores, target, sample_weight=put(weight, 2, value)).isnan()
        if value != -1:
            assert compiled(put(scores, 3, value), target, sample_weight=weight).isnan()


def test_nan_scores_and_invalid_weights_make_a_loss_under_vmap_nan():
    hinge = torch.func.vmap(lambda s, y, w: losses.topk_hinge_loss(s, y, k=1, sample_weight=w))
    scores = torch.randn(3, 2, 4, generator=torch.Generator().manual_seed(0))
    target, weight = torch.zeros(3, 2, dtype=torch.long), torch.ones(3, 2)
    scores[0, 1, 1], weight[1, 0] = math.nan, -1.0
    found = hinge(scores, target, weight)
    assert found.isnan().tolist() == [True, True, False]
    assert_same(found[2], losses.topk_hinge_loss(scores[2], target[2], k=1), 1e-6)


# Exclude label smoothing: it ignores a masked class, but the limit of its loss is infinite.
@every([case for case in [*OF_CLASSES, *SOME] if "label_smoothing" not in case.parameters])
def test_a_score_of_minus_infinity_has_the_limit_of_the_loss(case):
    scores, target = case.batch()
    for position in range(scores.numel()):
        far, farther = (case(put(scores, position, -d), target) for d in (1e10, 1e12))
        expected = math.inf if farther > 10 * far + 1e3 else farther.item()
        loss, gradient = value_and_gradient(case, put(scores, position, -math.inf), target)
        assert loss.item() == pytest.approx(expected, rel=1e-6), position
        if scores.ndim == 1 and target[position] == 0:
            assert gradient[position] == 0


SIZES = [2.0**e for e in (-149, -126, -60, -10, 0, 10, 24, 60, 100)]
INFINITE_FROM = 2.0**120


def scores_of_size(size, shape, seed):
    """Scores up to this size; some are equal, and some are far smaller."""
    rng = np.random.default_rng(seed)
    scores = rng.uniform(-1, 1, shape) * size
    if seed == 1:
        scores = np.round(rng.uniform(-2, 2, shape)) / 2 * size
    elif seed == 2:
        scores = rng.choice([-1, 1], shape) * size ** rng.uniform(0, 1, shape)
    return torch.from_numpy(np.clip(scores, -size, size)).float()


def assert_near(loss, exact):
    if exact >= INFINITE_FROM:
        assert loss > INFINITE_FROM / 2
        return
    assert loss >= 0
    assert (loss.double() - exact).abs() <= 1e-6 + 2e-5 * exact


@every(COMPARED)
def test_float32_has_the_value_of_float64(case):
    scores, target = case.batch()
    for seed in range(3):
        weight = torch.linspace(0.5, 2, len(scores)) if seed else None
        for size in SIZES:
            scores = scores_of_size(size, scores.shape, seed)
            loss, gradient = value_and_gradient(case, scores, target, sample_weight=weight)
            assert loss.dtype == gradient.dtype == torch.float32
            assert gradient.isfinite().all()
            assert_near(loss, case(scores.double(), target, sample_weight=weight))


@pytest.mark.parametrize("surrogate", ["hinge", "quadratic", "ramp"])
def test_pairs_of_many_float32_scores_have_the_gradient_of_float64(surrogate):
    rng = np.random.default_rng(0)
    scores, target = torch.from_numpy(rng.normal(size=20_000)).float(), np.arange(20_000) % 9 == 0
    loss = partial(losses.pairwise_auc_loss, target=torch.from_numpy(target), surrogate=surrogate)
    slope, exact = (torch.func.grad(loss)(each) for each in (scores, scores.double()))
    assert (slope - exact).abs().max() < 1e-5 * exact.abs().max()


@every(first_of_each(LOSSES))
@pytest.mark.parametrize("scale", [1.0, 1e2, 1e4])
def test_float32_has_the_gradient_of_float64(case, scale):
    scores, target = case.batch(dtype=torch.float32, n_samples=20)
    options = {"sample_weight": torch.linspace(0.2, 3, len(scores))}
    scores = scale * scores.detach()
    _, slope = value_and_gradient(case, scores, target, **options)
    _, exact = value_and_gradient(case, scores.double(), target, **options)
    unit = exact.abs().max().clamp(min=1)
    assert_same(slope.double() / unit, exact / unit, 2e-5)


@every(first_of_each(OF_TWO))
@pytest.mark.parametrize("exponent", [-100, 100])
def test_very_different_weights_of_the_two_classes_cost_no_precision_in_float32(case, exponent):
    scores, target = case.batch(dtype=torch.float32)
    weight = torch.where(target == 1, 2.0**exponent, 2.0**-exponent)
    found = value_and_gradient(case, scores, target, sample_weight=weight)
    exact = value_and_gradient(case, scores.double(), target, sample_weight=weight)
    assert_same([each.double() for each in found], [*exact], 2e-5)


@every(first_of_each(LOSSES))
@pytest.mark.parametrize(("dtype", "size"), [(torch.float16, 65504.0), (torch.bfloat16, 2.0**100)])
def test_half_precision_is_computed_in_float32_with_autocast_or_without(case, dtype, size):
    scores, target = case.batch(dtype=torch.float32)
    half = scores.detach().to(dtype)
    expected, slope = value_and_gradient(case, half.float(), target)
    for enabled in (False, True):
        with torch.autocast("cpu", dtype=dtype, enabled=enabled):
            loss, gradient = value_and_gradient(case, half, target)
        assert (loss.dtype, gradient.dtype) == (torch.float32, dtype)
        assert_same((loss, gradient), (expected, slope.to(dtype)), 1e-6)
    half = (scores.detach() / scores.abs().max() * size).to(dtype)
    assert_near(case(half, target), case(half.double(), target))


BEYOND = [
    ("ldam_loss", [[2e37, 1.0]], [0], {"class_counts": [5, 5]}, 0.0),
    ("ldam_loss", [[1e37, 1e37]], [0], {"class_counts": [5, 5], "max_margin": 0.0}, math.log(2)),
    ("topk_transition_loss", [[3e38, -3e38, 1.0]], [1], {"k": 2}, math.inf),
    ("topk_transition_loss", [[3e38, -3e38, 1.0]], [2], {"k": 2}, 0.0),
    ("focal_loss", [[3e38, -3e38]], [0], {}, 0.0),
    ("focal_loss", [[3e38, -3e38]], [1], {}, math.inf),
    ("logit_adjusted_loss", [[3e38, -3e38]], [0], {"class_counts": [5, 5]}, 0.0),
]


@pytest.mark.parametrize(("name", "scores", "label", "parameters", "expected"), BEYOND)
def test_scores_near_the_largest_float32_do_not_overflow(name, scores, label, parameters, expected):
    loss, gradient = value_and_gradient(
        partial(getattr(losses, name), **parameters), torch.tensor(scores), torch.tensor(label)
    )
    assert loss.item() == pytest.approx(expected, abs=1e-6)
    assert gradient.isfinite().all() or loss.isinf()


def test_the_transition_weight_keeps_its_precision_in_float32():
    # The top k have probability 1, so that the loss is 0, although cross-entropy is 1e4.
    scores, _ = class_batch(n_samples=50, n_classes=6, dtype=torch.float32)
    scores = scores.detach()
    scores[:, 2], scores[:, 3:] = -1e4, -2e4
    loss = losses.topk_transition_loss(scores, torch.full((50,), 2), k=3, reduction="none")
    assert_same(loss, torch.zeros(50), 1e-6)


# The losses that docs/api/losses.rst lists as losses without second derivatives.
(LIST,) = re.findall(r"^Second derivatives.*?^Losses without", PAGE.read_text(), re.M | re.S)
ONCE = set(re.findall(r":func:`(\w+)`", LIST))


def has_second_derivative(case):
    name = case.name
    if name == "topk_distribution_loss":
        name = case.parameters["loss"].__name__
    if name not in ONCE or case.parameters.get("tau") == 0:
        return True
    return name == "pairwise_auc_loss" and case.parameters.get("surrogate") != "logistic"


OF_GROUPS = [(case, False) for case in [*LOSSES, *MORE]] + [(case, True) for case in cases.GROUPED]


@pytest.mark.parametrize(("case", "grouped"), OF_GROUPS, ids=without_address)
def test_second_derivatives_exist_or_raise_as_documented(case, grouped):
    scores, target = case.batch(n_samples=8)
    groups = {"groups": torch.arange(8) // 4} if grouped else {}

    def loss(values):
        return case(values, target, **groups)

    if has_second_derivative(case):
        assert torch.autograd.gradgradcheck(loss, scores)
    else:
        (gradient,) = torch.autograd.grad(loss(scores), scores)
        assert gradient.isfinite().all()
        with pytest.raises(RuntimeError, match="can be differentiated once"):
            torch.autograd.grad(loss(scores), scores, create_graph=True)


@every([case for case in [*LOSSES, *MORE] if has_second_derivative(case)])
def test_second_derivatives_are_finite_with_scores_of_minus_infinity(case):
    scores, target = case.batch(n_samples=8)
    position = (0, (int(target[0]) + 1) % scores.shape[1]) if scores.ndim == 2 else (target == 0)
    scores = scores.detach().clone()
    scores[position] = -math.inf
    scores.requires_grad_()
    loss = case(scores, target)
    (gradient,) = torch.autograd.grad(loss, scores, create_graph=True)
    # The gradient of a piecewise linear loss has no graph: add a term with a graph.
    (second,) = torch.autograd.grad(gradient.square().sum() + 0 * loss, scores)
    assert gradient.isfinite().all()
    assert second.isfinite().all()


def test_backward_can_be_repeated_for_a_loss_without_second_derivative():
    scores, target = binary_batch()
    loss = losses.fbeta_loss(scores, target)
    first, second = (torch.autograd.grad(loss, scores, retain_graph=True) for _ in range(2))
    assert torch.equal(*first, *second)
