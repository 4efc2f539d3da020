"""MLP has the layers and initial weights of torch; its normalized last layer returns cosines."""

import copy
import pickle
from functools import partial
from itertools import pairwise

import pytest
import torch
from torch import nn

from sktopk.modules import MLP, NormalizedLinear


def test_layers_have_the_parameter_names_and_sizes_of_a_sequential_network():
    assert [*MLP(4, 3, (5,)).state_dict()] == ["0.weight", "0.bias", "2.weight", "2.bias"]
    network = MLP(100, 1, hidden_layer_sizes=(50, 25), batch_norm=True)
    dense = (100 * 50 + 50) + (50 * 25 + 25) + (25 + 1)
    assert sum(p.numel() for p in network.parameters()) == dense + 2 * 50 + 2 * 25
    assert network[:-1](torch.zeros(3, 100)).shape == (3, 25)


@pytest.mark.parametrize("params", [{"batch_norm": True, "dropout": 0.3}, {"normalize": True}])
@pytest.mark.parametrize("sizes", [(), (7, 4)])
def test_initial_weights_equal_those_of_torch_layers_with_the_same_seed(params, sizes):
    torch.manual_seed(3)
    network = MLP(5, 3, sizes, **params)
    own = MLP(5, 3, sizes, **params, generator=torch.Generator().manual_seed(3))
    torch.manual_seed(3)
    widths = [5, *sizes, 3]
    layers = [nn.Linear(*each) for each in pairwise(widths[:-1])]
    layers.append((NormalizedLinear if params.get("normalize") else nn.Linear)(*widths[-2:]))
    weights = [each for layer in layers for each in layer.parameters()]
    for each in (network, own):
        drawn = [layer for layer in each if isinstance(layer, nn.Linear | NormalizedLinear)]
        values = [value for layer in drawn for value in layer.parameters()]
        for value, expected in zip(values, weights, strict=True):
            assert torch.equal(value, expected)


def test_a_copied_network_draws_from_the_generator_of_torch():
    network = MLP(5, 3, dropout=0.5, generator=torch.Generator().manual_seed(0))
    for copied in (copy.deepcopy(network), pickle.loads(pickle.dumps(network))):
        torch.manual_seed(1)
        one = copied(torch.ones(4, 5))
        torch.manual_seed(1)
        assert torch.equal(copied(torch.ones(4, 5)), one)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_dropout_draws_the_same_masks_with_and_without_compilation():
    x, answers = torch.ones(9, 5), []
    for change in (lambda network: network, partial(torch.compile, backend="eager")):
        generator = torch.Generator().manual_seed(0)
        network = change(MLP(5, 3, dropout=0.5, generator=generator))
        answers.append([network(x) for _ in range(2)])
    for one, other in zip(*answers, strict=True):
        assert torch.equal(one, other)


@pytest.mark.parametrize("p", [0.25, 1.0])
def test_dropout_equals_dropout_of_torch(p):
    x = torch.randn(2000, 5, dtype=torch.float64, requires_grad=True)
    network = MLP(5, 3, (5,), dropout=p, generator=torch.Generator())
    (layer,) = (each for each in network if isinstance(each, nn.Dropout))
    layer.generator.manual_seed(0)
    out = layer(x)
    kept = out != 0
    out.sum().backward()
    assert torch.equal(x.grad != 0, kept)
    torch.manual_seed(0)
    assert torch.equal(out, nn.Dropout(p)(x))
    assert torch.equal(layer.eval()(x), x)


def test_a_network_has_the_default_dtype_unless_a_dtype_is_given(default_dtype):
    default_dtype(torch.float64)
    for params, dtype in (({}, torch.float64), ({"dtype": torch.float32}, torch.float32)):
        network = MLP(5, 3, batch_norm=True, dropout=0.5, **params)
        assert {each.dtype for each in network.parameters()} == {dtype}


@pytest.fixture
def layer():
    torch.manual_seed(0)
    return NormalizedLinear(4, 3, dtype=torch.float64)


def test_scores_are_cosine_similarities_and_their_gradients_are_correct(layer):
    features = torch.randn((5, 4), dtype=torch.float64, requires_grad=True)
    expected = torch.cosine_similarity(features.unsqueeze(1), layer.weight.unsqueeze(0), dim=2)
    for scale in (1, 1e-200, 1e200):
        torch.testing.assert_close(layer(scale * features), expected)
    assert torch.autograd.gradcheck(layer, features)


def test_samples_of_zeros_have_score_zero_and_a_moderate_gradient(layer):
    features = torch.zeros((2, 4), dtype=torch.float64, requires_grad=True)
    layer.weight.data[1] = 0.0
    scores = layer(features)
    scores.sum().backward()
    assert (scores == 0).all()
    assert features.grad.abs().max() <= 3
    assert layer.weight.grad.isfinite().all()


def test_a_pickled_layer_has_weights_of_norm_1_and_the_same_output(layer):
    features = torch.randn((5, 4), dtype=torch.float64)
    again = pickle.loads(pickle.dumps(layer))
    assert torch.equal(again(features), layer(features))
    torch.testing.assert_close(again.weight.norm(dim=1), torch.ones(3, dtype=torch.float64))
    assert repr(again) == "NormalizedLinear(in_features=4, out_features=3)"
