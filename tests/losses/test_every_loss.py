"""Tests of every loss: values, gradients, weights and batches."""

import math

import pytest
import torch

from sktopk import losses
from tests.losses import cases
from tests.losses.cases import CLASSES, LOSSES, OF_TWO, PROGRAMS, SOLVED, TOP, every, first_of_each
from tests.losses.data import assert_same, value_and_gradient
from tests.losses.test_absent import AREAS


def test_every_public_loss_has_a_test_case():
    public = {name for name in losses.__all__ if name.endswith("_loss")}
    assert {case.name for case in LOSSES} == public | {"cross_entropy_loss"}
    modules = {getattr(losses, name) for name in losses.__all__ if name.endswith("Loss")}
    assert {case.module for case in LOSSES} == modules - {losses.LinearProgramLoss} | {None}


@every([*CLASSES, *TOP])
@pytest.mark.parametrize("seed", range(3))
def test_a_loss_equals_its_definition(case, seed):
    scores, target = case.batch(n_samples=14, seed=seed)
    assert_same(case(scores, target, reduction="none"), case.defined_rows(scores, target))


@every(CLASSES)
def test_a_loss_of_tied_classes_equals_its_definition(case):
    # For k=2 and k=3, all classes of a tie are in the top k, or none of them.
    scores = torch.tensor([5.0, 5.0, 4.0, 1.0, 1.0, 1.0, 0.0]).double().expand(3, -1)
    target = torch.tensor([0, 2, 5])
    # If all scores are equal, the top k of these two losses is arbitrary.
    grouping = case.name in ("topk_grouping_loss", "topk_transition_loss")
    for each in (scores, torch.full_like(scores, 7.0))[: 1 if grouping else 2]:
        assert_same(case(each, target, reduction="none"), case.defined_rows(each, target))


@every(OF_TWO)
def test_a_loss_of_tied_samples_equals_its_definition(case):
    scores = torch.tensor([2.0, 2.0, 2.0, 1.0, 1.0, 0.0, 0.0, 2.0, -1.0]).double()
    target = torch.tensor([1, 0, 0, 1, 0, 1, 0, 1, 0])
    for each in (scores, torch.full_like(scores, 7.0)):
        loss, gradient = value_and_gradient(case, each, target)
        assert_same(loss, case.defined(each, target))
        assert gradient.isfinite().all()


ROW = [3.0, 2.0, 1.0, 0.5]
THIRDS = [math.log(0.5), math.log(0.3), math.log(0.2)]
ADJUSTED = {"k": 2, "class_counts": [2, 1, 1]}
TWO, OF = [2.0, 1.0, 1.5, 0.5], [1, 1, 0, 0]
# Values of losses that neither the golden file nor test_programs.py checks.
HAND = [
    ("cross_entropy_loss", THIRDS, 2, {}, math.log(5)),
    # 0.5 log(1/0.2) + 0.5/3 (log(1/0.5) + log(1/0.3) + log(1/0.2))
    ("cross_entropy_loss", THIRDS, 2, {"label_smoothing": 0.5}, 1.389145362),
    # The two largest violations are 2 + 2 - 3 = 1 (class 1) and 0; the loss is their mean.
    ("topk_hinge_convex_loss", ROW, 0, {"k": 2, "margin": 2.0}, (1.0 + 0.0) / 2),
    ("logit_adjusted_loss", [0.0, 0.0], 1, {"class_counts": [3, 1]}, math.log(4)),
    # With shares p = 1/2, 1/4, 1/4: log(1 + e (p_0 p_2) / (p_1 (p_0 + p_2))).
    ("smooth_topk_adjusted_loss", [0.0] * 3, 1, ADJUSTED, math.log(1 + math.e * 2 / 3)),
    # The threshold is the score of rank ceil(2 * 0.5) = 1 among the negatives.
    ("pat_mat_np_loss", TWO, OF, {"tau": 0.5}, 1.25),
    # The threshold is the score of rank ceil(3 * 0.5) = 2 among all samples.
    ("pat_mat_loss", TWO[:3], OF[:3], {"tau": 0.5}, 1.25),
    ("precision_at_recall_loss", TWO, OF, {"recall": 1.0}, 1.25),
    ("precision_at_recall_loss", TWO, OF, {"recall": 0.5}, 0.125),
    # Only the pair of 1 and 1.5 has a loss (hinge 1.5, squared 2.25): the hinge of 1 and 0 is 0.
    ("pairwise_auc_loss", [3.0, 1.0, 1.5, 0.0], OF, {"surrogate": "squared_hinge"}, 2.25 / 4),
]


@pytest.mark.parametrize(("name", "scores", "target", "parameters", "expected"), HAND)
def test_a_loss_equals_a_value_computed_by_hand(name, scores, target, parameters, expected):
    scores, target = torch.tensor(scores), torch.tensor(target)
    if not target.ndim:
        scores, target = scores.unsqueeze(0), target.unsqueeze(0)
    loss = cases.function_called(name)(scores, target, **parameters)
    assert loss.item() == pytest.approx(expected, rel=1e-6, abs=1e-6)


@every([*LOSSES, *AREAS])
@pytest.mark.parametrize("weighted", [False, True])
def test_gradient_matches_finite_differences(case, weighted):
    scores, target = case.batch(seed=int(weighted))
    weight = torch.linspace(0.2, 3, len(scores), dtype=torch.float64) if weighted else None
    assert torch.autograd.gradcheck(lambda s: case(s, target, sample_weight=weight), scores)


