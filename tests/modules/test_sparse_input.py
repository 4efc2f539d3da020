"""The product of rows of a CSR matrix with a first layer, and which rows are worth it."""

import numpy as np
import pytest
import torch
from scipy.sparse import csr_array, csr_matrix
from torch import nn

from sktopk._training._rows import Rows
from sktopk.modules import MLP
from sktopk.modules._mlp import SparseRows
from tests.test_sparse_input import csr_table

pytestmark = pytest.mark.skipif(not torch.backends.mkl.is_available(), reason="needs MKL")


@pytest.fixture
def table():
    return csr_table()


def rows_of(X, dtype=torch.float64):
    return Rows(X, torch.device("cpu"), dtype, sparse=True)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("hidden_layer_sizes", [(), (5,)])
def test_network_and_gradient_equal_those_of_dense_rows(table, hidden_layer_sizes, dtype):
    X = table[0]
    torch.manual_seed(0)
    network = MLP(X.shape[1], 3, hidden_layer_sizes, batch_norm=True).to(dtype)
    index = torch.tensor([5, 299, 0, 5, 17])  # an empty row, and that twice
    batch = rows_of(X, dtype)[index]
    assert isinstance(batch, SparseRows)
    gradients = []
    for rows in (batch, torch.from_numpy(X.toarray()[index.numpy()]).to(dtype)):
        network.zero_grad()
        scores = network(rows)
        (scores**2).sum().backward()
        gradients.append([scores.detach(), *(p.grad.clone() for p in network.parameters())])
    for sparse, dense in zip(*gradients, strict=True):
        # Batch normalisation takes the bias away again: its gradient is rounding alone.
        bound = {"rtol": 1e-5, "atol": 1e-4} if dtype == torch.float32 else {}
        torch.testing.assert_close(sparse, dense, **bound)


def test_gradient_is_that_of_finite_differences():
    X = np.random.default_rng(0).random((6, 1_000))
    rows = rows_of(csr_matrix(np.where(X < 0.01, X, 0)))[:]
    layer = MLP(1_000, 2, ()).double()[0]

    def product(weight, bias):
        return torch.func.functional_call(layer, {"weight": weight, "bias": bias}, (rows,))

    inputs = torch.randn(2, 1_000, dtype=torch.float64), torch.randn(2, dtype=torch.float64)
    inputs = [each.requires_grad_() for each in inputs]
    assert torch.autograd.gradcheck(product, inputs, fast_mode=True)


def test_repeated_and_unsorted_entries_add_up():
    X = csr_array(
        (np.array([1.0, 2.0, 3.0]), np.array([999, 4, 999]), np.array([0, 3])), shape=(1, 1_000)
    )
    network = MLP(1_000, 2, ()).double()
    expected = network(torch.from_numpy(X.toarray()))
    torch.testing.assert_close(network(rows_of(X)[:]), expected)


def test_parameters_have_the_names_shapes_and_start_of_linear_layers():
    torch.manual_seed(0)
    network = MLP(4, 3, (5,))
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3))
    for name, value in plain.state_dict().items():
        assert torch.equal(network.state_dict()[name], value)
    assert network.state_dict().keys() == plain.state_dict().keys()
