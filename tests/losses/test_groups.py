"""A threshold or a program for each group: the losses are means over groups, as loops find it."""

import math

import pytest
import torch

from sktopk import losses
from sktopk.losses import (
    KthLargest,
    SurrogateQuantile,
    TopMean,
    accuracy_at_top_loss,
    recall_at_k_loss,
    top_push_loss,
)
from tests.losses.cases import OF_TWO, PROGRAMS, TOP, every, first_of_each, value_and_gradient

# The k of precision at k is at most the number of samples of a group.
GROUPED = [case for case in OF_TWO if case.name != "precision_at_k_loss"]
SOME = [*TOP[:10], *first_of_each(PROGRAMS)[:-1]]
N_SAMPLES, N_GROUPS = 56, 7


def batch(dtype=torch.float64, seed=0):
    """Scores, labels and groups, of which one has no positives and one no negatives."""
    generator = torch.Generator().manual_seed(seed)
    scores = 2 * torch.randn(N_SAMPLES, dtype=dtype, generator=generator)
    target = (torch.rand(N_SAMPLES, generator=generator) < 0.4).long()
    groups = torch.randint(N_GROUPS, (N_SAMPLES,), generator=generator)
    target[groups == 2], target[groups == 5] = 0, 1
    return scores.requires_grad_(), target, groups


def some_weights(groups):
    generator = torch.Generator().manual_seed(1)
    weight = torch.rand(N_SAMPLES, dtype=torch.float64, generator=generator)
    weight[::4] = 0
    weight[groups == 3] = 0
    return weight


def slow_mean(case, scores, target, groups, weight=None):
    """The mean over the groups that count, one group after the other."""
    each = []
    for group in groups.unique():
        rows = groups == group
        own = torch.ones_like(scores[rows]) if weight is None else weight[rows]
        labels = target[rows][own > 0].unique().tolist()
        if len(labels) == 2 or (case in TOP and case.counted in labels):
            each.append(case(scores[rows], target[rows], sample_weight=own))
    return torch.stack(each).mean()


def assert_close(found, expected, **tolerance):
    torch.testing.assert_close(found, expected, **tolerance)


@every(SOME)
@pytest.mark.parametrize("kind", ["weighted", "tied"])
def test_value_and_gradient_are_those_of_a_loop_over_groups(case, kind):
    scores, target, groups = batch()
    weight = some_weights(groups) if kind == "weighted" else None
    if kind == "tied":
        scores = scores.detach().round().requires_grad_()
    expected = slow_mean(case, scores, target, groups, weight)
    (slope,) = torch.autograd.grad(expected, scores)
    loss, gradient = value_and_gradient(case, scores, target, groups=groups, sample_weight=weight)
    assert_close(loss, expected.detach())
    # Multipliers are not unique where the scores of a program tie.
    if kind != "tied" or case in TOP:
        assert_close(gradient, slope)


@every(SOME)
def test_one_group_is_no_group_and_names_and_order_do_not_matter(case):
    scores, target, groups = batch()
    alone = value_and_gradient(case, scores, target, groups=torch.full_like(target, -40))
    assert_close(alone, value_and_gradient(case, scores, target))
    loss, gradient = value_and_gradient(case, scores, target, groups=groups)
    order = torch.randperm(N_SAMPLES, generator=torch.Generator().manual_seed(2))
    names = torch.tensor([-(2**40), 5, 2**62, 0, 17, -3, 10**6])
    for name in (groups, names[groups], -groups.int()):
        found = value_and_gradient(case, scores[order], target[order], groups=name[order])
        assert_close(found, (loss, gradient[order]))


GAPS = [
    (1, 2, 3, 4, 5, 6, 7),
    (0, 1, 2, 4, 5, 6, 7),
    (0, 2, 4, 6, 8, 10, 12),
    (0, 1, 2, 10, 11, 12, 55),
    (9, 11, 20, 30, 31, 48, 55),
]