# Noised losses are excluded, because large scores round the noise. test_absent.py has the same test
# for losses of two classes.
@every([case for case in CLASSES if not case.noised])
def test_adding_a_large_constant_changes_nothing_in_float32(case):
    scores, target = case.batch(dtype=torch.float32)
    # Even integers of one sign, which are exact in float32 up to 2**25.
    scores = 2 * (scores.detach() - scores.max()).round()
    expected, slope = value_and_gradient(case, scores.double(), target)
    for shift in (1e5, 2.0**24):
        loss, gradient = value_and_gradient(case, scores + shift, target)
        assert_same((loss.double(), gradient.double()), (expected, slope), 1e-5)


@pytest.mark.parametrize("name", ["noised_topk_loss", "noised_topk_imbalanced_loss"])
def test_noise_keeps_its_precision_with_large_scores(name):
    generator = torch.Generator().manual_seed(0)
    scores = 2 * torch.randint(0, 3, (20, 6), generator=generator).float()
    options = {"k": 2, "sigma": 0.7, "noise": torch.randn(20, 6, 4, generator=generator)}
    if name == "noised_topk_imbalanced_loss":
        options["class_counts"] = [9, 5, 4, 3, 2, 1]
    loss, target = getattr(losses, name), torch.arange(20) % 6
    expected = loss(scores, target, **options).item()
    assert loss(scores + 2.0**17, target, **options).item() == pytest.approx(expected, rel=1e-6)


def test_a_very_high_score_costs_smooth_topk_adjusted_loss_no_precision():
    scores = torch.tensor([[2.0**27, 1.5, 1.25, 0.75, 0.5]]).expand(4, -1)
    options = {"class_counts": [5, 4, 3, 2, 1], "k": 2, "reduction": "none"}
    found, exact = (
        losses.smooth_topk_adjusted_loss(each, torch.arange(1, 5), **options)
        for each in (scores, scores.double())
    )
    assert_same(found.double(), exact, 1e-5)


@every(LOSSES)
def test_a_sample_weight_equals_repetitions_of_the_sample(case):
    for seed in range(3):
        scores, target = case.batch(seed=seed)
        generator = torch.Generator().manual_seed(seed)
        weight = torch.randint(4, (len(scores),), generator=generator)
        index = torch.arange(len(scores)).repeat_interleave(weight)
        noise = case.noise_of(scores, index)
        loss, gradient = value_and_gradient(case, scores[index], target[index], **noise)
        gradient = torch.zeros_like(scores).index_add(0, index, gradient)
        weighted = value_and_gradient(case, scores, target, sample_weight=weight)
        assert_same(weighted, (loss, gradient), 1e-10)


@every(first_of_each(LOSSES))
def test_reductions_do_not_change_the_inputs(case):
    scores, target = case.batch()
    weight = torch.linspace(0.5, 3, len(scores), dtype=scores.dtype)
    inputs = scores, target, weight
    before = [tensor.detach().clone() for tensor in inputs]
    mean = case(scores, target, sample_weight=weight)
    mean.backward()
    assert all(torch.equal(tensor, old) for tensor, old in zip(inputs, before, strict=True))
    with torch.inference_mode():
        assert_same(case(before[0], before[1]), case(scores, target).detach())
    total = case(scores, target, sample_weight=weight, reduction="sum")
    if case in PROGRAMS:
        assert_same(total, mean * weight.sum())
        with pytest.raises(ValueError, match="reduction must be 'sum' or 'mean'"):
            case(scores, target, reduction="none")
        return
    rows = case(scores, target, reduction="none")
    weighted = case(scores, target, sample_weight=weight, reduction="none")
    counted = target == case.counted if case in TOP else torch.ones_like(target) == 1
    assert rows.shape == target.shape
    assert (rows[~counted] == 0).all()
    assert_same(case(scores, target), rows[counted].mean())
    assert_same(total, weighted.sum())
    assert_same(mean, weighted.sum() / weight[counted].sum())
    if case in CLASSES:
        assert_same(weighted, weight * rows)


@every(first_of_each(LOSSES))
def test_empty_batch_has_zero_loss(case):
    scores, target = case.batch(n_samples=0)
    if case.name == "precision_at_k_loss":  # k is at most the number of samples
        return
    for options in ({}, {"solver": "program"}) if case in SOLVED else ({},):
        loss, gradient = value_and_gradient(case, scores, target, **options)
        assert loss == 0
        assert gradient.shape == scores.shape


@every(OF_TWO)
def test_a_batch_of_one_class_has_the_loss_of_the_definition(case):
    scores, target = case.batch()
    for label in (0, 1):
        kept = target == label
        batches = [(scores.detach()[kept], target[kept], None), (scores, target, kept.double())]
        for s, y, weight in batches:
            loss, gradient = value_and_gradient(case, s, y, sample_weight=weight)
            assert_same(loss, case.defined(scores[kept], target[kept]))
            # A threshold that ranks among all samples needs no negatives.
            of = getattr(case, "of", "all")
            needs_both = case in PROGRAMS or case.counted != label
            if needs_both or (of != "all" and (of == "positives") != label):
                assert loss == 0
                assert (gradient == 0).all()
