"""Every loss over the range that docs/api/losses.rst promises, and differentiated twice."""

import math
import re
from functools import partial

import numpy as np
import pytest
import torch

from sktopk import losses
from sktopk.losses import reduce
from tests.losses import cases, program_cases, top_cases
from tests.losses.cases import value_and_gradient

LARGEST = 2.0**100


class Named:
    """A loss that the tables do not have, with fixed arguments."""

    def __init__(self, name, **parameters):
        self.name, self.parameters = name, parameters

    def __call__(self, scores, target, **changes):
        return getattr(losses, self.name)(scores, target, **(self.parameters | changes))

    def __str__(self):
        return f"{self.name}({', '.join(self.parameters)})"


class Drawn(Named):
    """One that draws noise, always the same."""

    def __call__(self, scores, target, **changes):
        generator = torch.Generator().manual_seed(0)
        return super().__call__(scores, target, generator=generator, **changes)


MORE = [
    Drawn("noised_topk_loss", k=2, sigma=0.5, n_noise=3),
    Named("noised_topk_loss", k=1, sigma=0.5, n_noise="exact"),
    Named("smooth_topk_loss", k=2, tau=0.0),
    Named("topk_distribution_loss", loss=losses.smooth_topk_loss, k={1: 0.5, 3: 0.5}),
    Named("pairwise_auc_loss", multi_class="ovo"),
    Named("pairwise_auc_loss", multi_class="ovr", surrogate="logistic"),
]
OF_CLASSES = [(case, cases.fixed_batch) for case in [*cases.LOSSES, *MORE]]
# Noise that is drawn depends on the dtype, too.
COMPARED = [pair for pair in OF_CLASSES if type(pair[0]) is not Drawn]
# A masked class takes no part in the smoothing, where the limit is infinite.
WITH_LIMIT = [
    pair for pair in OF_CLASSES if "label_smoothing" not in getattr(pair[0], "parameters", {})
]
OF_TWO = [
    *((case, top_cases.top_batch) for case in top_cases.TOP_LOSSES),
    *((case, program_cases.fixed_batch) for case in program_cases.LOSSES),
]


def every(pairs):
    return pytest.mark.parametrize(
        ("case", "batch"), pairs, ids=lambda v: getattr(v, "__name__", str(v))
    )


def name_of(case):
    return getattr(case, "name", None) or case.loss.__name__


def test_no_public_loss_is_missing():
    public = {name for name in losses.__all__ if name.endswith("_loss")}
    assert {name_of(case) for case, _ in OF_CLASSES + OF_TWO} == public


def put(scores, position, value):
    """The scores with another value at this place among all of them."""
    again = scores.detach().clone()
    again.view(-1)[position] = value
    return again


# What is no number.


@every(OF_CLASSES)
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_nan_or_infinity_anywhere_in_a_row_makes_its_loss_nan(case, batch, value):
    scores, target = batch()
    couples = name_of(case) == "pairwise_auc_loss"
    for position in range(scores.numel()):
        row = position // scores.shape[1]
        options = {} if couples else {"reduction": "none"}
        loss, gradient = value_and_gradient(case, put(scores, position, value), target, **options)
        if couples:
            assert loss.isnan()
        else:
            assert loss.isnan().tolist() == [i == row for i in range(len(scores))]
        assert gradient[row].isnan().any()
        assert case(put(scores, position, value), target).isnan()


@every(OF_TWO)
@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_nan_or_infinity_in_any_row_makes_the_loss_of_two_classes_nan(case, batch, value):
    scores, target = batch()
    for position in range(len(scores)):
        bad = put(scores, position, value)
        loss, gradient = value_and_gradient(case, bad, target)
        assert loss.isnan()
        assert math.isinf(value) or gradient.isnan().any()
        if hasattr(case, "threshold"):
            assert case(bad, target, reduction="none").isnan().all()
        # An absent row may have any score.
        weight = torch.ones(len(scores)).index_fill(0, torch.tensor([position]), 0.0)
        assert not case(bad, target, sample_weight=weight).isnan()
        # Neither is it hidden where there is nothing to count.
        assert case(bad, torch.zeros_like(target)).isnan() or name_of(case) in PROGRAM_NAMES


PROGRAM_NAMES = {name_of(case) for case in program_cases.LOSSES}


@every(OF_CLASSES + OF_TWO)
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, -1.0])
def test_weights_that_are_no_weights_are_refused(case, batch, value):
    scores, target = batch()
    weight = torch.ones(len(scores)).index_fill(0, torch.tensor([1]), value)
    message = f"sample_weight must be finite and nonnegative; got {value:g}"
    with pytest.raises(ValueError, match=re.escape(message)):
        case(scores, target, sample_weight=weight)


