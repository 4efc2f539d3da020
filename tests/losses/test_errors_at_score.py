"""Value and gradient in one pass equal what autograd finds step by step."""

import pytest
import torch

from sktopk.losses import KthLargest, accuracy_at_top_loss
from sktopk.losses._errors_at_score import ErrorsAtScore

ERRORS = ("false_negatives", "false_positives")
SURROGATES = ("quadratic", "hinge", "logistic")


def batch(dtype=torch.float64):
    generator = torch.Generator().manual_seed(3)
    scores = 2 * torch.randn(30, dtype=dtype, generator=generator)
    weight = torch.rand(30, dtype=dtype, generator=generator)
    weight[::7] = 0
    return scores, torch.arange(30) % 4 == 1, weight


def in_one_pass(scores, positive, weight, errors, surrogate, row):
    counted = positive if errors == "false_negatives" else ~positive
    t, position = scores.detach()[[row]], torch.tensor([row])
    return ErrorsAtScore.apply(scores, t, position, counted, weight, errors, surrogate)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("surrogate", SURROGATES)
@pytest.mark.parametrize("errors", ERRORS)
def test_equals_the_loss_and_its_gradient(errors, surrogate, weighted):
    scores, positive, weight = batch()
    weight = weight if weighted else None
    # Ranked without weights, so that both have the same row.
    row = int(scores.argsort(descending=True)[4])
    expected_scores, result_scores = (scores.clone().requires_grad_() for _ in range(2))
    expected = accuracy_at_top_loss(
        expected_scores,
        positive,
        threshold=lambda s, p, w: KthLargest("all", k=5)(s, p),
        errors=errors,
        surrogate=surrogate,
        sample_weight=weight,
    )
    result = in_one_pass(result_scores, positive, weight, errors, surrogate, row)
    (3 * expected).backward()
    (3 * result).backward()
    torch.testing.assert_close(result, expected)
    torch.testing.assert_close(result_scores.grad, expected_scores.grad)
    assert result_scores.grad.abs().sum() > 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("surrogate", SURROGATES)
@pytest.mark.parametrize("errors", ERRORS)
@pytest.mark.parametrize("missing", ["counted rows", "threshold", "weight"])
def test_without_rows_or_threshold_value_and_gradient_are_zero(missing, errors, surrogate, dtype):
    scores, positive, weight = batch(dtype)
    scores.requires_grad_()
    counted = positive & (missing != "counted rows")
    t = torch.full((1,), -torch.inf if missing == "threshold" else 0.5, dtype=dtype)
    weight = torch.zeros_like(weight) if missing == "weight" else None
    loss = ErrorsAtScore.apply(scores, t, torch.tensor([2]), counted, weight, errors, surrogate)
    loss.backward()
    assert loss.item() == 0
    assert (scores.grad == 0).all()


def test_infinite_scores_of_rows_that_do_not_count_are_harmless():
    scores, positive, _ = batch()
    scores[~positive] = -torch.inf
    scores.requires_grad_()
    t, position = scores.detach()[positive][:1], positive.nonzero()[0]
    arguments = (t, position, positive, None, "false_negatives", "quadratic")
    loss = ErrorsAtScore.apply(scores, *arguments)
    loss.backward()
    assert loss.isfinite()
    assert scores.grad.isfinite().all()
