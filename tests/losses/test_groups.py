"""A threshold for each group: the losses are means over groups, as loops over them find it."""

import math

import pytest
import torch

from sktopk import losses
from sktopk.losses import (
    FixedThreshold,
    KthLargest,
    SurrogateQuantile,
    TopMean,
    accuracy_at_top_loss,
    recall_at_k_loss,
    smooth_topk_loss,
    top_push_loss,
)
from tests.losses.program_cases import LOSSES
from tests.losses.top_cases import (
    THRESHOLDS,
    TOP_LOSSES,
    every,
    every_named_loss,
    every_threshold,
    every_top_loss,
)

PROGRAMS = [case for case in LOSSES if case.loss is not losses.precision_at_k_loss]
every_program = every(PROGRAMS)
N_ROWS, N_GROUPS = 56, 7


def batch(dtype=torch.float64, seed=0):
    """Scores, labels and groups, of which one has no positives and one no negatives."""
    generator = torch.Generator().manual_seed(seed)
    scores = 2 * torch.randn(N_ROWS, dtype=dtype, generator=generator)
    target = (torch.rand(N_ROWS, generator=generator) < 0.4).long()
    groups = torch.randint(N_GROUPS, (N_ROWS,), generator=generator)
    target[groups == 2], target[groups == 5] = 0, 1
    return scores.requires_grad_(), target, groups


def with_gradient(case, *args, **params):
    scores = args[0].detach().clone().requires_grad_()
    loss = case(scores, *args[1:], **params)
    (gradient,) = torch.autograd.grad(loss, scores)
    return loss.detach(), gradient


def slow_mean(case, scores, target, groups, weight=None):
    """The mean over the groups with rows that can be errors, one group after the other."""
    each = []
    for group in groups.unique():
        rows = groups == group
        own = None if weight is None else weight[rows]
        counted = target[rows] == case.counted
        if (counted if own is None else counted & (own > 0)).any():
            each.append(case(scores[rows], target[rows], sample_weight=own))
    return torch.stack(each).mean()


@every_top_loss
def test_is_the_mean_over_groups_of_the_definition(case):
    scores, target, groups = batch()
    each = []
    for group in range(N_GROUPS):
        rows = groups == group
        if (target[rows] == case.counted).any():
            counted = target[rows] == case.counted
            each.append(case.defined(scores[rows], target[rows]).sum() / counted.sum())
    expected = torch.stack(each).mean()
    torch.testing.assert_close(case(scores, target, groups=groups).detach(), expected)