COMPILED = [
    (losses.topk_hinge_loss, {"k": 3}, cases.fixed_batch),
    (losses.pat_mat_loss, {"tau": 0.3}, top_cases.top_batch),
    (losses.fbeta_loss, {}, program_cases.fixed_batch),
]


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
@pytest.mark.parametrize(("function", "parameters", "batch"), COMPILED)
def test_what_is_no_number_makes_a_compiled_loss_nan(function, parameters, batch):
    torch.compiler.reset()
    scores, target = batch()
    target = target if scores.ndim == 2 else target == 1
    compiled = torch.compile(partial(function, **parameters), fullgraph=True, backend="aot_eager")
    weight = torch.ones(len(scores), dtype=scores.dtype)
    assert not compiled(scores, target, sample_weight=weight).isnan()
    for value in (math.nan, math.inf):
        assert compiled(put(scores, 3, value), target, sample_weight=weight).isnan()
    for value in (math.nan, math.inf, -1.0):
        assert compiled(scores, target, sample_weight=put(weight, 2, value)).isnan()


@pytest.mark.parametrize("value", [math.nan, math.inf, -1.0])
def test_weights_under_vmap(value):
    loss, weight = torch.ones(2, 3), torch.ones(2, 3)
    weight[1, 2] = value
    means = torch.func.vmap(reduce)(loss, weight)
    assert means.isnan().tolist() == [False, True]
    hinge = partial(losses.topk_hinge_loss, k=1)
    scores = torch.randn(2, 3, 4, generator=torch.Generator().manual_seed(0))
    scores[0, 1, 1] = math.nan
    target = torch.zeros(2, 3, dtype=torch.long)
    assert torch.func.vmap(hinge)(scores, target).isnan().tolist() == [True, False]
    expected = hinge(scores[1], target[1])
    torch.testing.assert_close(torch.func.vmap(hinge)(scores, target)[1], expected)


# Minus infinity is the limit.


def in_the_limit(case, scores, target, position):
    """The loss as the score falls: its limit, or infinity."""
    far, farther = (case(put(scores, position, -distance), target) for distance in (1e10, 1e12))
    return math.inf if farther > 10 * far + 1e3 else farther.item()


@every(WITH_LIMIT)
def test_minus_infinity_in_a_row_is_the_limit(case, batch):
    scores, target = batch()
    for position in range(scores.numel()):
        expected = in_the_limit(case, scores, target, position)
        loss = case(put(scores, position, -math.inf), target).item()
        assert loss == pytest.approx(expected, rel=1e-6), position


@every(OF_TWO)
def test_minus_infinity_of_a_row_is_the_limit(case, batch):
    scores, target = batch()
    for position in range(len(scores)):
        expected = in_the_limit(case, scores, target, position)
        loss, gradient = value_and_gradient(case, put(scores, position, -math.inf), target)
        assert loss.item() == pytest.approx(expected, rel=1e-6), position
        if target[position] == 0:
            assert gradient[position] == 0


# The promised range.

SIZES = [2.0**e for e in (-149, -126, -60, -24, -10, 0, 10, 24, 40, 60, 80, 100)]
INFINITE_FROM = 2.0**120


def scores_of_size(size, shape, seed):
    """Scores up to this size, some of them equal, some far smaller."""
    rng = np.random.default_rng(seed)
    scores = rng.uniform(-1, 1, shape) * size
    if seed == 1:
        scores = np.round(rng.uniform(-2, 2, shape)) / 2 * size
    elif seed == 2:
        scores = rng.choice([-1, 1], shape) * size ** rng.uniform(0, 1, shape)
    return torch.from_numpy(np.clip(scores, -size, size)).float()


def assert_near(case, loss, exact, size):
    """Equal up to rounding, of the loss or of a threshold that is not one of the scores."""
    if exact >= INFINITE_FROM:
        assert loss > INFINITE_FROM / 2
        return
    slack = 1e-6 + 2e-5 * exact
    if name_of(case) == "accuracy_at_top_loss":
        rounding = 2.0**-22 * size
        slack += rounding * (1 + 2 * exact.sqrt()) + rounding**2
    assert (loss.double() - exact).abs() <= slack


@every(COMPARED + OF_TWO)
@pytest.mark.parametrize("seed", range(3))
def test_float32_has_the_value_of_float64(case, batch, seed):
    scores, target = batch()
    weight = torch.linspace(0.5, 2, len(scores)) if seed else None
    for size in SIZES:
        scores = scores_of_size(size, scores.shape, seed)
        loss, gradient = value_and_gradient(case, scores, target, sample_weight=weight)
        assert gradient.isfinite().all()
        exact = case(scores.double(), target, sample_weight=weight)
        assert_near(case, loss, exact, size)


@every(OF_TWO)
@pytest.mark.parametrize("exponent", [-100, -64, 64, 100])
def test_classes_of_weights_far_apart_have_the_value_and_gradient_of_float64(case, batch, exponent):
    scores, target = batch(dtype=torch.float32)
    weight = torch.where(target == 1, 2.0**exponent, 2.0**-exponent)
    loss, gradient = value_and_gradient(case, scores, target, sample_weight=weight)
    exact, slope = value_and_gradient(case, scores.double(), target, sample_weight=weight)
    torch.testing.assert_close(loss.double(), exact, rtol=2e-5, atol=1e-6)
    torch.testing.assert_close(gradient.double(), slope, rtol=2e-5, atol=1e-6)


