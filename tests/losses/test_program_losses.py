"""Losses that are linear programs: their values, gradients and bounds."""

import math

import numpy as np
import pytest
import torch

from sktopk.losses import (
    SurrogateQuantile,
    accuracy_at_top_loss,
    fbeta_loss,
    pairwise_auc_loss,
    pat_mat_np_loss,
    precision_at_k_loss,
    precision_at_recall_program_loss,
    recall_at_fpr_loss,
    recall_at_precision_loss,
)
from tests.losses import program_references as references
from tests.losses.cases import assert_same, value_and_gradient
from tests.losses.program_cases import (
    FBETA,
    FPR,
    LOSSES,
    RECALL,
    Case,
    every,
    every_loss,
    every_program,
    fixed_batch,
    tied_batch,
)

# The values of the definition.


@every_loss
def test_equals_definition_whatever_ties(case):
    """A thousand for each loss."""
    rng = np.random.default_rng(len(str(case)))
    n_cases = sum(other.loss is case.loss for other in LOSSES)
    for _ in range(math.ceil(1000 / n_cases)):
        scores, target, weight = tied_batch(rng, float_weights=case.loss is not precision_at_k_loss)
        expected = case.defined(scores, target, weight)
        loss = case(scores, target, sample_weight=weight).item()
        assert loss == pytest.approx(expected, rel=1e-12, abs=1e-12), (scores, target, weight)


@every_program
def test_equals_the_optimum_and_the_duals_of_highs(case):
    rng = np.random.default_rng(1)
    solved = 0
    while solved < 25:
        scores, target, weight = tied_batch(rng, n_max=12)
        if not 0 < weight @ target.double() < weight.sum() - 1e-9:
            continue
        solved += 1
        expected = case.by_highs(scores, target, weight)
        loss = case(scores, target, sample_weight=weight)
        assert loss.item() == pytest.approx(expected.item(), rel=1e-8, abs=1e-8)
    for seed in range(20):
        scores, target = fixed_batch(seed=seed)
        expected = case.by_highs(scores, target)
        loss, gradient = value_and_gradient(case, scores, target)
        (duals,) = torch.autograd.grad(expected, scores)
        assert_same((loss, gradient), (expected.detach(), duals), 1e-8)


@every_program
@pytest.mark.parametrize("weighted", [False, True])
def test_equals_the_program_solved_by_newton(case, weighted):
    scores, target = fixed_batch()
    weight = torch.linspace(0.0, 2.0, len(scores)) if weighted else None
    closed = value_and_gradient(case, scores, target, sample_weight=weight)
    program = value_and_gradient(case, scores, target, sample_weight=weight, solver="program")
    assert_same(program, closed, 1e-8)


S = [3.0, 1.0, 1.5, 0.0]
Y = [1, 1, 0, 0]
HAND = [
    # Only 1 against 1.5 (hinge 1.5) and 1 against 0 (hinge 0): 1.5 / 4
    (pairwise_auc_loss, {}, 0.375),
    (pairwise_auc_loss, {"surrogate": "quadratic"}, 2.25 / 4),
    (pairwise_auc_loss, {"surrogate": "squared_hinge"}, 2.25 / 4),
    (pairwise_auc_loss, {"surrogate": "ramp"}, 0.25),
    (pairwise_auc_loss, {"margin": 2.0}, (0.25 + 1.25 + 0.5) / 4),
    # Kinks at 0 with P = 0, N = 1 + 2.5, at 1 with P = 1, N = 1.5, and at P >= 2
    (fbeta_loss, {}, 3.5 / 7.5),
    (fbeta_loss, {"beta": 2.0}, 3.5 / 13.5),
    # The positive 1 spends 2 * .25 at tau = 0.5: hinges 2 and .5
    (precision_at_recall_program_loss, {"recall": 0.75}, 1.25),
    (precision_at_recall_program_loss, {"recall": 1.0}, 1.75),
    # The negative 1.5 spends 2 * .25 at tau = 2: hinges 0 and 2
    (recall_at_fpr_loss, {"fpr": 0.25}, 1.0),
    # tau = 2.5: hinges .5 and 2.5, no violation; tau = 0: 0 and 2 * 3.5 / 2
    (recall_at_precision_loss, {"precision": 1.0, "penalty": 100.0}, 1.5),
    (recall_at_precision_loss, {"precision": 1.0, "penalty": 0.1}, 0.175),
    # The best positive leads by 1.5; the next one, 1, is behind 1.5 by .5.
    (precision_at_k_loss, {"k": 1}, 0.0),
    (precision_at_k_loss, {"k": 2}, 0.75),
    # Three of four: one negative at least, and 1 against the second negative.
    (precision_at_k_loss, {"k": 3}, 1 / 3),
]


