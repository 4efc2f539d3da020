"""Losses that are linear programs as users meet them: numbers, batches, modules, refusals."""

import copy
import inspect
import math
import pickle

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sktopk.losses import precision_at_k_loss
from tests.losses.cases import assert_same, value_and_gradient
from tests.losses.program_cases import (
    LOSSES,
    PROGRAMS,
    TOP,
    Case,
    every,
    every_loss,
    first_of_each,
    fixed_batch,
)

SCORES, LABELS = torch.tensor([3.0, 1.0, 1.5, 0.0]), torch.tensor([1, 1, 0, 0])


# Numbers of every size and precision.


@every_loss
@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e3, 1e6])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_finite_at_every_scale(case, scale, dtype):
    scores, target = fixed_batch(n_samples=40, dtype=dtype)
    loss, gradient = value_and_gradient(case, scale * scores, target)
    assert loss.dtype == gradient.dtype == dtype
    assert loss.isfinite()
    assert gradient.isfinite().all()
    assert loss >= 0


@every_loss
@pytest.mark.parametrize("scale", [1.0, 100.0, 1e4])
def test_float32_agrees_with_float64(case, scale):
    scores, target = fixed_batch(n_samples=40, dtype=torch.float32)
    scores = scale * scores.detach()
    weight = torch.linspace(0.2, 3, len(scores))
    for weights in (None, weight):
        result = value_and_gradient(case, scores, target, sample_weight=weights)
        expected = value_and_gradient(case, scores.double(), target, sample_weight=weights)
        unit = expected[1].abs().max().clamp(min=1)
        assert_same(result[0].double(), expected[0], 2e-5)
        assert_same(result[1].double() / unit, expected[1] / unit, 2e-5)


@every_loss
def test_float32_keeps_the_differences_of_large_scores(case):
    scores, target = fixed_batch(n_samples=40, dtype=torch.float32)
    scores = (scores.detach() * 8).round() / 8
    expected = case(scores.double(), target)
    for shift in (0.0, 1e5):
        assert_same(case(scores + shift, target).double(), expected, 1e-5)


@every_loss
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_computed_in_float32(case, dtype):
    scores, target = fixed_batch(dtype=torch.float32)
    scores = scores.detach().to(dtype)
    loss, gradient = value_and_gradient(case, scores, target)
    expected, expected_gradient = value_and_gradient(case, scores.float(), target)
    assert (loss.dtype, gradient.dtype) == (torch.float32, dtype)
    assert_same((loss, gradient), (expected, expected_gradient.to(dtype)), 1e-6)


@every_loss
def test_autocast_changes_nothing(case):
    scores, target = fixed_batch(dtype=torch.float32)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        result = value_and_gradient(case, scores, target)
    assert_same(result, value_and_gradient(case, scores, target), 1e-6)


@every_loss
@pytest.mark.parametrize("row", range(4))
def test_a_nan_score_is_not_hidden(case, row):
    scores = SCORES.clone()
    scores[row] = math.nan
    assert case(scores, LABELS).isnan()


@every_loss
def test_inputs_are_left_alone(case):
    scores, target = fixed_batch()
    weight = torch.linspace(0, 3, len(scores), dtype=torch.float64)
    before = scores.detach().clone(), target.clone(), weight.clone()
    value_and_gradient(case, scores, target, sample_weight=weight)
    assert_same((scores.detach(), target, weight), before, 0)


# Weights, reductions and batches.


@every_loss
@settings(deadline=None, max_examples=40)
@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.booleans(), st.floats(-3, 3, allow_subnormal=False)),
        min_size=3,
        max_size=9,
    )
)
def test_weight_equals_repeated_rows(case, rows):
    repeats, labels, scores = zip(*rows, strict=True)
    n_repeated = sum(repeats)
    if n_repeated < case.parameters.get("k", 1):
        return
    # Distinct scores: where they tie, the share of a row in the gradient is left open.
    scores = torch.tensor(scores, dtype=torch.float64) + 0.01 * torch.arange(len(scores)).sqrt()
    target, weight = torch.tensor(labels), torch.tensor(repeats)
    index = torch.arange(len(scores)).repeat_interleave(weight)
    weighted = value_and_gradient(case, scores, target, sample_weight=weight)
    loss, gradient = value_and_gradient(case, scores[index], target[index])
    gradient = torch.zeros_like(scores).index_add(0, index, gradient)
    assert_same(weighted, (loss, gradient), 1e-11)


