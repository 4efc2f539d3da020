"""Every multi-class loss answers the same questions: values, gradients, numbers, batches."""

import math
from dataclasses import replace

import pytest
import torch

from sktopk import losses
from tests.losses.cases import (
    CLASS_COUNTS,
    LOSSES,
    N_CLASSES,
    assert_same,
    every_loss,
    every_loss_of_k,
    every_soft_loss,
    fixed_batch,
    fixed_noise,
    value_and_gradient,
)

# Which of tied classes belong to the top k changes these losses, and is left open.
GROUPS_TOP_CLASSES = ("TopKGroupingLoss", "TopKTransitionLoss")


# The values of the definition.


@every_loss
@pytest.mark.parametrize("seed", range(3))
def test_equals_definition(case, seed):
    scores, target = fixed_batch(n_samples=8, seed=seed)
    assert_same(case(scores, target, reduction="none"), case.defined(scores, target))


@every_loss
@pytest.mark.parametrize("label", [0, 2, 5])
def test_equals_definition_where_scores_tie(case, label):
    # Neither k=2 nor k=3 cuts through tied classes.
    row = [5.0, 5.0, 4.0, 1.0, 1.0, 1.0, 0.0]
    scores, target = torch.tensor([row]).double(), torch.tensor([label])
    assert_same(case(scores, target, reduction="none"), case.defined(scores, target))


@pytest.mark.parametrize("case", [c for c in LOSSES if c.module not in GROUPS_TOP_CLASSES], ids=str)
def test_equals_definition_where_all_scores_tie(case):
    scores, target = torch.full((1, N_CLASSES), 7.0).double(), torch.tensor([2])
    assert_same(case(scores, target, reduction="none"), case.defined(scores, target))


@every_loss_of_k
@pytest.mark.parametrize("k", [1, N_CLASSES - 1])
def test_equals_definition_at_the_edges_of_k(case, k):
    scores, target = fixed_batch()
    case = replace(case, parameters=case.parameters | {"k": k})
    assert_same(case(scores, target, reduction="none"), case.defined(scores, target))


@every_soft_loss
def test_soft_target_equals_definition(case):
    scores, target = fixed_batch()
    mixed = 0.3 * torch.nn.functional.one_hot(target, N_CLASSES) + 0.7 * scores.detach().softmax(1)
    assert_same(case(scores, mixed, reduction="none"), case.defined(scores, mixed))


@every_soft_loss
def test_one_hot_target_equals_class_indices(case):
    scores, target = fixed_batch()
    one_hot = torch.nn.functional.one_hot(target, N_CLASSES).double()
    assert_same(value_and_gradient(case, scores, one_hot), value_and_gradient(case, scores, target))


ROW = [3.0, 2.0, 1.0, 0.5]
THIRDS = [math.log(0.5), math.log(0.3), math.log(0.2)]
HAND = [
    ("cross_entropy_loss", THIRDS, 2, {}, math.log(5)),
    # 0.5 log(1/0.2) + 0.5/3 (log(1/0.5) + log(1/0.3) + log(1/0.2))
    ("cross_entropy_loss", THIRDS, 2, {"label_smoothing": 0.5}, 1.389145362),
    # All equal: tau log(1 + exp(margin/tau) (n-k)/k) = log(1 + e)
    ("smooth_topk_loss", [7.0] * 4, 2, {"k": 2}, 1.313261688),
    ("topk_hinge_loss", ROW, 2, {"k": 2}, 1 + (2.0 - 1.0) / 2),
    ("topk_hinge_loss", ROW, 2, {"k": 2, "scaled": False}, 1 + 2.0 - 1.0),
    ("topk_hinge_loss", ROW, 0, {"k": 1, "margin": 0.5}, 0.0),
    ("topk_hinge_convex_loss", ROW, 2, {"k": 2}, (3.0 + 2.0) / 2),
    # The violations are 2 + 2 - 3 and, of the label itself, 0
    ("topk_hinge_convex_loss", ROW, 0, {"k": 2, "margin": 2.0}, (1.0 + 0.0) / 2),
    ("topk_hinge_calibrated_loss", ROW, 3, {"k": 2}, 1 + 1.0 - 0.5),
    ("topk_hinge_calibrated_loss", ROW, 2, {"k": 2}, 1.0),
    ("topk_grouping_loss", THIRDS, 1, {"k": 2}, -math.log(0.8)),
    ("topk_grouping_loss", THIRDS, 2, {"k": 2}, math.log(5)),
    ("topk_transition_loss", THIRDS, 1, {"k": 2}, -0.2 * math.log(0.3) - 0.8 * math.log(0.8)),
    ("noised_topk_loss", ROW, 3, {"k": 2, "sigma": 0.0}, 1.5),
    ("focal_loss", [0.0] * 4, 1, {"gamma": 1.0}, 0.75 * math.log(4)),
    # Margins 0.25 and 0.5: log(1 + exp(-(0.9 - 0.25 - 0.8)))
    ("ldam_loss", [0.9, 0.8], 0, {"class_counts": [160, 10], "scale": 1.0}, 0.770957048),
    ("logit_adjusted_loss", [0.0, 0.0], 1, {"class_counts": [3, 1]}, math.log(4)),
    # Shares .5, .25, .25: log(1 + e (e_0 e_2) / (e_1 (e_0 + e_2))) = log(1 + e (1/8) / (3/16))
    (
        "smooth_topk_adjusted_loss",
        [0.0, 0.0, 0.0],
        1,
        {"k": 2, "class_counts": [2, 1, 1]},
        math.log(1 + math.e * 2 / 3),
    ),
    # 10 (0.1 + 0.5 - 0.5), the margin of 16 samples half that of one
    (
        "noised_topk_imbalanced_loss",
        [0.75, 0.5, 0.5],
        1,
        {"k": 1, "class_counts": [1, 16, 16], "sigma": 0.0, "scale": 10.0},
        1.0,
    ),
]