@pytest.mark.parametrize(("loss", "parameters", "expected"), HAND)
def test_value_computed_by_hand(loss, parameters, expected):
    value = loss(torch.tensor(S), torch.tensor(Y), **parameters)
    assert value.item() == pytest.approx(expected, rel=1e-6)


# Gradients and invariances.


@every_loss
@pytest.mark.parametrize("seed", range(8))
def test_gradient_matches_finite_differences(case, seed):
    scores, target = fixed_batch(seed=seed, n_samples=8 + seed)
    weight = None if seed % 2 else torch.linspace(0.2, 3, len(scores), dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda s: case(s, target, sample_weight=weight), scores)


@every([case for case in LOSSES if case.convex])
def test_gradient_is_a_subgradient_where_scores_tie(case):
    rng = np.random.default_rng(2)
    for _ in range(100):
        scores, target, _ = tied_batch(rng, n_max=9)
        scores = (2 * scores).round() / 2
        loss, gradient = value_and_gradient(case, scores, target)
        for scale in (1e-3, 0.3, 2.0):
            step = scale * torch.from_numpy(rng.normal(size=len(scores)))
            bound = loss + gradient @ step
            assert case(scores + step, target) >= bound - 1e-12, (scores, target, step)


@every([case for case in LOSSES if case.shares])
def test_rows_of_one_class_with_equal_scores_share_their_gradient(case):
    scores, target = fixed_batch(n_samples=12)
    scores = (2 * scores.detach()).round() / 2
    scores[:3], target[:3] = 0.5, 1
    scores[3:6], target[3:6] = -0.5, 0
    _, gradient = value_and_gradient(case, scores, target)
    for s in scores.unique():
        for of_class in (target == 0, target == 1):
            tied = gradient[of_class & (scores == s)]
            assert_same(tied, tied[:1].expand_as(tied))


@every_loss
def test_adding_a_constant_changes_nothing(case):
    scores, target = fixed_batch()
    loss, gradient = value_and_gradient(case, scores, target)
    assert_same(value_and_gradient(case, scores + 50.0, target), (loss, gradient), 1e-9)
    assert_same(gradient.sum(), torch.zeros_like(loss))


@every_loss
def test_margin_is_the_unit_of_scores(case):
    scores, target = fixed_batch()
    margin = case.parameters.get("margin", 1.0)
    loss, gradient = value_and_gradient(case, scores, target)
    scaled = value_and_gradient(case, 3 * scores, target, margin=3 * margin)
    assert_same(scaled, (loss, gradient / 3))


@every_loss
def test_order_of_rows_does_not_matter(case):
    scores, target = fixed_batch()
    order = torch.randperm(len(scores), generator=torch.Generator().manual_seed(1))
    loss, gradient = value_and_gradient(case, scores, target)
    permuted = value_and_gradient(case, scores[order], target[order])
    assert_same(permuted, (loss, gradient[order]))


@every_loss
def test_raising_a_positive_or_lowering_a_negative_does_no_harm(case):
    for seed in range(5):
        scores, target = fixed_batch(seed=seed)
        _, gradient = value_and_gradient(case, scores, target)
        assert (gradient[target == 1] <= 1e-12).all()
        assert (gradient[target == 0] >= -1e-12).all()


@every_loss
def test_zero_once_all_positives_lead_by_two_margins(case):
    scores, target = fixed_batch()
    margin = case.parameters.get("margin", 1.0)
    scores = scores.detach().clamp(-1, 1) + (2 + 2 * margin) * target
    loss, gradient = value_and_gradient(case, scores, target)
    if case.parameters.get("surrogate") == "logistic":
        assert loss < 0.2
    else:
        assert loss == 0
        assert (gradient == 0).all()


# What the losses bound.


def thresholds(scores):
    return [math.inf, *sorted(set(scores.tolist()), reverse=True)]


def rates(scores, target, tau):
    """Counts of true and false positives of the prediction s >= tau."""
    flagged = scores >= tau
    return (flagged & (target == 1)).sum().item(), (flagged & (target == 0)).sum().item()


def bounded(case, metric):
    """Tell whether the loss is never below 1 - metric, the best over thresholds."""
    for seed in range(60):
        scores, target = fixed_batch(seed=seed, n_samples=6 + seed % 20)
        scores = scores.detach() if seed % 2 else scores.detach().round()
        n_positive = int(target.sum())
        n_negative = len(target) - n_positive
        values = [
            metric(*rates(scores, target, tau), n_positive, n_negative)
            for tau in thresholds(scores)
        ]
        assert case(scores, target).item() >= 1 - max(values) - 1e-12


