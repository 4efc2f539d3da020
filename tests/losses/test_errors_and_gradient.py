"""Value and gradient in one pass equal what autograd finds step by step, in both libraries."""

import math

import numpy as np
import pytest
import torch

from sktopk._training.criteria._top import arrays
from sktopk.losses import KthLargest, TopMean, accuracy_at_top_loss
from sktopk.losses._accuracy_at_top import errors_and_gradient

ERRORS = ("false_negatives", "false_positives")
SURROGATES = ("quadratic", "hinge", "logistic")
LIBRARIES = pytest.mark.parametrize("xp", [np, torch], ids=["numpy", "torch"])


def batch(dtype=torch.float64):
    generator = torch.Generator().manual_seed(3)
    scores = 2 * torch.randn(30, dtype=dtype, generator=generator)
    weight = torch.rand(30, dtype=dtype, generator=generator)
    weight[::7] = 0
    return scores, torch.arange(30) % 4 == 1, weight


def in_one_pass(xp, scores, counted, weight, t, position, errors, surrogate):
    total = counted.sum() if weight is None else weight[counted].sum()
    values = [scores, counted, weight, total, t, position]
    if xp is np:
        values = [None if value is None else value.numpy() for value in values]
    *values, t, position = values
    value, gradient = errors_and_gradient(xp, *values, (t, position, 1.0), errors, surrogate)
    return torch.as_tensor(value), torch.as_tensor(gradient)


@LIBRARIES
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("surrogate", SURROGATES)
@pytest.mark.parametrize("errors", ERRORS)
def test_equals_the_loss_and_its_gradient(errors, surrogate, weighted, xp):
    scores, positive, weight = batch()
    weight = weight if weighted else None
    # Ranked without weights, so that both have the same row.
    row = int(scores.argsort(descending=True)[4])
    counted = positive if errors == "false_negatives" else ~positive
    t, position = scores[[row]], torch.tensor([row])
    value, gradient = in_one_pass(xp, scores, counted, weight, t, position, errors, surrogate)
    scores.requires_grad_()
    expected = accuracy_at_top_loss(
        scores,
        positive,
        threshold=lambda s, p, w: KthLargest("all", k=5)(s, p),
        errors=errors,
        surrogate=surrogate,
        sample_weight=weight,
    )
    (expected_gradient,) = torch.autograd.grad(expected, scores)
    torch.testing.assert_close(value, expected.detach())
    torch.testing.assert_close(gradient, expected_gradient)
    assert gradient.abs().sum() > 0


@LIBRARIES
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("surrogate", SURROGATES)
@pytest.mark.parametrize("errors", ERRORS)
@pytest.mark.parametrize("missing", ["counted rows", "threshold", "weight"])
def test_without_rows_or_threshold_value_and_gradient_are_zero(
    missing, errors, surrogate, dtype, xp
):
    scores, positive, weight = batch(dtype)
    counted = positive & (missing != "counted rows")
    # Nothing is on the wrong side of the threshold of no rows.
    t = torch.full((1,), -torch.inf if missing == "threshold" else 0.5, dtype=dtype)
    weight = torch.zeros_like(weight) if missing == "weight" else None
    arguments = (weight, t, torch.tensor([2]), errors, surrogate)
    value, gradient = in_one_pass(xp, scores, counted, *arguments)
    assert value.item() == 0
    assert (gradient == 0).all()
    assert gradient.dtype == dtype


@LIBRARIES
def test_infinite_scores_of_rows_that_do_not_count_are_harmless(xp):
    scores, positive, _ = batch()
    scores[~positive] = -torch.inf
    t, position = scores[positive][:1], positive.nonzero()[0]
    arguments = (None, t, position, "false_negatives", "quadratic")
    value, gradient = in_one_pass(xp, scores, positive, *arguments)
    assert value.isfinite()
    assert gradient.isfinite().all()


def test_arrays_are_views_of_a_network_output_on_the_cpu():
    scores = torch.zeros(3, 1, requires_grad=True)
    xp, flat, positive, weight = arrays(scores.flatten(), torch.tensor([0, 1, 0]), None)
    assert xp is np
    assert flat.shape == (3,)
    assert positive.tolist() == [False, True, False]
    assert weight is None
    assert flat.ctypes.data == scores.data_ptr()
    assert arrays(scores.bfloat16(), torch.tensor([0, 1, 0]), None)[1].dtype == np.float32