@pytest.mark.parametrize(("name", "scores", "label", "parameters", "expected"), HAND)
def test_value_computed_by_hand(name, scores, label, parameters, expected):
    loss = getattr(losses, name)(torch.tensor([scores]), torch.tensor([label]), **parameters)
    assert loss.item() == pytest.approx(expected, rel=1e-6, abs=1e-6)


# Gradients and invariances.


@every_loss
def test_gradient_matches_finite_differences(case):
    scores, target = fixed_batch()
    assert torch.autograd.gradcheck(lambda s: case(s, target, reduction="none"), scores)


def test_detached_weight_only_changes_the_gradient():
    scores, target = fixed_batch()
    transition = next(case for case in LOSSES if case.name == "topk_transition_loss")
    attached = value_and_gradient(transition, scores, target)
    detached = value_and_gradient(transition, scores, target, detach_weight=True)
    assert_same(detached[0], attached[0])
    top = scores.softmax(1).topk(transition.k).values.sum(1).detach()
    cross_entropy = losses.cross_entropy_loss(scores, target, reduction="none")
    grouping = losses.topk_grouping_loss(scores, target, k=transition.k, reduction="none")
    (expected,) = torch.autograd.grad(((1 - top) * cross_entropy + top * grouping).mean(), scores)
    assert_same(detached[1], expected)
    assert (attached[1] - expected).abs().max() > 1e-3


@every_loss
def test_adding_a_constant_to_a_row_changes_nothing(case):
    scores, target = fixed_batch()
    shift = torch.linspace(-3, 50, len(scores), dtype=scores.dtype).unsqueeze(1)
    loss, gradient = value_and_gradient(case, scores, target)
    assert_same(value_and_gradient(case, scores + shift, target), (loss, gradient), 1e-9)
    assert_same(gradient.sum(1), torch.zeros_like(gradient[:, 0]))


@every_loss
def test_order_of_classes_does_not_matter(case):
    scores, target = fixed_batch()
    order = torch.tensor([3, 0, 6, 2, 5, 1, 4])
    changes = {}
    if case.noised:
        changes["noise"] = fixed_noise(scores)[:, order]
    if "class_counts" in case.parameters:
        changes["class_counts"] = [CLASS_COUNTS[j] for j in order]
    permuted = value_and_gradient(case, scores[:, order], order.argsort()[target], **changes)
    loss, gradient = value_and_gradient(case, scores, target)
    assert_same(permuted, (loss, gradient[:, order]))


@pytest.mark.parametrize("case", [c for c in LOSSES if c.bound is not None], ids=str)
def test_bounds_the_topk_error_from_above(case):
    scores, target = fixed_batch(n_samples=400, seed=5)
    label = scores.gather(1, target.unsqueeze(1))
    error = (scores > label).sum(1) >= case.k
    assert error.sum() > 50
    loss = case(scores, target, reduction="none")
    assert (loss >= case.bound * error.double() - 1e-12).all()


def test_priors_of_the_smooth_loss_are_those_of_cross_entropy_at_one_label():
    scores, target = fixed_batch()
    counts = {"class_counts": CLASS_COUNTS, "reduction": "none"}
    smooth = losses.smooth_topk_adjusted_loss(scores, target, k=1, margin=0.0, **counts)
    assert_same(smooth, losses.logit_adjusted_loss(scores, target, **counts))


