"""Samples of weight 0 and masked classes do not affect the loss of any batch."""

import math
from functools import partial
from itertools import product

import pytest
import torch
from torch.nn.functional import one_hot

from sktopk import losses
from tests.losses.cases import CLASSES, GROUPED, OF_TWO, every
from tests.losses.data import N_CLASSES, assert_same, binary_batch, class_batch, value_and_gradient
from tests.losses.test_numerics import DRAWN, MORE, OF_CLASSES, other
from tests.named_losses import without_address

SURROGATES = "hinge", "quadratic", "logistic", "ramp"
AREAS = [
    other("pairwise_auc_loss", multi_class=multi_class, surrogate=surrogate)
    for multi_class, surrogate in product(("ovr", "ovo", "mu"), SURROGATES)
]
DETERMINED = [case for case in [*CLASSES, *MORE, *AREAS] if case is not DRAWN]


def whole(scores, value, absent):
    return scores.detach().masked_fill(absent.view(-1, *[1] * (scores.ndim - 1)), value)


def one_entry(scores, value, absent):
    changed = scores.detach().clone()
    changed[absent.nonzero().squeeze(1), -1] = value
    return changed


@every(DETERMINED)
@pytest.mark.parametrize("change", [whole, one_entry])
@pytest.mark.parametrize("value", [0.0, 1e30, math.nan, math.inf, -math.inf])
def test_losses_of_labels_ignore_samples_of_weight_zero(case, change, value):
    scores, target = case.batch(n_samples=9)
    keep = torch.arange(9) % 3 != 1
    scores, target = change(scores, value, ~keep), target.masked_fill(~keep, -100)
    of_kept, weight = case.noise_of(scores, keep), torch.linspace(0.5, 2, 9).double() * keep
    reductions = ("mean", "sum") if case.name == "pairwise_auc_loss" else ("mean", "sum", "none")
    for reduction in reductions:
        changes = {"reduction": reduction, "sample_weight": weight}
        loss, gradient = value_and_gradient(case, scores, target, **changes)
        changes["sample_weight"] = weight[keep]
        expected = value_and_gradient(case, scores[keep], target[keep], **changes, **of_kept)
        if reduction == "none":
            assert (loss[~keep] == 0).all()
            loss = loss[keep]
        assert_same((loss, gradient[keep]), expected)
        assert (gradient[~keep] == 0).all()


@every([case for case in CLASSES if case.soft])
@pytest.mark.parametrize("bad", ["scores", "target", "both"])
def test_samples_of_weight_zero_change_no_loss_of_soft_targets(case, bad):
    scores, target = class_batch()
    soft = 0.9 * one_hot(target, N_CLASSES) + 0.1 * scores.detach().softmax(1)
    keep = torch.arange(len(target)) % 3 != 1
    expected = value_and_gradient(case, scores[keep], soft[keep])
    bad_scores = whole(scores, math.nan, ~keep) if bad != "target" else scores
    bad_target = whole(soft, math.nan, ~keep) if bad != "scores" else soft
    loss, gradient = value_and_gradient(case, bad_scores, bad_target, sample_weight=keep)
    assert_same((loss, gradient[keep]), expected)
    assert (gradient[~keep] == 0).all()


# The threshold of OWN is the mean score. It takes no groups.
OWN = partial(losses.accuracy_at_top_loss, threshold=lambda s, _, w: (w * s).sum() / w.sum())
CASES = [(case, False) for case in [*OF_TWO, OWN]] + [(case, True) for case in GROUPED]


@pytest.mark.parametrize(("case", "grouped"), CASES, ids=without_address)
@pytest.mark.parametrize("value", [0.0, 1e30, math.nan, math.inf, -math.inf])
def test_samples_of_weight_zero_change_no_loss_of_two_classes(case, value, grouped):
    scores, target = binary_batch(n_samples=24)
    keep = torch.arange(24) % 4 != 1
    weight = torch.linspace(0.5, 2, 24).double() * keep
    options = {"sample_weight": weight} | ({"groups": torch.arange(24) % 3} if grouped else {})
    of_kept = {name: each[keep] for name, each in options.items()}
    expected = value_and_gradient(case, scores[keep], target[keep], **of_kept)
    scores, target = whole(scores, value, ~keep), target.long().masked_fill(~keep, -100)
    loss, gradient = value_and_gradient(case, scores, target, **options)
    assert_same((loss, gradient[keep]), expected)
    assert (gradient[~keep] == 0).all()


