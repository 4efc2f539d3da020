"""Value and gradient in one pass equal what autograd finds step by step, in both libraries."""

import numpy as np
import pytest
import torch

from sktopk._training.criteria._top import arrays
from sktopk.losses import KthLargest, accuracy_at_top_loss
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
@pytest.mark.parametrize("surrogate", SURROGATES)
@pytest.mark.parametrize("errors", ERRORS)
def test_equals_the_loss_and_its_gradient(errors, surrogate, xp):
    scores, positive, weight = batch()
    weight = weight if errors == "false_negatives" else None
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
@pytest.mark.parametrize(("surrogate", "errors"), [("quadratic", ERRORS[0]), ("hinge", ERRORS[1])])
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