def test_equal_priors_change_nothing_in_the_smooth_loss():
    scores, target = fixed_batch()
    equal = losses.smooth_topk_adjusted_loss(scores, target, k=3, class_counts=[4] * N_CLASSES)
    assert_same(equal, losses.smooth_topk_loss(scores, target, k=3))


@pytest.mark.parametrize("k", [1, 3])
def test_convex_hinge_bounds_the_hinge(k):
    scores, target = fixed_batch(n_samples=200)
    convex = losses.topk_hinge_convex_loss(scores, target, k=k, reduction="none")
    hinge = losses.topk_hinge_loss(scores, target, k=k, scaled=False, reduction="none")
    assert (convex >= hinge - 1e-12).all()


HARD_LIMITS = [
    ("smooth_topk_loss", {"k": 3}, "tau", "topk_hinge_loss", {"k": 3}),
    (
        "smooth_topk_adjusted_loss",
        {"k": 3, "class_counts": CLASS_COUNTS},
        "tau",
        "topk_hinge_loss",
        {"k": 3},
    ),
    ("noised_topk_loss", {"k": 3}, "sigma", "topk_hinge_calibrated_loss", {"k": 3}),
    ("focal_loss", {}, "gamma", "cross_entropy_loss", {}),
    ("cross_entropy_loss", {}, "label_smoothing", "cross_entropy_loss", {}),
    ("logit_adjusted_loss", {"class_counts": CLASS_COUNTS}, "tau", "cross_entropy_loss", {}),
    (
        "ldam_loss",
        {"class_counts": CLASS_COUNTS, "scale": 1.0},
        "max_margin",
        "cross_entropy_loss",
        {},
    ),
]


@pytest.mark.parametrize(("name", "parameters", "vanishing", "limit", "of_limit"), HARD_LIMITS)
def test_tends_to_its_limit(name, parameters, vanishing, limit, of_limit):
    scores, target = fixed_batch()
    expected = getattr(losses, limit)(scores, target, **of_limit)

    def distance(value):
        loss = getattr(losses, name)(scores, target, **parameters, **{vanishing: value})
        return (loss - expected).abs().item()

    assert distance(0.0) < 1e-12
    assert distance(1e-6) < 1e-4
    assert distance(0.5) > 1e-3


# Numbers of every size and precision.


@every_loss
@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e2, 1e4, 1e10, 1e30])
def test_finite_at_every_scale_in_float32(case, scale):
    scores, target = fixed_batch(dtype=torch.float32, n_samples=20)
    loss, gradient = value_and_gradient(case, scale * scores, target)
    assert loss.isfinite()
    assert gradient.isfinite().all()
    assert loss >= 0


@every_loss
@pytest.mark.parametrize("scale", [1.0, 100.0, 1e4])
def test_float32_agrees_with_float64(case, scale):
    scores, target = fixed_batch(dtype=torch.float32, n_samples=20)
    noise = {"noise": fixed_noise(scores)} if case.noised else {}
    scores = scale * scores.detach()
    loss, gradient = value_and_gradient(case, scores, target, **noise)
    expected = value_and_gradient(case, scores.double(), target, **noise)
    assert loss.dtype == gradient.dtype == torch.float32
    assert_same((loss.double(), gradient.double()), expected, 1e-5)


def test_transition_weight_keeps_its_digits_in_float32():
    # All probability is in the top k, so the loss is 0, though cross-entropy is 1e4.
    scores, _ = fixed_batch(n_samples=50, n_classes=6, dtype=torch.float32)
    scores = scores.detach()
    scores[:, 2], scores[:, 3:] = -1e4, -2e4
    target = torch.full((50,), 2)
    loss = losses.topk_transition_loss(scores, target, k=3, reduction="none")
    assert_same(loss, torch.zeros(50), 1e-6)


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
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_changes_nothing(case, dtype):
    scores, target = fixed_batch(dtype=torch.float32)
    with torch.autocast("cpu", dtype=dtype):
        result = value_and_gradient(case, scores, target)
    assert_same(result, value_and_gradient(case, scores, target), 1e-6)


# Weights, reductions and batches.


@every_loss
def test_weight_two_equals_a_repeated_row(case):
    scores, target = fixed_batch()
    weight = torch.ones(len(scores)).index_fill(0, torch.tensor([1, 4]), 2.0)
    rows = torch.arange(len(scores)).repeat_interleave(weight.long())
    noise = {"noise": fixed_noise(scores)[rows]} if case.noised else {}
    repeated, gradient = value_and_gradient(case, scores[rows], target[rows], **noise)
    gradient = torch.zeros_like(scores).index_add(0, rows, gradient)
    assert_same(
        value_and_gradient(case, scores, target, sample_weight=weight), (repeated, gradient)
    )


