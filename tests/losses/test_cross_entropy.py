"""Cross-entropy with label smoothing: the function, and its closed form that trains networks."""

import math
from functools import partial

import pytest
import torch
from torch.nn import functional as F

from sktopk.losses._cross_entropy import cross_entropy_loss, cross_entropy_of_rows
from tests.losses.cases import assert_same, class_batch, value_and_gradient

# Few and many classes: the closed form normalizes short and long rows in two ways.
every_width = pytest.mark.parametrize("n_classes", [2, 7, 15, 16, 40])
every_smoothing = pytest.mark.parametrize("label_smoothing", [0.0, 0.1, 1.0])


def batch_with_masks(n_classes, masked):
    """Return scores and labels. Masks: none, some classes of each sample, or also the labels."""
    scores, target = class_batch(n_samples=30, n_classes=n_classes, seed=3)
    scores = scores.detach()
    if masked != "nothing":
        hidden = torch.rand(scores.shape, generator=torch.Generator().manual_seed(0)) < 0.3
        hidden.scatter_(1, target.unsqueeze(1), masked == "labels")
        hidden.scatter_(1, (target.unsqueeze(1) + 1) % n_classes, False)
        scores = scores.masked_fill(hidden, -torch.inf)
    return scores, target


@every_width
@every_smoothing
@pytest.mark.parametrize("masked", ["nothing", "classes", "labels"])
def test_closed_form_is_the_function_and_its_gradient(n_classes, label_smoothing, masked):
    scores, target = batch_with_masks(n_classes, masked)
    options = {"label_smoothing": label_smoothing}
    expected = value_and_gradient(cross_entropy_loss, scores, target, reduction="none", **options)
    found = cross_entropy_of_rows(scores.clone(), target, **options)
    assert_same(found, expected)
    if masked == "labels":
        # The gradient is the limit for low scores of the label.
        assert found[0].isinf().all() == (label_smoothing < 1)
        assert found[1].isfinite().all()


@every_width
@every_smoothing
def test_smoothing_is_over_the_classes_that_are_present(n_classes, label_smoothing):
    scores, target = batch_with_masks(n_classes, "classes")
    expected = []
    for row, label in zip(scores, target, strict=True):
        present = row > -torch.inf
        position = int(present[:label].sum())
        short, position = row[present].unsqueeze(0), torch.tensor([position])
        expected.append(F.cross_entropy(short, position, label_smoothing=label_smoothing))
    expected = torch.stack(expected)
    options = {"label_smoothing": label_smoothing}
    assert_same(cross_entropy_loss(scores, target, reduction="none", **options), expected)
    loss, gradient = cross_entropy_of_rows(scores.clone(), target, **options)
    assert_same(loss, expected)
    assert (gradient[scores == -torch.inf] == 0).all()
    each = partial(cross_entropy_loss, target=target, **options)
    present = (scores > -torch.inf).nonzero(as_tuple=True)

    def of_present(values):
        return each(scores.index_put(present, values))

    assert torch.autograd.gradcheck(of_present, scores[present].requires_grad_())


@every_width
@every_smoothing
@pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0])
@pytest.mark.parametrize("offset", [0.0, 1e6, -(2.0**24), 1e30])
def test_float32_keeps_its_digits_at_every_offset(n_classes, label_smoothing, scale, offset):
    scores, target = batch_with_masks(n_classes, "nothing")
    scores = (scale * scores + offset).float()
    options = {"label_smoothing": label_smoothing}
    expected = cross_entropy_of_rows(scores.double(), target, **options)
    loss, gradient = cross_entropy_of_rows(scores.clone(), target, **options)
    assert loss.dtype == gradient.dtype == torch.float32
    assert_same((loss.double(), gradient.double()), expected, 2e-6)
    loss, gradient = value_and_gradient(
        cross_entropy_loss, scores, target, reduction="sum", **options
    )
    assert_same(loss.double(), expected[0].sum(), 2e-6)
    assert_same(gradient.double(), expected[1], 2e-6)


@every_width
@pytest.mark.parametrize("value", [math.nan, math.inf])
@pytest.mark.parametrize("label_smoothing", [0.0, 0.1])
def test_undefined_scores_make_the_loss_of_their_sample_nan(n_classes, value, label_smoothing):
    scores, target = batch_with_masks(n_classes, "nothing")
    for column in range(n_classes):
        scores[3, column] = value
        loss, gradient = cross_entropy_of_rows(
            scores.clone(), target, label_smoothing=label_smoothing
        )
        assert loss.isnan().nonzero().flatten().tolist() == [3]
        assert gradient[3].isnan().any()
        assert gradient[:3].isfinite().all()
