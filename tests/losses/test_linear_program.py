"""linear_program compared with HiGHS, closed forms and finite differences, and its errors."""

import ctypes
import warnings

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from torch.autograd import gradcheck

from sktopk.losses import linear_program
from tests.losses import linear_programs as lp

every_output = pytest.mark.parametrize("output", ["fun", "x"])
every_method = pytest.mark.parametrize("method", ["newton", "highs", "penalty"])
exact_method = pytest.mark.parametrize("method", ["newton", "highs"])
close = torch.testing.assert_close


@pytest.mark.parametrize("make", lp.SOLVABLE, ids=lambda make: make.__name__)
def test_the_optimum_equals_the_optimum_of_highs(make):
    for programs in lp.batches(make):  # 4 shapes, 10 programs each
        arguments, expected = lp.stacked(programs), lp.optima(programs)
        result = linear_program(*arguments)
        assert (result.status == 0).all()
        close(result.fun, expected, rtol=1e-10, atol=1e-10)
        close((arguments[0] * result.x).sum(-1), result.fun, rtol=1e-9, atol=1e-9)
        # In float32, redundant rows can contradict each other a little.
        rounded = linear_program(*(part.float() for part in arguments))
        assert rounded.fun.dtype == rounded.x.dtype == torch.float32
        assert (rounded.status == 0).all()
        close(rounded.fun, expected.float(), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("make", lp.WITHOUT_OPTIMUM, ids=lambda make: make.__name__)
@pytest.mark.parametrize("kind", ["dense", "sparse", "float32", "highs"])
def test_programs_without_optimum_are_recognised(make, kind):
    n_open, (status, fun) = 0, lp.WITHOUT_OPTIMUM[make]
    for programs in lp.batches(make, n_programs=25):  # 4 shapes, 25 programs each
        c, A_ub, b_ub, A_eq, b_eq = lp.stacked(programs)
        if kind == "sparse":
            A_ub, A_eq = A_ub.to_sparse(), A_eq.to_sparse()
        arguments = [v.float() if kind == "float32" else v for v in (c, A_ub, b_ub, A_eq, b_eq)]
        method = "highs" if kind == "highs" else "newton"
        result = linear_program(*arguments, method=method, on_failure="ignore")
        known = result.status != 1
        n_open += int((~known).sum())
        assert (result.status[known] == status).all()
        assert (result.fun[known] == fun).all()
        assert kind == "highs" or (result.n_iter[known] < 100).all()
    # In float32, a few programs with contradictory equations are not recognized.
    assert n_open <= (5 if kind == "float32" and make.__name__ == "infeasible_equations" else 0)


@exact_method
def test_solutions_and_multipliers_meet_the_optimality_conditions(method):
    for programs in lp.batches(lp.vertex_program):
        c, A_ub, b_ub, A_eq, b_eq = lp.stacked(programs)
        result = linear_program(c, A_ub, b_ub, A_eq, b_eq, method=method)
        slack = b_ub - (A_ub @ result.x.unsqueeze(-1)).squeeze(-1)
        v, u = result.multipliers_ub, result.multipliers_eq
        assert (slack > -1e-9).all()
        assert (v >= 0).all()
        assert ((slack * v).abs() < 1e-8).all()
        close(A_eq @ result.x.unsqueeze(-1), b_eq.unsqueeze(-1))
        gradient = c + (A_ub.mT @ v.unsqueeze(-1) + A_eq.mT @ u.unsqueeze(-1)).squeeze(-1)
        close(gradient, torch.zeros_like(gradient), rtol=0, atol=1e-9)
        for residual in (result.primal_residual, result.dual_residual, result.gap):
            assert residual.shape == (len(programs),)
            assert (residual < 1e-8).all()


VALUES = np.random.default_rng(0).normal(size=(50, 1))
# Costs, matrices and right sides of inequalities and equations, and the optimum.
BY_HAND = {
    # The smallest t with t >= every value is the maximum. Only one row is tight.
    "maximum": ([1], -np.ones((50, 1)), -VALUES[:, 0], None, None, VALUES.max()),
    "equations alone": ([3, 3], None, None, [[1, 1]], [2], 6),
    "no costs": ([0, 0], [[1, 1], [-1, -1]], [5, -4], None, None, 0),
    "0 x <= 0": ([1], [[0], [-1]], [0, 2], None, None, -2),
    "0 x <= -1": ([1], [[0], [-1]], [-1, 2], None, None, np.inf),
    "a variable in no row": ([1, 1], [[-1, 0]], [0], None, None, -np.inf),
}


@pytest.mark.parametrize("name", BY_HAND)
def test_programs_have_the_optimum_that_was_computed_by_hand(name):
    *parts, expected = BY_HAND[name]
    c, A_ub, b_ub, A_eq, b_eq = (
        None if part is None else torch.as_tensor(part, dtype=torch.float64) for part in parts
    )
    result = linear_program(c, A_ub, b_ub, A_eq, b_eq, on_failure="ignore")
    assert result.fun.item() == pytest.approx(expected, abs=1e-12)
    assert result.status == {np.inf: 2, -np.inf: 3}.get(expected, 0)
    assert len(result.multipliers_ub) == (0 if b_ub is None else len(b_ub))
    if name == "no costs":  # without costs, any feasible point is optimal
        assert 4 - 1e-6 <= result.x.sum() <= 5 + 1e-6


@pytest.mark.parametrize("scale", [1e-12, 1e-6, 1e6, 1e12])
def test_the_scale_of_costs_and_constraints_does_not_affect_accuracy(scale, rng):
    program = lp.vertex_program(rng, 5, 9, 1)
    expected = lp.by_highs(*program).fun
    c, A_ub, b_ub, A_eq, b_eq = lp.tensors(program)
    bound, ones = torch.eye(5, dtype=c.dtype), torch.ones_like(c)  # a loose bound of x
    for arguments, factor in [
        ((scale * c, A_ub, b_ub, A_eq, b_eq), scale),
        ((c, A_ub, scale * b_ub, A_eq, scale * b_eq), scale),
        ((c, scale * A_ub, scale * b_ub, A_eq, b_eq), 1),
        ((c, torch.cat([A_ub, bound]), torch.cat([b_ub, scale + 1e4 * ones]), A_eq, b_eq), 1),
    ]:
        result = linear_program(*arguments)
        assert result.status == 0
        assert result.fun.item() == pytest.approx(factor * expected, rel=1e-9)


def test_float32_programs_with_one_very_large_number_are_solved():
    slack = torch.tensor([[-1.0, -1], [0, -1], [-1, 0]])  # x + slack >= 3, slack >= 0, x >= 0
    bound = torch.tensor([-3.0, 0, 0], requires_grad=True)
    linear_program(torch.tensor([1, 1e6]), slack, bound).fun.backward()
    assert bound.grad.tolist() == [-1, 1 - 1e6, 0]
    rows = torch.tensor([[1.0, 0], [-1, 0], [0, -1], [0, 1]])  # x <= 1, x >= 2, 1 <= y <= 1e6
    right = torch.tensor([1, -2, -1, 1e6])
    assert linear_program(torch.ones(2), rows, right, on_failure="ignore").status == 2


@every_method
def test_a_batch_of_programs_equals_each_program_alone_and_does_not_change(method, rng):
    programs = [lp.vertex_program(rng, 4, 7, 1) for _ in range(6)]
    alone = [linear_program(*lp.tensors(p), method=method) for p in programs]
    arguments = [part.view(2, 3, *part.shape[1:]) for part in lp.stacked(programs)]
    before = [argument.clone() for argument in arguments]
    batch = linear_program(*arguments, method=method)
    assert all(map(torch.equal, arguments, before))
    for name, values in batch._asdict().items():
        expected = torch.stack([getattr(result, name) for result in alone])
        close(values, expected.view(2, 3, *expected.shape[1:]), rtol=1e-9, atol=1e-9, msg=name)


@exact_method
def test_unsolvable_programs_do_not_affect_other_programs_of_the_batch(method, rng):
    good = [lp.vertex_program(rng, 4, 8, 1) for _ in range(3)]
    bad = lp.infeasible_program(rng, 4, 7, 1), lp.unbounded_program(rng, 4, 8, 1)
    arguments = lp.stacked([good[0], bad[0], good[1], bad[1], good[2]])
    with pytest.warns(RuntimeWarning, match="2 of 5 programs: 1 infeasible, 1 unbounded"):
        result = linear_program(*arguments, method=method)
    assert result.status.tolist() == [0, 2, 0, 3, 0]
    close(result.fun[::2], lp.optima(good), rtol=1e-10, atol=1e-10)
    assert result.x.isfinite().all()


def test_leading_dimensions_of_arguments_are_broadcast(rng):
    c, A_ub, b_ub, A_eq, b_eq = lp.tensors(lp.vertex_program(rng, 4, 7, 1))
    costs = torch.stack([c, 2 * c, 3 * c]).view(3, 1, 4)
    sides = torch.stack([b_ub, b_ub + 1]).view(1, 2, 7)
    result = linear_program(costs, A_ub, sides, A_eq, b_eq)
    assert result.x.shape == (3, 2, 4)
    for i, j in np.ndindex(3, 2):
        alone = linear_program(costs[i, 0], A_ub, sides[0, j], A_eq, b_eq).fun
        close(result.fun[i, j], alone, rtol=1e-10, atol=1e-10)
    sparse = linear_program(costs, A_ub.to_sparse(), sides, A_eq, b_eq)
    close(sparse.fun, result.fun, rtol=1e-10, atol=1e-10)
    assert linear_program(costs[:0], A_ub, sides, A_eq, b_eq).fun.shape == (0, 2)


@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize("to_sparse", [torch.Tensor.to_sparse, torch.Tensor.to_sparse_csr])
@every_method
def test_sparse_constraints_have_the_optimum_of_dense_constraints(to_sparse, method, rng):
    c, A_ub, b_ub, A_eq, b_eq = lp.stacked([lp.tied_program(rng, 8, 20, 2) for _ in range(4)])
    expected = linear_program(c, A_ub, b_ub, A_eq, b_eq, method=method)
    for i in range(len(c)):
        rows = (to_sparse(A_ub[i]), b_ub[i], to_sparse(A_eq[i]), b_eq[i])
        found = linear_program(c[i], *rows, method=method)
        close(found.fun, expected.fun[i], rtol=1e-9, atol=1e-9)
    found = linear_program(c, A_ub.to_sparse(), b_ub, A_eq, b_eq, method=method)
    close(found.fun, expected.fun, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("smoothing", [1e-4, 1e-2, 1.0])
@pytest.mark.parametrize("seed", range(5))
def test_the_method_penalty_solves_the_smoothed_program(smoothing, seed):
    program = lp.feasible_bounded_program(np.random.default_rng(seed), 3, 6, 1)

    def penalised(x):
        c, A_ub, b_ub, A_eq, b_eq = program
        excess, offset = np.maximum(A_ub @ x - b_ub, 0), A_eq @ x - b_eq
        gradient = c + (A_ub.T @ excess + A_eq.T @ offset) / smoothing
        return c @ x + (excess @ excess + offset @ offset) / (2 * smoothing), gradient

    options = {"maxiter": 10_000, "gtol": 1e-10}
    expected = minimize(penalised, np.zeros(3), jac=True, method="BFGS", options=options).fun
    result = linear_program(*lp.tensors(program), method="penalty", smoothing=smoothing)
    assert result.status == 0
    assert result.fun.item() == pytest.approx(expected, abs=1e-7)
    assert result.gap.item() < 1e-7
    exact = linear_program(*lp.tensors(program))
    square = exact.multipliers_ub.square().sum() + exact.multipliers_eq.square().sum()
    assert exact.fun - smoothing * square / 2 - 1e-9 <= result.fun <= exact.fun + 1e-9


def with_gradient(arguments):
    return [argument.clone().requires_grad_() for argument in arguments]


def solved(output, **options):
    return lambda *arguments: getattr(linear_program(*arguments, **options), output)


@every_output
@every_method
@pytest.mark.parametrize("shape", [(3, 4, 0), (3, 3, 2)], ids=["inequalities", "equations"])
def test_gradients_equal_finite_differences(output, method, shape, rng):
    arguments = with_gradient(lp.tensors(lp.vertex_program(rng, *shape)))
    if not shape[2]:
        arguments = arguments[:3]
    assert gradcheck(solved(output, method=method), arguments)


@pytest.mark.filterwarnings("ignore:Sparse")
@every_output
@pytest.mark.parametrize("layout", ["coo", "csr"])
@pytest.mark.parametrize("method", ["newton", "penalty"])
def test_gradients_of_sparse_entries_equal_finite_differences(output, layout, method, rng):
    c, A_ub, b_ub, A_eq, b_eq = lp.tensors(lp.vertex_program(rng, 3, 4, 1))
    # A box keeps the program bounded when entries of other rows are set to 0.
    A_ub[[0, 1, 2, 3], [0, 2, 1, 0]] = 0
    A_ub = torch.cat([A_ub, torch.eye(3), -torch.eye(3)])
    b_ub, indices = torch.cat([b_ub.abs() + 0.1, torch.ones(6)]), A_ub.nonzero().T

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
    close(A_ub.grad.to_dense(), torch.tensor([[1.0, 0.0], [0.0, 2.0]]))


@pytest.mark.parametrize("make", [lp.tied_program, lp.redundant_program])
@every_output
def test_degenerate_programs_have_a_finite_gradient(make, output, rng):
    arguments = with_gradient(lp.stacked([make(rng, 5, 9, 2) for _ in range(20)]))
    for gradient in torch.autograd.grad(solved(output)(*arguments).sum(), arguments):
        assert gradient.abs().max() < 1e4


@every_output
@pytest.mark.parametrize("upstream", [1.0, torch.inf, torch.nan])
@pytest.mark.filterwarnings("ignore:linear_program left")
def test_unsolved_programs_have_the_gradient_zero(output, upstream, rng):
    good = lp.vertex_program(rng, 4, 8, 1)
    bad = lp.infeasible_program(rng, 4, 7, 1), lp.unbounded_program(rng, 4, 8, 1)
    arguments, alone = with_gradient(lp.stacked([good, *bad])), with_gradient(lp.tensors(good))
    result = solved(output)(*arguments)
    weights = torch.full_like(result, upstream)
    weights[0] = 1
    found = torch.autograd.grad(result, arguments, weights)
    expected = torch.autograd.grad(solved(output)(*alone).sum(), alone)
    for gradient, value in zip(found, expected, strict=True):
        close(gradient[0], value, rtol=1e-9, atol=1e-9)
        assert (gradient[1:] == 0).all()


@every_output
@pytest.mark.parametrize("method", ["newton", "penalty"])
def test_a_program_stopped_by_max_iter_gives_a_warning_and_a_zero_gradient(output, method, rng):
    arguments = with_gradient(lp.tensors(lp.vertex_program(rng, 8, 20, 3)))
    with pytest.warns(RuntimeWarning, match="1 stopped by max_iter"):
        result = linear_program(*arguments, method=method, max_iter=2)
    assert result.status == 1
    assert result.n_iter == 2
    assert result.fun.isfinite()
    for gradient in torch.autograd.grad(getattr(result, output).sum(), arguments):
        assert (gradient == 0).all()


@every_output
def test_second_derivatives_raise(output, rng):
    arguments = with_gradient(lp.tensors(lp.vertex_program(rng, 4, 7, 1)))
    result = solved(output)(*arguments).sum()
    with pytest.raises(RuntimeError, match="linear_program can be differentiated once"):
        torch.autograd.grad(result, arguments[1], create_graph=True)


@every_method
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_results_of_float64_are_float64_and_others_float32(dtype, method):
    expected = torch.float64 if dtype == torch.float64 else torch.float32
    c, A_ub, b_ub = torch.ones(1, dtype=dtype), -torch.ones(1, 1, dtype=dtype), torch.zeros(1)
    result = linear_program(c, A_ub, b_ub.to(dtype), method=method)
    for name, values in result._asdict().items():
        assert values.dtype == (torch.int64 if name in ("status", "n_iter") else expected), name


INFEASIBLE = (torch.ones(1), torch.tensor([[1.0], [-1.0]]), torch.tensor([0.0, -2.0]))


def test_on_failure_decides_if_a_failure_warns_raises_or_is_ignored():
    with pytest.warns(RuntimeWarning, match="1 of 1 programs: 1 infeasible") as caught:
        linear_program(*INFEASIBLE)
    assert caught[0].filename == __file__
    with pytest.raises(RuntimeError, match="1 of 1 programs: 1 infeasible"):
        linear_program(*INFEASIBLE, on_failure="raise")
    with warnings.catch_warnings(action="error"):
        assert linear_program(*INFEASIBLE, on_failure="ignore").status == 2
    c = torch.ones(2, 3, 1)
    c[1, 2] = -1
    with pytest.warns(RuntimeWarning, match=r"the first at index \(1, 2\)"):
        linear_program(c, -torch.ones(1, 1), torch.zeros(1))


TWO_COSTS = {"c": torch.ones(2, 2)}


@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"c": [1.0, 1.0]}, TypeError, "c must be a torch.Tensor; got list"),
        ({"c": torch.ones(2).long()}, TypeError, "c must be floating point; got torch.int64"),
        ({"c": torch.tensor(1.0)}, ValueError, "c must have shape"),
        ({"c": torch.ones(0)}, ValueError, "c must have shape"),
        ({"c": torch.ones(2).to_sparse()}, TypeError, "c must have one of the layouts"),
        ({"c": torch.tensor([1.0, torch.nan])}, ValueError, "c must be finite; got nan"),
        ({"A_ub": -torch.eye(3)}, ValueError, r"A_ub must have shape \(..., n_rows, 2\)"),
        ({"A_ub": np.eye(2)}, TypeError, "A_ub must be a torch.Tensor; got ndarray"),
        ({"A_ub": (torch.eye(2) / 0).to_sparse()}, ValueError, "A_ub must be finite"),
        ({"A_ub": torch.eye(2).to_mkldnn()}, TypeError, "A_ub must have one of the layouts"),
        ({"A_ub": torch.eye(2).to_sparse(1)}, ValueError, r"A_ub.dense_dim\(\) must be 0.*; got 1"),
        ({"A_ub": None}, ValueError, "b_ub must have shape"),
        ({"b_ub": None}, ValueError, "b_ub must be given with A_ub; got None"),
        ({"b_ub": torch.ones(3)}, ValueError, r"b_ub must have shape \(..., 2\)"),
        ({"A_eq": torch.ones(1, 3)}, ValueError, "A_eq must have shape"),
        ({"b_eq": torch.ones(2)}, ValueError, r"b_eq must have shape \(..., 1\)"),
        (TWO_COSTS | {"b_ub": torch.ones(3, 2)}, ValueError, "must broadcast"),
        (
            TWO_COSTS | {"A_ub": torch.eye(2).expand(1, 2, 2).to_sparse()},
            *(ValueError, r"leading dimensions of sparse A_ub must be \(\) for one"),
        ),
        (dict.fromkeys(["A_ub", "b_ub", "A_eq", "b_eq"]), ValueError, "at least one row"),
        ({"b_ub": torch.ones(2, device="meta")}, ValueError, "b_ub must be on the device of c"),
        ({"method": "simplex"}, ValueError, "method='simplex' must be one of 'newton'"),
        ({"on_failure": "pass"}, ValueError, "on_failure='pass' must be one of 'warn'"),
        ({"smoothing": 0}, ValueError, "smoothing=0 must be finite and positive"),
        ({"tol": -1}, ValueError, "tol=-1 must be finite and positive"),
        ({"max_iter": 0}, ValueError, "max_iter=0 must be at least 1"),
        ({"max_iter": 1.5}, TypeError, "max_iter must be an integer; got 1.5"),
    ],
)
def test_wrong_arguments_of_linear_program_raise(changes, error, message):
    arguments = {"c": torch.ones(2), "A_ub": -torch.eye(2), "b_ub": torch.zeros(2)}
    arguments |= {"A_eq": torch.ones(1, 2), "b_eq": torch.ones(1)}
    with pytest.raises(error, match=message):
        linear_program(**arguments | changes)


def test_the_method_highs_prints_nothing(capfd):
    rng = np.random.default_rng(3)
    for make in 150 * (lp.hopeless_program, lp.unbounded_along_a_face):
        rounded = [part.float() for part in lp.tensors(make(rng, 8, 12, 3))]
        linear_program(*rounded, method="highs", on_failure="ignore")
    # The C code of HiGHS has a separate buffer.
    ctypes.CDLL(None).fflush(None)
    assert capfd.readouterr() == ("", "")