@every_top_loss
@pytest.mark.parametrize("weighted", [False, True])
def test_value_and_gradient_are_those_of_a_loop_over_groups(case, weighted):
    scores, target, groups = batch()
    weight = None
    if weighted:
        weight = torch.rand(N_ROWS, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
        weight[::4] = 0
        weight[groups == 3] = 0
    expected = slow_mean(case, scores, target, groups, weight)
    (gradient,) = torch.autograd.grad(expected, scores)
    loss, found = with_gradient(case, scores, target, groups=groups, sample_weight=weight)
    torch.testing.assert_close(loss, expected.detach())
    torch.testing.assert_close(found, gradient)


@every([*TOP_LOSSES, *PROGRAMS])
def test_one_group_is_no_group(case):
    scores, target, _ = batch()
    expected, gradient = with_gradient(case, scores, target)
    loss, found = with_gradient(case, scores, target, groups=torch.full_like(target, -40))
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(found, gradient)


@every_threshold
def test_gradient_is_that_of_finite_differences(case):
    scores, target, groups = batch()
    assert torch.autograd.gradcheck(lambda s: case(s, target, groups=groups), scores)


@pytest.mark.parametrize("surrogate", ["quadratic", "hinge", "logistic"])
def test_second_derivative_of_a_quantile_is_that_of_finite_differences(surrogate):
    scores, target, groups = batch()
    threshold = SurrogateQuantile("negatives", tau=0.3, surrogate=surrogate)

    def loss(scores):
        return accuracy_at_top_loss(scores, target, threshold=threshold, groups=groups)

    assert torch.autograd.gradgradcheck(loss, scores)


@every_threshold
def test_order_of_rows_and_names_of_groups_do_not_matter(case):
    scores, target, groups = batch()
    expected, gradient = with_gradient(case, scores, target, groups=groups)
    order = torch.randperm(N_ROWS, generator=torch.Generator().manual_seed(2))
    names = torch.tensor([-(2**40), 5, 2**62, 0, 17, -3, 10**6])
    for name in (groups, names[groups], -groups.int()):
        loss, found = with_gradient(case, scores[order], target[order], groups=name[order])
        torch.testing.assert_close(loss, expected)
        torch.testing.assert_close(found, gradient[order])


@every([*THRESHOLDS, *PROGRAMS])
def test_weight_is_repetition(case):
    scores, target, groups = batch()
    times = torch.randint(4, (N_ROWS,), generator=torch.Generator().manual_seed(3))
    index = torch.arange(N_ROWS).repeat_interleave(times)
    repeated = scores.detach().clone().requires_grad_()
    expected = case(repeated[index], target[index], groups=groups[index])
    (gradient,) = torch.autograd.grad(expected, repeated)
    loss, found = with_gradient(case, scores, target, groups=groups, sample_weight=times)
    torch.testing.assert_close(loss, expected.detach())
    torch.testing.assert_close(found, gradient)


@every_threshold
def test_reductions_agree(case):
    scores, target, groups = batch()
    weight = torch.rand(N_ROWS, dtype=torch.float64)
    rows = case(scores, target, groups=groups, sample_weight=weight, reduction="none")
    assert rows.shape == scores.shape
    assert not rows[target != case.counted].any()
    total = case(scores, target, groups=groups, sample_weight=weight, reduction="sum")
    torch.testing.assert_close(total, rows.sum())
    each = []
    for group in groups.unique():
        counted = (groups == group) & (target == case.counted)
        if counted.any():
            each.append(rows[counted].sum() / weight[counted].sum())
    mean = case(scores, target, groups=groups, sample_weight=weight)
    torch.testing.assert_close(mean, torch.stack(each).mean())


@every_threshold
def test_groups_without_a_class(case):
    scores, target, groups = batch()
    loss, gradient = with_gradient(case, scores, target, groups=groups)
    assert loss > 0
    absent = 2 if case.counted == 1 else 5
    rows = groups != absent
    # A group without rows that can be errors is no group at all.
    torch.testing.assert_close(case(scores[rows], target[rows], groups=groups[rows]).detach(), loss)
    assert not gradient[groups == absent].any()
    if case.of in ("negatives", "positives"):
        # One without the rows of its threshold has no errors, and counts.
        bare = groups == (5 if case.of == "negatives" else 2)
        assert not gradient[bare].any()
    only = torch.full((N_ROWS,), 1 - case.counted)
    loss, gradient = with_gradient(case, scores, only, groups=groups)
    assert loss == 0
    assert not gradient.any()
    nothing = scores.detach()[:0].requires_grad_()
    loss = case(nothing, target[:0], groups=groups[:0])
    loss.backward()
    assert loss == 0


@every_threshold
def test_ties_rank_in_their_order(case):
    scores, target, groups = batch()
    scores = scores.detach().round()
    expected_scores = scores.clone().requires_grad_()
    expected = slow_mean(case, expected_scores, target, groups)
    (gradient,) = torch.autograd.grad(expected, expected_scores)
    loss, found = with_gradient(case, scores, target, groups=groups)
    torch.testing.assert_close(loss, expected.detach())
    torch.testing.assert_close(found, gradient)


@every_threshold
def test_minus_infinity_and_undefined_scores(case):
    scores, target, groups = batch()
    scores = scores.detach()
    scores[groups == 1] = -math.inf
    if case.errors == "false_positives":
        assert case(scores, target, groups=groups).isfinite()
    for value in (math.inf, math.nan):
        scores[40] = value
        assert case(scores, target, groups=groups).isnan()
    weight = torch.ones(N_ROWS)
    weight[40] = 0
    assert not case(scores, target, groups=groups, sample_weight=weight).isnan()


@every_threshold
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_dtypes(case, dtype):
    scores, target, groups = batch(dtype)
    loss = case(scores, target, groups=groups)
    assert loss.dtype == torch.float32
    expected = case(scores.detach().double(), target, groups=groups)
    torch.testing.assert_close(loss.detach().double(), expected, rtol=1e-4, atol=1e-4)


@every_named_loss
def test_modules_take_groups(case):
    scores, target, groups = batch()
    module = getattr(losses, case.module)(surrogate=case.surrogate, **case.parameters)
    assert module(scores, target, groups=groups) == case(scores, target, groups=groups)


@pytest.mark.parametrize("of", ["negatives", "positives", "all"])
def test_a_row_more_in_one_group_moves_no_other_threshold(of):
    scores, target, groups = batch()
    for threshold in (
        KthLargest(of, k=2),
        KthLargest(of, tau=0.3),
        TopMean(of, k=2),
        SurrogateQuantile(of, tau=0.2),
        SurrogateQuantile(of, tau=0.2, surrogate="hinge"),
        FixedThreshold(KthLargest(of, k=2)),
    ):
        t = threshold(scores.detach(), target == 1, None, groups)
        assert t.shape == (N_GROUPS,)
        for group in range(N_GROUPS):
            rows = groups == group
            alone = threshold(scores.detach()[rows], target[rows] == 1)
            torch.testing.assert_close(t[group], alone)


def test_a_thousand_groups_of_every_size():
    generator = torch.Generator().manual_seed(4)
    groups = (torch.rand(20_000, generator=generator) ** 3 * 1000).long()
    scores = torch.randn(20_000, generator=generator)
    target = (torch.rand(20_000, generator=generator) < 0.1).long()
    for case in TOP_LOSSES[:10]:
        found = case(scores, target, groups=groups)
        torch.testing.assert_close(found, slow_mean(case, scores, target, groups))


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
    with pytest.raises(error, match=message):
        top_push_loss(torch.zeros(3), torch.tensor([0, 1, 0]), groups=groups)


def test_a_function_without_groups_is_refused():
    def median(scores, positive, weight):
        return scores.median()

    scores, target, groups = batch()
    for threshold in (median, FixedThreshold(median)):
        with pytest.raises(TypeError, match="threshold must take groups, called as threshold"):
            accuracy_at_top_loss(scores, target, threshold=threshold, groups=groups)
    with pytest.raises(TypeError, match="groups"):
        losses.SmoothTopKLoss(k=1)(torch.zeros(3, 4), torch.zeros(3).long(), groups=groups)
    assert smooth_topk_loss(torch.zeros(3, 4), torch.zeros(3).long(), k=1) > 0


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
    torch.testing.assert_close(loss, torch.stack(each).mean())


def test_k_is_of_each_group():
    scores, target = torch.tensor([3.0, 2.0, 1.0, 9.0, 8.0, 7.0]), torch.tensor([0, 1, 0, 0, 0, 1])
    groups = torch.tensor([0, 0, 0, 1, 1, 1])
    # The positives miss the best of their group by 1 and by 2, those of all by 7 and 2.
    assert recall_at_k_loss(scores, target, k=1, groups=groups) == (4 + 9) / 2
    assert recall_at_k_loss(scores, target, k=1) == (64 + 9) / 2


# Losses of the groups as wholes: linear programs.


def slow_mean_of_programs(case, scores, target, groups, weight=None):
    """The mean over the groups with rows of both classes, one group after the other."""
    each = []
    for group in groups.unique():
        rows = groups == group
        own = torch.ones_like(scores[rows]) if weight is None else weight[rows]
        if len(target[rows][own > 0].unique()) == 2:
            each.append(case(scores[rows], target[rows], sample_weight=own))
    return torch.stack(each).mean()


@every_program
def test_programs_are_the_means_over_groups_of_the_definition(case):
    scores, target, groups = batch()
    each = []
    for group in groups.unique():
        rows = groups == group
        if len(target[rows].unique()) == 2:
            each.append(case.defined(scores[rows], target[rows]))
    loss = case(scores, target, groups=groups).item()
    assert loss == pytest.approx(sum(each) / len(each), rel=1e-10)


@every_program
@pytest.mark.parametrize("weighted", [False, True])
def test_programs_and_their_gradient_are_those_of_a_loop(case, weighted):
    for seed in range(4):
        scores, target, groups = batch(seed=seed)
        weight = None
        if weighted:
            generator = torch.Generator().manual_seed(seed)
            weight = torch.rand(N_ROWS, dtype=torch.float64, generator=generator)
            weight[::4] = 0
            weight[groups == 3] = 0
        expected = slow_mean_of_programs(case, scores, target, groups, weight)
        (gradient,) = torch.autograd.grad(expected, scores)
        loss, found = with_gradient(case, scores, target, groups=groups, sample_weight=weight)
        torch.testing.assert_close(loss, expected.detach())
        torch.testing.assert_close(found, gradient)


@every_program
def test_tied_scores_in_programs(case):
    scores, target, groups = batch()
    scores = (2 * scores.detach()).round() / 2
    expected = slow_mean_of_programs(case, scores, target, groups)
    torch.testing.assert_close(case(scores, target, groups=groups), expected)


@every_program
def test_groups_without_a_class_teach_a_program_nothing(case):
    scores, target, groups = batch()
    loss, gradient = with_gradient(case, scores, target, groups=groups)
    bare = (groups == 2) | (groups == 5)
    assert not gradient[bare].any()
    rest = case(scores[~bare], target[~bare], groups=groups[~bare]).detach()
    torch.testing.assert_close(rest, loss)
    loss, gradient = with_gradient(case, scores[bare], target[bare], groups=groups[bare])
    assert loss == 0
    assert not gradient.any()
    nothing = scores.detach()[:0].requires_grad_()
    loss = case(nothing, target[:0], groups=groups[:0])
    loss.backward()
    assert loss == 0


@every_program
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_programs_of_groups_of_every_size(case, dtype):
    generator = torch.Generator().manual_seed(4)
    groups = (torch.rand(20_000, generator=generator) ** 3 * 200).long()
    scores = (2 * torch.randn(20_000, generator=generator)).to(dtype)
    target = (torch.rand(20_000, generator=generator) < 0.1).long()
    found = case(scores, target, groups=groups)
    assert found.dtype == torch.float32
    expected = slow_mean_of_programs(case, scores.double(), target, groups)
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-6)


