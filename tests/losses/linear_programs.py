"""Random linear programs of known status (optimal, infeasible, unbounded), and the solver HiGHS."""

import numpy as np
import torch
from scipy.optimize import linprog


def tensors(program):
    return [torch.from_numpy(np.ascontiguousarray(part)) for part in program]


def stacked(programs):
    return [torch.stack(parts) for parts in zip(*map(tensors, programs), strict=True)]


def by_highs(c, A_ub, b_ub, A_eq, b_eq):
    return linprog(c, A_ub, b_ub, A_eq, b_eq, bounds=(None, None), method="highs")


def optima(programs):
    found = [by_highs(*program) for program in programs]
    assert all(result.status == 0 for result in found)
    return torch.tensor([result.fun for result in found], dtype=torch.float64)


def vertex_program(rng, n, n_ub, n_eq):
    """A random program with one optimal vertex, at which n - n_eq inequalities are tight."""
    A_ub, A_eq, x = rng.normal(size=(n_ub, n)), rng.normal(size=(n_eq, n)), rng.normal(size=n)
    tight = np.arange(n_ub) < n - n_eq
    b_ub = A_ub @ x + np.where(tight, 0, rng.exponential(size=n_ub))
    c = -A_ub.T @ np.where(tight, rng.exponential(size=n_ub), 0) - A_eq.T @ rng.normal(size=n_eq)
    return c, A_ub, b_ub, A_eq, A_eq @ x


def feasible_bounded_program(rng, n, n_ub, n_eq):
    A_ub, A_eq, x = rng.normal(size=(n_ub, n)), rng.normal(size=(n_eq, n)), rng.normal(size=n)
    c = -A_ub.T @ rng.exponential(size=n_ub) - A_eq.T @ rng.normal(size=n_eq)
    return c, A_ub, A_ub @ x + rng.exponential(size=n_ub), A_eq, A_eq @ x


def tied_program(rng, n, n_ub, n_eq):
    """A program with entries -1, 0 and 1: ties, rows of zeros, many optimal solutions."""
    A_ub, A_eq = (rng.integers(-1, 2, (m, n)).astype(float) for m in (n_ub, n_eq))
    x = rng.integers(-2, 3, n).astype(float)
    slack = rng.integers(0, 2, n_ub)
    multipliers = rng.integers(0, 2, n_ub) * (slack == 0)
    c = -A_ub.T @ multipliers - A_eq.T @ rng.integers(-1, 2, n_eq)
    return c, A_ub, A_ub @ x + slack, A_eq, A_eq @ x


def redundant_program(rng, n, n_ub, n_eq):
    c, A_ub, b_ub, A_eq, b_eq = vertex_program(rng, n, n_ub, n_eq)
    A_ub = np.concatenate([A_ub, A_ub[:3], 2 * A_ub[:1], A_ub[:1] + A_ub[1:2], 0 * A_ub[:2]])
    b_ub = np.concatenate([b_ub, b_ub[:3], 2 * b_ub[:1], b_ub[:1] + b_ub[1:2], [0.0, 1.0]])
    A_eq = np.concatenate([A_eq, A_eq, 0 * A_eq])
    return c, A_ub, b_ub, A_eq, np.concatenate([b_eq, b_eq, 0 * b_eq])


def badly_scaled_program(rng, n, n_ub, n_eq):
    """A program with rows scaled by 1/1000 to 1000, and columns by 1/100 to 100."""
    c, A_ub, b_ub, A_eq, b_eq = vertex_program(rng, n, n_ub, n_eq)
    rows, columns = 10 ** rng.uniform(-3, 3, n_ub), 10 ** rng.uniform(-2, 2, n)
    return c * columns, rows[:, None] * A_ub * columns, rows * b_ub, A_eq * columns, b_eq


SOLVABLE = (
    vertex_program, feasible_bounded_program, tied_program, redundant_program, badly_scaled_program,
)  # fmt: skip


def infeasible_program(rng, n, n_ub, n_eq):
    """An infeasible program: a positive combination of the rows is 0 <= -gap."""
    c, A_ub, b_ub, A_eq, b_eq = vertex_program(rng, n, n_ub, n_eq)
    weights = rng.exponential(size=n_ub) * (rng.random(n_ub) < 0.5)
    gap = 10 ** rng.uniform(-3, 1)
    A_ub = np.concatenate([A_ub, -(weights @ A_ub)[None]])
    return c, A_ub, np.append(b_ub, -(weights @ b_ub) - gap), A_eq, b_eq


def infeasible_equations(rng, n, n_ub, n_eq):
    """An infeasible program: the last equation is the sum of the others with another right side."""
    c, A_ub, b_ub, A_eq, b_eq = vertex_program(rng, n, n_ub, n_eq)
    A_eq = np.concatenate([A_eq, A_eq.sum(0, keepdims=True)])
    return c, A_ub, b_ub, A_eq, np.append(b_eq, b_eq.sum() + 10 ** rng.uniform(-3, 1))


def hopeless_program(rng, n, n_ub, n_eq):
    """An infeasible program with random costs."""
    _, *rows = infeasible_program(rng, n, n_ub, n_eq)
    return rng.normal(size=n), *rows


def unbounded_program(rng, n, n_ub, n_eq, tight=0.0):
    """An unbounded program: the cost falls along a ray, and a share `tight` of rows is constant."""
    ray = rng.normal(size=n)
    ray /= np.linalg.norm(ray)
    A_ub, A_eq, x = rng.normal(size=(n_ub, n)), rng.normal(size=(n_eq, n)), rng.normal(size=n)
    slope = -rng.exponential(size=n_ub) * (np.arange(n_ub) >= tight * n_ub)
    A_ub += np.outer(slope - A_ub @ ray, ray)
    A_eq -= np.outer(A_eq @ ray, ray)
    c = rng.normal(size=n)
    c -= (c @ ray + 0.01 + rng.exponential()) * ray
    return c, A_ub, A_ub @ x + rng.exponential(size=n_ub), A_eq, A_eq @ x


def unbounded_along_a_face(rng, n, n_ub, n_eq):
    return unbounded_program(rng, n, n_ub, n_eq, tight=1.0)


# Programs without an optimum, with the expected status code and optimal value.
WITHOUT_OPTIMUM = {
    **dict.fromkeys((infeasible_program, infeasible_equations, hopeless_program), (2, np.inf)),
    **dict.fromkeys((unbounded_program, unbounded_along_a_face), (3, -np.inf)),
}
# Numbers of variables, inequalities and equations: (n, n_ub, n_eq).
SHAPES = [(2, 5, 1), (5, 9, 0), (8, 20, 3), (12, 25, 4)]


def batches(make, seed=0, n_programs=10):
    rng = np.random.default_rng(seed)
    return [[make(rng, *shape) for _ in range(n_programs)] for shape in SHAPES]
