"""The layers of an ensemble have the same scores and gradients as separate networks."""

from functools import partial

import pytest
import torch
from torch.func import functional_call, grad, hessian, jacfwd, jvp, vmap

from sktopk.modules import TabularMLP


def network(hidden_layer_sizes=(4, 6), n_members=3, n_features=5, **params):
    params = {"generator": torch.Generator().manual_seed(0), "dtype": torch.float64} | params
    return TabularMLP(n_features, 2, hidden_layer_sizes, n_members, **params)


def rows(n_samples=7, n_members=None, n_features=5):
    shape = (n_samples, n_features) if n_members is None else (n_members, n_samples, n_features)
    return torch.randn(shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def one_by_one(net, x):
    """Scores (n_samples, n_members, n_outputs), computed network by network and layer by layer."""
    h, scores = net.encoder(x), []
    for m in range(net.n_members):
        own = h if h.dim() == 2 else h[m]
        for layer in net.layers[:-1]:
            own = torch.relu(own @ layer.weight[m].T + layer.bias[m])
        scores.append(own @ net.layers[-1].weight[m].T + net.layers[-1].bias[m])
    return torch.stack(scores, dim=1)


@pytest.mark.parametrize("hidden_layer_sizes", [(), (4,), (4, 6), (4, 6, 3)])
@pytest.mark.parametrize("n_members", [1, 3])
@pytest.mark.parametrize("own_rows", [False, True])
def test_scores_and_gradients_equal_those_of_separate_nets(hidden_layer_sizes, n_members, own_rows):
    net = network(hidden_layer_sizes, n_members)
    x = rows(n_members=n_members if own_rows else None)
    scores, expected = net(x), one_by_one(net, x)
    expected = expected.squeeze(1) if n_members == 1 else expected
    torch.testing.assert_close(scores, expected)
    direction = torch.randn_like(expected)
    found = torch.autograd.grad(scores, [*net.parameters()], direction)
    wanted = torch.autograd.grad(expected, [*net.parameters()], direction)
    torch.testing.assert_close(found, wanted)


def test_first_and_second_derivatives_equal_finite_differences():
    net, x = network((4, 3)), rows()
    names, values = zip(*net.named_parameters(), strict=True)

    def scores(*values):
        return functional_call(net, dict(zip(names, values, strict=True)), (x,))

    assert torch.autograd.gradcheck(scores, values)
    assert torch.autograd.gradgradcheck(scores, values)


# This warning comes from torch.
@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
def test_derivatives_by_transforms_of_torch_func_are_equal():
    net, x = network((4,), n_members=2), rows(3)
    parameters = {name: each.detach() for name, each in net.named_parameters()}

    def squares(parameters, x):
        return functional_call(net, parameters, (x,)).square().sum()

    def row_by_row(x):
        return vmap(lambda row: squares(parameters, row.unsqueeze(0)))(x).sum()

    of_parameters, other = (d(squares)(parameters, x) for d in (grad, jacfwd))
    torch.testing.assert_close(other, of_parameters)
    leaf, at_once = x.clone().requires_grad_(), partial(squares, parameters)
    (by_hand,) = torch.autograd.grad(one_by_one(net, leaf).square().sum(), leaf)
    for derivative in (grad(at_once), jacfwd(at_once), grad(row_by_row)):
        torch.testing.assert_close(derivative(x), by_hand)
    assert hessian(at_once)(x).shape == (3, 5, 3, 5)
    torch.testing.assert_close(jvp(at_once, (x,), (torch.ones_like(x),))[1], by_hand.sum())