@every_loss
@pytest.mark.parametrize("absent", [0.0, 1e30, math.inf, -math.inf, math.nan])
def test_weight_zero_equals_an_absent_row(case, absent):
    scores, target = fixed_batch()
    keep = torch.arange(len(scores)) % 4 != 1
    scores = torch.where(keep, scores.detach(), absent)
    expected, expected_gradient = value_and_gradient(case, scores[keep], target[keep])
    loss, gradient = value_and_gradient(case, scores, target, sample_weight=keep)
    assert_same((loss, gradient[keep]), (expected, expected_gradient))
    assert (gradient[~keep] == 0).all()


@every_loss
def test_reductions(case):
    scores, target = fixed_batch()
    weight = torch.linspace(0.5, 3, len(scores), dtype=scores.dtype)
    mean = case(scores, target, sample_weight=weight)
    total = case(scores, target, sample_weight=weight, reduction="sum")
    assert_same(total, mean * weight.sum())
    assert_same(case(scores, target, reduction="sum"), case(scores, target) * len(scores))
    with pytest.raises(ValueError, match="reduction='none' must be 'sum' or 'mean'"):
        case(scores, target, reduction="none")
    with pytest.raises(ValueError, match="reduction='average' must be one of 'none', 'sum'"):
        case(scores, target, reduction="average")


@every_loss
@pytest.mark.parametrize("label", [0, 1])
@pytest.mark.parametrize("solver", ["closed_form", "program"])
def test_batch_of_one_class_has_zero_loss_and_gradient(case, label, solver):
    if solver == "program" and case.program is None:
        pytest.skip("has no program")
    scores, _ = fixed_batch(n_samples=5)
    target = torch.full((5,), label)
    absent = torch.tensor([1 - label, *target[1:]])
    weight = torch.tensor([0.0, 1, 1, 0.3, 1])
    for labels, weights in (
        (target, None),
        (target, weight),
        (absent, weight),
        (target, 0 * weight),
    ):
        result = value_and_gradient(case, scores, labels, sample_weight=weights, solver=solver)
        assert_same(result, (torch.zeros(()).double(), torch.zeros(5).double()), 0)


@every([case for case in LOSSES if case.loss is not precision_at_k_loss])
def test_empty_batch_has_zero_loss(case):
    scores = torch.zeros(0, requires_grad=True)
    for solver in ("closed_form", "program") if case.program else ("closed_form",):
        loss = case(scores, torch.zeros(0), solver=solver)
        assert loss == 0
        assert torch.autograd.grad(loss, scores)[0].shape == (0,)


@every_loss
def test_smallest_batches_equal_their_definition(case):
    n = case.parameters.get("k", 1) + 1
    for first in (-2.0, 0.0, 0.3, 5.0):
        for label in (0, 1):
            scores = torch.tensor([first] + [0.0] * (n - 1), dtype=torch.float64)
            target = torch.tensor([label] + [1 - label] * (n - 1))
            loss, gradient = value_and_gradient(case, scores, target)
            assert loss.item() == pytest.approx(case.defined(scores, target), abs=1e-12)
            assert gradient.isfinite().all()


@every_loss
def test_equal_scores_are_defined_and_pushed_apart(case):
    scores, target = torch.zeros(12, dtype=torch.float64), torch.arange(12) < 3
    loss, gradient = value_and_gradient(case, scores, target)
    assert loss.item() == pytest.approx(case.defined(scores, target), abs=1e-12)
    if case.parameters.get("surrogate") == "ramp":
        return  # it has no gradient for pairs that do not lead
    step = scores - 1e-3 * gradient
    assert gradient.abs().sum() > 0
    assert case(step, target) < loss


# Modules, compilation, refusals.


def build(case):
    return case.module(**case.parameters)


@every_loss
def test_module_equals_function(case):
    scores, target = fixed_batch()
    weight = torch.linspace(0, 2, len(scores))
    assert_same(build(case)(scores, target), case(scores, target), 0)
    assert_same(build(case)(scores, target, weight), case(scores, target, sample_weight=weight), 0)
    for duplicate in (pickle.loads(pickle.dumps(build(case))), copy.deepcopy(build(case))):
        assert repr(duplicate) == repr(build(case))
        assert_same(duplicate(scores, target), case(scores, target), 0)


