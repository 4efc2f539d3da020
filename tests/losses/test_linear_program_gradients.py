"""Gradients of linear_program against finite differences and closed forms."""

import pytest
import torch
from torch.autograd import gradcheck

from sktopk.losses import linear_program
from tests.losses.linear_programs import (
    infeasible_program,
    redundant_program,
    stacked,
    tensors,
    tied_program,
    unbounded_program,
    vertex_program,
)

every_output = pytest.mark.parametrize("output", ["fun", "x"])


def with_gradient(arguments):
    return [argument.clone().requires_grad_() for argument in arguments]


def solved(output, **options):
    return lambda *arguments: getattr(linear_program(*arguments, **options), output)


@every_output
@pytest.mark.parametrize("method", ["newton", "highs", "penalty"])
@pytest.mark.parametrize("shape", [(3, 5, 0), (4, 6, 2)], ids=["inequalities", "equations"])
def test_finite_differences(output, method, shape, rng):
    arguments = with_gradient(tensors(vertex_program(rng, *shape)))
    if not shape[2]:
        arguments = arguments[:3]
    assert gradcheck(solved(output, method=method), arguments)


@pytest.mark.filterwarnings("ignore:Sparse")
@every_output
@pytest.mark.parametrize("layout", ["coo", "csr"])
@pytest.mark.parametrize("method", ["newton", "penalty"])
def test_finite_differences_of_sparse_entries(output, layout, method, rng):
    c, A_ub, b_ub, A_eq, b_eq = tensors(vertex_program(rng, 3, 4, 1))
    # A box keeps the program bounded when entries of the other rows are gone.
    A_ub[[0, 1, 2, 3], [0, 2, 1, 0]] = 0
    A_ub = torch.cat([A_ub, torch.eye(3), -torch.eye(3)])
    b_ub = torch.cat([b_ub.abs() + 0.1, torch.ones(6)])
    indices = A_ub.nonzero().T

    def of_entries(c, entries, b_ub, A_eq, b_eq):
        A_ub = torch.sparse_coo_tensor(indices, entries, (10, 3))
        A_ub = A_ub.to_sparse_csr() if layout == "csr" else A_ub
        return solved(output, method=method)(c, A_ub, b_ub, A_eq, b_eq)

    arguments = (c, A_ub[tuple(indices)], b_ub, A_eq, 0.1 * b_eq)
    assert gradcheck(of_entries, with_gradient(arguments), fast_mode=True)


@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("to_sparse", [torch.Tensor.to_sparse, torch.Tensor.to_sparse_csr])
def test_gradient_of_a_sparse_matrix_is_sparse(to_sparse):
    A_ub = to_sparse(-torch.eye(2)).requires_grad_()
    linear_program(torch.tensor([1.0, 2.0]), A_ub, -torch.ones(2)).fun.backward()
    assert A_ub.grad.layout == A_ub.layout
    torch.testing.assert_close(A_ub.grad.to_dense(), torch.tensor([[1.0, 0.0], [0.0, 2.0]]))


@pytest.mark.parametrize("make", [tied_program, redundant_program])
@every_output
def test_degenerate_programs_have_a_finite_gradient(make, output, rng):
    arguments = with_gradient(stacked([make(rng, 5, 9, 2) for _ in range(20)]))
    found = torch.autograd.grad(solved(output)(*arguments).sum(), arguments)
    for gradient in found:
        assert gradient.abs().max() < 1e4


@every_output
@pytest.mark.parametrize("upstream", [1.0, torch.inf, torch.nan])
@pytest.mark.filterwarnings("ignore:linear_program left")
def test_unsolved_programs_have_the_gradient_zero(output, upstream, rng):
    good = vertex_program(rng, 4, 8, 1)
    bad = infeasible_program(rng, 4, 7, 1), unbounded_program(rng, 4, 8, 1)
    arguments, alone = with_gradient(stacked([good, *bad])), with_gradient(tensors(good))
    result = solved(output)(*arguments)
    weights = torch.full_like(result, upstream)
    weights[0] = 1
    found = torch.autograd.grad(result, arguments, weights)
    expected = torch.autograd.grad(solved(output)(*alone).sum(), alone)
    for gradient, value in zip(found, expected, strict=True):
        torch.testing.assert_close(gradient[0], value, rtol=1e-9, atol=1e-9)
        assert (gradient[1:] == 0).all()


@every_output
@pytest.mark.parametrize("method", ["newton", "penalty"])
@pytest.mark.filterwarnings("ignore:linear_program left")
def test_unfinished_solution_has_the_gradient_zero(output, method, rng):
    arguments = with_gradient(tensors(vertex_program(rng, 8, 20, 3)))
    result = linear_program(*arguments, method=method, max_iter=2)
    assert result.status == 1
    for gradient in torch.autograd.grad(getattr(result, output).sum(), arguments):
        assert (gradient == 0).all()


@every_output
def test_second_derivatives_are_refused(output, rng):
    arguments = with_gradient(tensors(vertex_program(rng, 4, 7, 1)))
    result = solved(output)(*arguments).sum()
    with pytest.raises(RuntimeError, match="linear_program can be differentiated once"):
        torch.autograd.grad(result, arguments[1], create_graph=True)