@every(GROUPED)
@pytest.mark.parametrize("numbers", GAPS, ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_unused_group_numbers_change_nothing(case, numbers, dtype):
    scores, target, groups = batch()
    weight = some_weights(groups)
    expected = slow_mean(case, scores, target, groups, weight)
    (slope,) = torch.autograd.grad(expected, scores)
    names = torch.tensor(numbers)[groups]
    options = {"groups": names, "sample_weight": weight}
    loss, gradient = value_and_gradient(case, scores.to(dtype), target, **options)
    tolerance = {} if dtype == torch.float64 else {"rtol": 1e-4, "atol": 1e-5}
    assert_close(loss.double(), expected.detach(), **tolerance)
    assert_close(gradient.double(), slope, **tolerance)


@pytest.mark.parametrize("numbers", [(0, 1, 2), (0, 2, 3), (0, 2, 4), (1, 3, 5)], ids=str)
def test_gradient_of_the_area_with_unused_group_numbers(numbers):
    scores, target = torch.zeros(6).double(), torch.tensor([1, 0, 1, 0, 1, 0])
    groups = torch.tensor(numbers).repeat_interleave(2)
    loss, gradient = value_and_gradient(losses.pairwise_auc_loss, scores, target, groups=groups)
    assert_close(loss, torch.tensor(1.0).double())
    assert_close(gradient, (1 - 2 * target).double() / 3)


@every(TOP[:10])
def test_reductions_agree_and_gradient_is_that_of_finite_differences(case):
    scores, target, groups = batch()
    weight = some_weights(groups) + 0.1
    options = {"groups": groups, "sample_weight": weight}
    rows = case(scores, target, reduction="none", **options)
    assert not rows[target != case.counted].any()
    assert_close(case(scores, target, reduction="sum", **options), rows.sum())
    assert_close(case(scores, target, **options), slow_mean(case, scores, target, groups, weight))
    assert torch.autograd.gradcheck(lambda s: case(s, target, groups=groups), scores)


@every(SOME)
def test_groups_without_a_class(case):
    scores, target, groups = batch()
    loss, gradient = value_and_gradient(case, scores, target, groups=groups)
    bare = (groups == 2) | (groups == 5)
    if case in TOP:
        bare = groups == (2 if case.counted == 1 else 5)
    # A group without samples that can be errors is no group at all.
    assert not gradient[bare].any()
    assert_close(case(scores[~bare], target[~bare], groups=groups[~bare]).detach(), loss)
    loss, gradient = value_and_gradient(case, scores[bare], target[bare], groups=groups[bare])
    assert loss == 0
    assert not gradient.any()
    loss, _ = value_and_gradient(case, scores[:0], target[:0], groups=groups[:0])
    assert loss == 0


@every(SOME)
def test_minus_infinity_and_undefined_scores(case):
    scores, target, groups = batch()
    scores = scores.detach()
    if case in PROGRAMS:  # as a loop has it, also where that is infinite
        for row in (groups == 1).nonzero().flatten():
            lower = scores.index_fill(0, row, -math.inf)
            expected = slow_mean(case, lower, target, groups)
            assert_close(case(lower, target, groups=groups), expected)
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
def test_many_groups_of_every_size_in_float32_and_half_precision(case):
    generator = torch.Generator().manual_seed(4)
    groups = (torch.rand(10_000, generator=generator) ** 3 * 200).long()
    scores = 2 * torch.randn(10_000, generator=generator)
    target = (torch.rand(10_000, generator=generator) < 0.1).long()
    for dtype in (torch.float32, torch.bfloat16):
        rounded = scores.to(dtype)
        loss = case(rounded, target, groups=groups)
        assert loss.dtype == torch.float32
        expected = slow_mean(case, rounded.double(), target, groups)
        assert_close(loss.double(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("of", ["negatives", "positives", "all"])
def test_thresholds_are_those_of_each_group_alone(of):
    scores, target, groups = batch()
    for threshold in (
        KthLargest(of, k=2),
        KthLargest(of, tau=0.3),
        TopMean(of, k=2),
        SurrogateQuantile(of, tau=0.2),
        SurrogateQuantile(of, tau=0.2, surrogate="hinge"),
        SurrogateQuantile(of, tau=0.2, surrogate="logistic"),
    ):
        t = threshold(scores.detach(), target == 1, None, groups)
        assert t.shape == (N_GROUPS,)
        for group in range(N_GROUPS):
            rows = groups == group
            assert_close(t[group], threshold(scores.detach()[rows], target[rows] == 1))


def test_groups_of_a_function_of_ones_own():
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
    assert_close(loss, torch.stack(each).mean())
    with pytest.raises(TypeError, match="threshold must take groups, called as threshold"):
        accuracy_at_top_loss(
            scores, target, threshold=lambda s, positive, weight: s.median(), groups=groups
        )


def test_k_is_of_each_group():
    scores, target = torch.tensor([3.0, 2.0, 1.0, 9.0, 8.0, 7.0]), torch.tensor([0, 1, 0, 0, 0, 1])
    groups = torch.tensor([0, 0, 0, 1, 1, 1])
    # The positives miss the best of their group by 1 and by 2, those of all by 7 and 2.
    assert recall_at_k_loss(scores, target, k=1, groups=groups) == (4 + 9) / 2
    assert recall_at_k_loss(scores, target, k=1) == (64 + 9) / 2


@pytest.mark.parametrize("k", [2, 30])
def test_the_top_of_a_group_of_fewer_samples_is_all_of_it(k):
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
    assert_close(found, (expected.detach(), gradient))


@pytest.mark.parametrize(
    ("groups", "error", "message"),
    [
        (torch.zeros(3), TypeError, "groups must hold integers, one for each group; got"),
        (torch.zeros(3) > 0, TypeError, "groups must hold integers, .* got torch.bool"),
        ([0, 0, 1], TypeError, "groups must be a torch.Tensor; got list"),
        (torch.zeros(2).long(), ValueError, r"groups must have the shape of scores \(3,\); got"),
    ],
)
def test_bad_groups_are_refused(groups, error, message):
    for loss in (top_push_loss, losses.fbeta_loss):
        with pytest.raises(error, match=message):
            loss(torch.zeros(3), torch.tensor([0, 1, 0]), groups=groups)


def test_groups_are_refused_where_there_are_none():
    scores, target, groups = batch()
    with pytest.raises(ValueError, match="solver='program' must come without groups"):
        losses.fbeta_loss(scores, target, groups=groups, solver="program")
    with pytest.raises(ValueError, match="groups must be None for multi-class scores"):
        losses.pairwise_auc_loss(torch.zeros(N_SAMPLES, 3), target, groups=groups)
    with pytest.raises(TypeError, match="groups"):
        losses.SmoothTopKLoss(k=1)(torch.zeros(3, 4), torch.zeros(3).long(), groups=groups)
