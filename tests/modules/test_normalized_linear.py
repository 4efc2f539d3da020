"""Cosine scores of the normalized last layer."""

import pickle

import pytest
import torch

from sktopk.modules import NormalizedLinear


@pytest.fixture
def layer():
    torch.manual_seed(0)
    return NormalizedLinear(4, 3, dtype=torch.float64)


def test_scores_are_cosines(layer):
    features = torch.randn((5, 4), dtype=torch.float64)
    expected = torch.cosine_similarity(features.unsqueeze(1), layer.weight.unsqueeze(0), dim=2)
    torch.testing.assert_close(layer(features), expected)


def test_initial_directions_have_length_one(layer):
    torch.testing.assert_close(layer.weight.norm(dim=1), torch.ones(3, dtype=torch.float64))
    assert [name for name, _ in layer.named_parameters()] == ["weight"]


def test_gradient_matches_finite_differences(layer):
    features = torch.randn((5, 4), dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(layer, features)


def test_rows_of_zeros_score_zero_with_moderate_gradient(layer):
    features = torch.zeros((2, 4), dtype=torch.float64, requires_grad=True)
    layer.weight.data[1] = 0.0
    scores = layer(features)
    scores.sum().backward()
    assert (scores == 0).all()
    assert features.grad.abs().max() <= 3
    assert layer.weight.grad.isfinite().all()


def test_survives_pickle(layer):
    features = torch.randn((5, 4), dtype=torch.float64)
    again = pickle.loads(pickle.dumps(layer))
    assert torch.equal(again(features), layer(features))
    assert repr(again) == "NormalizedLinear(in_features=4, out_features=3)"