@every_loss
def test_module_has_the_parameters_and_defaults_of_its_function(case):
    of_function = dict(inspect.signature(case.loss).parameters)
    of_module = inspect.signature(case.module).parameters
    for name in ("scores", "target", "sample_weight"):
        del of_function[name]
    of_function.pop("groups", None)
    assert list(of_module) == list(of_function)
    for name, parameter in of_module.items():
        assert parameter.default == of_function[name].default


# torch.compile meets a warning of its own where a loss is an autograd function.
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
@every(first_of_each(LOSSES))
def test_compiles_without_graph_breaks(case):
    """Nor does a GPU wait for the CPU: a graph has no values that Python looks at."""
    torch.compiler.reset()
    scores, target = fixed_batch()
    compiled = torch.compile(lambda s, t: case(s, t), fullgraph=True, backend="aot_eager")
    loss = compiled(scores, target == 1)
    (gradient,) = torch.autograd.grad(loss, scores)
    assert_same((loss.detach(), gradient), value_and_gradient(case, scores, target))


@every_loss
def test_refuses_wrong_tensors(case):
    scores, target = fixed_batch()
    with pytest.raises(TypeError, match=r"scores must be a torch\.Tensor; got ndarray"):
        case(scores.detach().numpy(), target)
    with pytest.raises(TypeError, match=r"scores must be floating point; got torch\.int64"):
        case(scores.long(), target)
    with pytest.raises(ValueError, match=r"target must have the shape of scores \(14,\)"):
        case(scores, target[:3])
    with pytest.raises(ValueError, match="target must hold 0 and 1; got 2"):
        case(scores, 2 * target)
    with pytest.raises(ValueError, match=r"sample_weight must have shape \(14,\).*got \(2,\)"):
        case(scores, target, sample_weight=torch.ones(2))
    with pytest.raises(ValueError, match="solver='newton' must be one of 'closed_form'"):
        case(scores, target, solver="newton")


FRACTIONS = [
    (c, name) for c in PROGRAMS for name in ("recall", "fpr", "precision") if name in c.parameters
]
POSITIVE = [
    (c, name)
    for c in LOSSES
    for name in ("margin", "beta", "penalty")
    if name in inspect.signature(c.loss).parameters
]


@pytest.mark.parametrize(("case", "name"), FRACTIONS, ids=str)
def test_refuses_fractions_out_of_range(case, name):
    scores, target = fixed_batch()
    for value in (0.0, -0.1, 1.001, math.nan, math.inf):
        with pytest.raises(ValueError, match=rf"{name}=.* must be in \(0, 1\]"):
            case(scores, target, **{name: value})
    with pytest.raises(TypeError, match=f"{name} must be a number; got '1'"):
        case(scores, target, **{name: "1"})


@pytest.mark.parametrize(("case", "name"), POSITIVE, ids=str)
def test_refuses_parameters_that_are_not_positive(case, name):
    scores, target = fixed_batch()
    for value in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(ValueError, match=rf"{name}=.* must be finite and positive"):
            case(scores, target, **{name: value})
    with pytest.raises(TypeError, match=f"{name} must be a number; got '1'"):
        case(scores, target, **{name: "1"})


@pytest.mark.parametrize(
    ("k", "error", "message"),
    [
        (0, ValueError, "k=0 must be at least 1"),
        (15, ValueError, r"k=15 must be at most the number of samples \(14\)"),
        (2.0, TypeError, r"k must be an integer; got 2\.0"),
        (True, TypeError, "k must be an integer; got True"),
    ],
)
def test_refuses_k(k, error, message):
    scores, target = fixed_batch()
    with pytest.raises(error, match=message):
        precision_at_k_loss(scores, target, k=k)


def test_all_rows_are_at_the_top_where_weights_sum_to_less():
    scores, target = fixed_batch(n_samples=6)
    weight = torch.full((6,), 0.5)
    loss, gradient = value_and_gradient(Case(*TOP, {"k": 5}), scores, target, sample_weight=weight)
    assert_same(loss, (target == 0).double().mean())
    assert (gradient == 0).all()
