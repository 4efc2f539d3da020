"""LinearProgramLoss: programs that users write, as losses."""

import pickle

import pytest
import torch

from sktopk.losses import LinearProgramLoss
from tests.losses.data import seeded


def mean_hinge(scores, target):
    """Minimize mean(z), with z >= 0 and z_i >= 1 - s_i (positives) or 1 + s_i (negatives)."""
    n, signed = len(scores), torch.where(target == 1, scores, -scores)
    rows = -torch.eye(n).repeat(2, 1)
    right_side = torch.cat([signed - 1, torch.zeros(n)])
    return {"c": torch.full((n,), 1 / n), "A_ub": rows, "b_ub": right_side}


def weighted_mean_hinge(scores, target, sample_weight=None):
    program = mean_hinge(scores, target)
    if sample_weight is not None:
        program["c"] = sample_weight / sample_weight.sum()
    return program


def hinges(scores, target):
    return (1 - torch.where(target == 1, scores, -scores)).clamp_min(0)


@pytest.fixture
def batch():
    scores = torch.randn(12, generator=seeded()).requires_grad_()
    return scores, (torch.arange(12) < 5).long()


@pytest.mark.parametrize("method", ["newton", "highs"])
def test_value_and_gradient_equal_those_of_the_closed_form(batch, method):
    scores, target = batch
    loss = LinearProgramLoss(mean_hinge, method=method)(scores, target)
    assert loss.shape == ()
    expected = hinges(scores, target).mean()
    torch.testing.assert_close(loss, expected)
    gradients = [torch.autograd.grad(value, scores)[0] for value in (loss, expected)]
    torch.testing.assert_close(*gradients)


def test_sample_weights_are_passed_to_the_function_build(batch):
    scores, target = batch
    weight, loss = torch.arange(1.0, 13.0), LinearProgramLoss(weighted_mean_hinge)
    expected = (weight * hinges(scores, target)).sum() / weight.sum()
    torch.testing.assert_close(loss(scores, target, weight), expected)
    torch.testing.assert_close(loss(scores, target, sample_weight=weight), expected)
    torch.testing.assert_close(loss(scores, target), hinges(scores, target).mean())


def test_parameters_of_the_loss_are_passed_to_the_solver(batch):
    smooth = LinearProgramLoss(mean_hinge, method="penalty", smoothing=0.1)
    exact = LinearProgramLoss(mean_hinge)(*batch)
    # Each of the 12 multipliers is at most 1/12, so smoothing lowers the loss by at most 0.1 / 24.
    assert exact - 0.1 / 24 <= smooth(*batch) < exact
    with pytest.raises(RuntimeError, match="stopped by max_iter"):
        LinearProgramLoss(mean_hinge, max_iter=1, tol=1e-12, on_failure="raise")(*batch)
    with pytest.raises(ValueError, match="method='simplex'"):
        LinearProgramLoss(mean_hinge, method="simplex")(*batch)


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda s, y: [s], TypeError, "build must return a dict; got list"),
        (lambda s, y: {"costs": s}, ValueError, "among c, A_ub, b_ub, A_eq, b_eq; got costs"),
        (lambda s, y: {"A_ub": s}, ValueError, "build must return a dict with key c"),
        (lambda s, y: {"c": s, "A_ub": torch.ones(1, 2)}, ValueError, "A_ub must have shape"),
        (
            lambda s, y: {"c": s.new_ones(2, 1), "A_ub": -s.new_ones(1, 1), "b_ub": s.new_ones(1)},
            ValueError,
            r"build must return one program.*got a batch of shape \(2,\)",
        ),
    ],
)
def test_wrong_results_of_the_function_build_raise(batch, build, error, message):
    with pytest.raises(error, match=message):
        LinearProgramLoss(build)(*batch)


def test_sample_weight_raises_if_build_does_not_accept_weights(batch):
    with pytest.raises(TypeError, match="sample_weight was given, but build does not take it"):
        LinearProgramLoss(mean_hinge)(*batch, sample_weight=torch.ones(12))
    with pytest.raises(TypeError, match="build must be callable; got dict"):
        LinearProgramLoss({})(*batch)


def test_a_pickled_copy_is_equal_and_repr_shows_the_parameters(batch):
    loss = LinearProgramLoss(mean_hinge, tol=1e-8)
    assert torch.equal(pickle.loads(pickle.dumps(loss))(*batch), loss(*batch))
    assert "build=mean_hinge, method='newton'" in repr(loss)
    assert "tol=1e-08" in repr(loss)
    assert list(loss.state_dict()) == []
