"""Derivatives of the solution of a linear program by its arguments."""

import torch

from sktopk.losses._loss import check_once

from ._newton import INFEASIBLE, OPTIMAL, REFINEMENTS, UNBOUNDED, ScaledProgram

# Damping of the linear systems. It is larger than in polishing, because it multiplies a part of the
# gradient temporarily by 1 / _DAMPING if x is not unique.
_DAMPING = 1e-9


class _Solved(torch.autograd.Function):
    """A value that was computed without autograd, as a function of `source`.

    `adjoint` maps the gradient of the value to the gradient of `source`. Linear programs that are
    not `solved` get the gradient 0.
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
    """Return the optimum, with the gradient of the Lagrangian at fixed x and multipliers.

    If `width` is given, it is the optimum with a penalty of this width instead of constraints.
    """
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
        # Return the cost of an unfinished iterate, whose Lagrangian may be far from the optimum.
        value = torch.where(solution.status == OPTIMAL, value, (cost * x).sum(-1).detach())
    value = value.masked_fill(solution.status == INFEASIBLE, torch.inf)
    value = value.masked_fill(solution.status == UNBOUNDED, -torch.inf)
    return _Solved.apply(lagrangian, value, lambda g: g, solution.status == OPTIMAL)


def differentiable_vertex(matrix, rhs, cost, equality, solution):
    """Return x as the solution of M_J x = h_J, where J are the rows with nonzero multipliers."""
    # The costs do not change a vertex. Add 0 times the costs, to get a gradient other than None.
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
    """Return x, the minimizer of the penalty, with the gradient of the last Newton step."""
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
    """Apply the inverse of M_J'M_J, or its pseudo-inverse if x is not unique."""
    matrix = program.matrix
    solve = matrix.active_solver(active, gradient.new_tensor(_DAMPING))
    solution = solve(gradient)
    for _ in range(REFINEMENTS - 1):
        image = matrix.transposed_times(active * matrix.times(solution))
        solution = solution + solve(gradient - image)
    return solution