@every_program
def test_undefined_scores_in_groups_of_a_program(case):
    scores, target, groups = batch()
    scores = scores.detach()
    for value in (math.inf, math.nan):
        scores[40] = value
        assert case(scores, target, groups=groups).isnan()
    weight = torch.ones(N_ROWS)
    weight[40] = 0
    assert not case(scores, target, groups=groups, sample_weight=weight).isnan()


@every_program
@pytest.mark.parametrize("label", [0, 1])
def test_minus_infinity_in_a_group_of_a_program(case, label):
    """As a loop has it, also where that is infinite."""
    scores, target, groups = batch()
    scores = scores.detach()
    for row in ((groups == 1) & (target == label)).nonzero().flatten():
        lower = scores.index_fill(0, row, -math.inf)
        expected = slow_mean_of_programs(case, lower, target, groups)
        torch.testing.assert_close(case(lower, target, groups=groups), expected)


def test_the_pairs_of_a_large_group_come_in_blocks(monkeypatch):
    scores, target, groups = batch()
    loss = losses.PairwiseAUCLoss(surrogate="logistic")
    expected = loss(scores, target, groups=groups)
    monkeypatch.setattr("sktopk.losses.programs._pairwise_auc._PAIRS_AT_ONCE", 5)
    torch.testing.assert_close(loss(scores, target, groups=groups), expected)


