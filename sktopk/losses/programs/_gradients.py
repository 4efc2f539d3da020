"""Gradients of the minimum and of the solution of a linear program, for all its arguments."""

import torch

from sktopk.losses._loss import check_once

from ._newton import INFEASIBLE, OPTIMAL, REFINEMENTS, UNBOUNDED, ScaledProgram

# Larger than _POLISHING_DAMPING, because rounding errors grow by 1 / _DAMPING if x is not unique.
_DAMPING = 1e-9


class _Solved(torch.autograd.Function):
    """Return `value`. `adjoint` turns the gradient for `value` into the gradient for `source`."""

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


def differentiable_optimum(program, solution, width):
    """Return the minimal cost, plus the penalty if `width` > 0, as a differentiable tensor."""
    slack, status = program.slack(solution.x), solution.status
    cost = (program.cost * solution.x).sum(-1)
    if width:
        lagrangian = cost + program.project(slack).square().sum(-1) / (2 * width)
        value = lagrangian.detach()
    else:
        lagrangian = cost + (solution.multipliers * slack).sum(-1)
        # If the solver stopped early, return the cost of x: the Lagrangian may be far from it.
        value = torch.where(status == OPTIMAL, lagrangian, cost).detach()
    value = value.masked_fill(status == INFEASIBLE, torch.inf)
    value = value.masked_fill(status == UNBOUNDED, -torch.inf)
    return _Solved.apply(lagrangian, value, lambda g: g, status == OPTIMAL)


def differentiable_vertex(program, solution):
    """Return x with a gradient by implicit differentiation of the active rows M_J x = h_J."""
    # The active rows do not contain the costs. Give these the gradient 0, not None.
    slack = program.slack(solution.x) + 0.0 * program.cost.sum(-1, keepdim=True)
    constants = program.detach()

    def adjoint(gradient):
        scaled = ScaledProgram(constants)
        active = scaled.active_rows(solution.multipliers / (scaled.cost_unit * scaled.rows))
        solved = _solve(scaled, active, scaled.columns * gradient)
        return -scaled.rows * (active * scaled.matrix.times(solved))

    return _Solved.apply(slack, solution.x, adjoint, solution.status == OPTIMAL)


def differentiable_minimiser(program, solution, width):
    """Return x, the minimizer of cost plus penalty, with a gradient by implicit differentiation."""
    slack = program.slack(solution.x)
    stationarity = width * program.cost + program.matrix.transposed_times(program.project(slack))
    constants, active = program.detach(), program.equality | (slack.detach() > 0)

    def adjoint(gradient):
        scaled = ScaledProgram(constants, scale_rows=False)
        return -scaled.columns * _solve(scaled, active, scaled.columns * gradient)

    return _Solved.apply(stationarity, solution.x, adjoint, solution.status == OPTIMAL)


def _solve(program, active, gradient):
    """Return the z of least norm with M_J'M_J z = gradient, where M_J has the active rows."""
    matrix = program.matrix
    solve = matrix.active_solver(active, gradient.new_tensor(_DAMPING))
    solution = solve(gradient)
    for _ in range(REFINEMENTS - 1):
        image = matrix.transposed_times(active * matrix.times(solution))
        solution = solution + solve(gradient - image)
    return solution