@every(COMPARED + OF_TWO)
def test_half_precision_has_the_value_of_float64(case, batch):
    scores, target = batch()
    for dtype, size in ((torch.float16, 65504.0), (torch.bfloat16, LARGEST)):
        half = (scores.detach() / scores.abs().max() * size).to(dtype)
        loss, gradient = value_and_gradient(case, half, target)
        exact, slope = value_and_gradient(case, half.double(), target)
        assert loss.dtype == torch.float32
        assert_near(case, loss, exact, size)
        # That of a square is larger than the scores, which may be all that their dtype holds.
        assert gradient.isfinite().all() or slope.abs().max() > torch.finfo(dtype).max


@every(COMPARED + OF_TWO)
def test_float64_is_finite_up_to_its_own_size(case, batch):
    """Where the margin is nothing beside them, losses of larger scores are larger in proportion."""
    scores, target = batch()
    scores = scores.detach() / scores.abs().max()
    expected, expected_gradient = value_and_gradient(case, 2.0**100 * scores, target)
    loss, gradient = value_and_gradient(case, 2.0**500 * scores, target)
    assert gradient.isfinite().all()
    if expected == 0:
        assert loss == 0
        return
    degree = (case(2.0**101 * scores, target) / expected).log2().round().item()
    assert loss.item() == pytest.approx(expected.item() * 2.0 ** (400 * degree), rel=1e-9)
    if degree == 1:
        torch.testing.assert_close(gradient, expected_gradient)


BEYOND = [
    ("ldam_loss", [[2e37, 1.0]], [0], {"class_counts": [5, 5]}, 0.0),
    ("ldam_loss", [[3e38, -3e38]], [0], {"class_counts": [5, 5]}, 0.0),
    ("ldam_loss", [[1e37, 1e37]], [0], {"class_counts": [5, 5], "max_margin": 0.0}, math.log(2)),
    ("topk_transition_loss", [[3e38, -3e38, 1.0]], [1], {"k": 2}, math.inf),
    ("topk_transition_loss", [[3e38, -3e38, 1.0]], [2], {"k": 2}, 0.0),
    ("topk_transition_loss", [[3e38, -3e38, 1.0]], [0], {"k": 1}, 0.0),
    ("focal_loss", [[3e38, -3e38]], [0], {}, 0.0),
    ("focal_loss", [[3e38, -3e38]], [1], {}, math.inf),
]


@pytest.mark.parametrize(("name", "scores", "label", "parameters", "expected"), BEYOND)
def test_of_scores_near_the_largest_float32(name, scores, label, parameters, expected):
    scores = torch.tensor(scores, requires_grad=True)
    loss = getattr(losses, name)(scores, torch.tensor(label), **parameters)
    assert loss.item() == pytest.approx(expected, abs=1e-6)
    (gradient,) = torch.autograd.grad(loss, scores)
    assert gradient.isfinite().all() or loss.isinf()


# The second derivative.


def penalty(case, weight, features, target):
    """The squared norm of the gradient by the features of a linear model's loss."""
    scores = (features @ weight).squeeze(-1)
    (gradient,) = torch.autograd.grad(case(scores, target).sum(), features, create_graph=True)
    return gradient.square().sum()


def is_found_with_its_gradient(case):
    """Whether value and gradient are found in one pass, which has no second derivative."""
    parameters = case.parameters
    if name_of(case) in (
        "smooth_topk_loss",
        "smooth_topk_adjusted_loss",
        "topk_distribution_loss",
    ):
        return parameters.get("tau") != 0
    if name_of(case) == "pairwise_auc_loss":
        return parameters.get("surrogate") == "logistic"
    return name_of(case) in PROGRAM_NAMES


@every(OF_CLASSES + OF_TWO)
def test_a_gradient_penalty_is_right_or_refused(case, batch):
    scores, target = batch()
    generator = torch.Generator().manual_seed(5)
    draw = partial(torch.randn, dtype=torch.float64, generator=generator)
    features = draw(len(scores), 3).requires_grad_()
    weight = draw(3, 1 if scores.ndim == 1 else scores.shape[1])
    weight.requires_grad_()
    if is_found_with_its_gradient(case):
        with pytest.raises(RuntimeError, match="can be differentiated once"):
            penalty(case, weight, features, target)
        return
    value = penalty(case, weight, features, target)
    (gradient,) = torch.autograd.grad(value, weight)
    step = 1e-5 * draw(*weight.shape)
    with torch.no_grad():
        ends = weight + step, weight - step
    high, low = (penalty(case, end.requires_grad_(), features, target) for end in ends)
    assert (high - low).item() == pytest.approx((2 * gradient * step).sum().item(), rel=1e-3)


def test_what_refuses_a_second_derivative_has_the_first_again_and_again():
    scores, target = program_cases.fixed_batch()
    for loss in (
        losses.fbeta_loss(scores, target),
        losses.recall_at_fpr_loss(scores, target, fpr=0.3),
    ):
        with pytest.raises(RuntimeError, match="has no backward pass with create_graph=True"):
            torch.autograd.grad(loss, scores, create_graph=True)
        first, second = (torch.autograd.grad(loss, scores, retain_graph=True) for _ in range(2))
        assert torch.equal(first[0], second[0])