@every([*OF_TWO, *AREAS])
@pytest.mark.parametrize("offset", [0.0, 1e5, 2.0**24, -(2.0**24)])
@pytest.mark.parametrize("n_absent", [2, 30])
def test_samples_of_weight_zero_cost_no_precision_in_float32(case, offset, n_absent):
    scores, target = case.batch(n_samples=14)
    # Even integers, which are exact in float32 up to 2**25.
    scores = (2 * (scores.detach() - scores.max()).round()).float()
    expected, slope = value_and_gradient(case, scores.double(), target)
    absent = torch.zeros(n_absent, *scores.shape[1:])
    changed = torch.cat([scores + offset, absent])
    labels = torch.cat([target, target.new_zeros(n_absent)])
    weight = (torch.arange(len(labels)) < len(scores)).float()
    loss, gradient = value_and_gradient(case, changed, labels, sample_weight=weight)
    assert_same(loss.double(), expected, 1e-5)
    assert_same(gradient[: len(scores)].double(), slope, 1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_threshold_function_of_a_user_gets_the_finite_scores_of_all_samples(dtype):
    scores = torch.tensor([3.0, 2.0, 1.0, math.nan, -math.inf, 7.0], dtype=dtype)
    target, weight = torch.tensor([1, 0, 1, 0, 0, 0]), torch.tensor([1, 1, 1, 0, 0, 0])
    given = []

    def largest(scores, positive, weight):
        given.append(scores.detach())
        return scores.max()

    loss = losses.accuracy_at_top_loss(
        scores, target, threshold=largest, surrogate="hinge", sample_weight=weight
    )
    assert_same(given, [torch.tensor([3.0, 2.0, 1.0, 0.0, 0.0, 7.0], dtype=dtype)], 0)
    assert_same(loss, torch.tensor((5 + 7) / 2, dtype=dtype))


PER_SAMPLE = [case for case in OF_CLASSES if case.name != "pairwise_auc_loss"]


def n_needed(case):
    """Smallest number of unmasked classes with which the loss of a masked label is infinite."""
    if case.name == "topk_distribution_loss":
        return min(case.parameters["k"])
    k = case.parameters.get("k", 1)
    counts_label = "noised_topk_loss", "noised_topk_imbalanced_loss", "topk_hinge_calibrated_loss"
    return k + 1 if case.name in counts_label else k


@every(PER_SAMPLE)
@pytest.mark.parametrize("n_present", range(1, N_CLASSES))
def test_the_loss_of_a_masked_label_is_zero_or_infinite(case, n_present):
    scores, _ = class_batch(n_samples=N_CLASSES)
    target = torch.arange(N_CLASSES)
    # Mask all classes except the next `n_present` classes after the label (cyclic).
    ahead = (torch.arange(N_CLASSES) - target.unsqueeze(1)) % N_CLASSES
    masked = scores.detach().masked_fill((ahead == 0) | (ahead > n_present), -torch.inf)
    loss, gradient = value_and_gradient(case, masked, target, reduction="none")
    if n_present < n_needed(case):
        assert loss.abs().max() == 0
        assert_same(gradient, torch.zeros_like(gradient))
    else:
        assert (loss == math.inf).all()
        assert gradient.isfinite().all()
        assert (gradient.gather(1, target.unsqueeze(1)) < 0).all()
    # A sample of weight 0 adds no loss.
    loss, gradient = value_and_gradient(case, masked, target, sample_weight=torch.zeros(N_CLASSES))
    assert loss == 0
    assert (gradient == 0).all()


WITH_SOFTMAX = "cross_entropy focal ldam logit_adjusted".split()


@every(PER_SAMPLE)
def test_if_all_classes_are_masked_softmax_losses_are_nan_and_topk_losses_are_zero(case):
    scores, target = class_batch()
    scores = scores.detach()
    scores[2] = -math.inf
    loss, gradient = value_and_gradient(case, scores, target, reduction="none")
    if case.name.removesuffix("_loss") in WITH_SOFTMAX:
        assert loss.isnan().nonzero().flatten().tolist() == [2]
    else:
        assert loss[2] == 0
        assert (gradient[2] == 0).all()