# Both kinds of errors: equation 1 of Adam, Macha, Smidl.

BOTH = {"false_positives": 0.3, "false_negatives": 1.7}


@pytest.mark.parametrize("threshold", [KthLargest("all", k=5), TopMean("negatives", k=3)], ids=str)
@pytest.mark.parametrize("surrogate", SURROGATES)
@pytest.mark.parametrize("weighted", [False, True])
def test_both_kinds_are_the_weighted_sum_of_each(surrogate, threshold, weighted):
    scores, positive, weight = batch()
    options = {"surrogate": surrogate, "sample_weight": weight if weighted else None}
    s, y = scores.tolist(), positive.tolist()
    w = weight.tolist() if weighted else [1.0] * len(s)
    t = threshold(scores, positive, weight if weighted else None).item()
    surrogate_of = {
        "quadratic": lambda z: max(0, 1 + z) ** 2,
        "hinge": lambda z: max(0, 1 + z),
        "logistic": lambda z: math.log2(1 + math.exp(z)),
    }[surrogate]
    rows = [
        w_i * (1.7 * surrogate_of(t - s_i) if y_i else 0.3 * surrogate_of(s_i - t))
        for s_i, y_i, w_i in zip(s, y, w, strict=True)
    ]
    mean = sum(
        sum(r for r, y_i in zip(rows, y, strict=True) if y_i == label)
        / sum(w_i for w_i, y_i in zip(w, y, strict=True) if y_i == label)
        for label in (False, True)
    )
    options |= {"threshold": threshold, "errors": BOTH}
    assert accuracy_at_top_loss(scores, positive, **options).item() == pytest.approx(mean)
    each = accuracy_at_top_loss(scores, positive, reduction="none", **options)
    assert each.tolist() == pytest.approx(rows)
    scores.requires_grad_()
    assert torch.autograd.gradcheck(lambda s: accuracy_at_top_loss(s, positive, **options), scores)


@pytest.mark.parametrize("surrogate", SURROGATES)
def test_gradient_of_both_kinds_is_equation_6(surrogate):
    scores, positive, _ = batch()
    at = int(scores.argsort(descending=True)[4])
    slope = {
        "quadratic": lambda z: 2 * max(0, 1 + z),
        "hinge": lambda z: float(z > -1),
        "logistic": lambda z: math.exp(z) / (1 + math.exp(z)) / math.log(2),
    }[surrogate]
    n_positives, expected = int(positive.sum()), [0.0] * len(scores)
    for i, (s, is_positive) in enumerate(zip(scores.tolist(), positive.tolist(), strict=True)):
        t = scores[at].item()
        if is_positive:
            own = -1.7 / n_positives * slope(t - s)
        else:
            own = 0.3 / (len(scores) - n_positives) * slope(s - t)
        expected[i] += own
        expected[at] -= own
    scores.requires_grad_()
    loss = accuracy_at_top_loss(
        scores, positive, threshold=KthLargest("all", k=5), errors=BOTH, surrogate=surrogate
    )
    (gradient,) = torch.autograd.grad(loss, scores)
    assert gradient.tolist() == pytest.approx(expected, abs=1e-12)


def test_groups_have_both_kinds_of_errors():
    scores, positive, _ = batch()
    groups = torch.arange(30) // 10
    both, *each = (
        accuracy_at_top_loss(
            scores, positive, threshold=KthLargest("all", k=2), errors=errors, groups=groups
        )
        for errors in (BOTH, *BOTH)
    )
    assert both.item() == pytest.approx(0.3 * each[0].item() + 1.7 * each[1].item())


@pytest.mark.parametrize(
    ("errors", "message"),
    [
        (
            {"false_alarms": 1.0},
            "errors must have the keys 'false_negatives' and 'false_positives'",
        ),
        ({"false_negatives": -1.0}, r"errors\['false_negatives'\]=-1 must be finite and nonneg"),
        ({"false_negatives": 0.0}, "errors must have a positive weight"),
        ({}, "errors must have a positive weight"),
        ("both", "errors='both' must be one of"),
    ],
)
def test_errors_that_are_none_are_refused(errors, message):
    scores, positive, _ = batch()
    with pytest.raises(ValueError, match=message):
        accuracy_at_top_loss(scores, positive, threshold=KthLargest("all", k=2), errors=errors)
