"""Losses with groups equal the mean over groups that a loop computes."""

import math

import pytest
import torch

from sktopk import losses
from sktopk.losses import accuracy_at_top_loss
from tests.losses.cases import GROUPED, PROGRAMS, TOP, every, first_of_each
from tests.losses.data import assert_same, value_and_gradient

SOME = [*TOP[:10], *first_of_each(PROGRAMS)[:-1]]
N_SAMPLES, N_GROUPS = 56, 7


def batch():
    generator = torch.Generator().manual_seed(0)
    scores = 2 * torch.randn(N_SAMPLES, dtype=torch.float64, generator=generator)
    target = (torch.rand(N_SAMPLES, generator=generator) < 0.4).long()
    groups = torch.randint(N_GROUPS, (N_SAMPLES,), generator=generator)
    target[groups == 2], target[groups == 5] = 0, 1
    return scores.requires_grad_(), target, groups


def some_weights(groups):
    generator = torch.Generator().manual_seed(1)
    weight = torch.rand(N_SAMPLES, dtype=torch.float64, generator=generator)
    weight[::4] = 0
    weight[groups == 3] = 0
    return weight * 2.0 ** (8 * groups - 42)  # groups of tiny weight must count, too


def slow_mean(case, scores, target, groups, weight=None):
    each = []
    for group in groups.unique():
        rows = groups == group
        own = torch.ones_like(scores[rows]) if weight is None else weight[rows]
        labels = target[rows][own > 0].unique().tolist()
        if len(labels) == 2 or (case in TOP and case.counted in labels):
            each.append(case(scores[rows], target[rows], sample_weight=own))
    return torch.stack(each).mean()


@every(SOME)
def test_losses_and_gradients_of_tied_scores_equal_those_of_a_loop_over_groups(case):
    scores, target, groups = batch()
    scores = scores.detach().round().requires_grad_()
    expected = slow_mean(case, scores, target, groups)
    loss, gradient = value_and_gradient(case, scores, target, groups=groups)
    assert_same(loss, expected.detach(), 1e-7)
    # If scores tie, the gradient of a linear program is not unique.
    if case in TOP:
        assert_same(gradient, torch.autograd.grad(expected, scores)[0], 1e-7)


NUMBERS = [
    (0, 1, 2, 3, 4, 5, 6), (1, 2, 3, 4, 5, 6, 7), (0, 2, 4, 6, 8, 10, 12),
    (0, 1, 2, 10, 11, 12, 55), (9, 11, 20, 30, 31, 48, 55), (-(2**40), 5, 2**62, 0, 17, -3, 10**6),
    (-40,) * N_GROUPS,
]  # fmt: skip


@every(GROUPED)
@pytest.mark.parametrize("numbers", NUMBERS, ids=str)
def test_numbers_order_and_integer_type_of_groups_do_not_matter(case, numbers):
    scores, target, groups = batch()
    weight, groups = some_weights(groups), torch.tensor(numbers)[groups]
    if max(map(abs, numbers)) < 2**31:
        groups = groups.int()
    expected = slow_mean(case, scores, target, groups, weight)
    (slope,) = torch.autograd.grad(expected, scores)
    order = torch.randperm(N_SAMPLES, generator=torch.Generator().manual_seed(2))
    options = {"groups": groups[order], "sample_weight": weight[order]}
    found = value_and_gradient(case, scores[order], target[order], **options)
    assert_same(found, (expected.detach(), slope[order]), 1e-7)


@every([*TOP[:10], *(case for case in GROUPED if case not in TOP)])
def test_the_reductions_none_sum_and_mean_agree(case):
    scores, target, groups = batch()
    weight = some_weights(groups) + 0.1
    options = {"groups": groups, "sample_weight": weight}
    mean, total = (case(scores, target, reduction=each, **options) for each in ("mean", "sum"))
    assert_same(mean, slow_mean(case, scores, target, groups, weight))
    if case in PROGRAMS:
        assert_same(total, mean * weight.sum())
        return
    rows = case(scores, target, reduction="none", **options)
    assert not rows[target != case.counted].any()
    assert_same(total, rows.sum())


@every(SOME)
def test_the_loss_is_0_if_every_group_lacks_a_needed_class(case):
    scores, target, groups = batch()
    bare = (groups == 2) | (groups == 5)
    if case in TOP:
        bare = groups == (2 if case.counted == 1 else 5)
    for rows in (bare, slice(0)):
        loss, gradient = value_and_gradient(case, scores[rows], target[rows], groups=groups[rows])
        assert loss == 0
        assert not gradient.any()


