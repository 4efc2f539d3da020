"""Derivatives of a solved linear program in its arguments."""

import torch

from sktopk.losses._loss import check_once

from ._newton import INFEASIBLE, OPTIMAL, REFINEMENTS, UNBOUNDED, ScaledProgram

# Where x is not unique, the part of a gradient that no row sees grows by 1 / _DAMPING before
# the rows delete it: hence larger than what polishing can afford.
_DAMPING = 1e-9


class _Solved(torch.autograd.Function):
    """A value found without autograd, whose gradient goes into `source` by a linear map.

    Programs that are not `solved` pass on no gradient at all.
    """

    @staticmethod
    def forward(ctx, source, value, adjoint, solved):
        ctx.adjoint, ctx.solved = adjoint, solved
        return value.clone()

    @staticmethod
    def backward(ctx, gradient):
        check_once("linear_program")
        gradient = ctx.adjoint(gradient)
        # An unsolved program passes on nothing, whatever comes in or was found.
        solved = ctx.solved.view(-1, *[1] * (gradient.ndim - 1))
        return torch.where(solved, gradient, 0.0), None, None, None


def differentiable_optimum(matrix, rhs, cost, equality, solution, width):
    """Return the optimum with the gradient of its Lagrangian at fixed x and multipliers.

    With a `width`, it is the optimum of the penalty of that width.
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
        # Beside the optimum, the Lagrangian of an unfinished iterate means nothing.
        value = torch.where(solution.status == OPTIMAL, value, (cost * x).sum(-1).detach())
    value = value.masked_fill(solution.status == INFEASIBLE, torch.inf)
    value = value.masked_fill(solution.status == UNBOUNDED, -torch.inf)
    return _Solved.apply(lagrangian, value, lambda g: g, solution.status == OPTIMAL)


def differentiable_vertex(matrix, rhs, cost, equality, solution):
    """Return x with the gradient of the solution of M_J x = h_J, J the rows with multipliers."""
    # A vertex stays where it is when the costs move: their gradient is zero, not missing.
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
    """Return x with the gradient of the minimiser of the penalty: of its last Newton step."""
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