@every_program
def test_what_programs_refuse_of_groups(case):
    scores, target, groups = batch()
    with pytest.raises(TypeError, match="groups must hold integers, one for each group"):
        case(scores, target, groups=groups.double())
    if "surrogate" not in case.parameters:
        with pytest.raises(ValueError, match="solver='program' must come without groups"):
            case(scores, target, groups=groups, solver="program")
    if case.loss is losses.pairwise_auc_loss:
        several = torch.zeros(N_ROWS, 3)
        with pytest.raises(ValueError, match="groups must be None for scores of several classes"):
            case(several, target, groups=groups)


@pytest.mark.parametrize("k", [2, 30])
def test_the_top_of_a_group_of_fewer_rows_is_all_of_it(k):
    scores, target, groups = batch()
    each = []
    for group in groups.unique():
        own = groups == group
        if len(target[own].unique()) == 2:
            k_of_group = min(k, int(own.sum()))
            each.append(losses.precision_at_k_loss(scores[own], target[own], k=k_of_group))
    expected = torch.stack(each).mean()
    (gradient,) = torch.autograd.grad(expected, scores)
    loss, found = with_gradient(losses.PrecisionAtKLoss(k=k), scores, target, groups=groups)
    torch.testing.assert_close(loss, expected.detach())
    torch.testing.assert_close(found, gradient)