@every(SOME)
def test_infinite_and_nan_scores_in_a_group_have_the_documented_loss(case):
    scores, target, groups = batch()
    scores = scores.detach()
    if case in PROGRAMS:  # equal to the loop, also if the loss is infinite
        for row in (groups == 1).nonzero().flatten():
            lower = scores.index_fill(0, row, -math.inf)
            expected = slow_mean(case, lower, target, groups)
            assert_same(case(lower, target, groups=groups), expected, 1e-7)
    elif case.errors == "false_positives":
        lower = scores.masked_fill(groups == 1, -math.inf)
        assert case(lower, target, groups=groups).isfinite()
    weight = torch.ones(N_SAMPLES)
    weight[40] = 0
    for value in (math.inf, math.nan):
        scores[40] = value
        assert case(scores, target, groups=groups).isnan()
        assert not case(scores, target, groups=groups, sample_weight=weight).isnan()


@every(SOME)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_many_groups_of_every_size_equal_a_loop_in_float32_and_bfloat16(case, dtype):
    generator = torch.Generator().manual_seed(4)
    groups = (torch.rand(10_000, generator=generator) ** 3 * 200).long()
    scores = (2 * torch.randn(10_000, generator=generator)).to(dtype)
    target = (torch.rand(10_000, generator=generator) < 0.1).long()
    loss = case(scores, target, groups=groups)
    assert loss.dtype == torch.float32
    assert_same(loss.double(), slow_mean(case, scores.double(), target, groups), 1e-4)


def test_a_threshold_function_of_a_user_gets_the_groups():
    def mean(scores, positive, weight, groups):
        sums = torch.zeros(int(groups.max()) + 1, dtype=scores.dtype).index_add(0, groups, scores)
        return sums / torch.bincount(groups, minlength=len(sums))

    scores, target, groups = batch()
    loss = accuracy_at_top_loss(scores, target, threshold=mean, groups=groups)
    each = []
    for group in groups.unique():
        rows = groups == group
        if target[rows].any():
            wrong = scores[rows].mean() - scores[rows][target[rows] == 1]
            each.append((1 + wrong).clamp(min=0).square().mean())
    assert_same(loss, torch.stack(each).mean(), 1e-7)
    with pytest.raises(TypeError, match="threshold must take groups, called as threshold"):
        accuracy_at_top_loss(scores, target, threshold=lambda s, p, w: s.median(), groups=groups)


@pytest.mark.parametrize("k", [2, 30])
def test_a_group_with_fewer_than_k_samples_is_selected_completely(k):
    scores, target, groups = batch()
    each = []
    for group in groups.unique():
        own = groups == group
        if len(target[own].unique()) == 2:
            k_of_group = min(k, int(own.sum()))
            each.append(losses.precision_at_k_loss(scores[own], target[own], k=k_of_group))
    expected = torch.stack(each).mean()
    (gradient,) = torch.autograd.grad(expected, scores)
    found = value_and_gradient(losses.PrecisionAtKLoss(k=k), scores, target, groups=groups)
    assert_same(found, (expected.detach(), gradient), 1e-7)


@pytest.mark.parametrize(
    ("groups", "error", "message"),
    [
        (torch.zeros(3), TypeError, "groups must hold integers, one per sample; got"),
        (torch.zeros(3) > 0, TypeError, "groups must hold integers, .* got torch.bool"),
        ([0, 0, 1], TypeError, "groups must be a torch.Tensor; got list"),
        (torch.zeros(2).long(), ValueError, r"groups must have the shape of scores \(3,\); got"),
    ],
)
@pytest.mark.parametrize("loss", [losses.top_push_loss, losses.fbeta_loss])
def test_groups_of_a_wrong_type_or_shape_raise(loss, groups, error, message):
    with pytest.raises(error, match=message):
        loss(torch.zeros(3), torch.tensor([0, 1, 0]), groups=groups)


def test_losses_that_do_not_support_groups_raise_if_groups_are_given():
    scores, target, groups = batch()
    with pytest.raises(ValueError, match="groups must be None for solver='program'"):
        losses.fbeta_loss(scores, target, groups=groups, solver="program")
    with pytest.raises(ValueError, match="groups must be None for multi-class scores"):
        losses.pairwise_auc_loss(torch.zeros(N_SAMPLES, 3), target, groups=groups)
    with pytest.raises(TypeError, match="groups"):
        losses.SmoothTopKLoss(k=1)(torch.zeros(3, 4), torch.zeros(3).long(), groups=groups)
