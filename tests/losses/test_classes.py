"""Losses of several classes: soft targets, masks, limits, bounds, several k."""

import math
from dataclasses import replace
from functools import partial

import pytest
import torch
from torch.nn.functional import one_hot

from sktopk import losses
from tests.losses import references
from tests.losses.cases import CLASSES, COUNTS, cross_entropy_loss, every, function_called
from tests.losses.data import CLASS_COUNTS, N_CLASSES, assert_same, class_batch, value_and_gradient

topk_distribution_loss = function_called("topk_distribution_loss")


@every([case for case in CLASSES if "k" in case.parameters])
@pytest.mark.parametrize("k", [1, N_CLASSES - 1])
def test_a_loss_equals_its_definition_for_the_smallest_and_largest_k(case, k):
    scores, target = class_batch()
    other = replace(case, parameters=case.parameters | {"k": k})
    assert_same(other(scores, target, reduction="none"), other.defined_rows(scores, target))


@every([case for case in CLASSES if case.soft])
def test_a_loss_of_soft_targets_and_its_gradient_by_the_target_equal_their_definition(case):
    scores, target = class_batch()
    hard = one_hot(target, N_CLASSES).double()
    assert_same(value_and_gradient(case, scores, hard), value_and_gradient(case, scores, target))
    mixed = 0.3 * hard + 0.7 * scores.detach().softmax(1)
    assert_same(case(scores, mixed, reduction="none"), case.defined_rows(scores, mixed))
    found = torch.func.grad(lambda each: case(scores.detach(), each, reduction="sum"))(hard)
    for j in range(N_CLASSES):  # the loss is linear in the target
        step = one_hot(torch.tensor(j), N_CLASSES)
        more = case(scores, hard + step, reduction="none") - case(scores, hard, reduction="none")
        assert_same(found[:, j], more.detach())


def test_targets_of_0_have_a_gradient_as_in_cross_entropy_of_torch():
    scores, target = class_batch()
    soft = one_hot(target, N_CLASSES).double()
    for loss in (partial(losses.topk_grouping_loss, k=1), cross_entropy_loss):
        found, expected = (
            torch.func.grad(partial(each, scores.detach()))(soft)
            for each in (loss, torch.nn.functional.cross_entropy)
        )
        assert_same(found, expected)


def test_detached_weight_only_changes_the_gradient():
    scores, target = class_batch()
    transition = partial(losses.topk_transition_loss, k=3)
    attached = value_and_gradient(transition, scores, target)
    detached = value_and_gradient(transition, scores, target, detach_weight=True)
    assert_same(detached[0], attached[0])
    top = scores.softmax(1).topk(3).values.sum(1).detach()
    plain = cross_entropy_loss(scores, target, reduction="none")
    grouping = losses.topk_grouping_loss(scores, target, k=3, reduction="none")
    (expected,) = torch.autograd.grad(((1 - top) * plain + top * grouping).mean(), scores)
    assert_same(detached[1], expected)
    assert (attached[1] - expected).abs().max() > 1e-3


@every([case for case in CLASSES if case.bound is not None])
def test_a_loss_is_an_upper_bound_of_the_topk_error(case):
    scores, target = class_batch(n_samples=400, seed=5)
    label = scores.gather(1, target.unsqueeze(1))
    error = (scores > label).sum(1) >= case.parameters.get("k", 1)
    assert error.sum() > 50
    loss = case(scores, target, reduction="none")
    assert (loss >= case.bound * error.double() - 1e-12).all()


HINGE = "topk_hinge_loss", {"k": 3}
LIMITS = [
    ("smooth_topk_loss", {"k": 3}, "tau", *HINGE),
    ("smooth_topk_adjusted_loss", {"k": 3, **COUNTS}, "tau", *HINGE),
    ("noised_topk_loss", {"k": 3}, "sigma", "topk_hinge_calibrated_loss", {"k": 3}),
    ("focal_loss", {}, "gamma", "cross_entropy_loss", {}),
    ("cross_entropy_loss", {}, "label_smoothing", "cross_entropy_loss", {}),
    ("logit_adjusted_loss", COUNTS, "tau", "cross_entropy_loss", {}),
    ("ldam_loss", {**COUNTS, "scale": 1.0}, "max_margin", "cross_entropy_loss", {}),
]


@pytest.mark.parametrize(("name", "parameters", "vanishing", "limit", "of_limit"), LIMITS)
def test_a_loss_equals_another_if_a_parameter_is_0(name, parameters, vanishing, limit, of_limit):
    scores, target = class_batch()
    expected = function_called(limit)(scores, target, **of_limit)

    def distance(value):
        with torch.random.fork_rng():
            torch.manual_seed(1)
            loss = function_called(name)(scores, target, **parameters, **{vanishing: value})
        return (loss - expected).abs().item()

    assert distance(0.0) < 1e-12
    assert distance(1e-6) < 1e-4
    assert distance(0.5) > 1e-3