@every_loss
def test_weight_zero_equals_an_absent_row(case):
    scores, target = fixed_batch()
    keep = torch.tensor([True, False, True, True, False, True])
    noise = {"noise": fixed_noise(scores)[keep]} if case.noised else {}
    absent, absent_gradient = value_and_gradient(case, scores[keep], target[keep], **noise)
    loss, gradient = value_and_gradient(case, scores, target, sample_weight=keep.float())
    assert_same((loss, gradient[keep]), (absent, absent_gradient))
    assert (gradient[~keep] == 0).all()


@every_loss
def test_reductions(case):
    scores, target = fixed_batch()
    weight = torch.linspace(0.5, 3, len(scores), dtype=scores.dtype)
    rows = case(scores, target, reduction="none")
    assert rows.shape == target.shape
    assert_same(case(scores, target, sample_weight=weight, reduction="none"), weight * rows)
    assert_same(case(scores, target, sample_weight=weight, reduction="sum"), (weight * rows).sum())
    assert_same(case(scores, target, sample_weight=weight), (weight * rows).sum() / weight.sum())
    assert_same(case(scores, target), rows.mean())


@every_loss
def test_empty_batch_has_zero_loss(case):
    scores, target = fixed_batch(n_samples=0)
    loss, gradient = value_and_gradient(case, scores, target)
    assert loss == 0
    assert gradient.shape == (0, N_CLASSES)
    assert case(scores, target, reduction="none").shape == (0,)


@every_loss
def test_inputs_are_left_alone(case):
    scores, target = fixed_batch()
    weight = torch.ones(len(scores))
    noise = fixed_noise(scores)
    inputs = (scores, target, weight, noise)
    before = [tensor.detach().clone() for tensor in inputs]
    changes = {"noise": noise} if case.noised else {}
    case(scores, target, sample_weight=weight, **changes).backward()
    assert all(torch.equal(tensor, old) for tensor, old in zip(inputs, before, strict=True))


# Classes that are masked by a score of minus infinity.


@every_loss
def test_masked_class_is_an_absent_class(case):
    masked = 4
    scores, target = fixed_batch(n_samples=12)
    present = torch.arange(N_CLASSES) != masked
    target = torch.where(target == masked, 0, target)
    changes = {}
    if case.noised:
        changes["noise"] = fixed_noise(scores)[:, present]
    if "class_counts" in case.parameters:
        changes["class_counts"] = torch.tensor(CLASS_COUNTS)[present]
    absent = value_and_gradient(case, scores[:, present], target - 1 * (target > masked), **changes)
    loss, gradient = value_and_gradient(
        case, scores.detach().masked_fill(~present, -torch.inf), target
    )
    assert_same((loss, gradient[:, present]), absent)
    assert (gradient[:, masked] == 0).all()


@every_soft_loss
def test_masked_class_with_soft_target(case):
    scores, _ = fixed_batch()
    present = torch.arange(N_CLASSES) != 4
    target = scores.detach()[:, present].softmax(1)
    counts = case.parameters.get("class_counts")
    fewer = {} if counts is None else {"class_counts": torch.tensor(counts)[present]}
    absent = value_and_gradient(case, scores[:, present], target, **fewer)
    full = torch.zeros(scores.shape, dtype=scores.dtype)
    full[:, present] = target
    loss, gradient = value_and_gradient(
        case, scores.detach().masked_fill(~present, -torch.inf), full
    )
    assert_same((loss, gradient[:, present]), absent)


@every_loss
def test_label_alone_has_no_loss(case):
    scores, target = fixed_batch()
    label = torch.nn.functional.one_hot(target, N_CLASSES) == 1
    scores = (scores.detach() - 1000).masked_fill(~label, -torch.inf)
    loss, gradient = value_and_gradient(case, scores, target)
    assert loss == 0
    assert (gradient == 0).all()


@pytest.mark.parametrize(
    "name",
    [
        "smooth_topk_loss",
        "smooth_topk_adjusted_loss",
        "topk_hinge_loss",
        "noised_topk_loss",
        "topk_hinge_calibrated_loss",
        "topk_grouping_loss",
    ],
)
def test_no_loss_where_every_class_fits_in_the_top_k(name):
    scores = torch.tensor([[1.0, 5.0, 3.0]]) - 1000
    masked = torch.nn.functional.pad(scores, (0, 4), value=-torch.inf)
    case = next(case for case in LOSSES if case.name == name and case.k == 3)
    loss, gradient = value_and_gradient(case, masked, torch.tensor([0]))
    assert loss == pytest.approx(0, abs=1e-6)
    torch.testing.assert_close(gradient, torch.zeros_like(gradient))
