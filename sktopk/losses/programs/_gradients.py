"""Gradients of the optimum and of the solution of a linear program by its arguments."""

import torch

from sktopk.losses._loss import check_once

from ._newton import INFEASIBLE, OPTIMAL, REFINEMENTS, UNBOUNDED, ScaledProgram

# Damping of the linear systems. It is larger than in `_newton`: if the solution is not unique,
# terms of size 1 / _DAMPING cancel, and a smaller value would lose too many digits.
_DAMPING = 1e-9


class _Solved(torch.autograd.Function):
    """Autograd function of `source` that returns `value`, which was computed without autograd.

    `adjoint` maps the gradient by the value to the gradient by `source`, 0 for unsolved programs.
    """

    @staticmethod
    def forward(ctx, source, value, adjoint, solved):
        ctx.adjoint, ctx.solved = adjoint, solved
        return value.clone()

    @staticmethod
    def backward(ctx, gradient):
        check_once("linear_program")
        gradient = ctx.adjoint(gradient)
        # Use `where`: an unsolved linear program has the gradient 0 even if `gradient` is NaN.
        solved = ctx.solved.view(-1, *[1] * (gradient.ndim - 1))
        return torch.where(solved, gradient, 0.0), None, None, None


def differentiable_optimum(matrix, rhs, cost, equality, solution, width):
    """Return the optimum (with `width`: of the penalty), with the gradient of the Lagrangian."""
    x, multipliers = solution.x, solution.multipliers
    slack = matrix.times(x) - rhs
    if width:
        violation = torch.where(equality, slack, slack.clamp_min(0))
        penalty = violation.square().sum(-1) / (2 * width)
    else:
        penalty = (multipliers * slack).sum(-1)
    lagrangian = (cost * x).sum(-1) + penalty
    value = lagrangian.detach()
    if not width:
        # If the solver stopped early, return the cost of x: the Lagrangian may be far from it.
        value = torch.where(solution.status == OPTIMAL, value, (cost * x).sum(-1).detach())
    value = value.masked_fill(solution.status == INFEASIBLE, torch.inf)
    value = value.masked_fill(solution.status == UNBOUNDED, -torch.inf)
    return _Solved.apply(lagrangian, value, lambda g: g, solution.status == OPTIMAL)


def differentiable_vertex(matrix, rhs, cost, equality, solution):
    """Return x, with the gradient of the solution of M_J x = h_J for the active rows J."""
    # Small changes of the costs do not move x. Add 0 times the costs: the gradient is 0, not None.
    slack = matrix.times(solution.x) - rhs + 0.0 * cost.sum(-1, keepdim=True)
    constants = (matrix.detach(), rhs.detach(), cost.detach(), equality)

    def adjoint(gradient):
        program = ScaledProgram(*constants)
        scaled_multipliers = solution.multipliers / (program.cost_unit * program.rows)
        active = program.active_rows(scaled_multipliers)
        solved = _solve(program, active, program.columns * gradient)
        return -program.rows * (active * program.matrix.times(solved))

    return _Solved.apply(slack, solution.x, adjoint, solution.status == OPTIMAL)


def differentiable_minimiser(matrix, rhs, cost, equality, solution, width):
    """Return x, the minimizer of the penalty, with its gradient by implicit differentiation."""
    slack = matrix.times(solution.x) - rhs
    violation = torch.where(equality, slack, slack.clamp_min(0))
    stationarity = width * cost + matrix.transposed_times(violation)
    constants = (matrix.detach(), rhs.detach(), cost.detach(), equality)

    def adjoint(gradient):
        program = ScaledProgram(*constants, scale_rows=False)
        active = equality | (slack.detach() > 0)
        return -program.columns * _solve(program, active, program.columns * gradient)

    return _Solved.apply(stationarity, solution.x, adjoint, solution.status == OPTIMAL)


def _solve(program, active, gradient):
    """Solve M_J'M_J z = gradient for the active rows J (least norm if z is not unique)."""
    matrix = program.matrix
    solve = matrix.active_solver(active, gradient.new_tensor(_DAMPING))
    solution = solve(gradient)
    for _ in range(REFINEMENTS - 1):
        image = matrix.transposed_times(active * matrix.times(solution))
        solution = solution + solve(gradient - image)
    return solution