@every(CLASSES)
def test_a_masked_class_changes_a_loss_like_an_absent_class(case):
    masked = 4
    scores, target = class_batch(n_samples=12)
    present = torch.arange(N_CLASSES) != masked
    target = torch.where(target == masked, 0, target)
    changes = case.noise_of(scores, (slice(None), present))
    if "class_counts" in case.parameters:
        changes["class_counts"] = torch.tensor(CLASS_COUNTS)[present]
    targets = [(target, target - 1 * (target > masked))]
    if case.soft:
        of_present = scores.detach()[:, present].softmax(1)
        full = torch.zeros_like(scores).index_copy(1, present.nonzero().squeeze(1), of_present)
        targets.append((full.detach(), of_present))
    for whole, fewer in targets:
        absent = value_and_gradient(case, scores[:, present], fewer, **changes)
        hidden = scores.detach().masked_fill(~present, -torch.inf)
        loss, gradient = value_and_gradient(case, hidden, whole)
        assert_same((loss, gradient[:, present]), absent)
        assert (gradient[:, masked] == 0).all()


@every(CLASSES)
def test_the_loss_is_0_if_all_classes_are_in_the_top_k(case):
    scores, target = class_batch()
    label = one_hot(target, N_CLASSES) == 1
    alone = (scores.detach() - 1000).masked_fill(~label, -torch.inf)
    loss, gradient = value_and_gradient(case, alone, target)
    assert loss == 0
    assert (gradient == 0).all()
    # The convex hinge is a mean over the top k, so the loss is positive.
    if case.parameters.get("k") == 3 and case.name != "topk_hinge_convex_loss":
        three = torch.tensor([[1.0, 5.0, 3.0] + [-torch.inf] * 4]) - 1000
        loss, gradient = value_and_gradient(case, three, torch.tensor([0]))
        assert loss == pytest.approx(0, abs=1e-6)
        torch.testing.assert_close(gradient, torch.zeros_like(gradient))


@pytest.mark.parametrize("label_smoothing", [0.0, 0.1, 1.0])
def test_a_masked_label_has_a_finite_loss_only_with_label_smoothing_1(label_smoothing):
    scores = torch.tensor([[-torch.inf, 1.0, 1.0]]).double()
    loss = cross_entropy_loss(scores, torch.tensor([0]), label_smoothing=label_smoothing)
    assert loss == pytest.approx(math.log(2) if label_smoothing == 1 else math.inf)


@pytest.mark.parametrize("reduction", ["none", "mean"])
def test_the_loss_of_several_k_is_their_weighted_mean(reduction):
    scores, target = class_batch()
    options = {"sample_weight": torch.arange(6.0).double(), "reduction": reduction}
    hinge = losses.topk_hinge_loss
    value = topk_distribution_loss(scores, target, loss=hinge, k={1: 1.0, 4: 3.0}, **options)
    one, four = (hinge(scores, target, k=k, **options) for k in (1, 4))
    assert_same(value, 0.25 * one + 0.75 * four)


@pytest.mark.parametrize("params", [{"tau": 1.0}, {"tau": 0.3, "margin": 0.5}], ids=str)
def test_smooth_losses_of_several_k_divide_scores_by_the_same_number(params):
    scores, target = class_batch()
    options = {"k": {1: 1.0, 2: 4.0, 4: 3.0}, "reduction": "none"}
    smooth = losses.smooth_topk_loss
    found = topk_distribution_loss(scores, target, loss=smooth, **options, **params)
    tau, margin = params["tau"], params.get("margin", 1.0)
    expected = []
    for row, label in zip(scores.tolist(), target.tolist(), strict=True):
        terms = [
            weight * references.smooth_topk(row, label, k, tau * 4 / k, margin)
            for k, weight in options["k"].items()
        ]
        expected.append(sum(terms) / 8)
    assert_same(found, torch.tensor(expected, dtype=torch.float64))


@pytest.mark.parametrize(
    ("k", "error", "message"),
    [
        (3, TypeError, "k must be a dict"),
        ({}, ValueError, "k must be a nonempty dict"),
        ({1: 0.0}, ValueError, "k must be a nonempty dict with finite positive weights"),
        ({9: 1}, ValueError, "k=9 must be smaller than the number of classes"),
        ({0: 1, 2: 1}, ValueError, "k=0 must be at least 1"),
    ],
)
def test_wrong_distributions_of_k_raise(k, error, message):
    with pytest.raises(error, match=message):
        topk_distribution_loss(*class_batch(), loss=losses.smooth_topk_loss, k=k)