def test_bounds_one_minus_the_best_f_measure():
    for beta in (0.5, 1.0, 2.0):
        square = beta**2
        bounded(
            Case(*FBETA, {"beta": beta}),
            lambda tp, fp, n_pos, n_neg, b=square: (1 + b) * tp / (b * n_pos + tp + fp),
        )


@pytest.mark.parametrize("recall", [0.3, 0.75, 1.0])
def test_bounds_the_false_positive_rate_at_the_recall(recall):
    bounded(
        Case(*RECALL, {"recall": recall}),
        lambda tp, fp, n_pos, n_neg: 1 - fp / n_neg if tp >= recall * n_pos else -math.inf,
    )


@pytest.mark.parametrize("fpr", [0.05, 0.25, 1.0])
def test_bounds_one_minus_the_recall_at_the_false_positive_rate(fpr):
    bounded(
        Case(*FPR, {"fpr": fpr}),
        lambda tp, fp, n_pos, n_neg: tp / n_pos if fp <= fpr * n_neg else -math.inf,
    )


def test_bounds_one_minus_the_recall_where_the_precision_is_reached():
    n_reached = 0
    for seed in range(200):
        scores, target = fixed_batch(seed=seed)
        scores = scores.detach() + 1.5 * target
        lists = scores.tolist(), target.tolist(), [1.0] * len(scores)
        loss, violation = references.best_at_precision(*lists, precision=0.6, penalty=50.0)
        if violation > 1e-12:
            continue
        n_reached += 1
        recalls = [0.0]
        for tau in thresholds(scores):
            tp, fp = rates(scores, target, tau)
            if tp and tp >= 0.6 * (tp + fp):
                recalls.append(tp / target.sum().item())
        assert loss >= 1 - max(recalls) - 1e-12
        closed = recall_at_precision_loss(scores, target, precision=0.6, penalty=50.0)
        assert_same(closed.item(), loss)
    assert n_reached > 30


@pytest.mark.parametrize("k", [1, 3, 6])
def test_bounds_one_minus_the_precision_at_k(k):
    for seed in range(60):
        scores, target = fixed_batch(seed=seed, share=0.2 + 0.01 * seed)
        precision = target[scores.topk(k).indices].double().mean()
        assert precision_at_k_loss(scores, target, k=k) >= 1 - precision - 1e-12


def test_precision_at_k_is_a_mean_of_hinges():
    scores, target = fixed_batch(n_samples=40)
    k = 5
    best = scores[target == 1].sort(descending=True).values[:k].flip(0)
    hinges = (1 - (best - scores[target == 0].sort(descending=True).values[:k])).relu()
    assert_same(precision_at_k_loss(scores, target, k=k), hinges.mean())


@pytest.mark.parametrize("fpr", [0.1, 0.5, 1.0])
def test_recall_at_fpr_is_pat_mat_np_at_the_quantile_of_the_hinge(fpr):
    for seed in range(10):
        scores, target = fixed_batch(seed=seed)
        t = references.surrogate_threshold(
            scores.tolist(), target.tolist(), [1.0] * len(scores), fpr
        )
        hinges = (1 - (scores[target == 1] - t)).relu()
        loss = recall_at_fpr_loss(scores, target, fpr=fpr)
        assert_same(loss.item(), hinges.mean().item())
        pat_mat = accuracy_at_top_loss(
            scores,
            target,
            threshold=SurrogateQuantile("negatives", tau=fpr, surrogate="hinge"),
            surrogate="hinge",
        )
        assert_same(loss, pat_mat)
        gradients = [torch.autograd.grad(value, scores)[0] for value in (loss, pat_mat)]
        assert_same(*gradients)
        # At the quantile of the scores it is another loss; at 1 that is the least of them.
        at_score = pat_mat_np_loss(scores, target, tau=fpr, surrogate="hinge")
        assert fpr == 1 or abs(loss.item() - at_score.item()) > 1e-3


@pytest.mark.parametrize("solver", ["closed_form", "program"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_beyond_any_precision_beta_leaves_recall_alone(solver, dtype):
    random = torch.Generator().manual_seed(0)
    scores = torch.randn(12, generator=random, dtype=dtype, requires_grad=True)
    target = torch.arange(12) % 3 == 0
    loss = fbeta_loss(scores, target, beta=1e30, solver=solver)
    # All are flagged at some threshold, where no positive has an error.
    assert abs(loss.item()) < 1e-6
    (gradient,) = torch.autograd.grad(loss, scores)
    assert gradient.isfinite().all()
