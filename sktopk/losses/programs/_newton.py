r"""Solve linear programs: minimize c'x subject to M x <= h, with equations for some rows.

The subproblems of the proximal method of multipliers (Rockafellar, 1976) minimize

.. math:: c'x + \tfrac{1}{2 \varepsilon} |(M x - h + \varepsilon y)_+|^2
          + \tfrac{\rho}{2} |x - x_k|^2

where y are the multipliers, and x_k is the solution of the previous subproblem. Newton's method
solves each subproblem. The next subproblem has new multipliers and a smaller :math:`\varepsilon`.
If the program has no optimum, either the steps of y converge to a proof of infeasibility, or the
steps of x converge to a ray along which the cost decreases without bound.
"""

from dataclasses import dataclass
from typing import NamedTuple

import torch

from ._matrices import DenseRows, SparseRows, equilibrate, or_one

# Status codes of scipy.optimize.linprog.
OPTIMAL, LIMIT, INFEASIBLE, UNBOUNDED, UNDECIDED = range(5)
STATUS_NAMES = {
    LIMIT: "stopped by max_iter",
    INFEASIBLE: "infeasible",
    UNBOUNDED: "unbounded",
    UNDECIDED: "given up by HiGHS for numerical difficulties",
}

_SHRINKAGE, _SMALLEST_WIDTH = 0.1, 1e-6
_PROXIMAL_RATIO = 0.1  # rho / eps
_ARMIJO, _MAX_HALVINGS = 1e-4, 60
# After a step shorter than _SHORT times Newton's step, the damping is multiplied by _MORE_DAMPING.
# After a full step, it is divided by _MORE_DAMPING.
_SHORT, _MORE_DAMPING = 0.2, 10.0
# Due to rounding, a proof of "no optimum" excludes only solutions up to a norm. This norm must be
# at least _CERTIFIED_NORM_TIMES_TOL / tol, clipped to [_LEAST_NORM, _LARGEST_NORM].
_CERTIFIED_NORM_TIMES_TOL, _LARGEST_NORM, _LEAST_NORM = 1e-3, 1e6, 1e2
REFINEMENTS, _POLISHING_DAMPING = 3, 1e-12
# A solution smaller than _SMALL in the units of the scaled program is computed in smaller units.
_MAX_RESCALINGS, _SMALL = 3, 0.01


class Solution(NamedTuple):
    """The last iterate of a solver. Each field has one row or number per linear program."""

    x: torch.Tensor
    multipliers: torch.Tensor
    status: torch.Tensor
    n_iter: torch.Tensor

    def where(self, mask, other):
        """Return this solution for the programs in the mask, and `other` for the rest."""
        column = mask.unsqueeze(1)
        return Solution(*map(torch.where, (column, column, mask, mask), self, other))


@dataclass
class Program:
    """A batch of linear programs. `rhs` and `cost` have one row per program."""

    matrix: DenseRows | SparseRows
    rhs: torch.Tensor
    cost: torch.Tensor
    equality: torch.Tensor

    def detach(self):
        matrix = self.matrix._replace(values=self.matrix.values.detach())
        return Program(matrix, self.rhs.detach(), self.cost.detach(), self.equality)

    def slack(self, x):
        return self.matrix.times(x) - self.rhs

    def project(self, rows):
        """Return `rows` after setting negative entries of inequalities to 0."""
        return torch.where(self.equality, rows, rows.clamp_min(0))


class ScaledProgram(Program):
    """A batch of linear programs, scaled so that rows, columns, `rhs` and `cost` have norms near 1.

    If a scaled program has the solution x and the multipliers y, the original program has the
    solution `rhs_unit * columns * x` and the multipliers `cost_unit * rows * y`.
    """

    def __init__(self, program, *, unit=1.0, scale_rows=True):
        self.rows, self.columns = equilibrate(program, scale_rows=scale_rows)
        rhs, cost = self.rows * program.rhs, self.columns * program.cost
        self.rhs_unit, self.cost_unit = unit * or_one(_largest(rhs)), or_one(_largest(cost))
        matrix = program.matrix.scaled(self.rows, self.columns)
        super().__init__(matrix, rhs / self.rhs_unit, cost / self.cost_unit, program.equality)
        self.row_norms = or_one(matrix.norms()[0])

    def error(self, x, multipliers, cost):
        """Return the largest of three errors: primal infeasibility, dual infeasibility, gap."""
        primal = _largest(self.project(self.slack(x))) / (1 + _largest(x))
        dual = _largest(cost + self.matrix.transposed_times(multipliers))
        value = _dot(cost, x)
        gap = (value + _dot(self.rhs, multipliers)).abs() / (1 + value.abs())
        return torch.maximum(torch.maximum(primal, dual), gap).squeeze(-1)

    def active_rows(self, multipliers, noise=1e-9):
        """Return a mask: True for equations, and for inequalities with multipliers > `noise`."""
        return self.equality | (multipliers > noise)


def solve_newton(program, *, tol, max_iter, width):
    """Return the `Solution`. If `width` > 0, x minimizes cost + |violations|^2 / (2 width)."""
    solution, size = _solve(program, 1.0, tol, max_iter, width)
    unit = torch.ones_like(size)
    for _ in range(0 if width else _MAX_RESCALINGS):
        # The tolerance suits x near 1, but large right-hand sides of inactive rows make x small.
        small = (size < _SMALL) & (solution.status == OPTIMAL).unsqueeze(1)
        if not small.any():
            break
        unit = torch.where(small, unit * size.clamp_min(tol), unit)
        beyond_noise = (unit * size > 0.1 * tol).squeeze(1)
        again, size = _solve(program, unit, tol, max_iter, width)
        sure = (again.status == OPTIMAL) | (again.status == INFEASIBLE) & beyond_noise
        again = again._replace(n_iter=solution.n_iter + again.n_iter)
        solution = again.where(small.squeeze(1) & sure, solution)
    return solution


def _solve(program, unit, tol, max_iter, width):
    """Return two values: the `Solution`, and the largest absolute entry of the scaled x."""
    program = ScaledProgram(program, unit=unit, scale_rows=not width)
    if width:
        last_width = width * program.cost_unit / program.rhs_unit
    else:
        last_width = torch.full_like(program.cost_unit, _SMALLEST_WIDTH)
    run = _Newton(program, last_width, tol, use_multipliers=not width)
    run(max_iter)
    solved = (run.status == OPTIMAL).unsqueeze(-1)
    if width:
        x = torch.where(solved, _polish_minimiser(program, last_width, run.x), run.x)
        multipliers = program.project(program.slack(x)) / last_width
    else:
        x, multipliers = _polish(program, run.x, run.multipliers, solved, 10 * tol)
    # If all active rows have right-hand sides of 0, x is 0, up to rounding. The size is then 1.
    size = torch.where(_largest(program.rhs * multipliers) > 0, _largest(x), 1.0)
    multipliers = program.cost_unit * program.rows * multipliers
    x = program.rhs_unit * program.columns * x
    return Solution(x, multipliers, run.status, run.n_iter), size


class _Newton:
    """State of Newton's method for a batch of independent linear programs."""

    def __init__(self, program, last_width, tol, *, use_multipliers):
        self.program = program
        self.cost = program.cost
        self.width = last_width.clamp_min(1.0)
        self.last_width = last_width
        self.damping = torch.zeros_like(last_width)
        self.tol = tol
        self.certified_norm = max(min(_CERTIFIED_NORM_TIMES_TOL / tol, _LARGEST_NORM), _LEAST_NORM)
        self.use_multipliers = use_multipliers
        self.x = self.anchor = torch.zeros_like(program.cost)
        self.multipliers = torch.zeros_like(program.rhs)
        self.slack = -program.rhs  # M x - h
        self.status = torch.full_like(program.cost[:, 0], -1, dtype=torch.int64)
        self.n_iter = torch.zeros_like(self.status)
        self.stalled = self.has_ray = torch.zeros_like(self.status, dtype=torch.bool)

    def __call__(self, max_iter):
        self._evaluate()
        for _ in range(max_iter):
            self._step()
            # A subproblem counts as solved if its gradient is at most `goal`.
            goal = (0.1 * self.width).clamp(0.1 * self.tol, 0.1)
            if not self.use_multipliers:
                goal = torch.where(self.width > self.last_width, goal, 0.1 * self.tol)
            settled = (_largest(self.gradient) <= goal).squeeze(-1) | self.stalled
            settled &= self.status < 0
            if settled.any():
                self._judge(settled)
            if (self.status >= 0).all():
                break
        self.status = torch.where(self.status < 0, LIMIT, self.status)

    def _evaluate(self):
        """Compute the next multipliers and the gradient of the subproblem at x."""
        shifted = self.slack / self.width + self.multipliers
        self.active = self.program.equality | (shifted > 0)
        self.next_multipliers = self.program.project(shifted)
        proximal = _PROXIMAL_RATIO * self.width * (self.x - self.anchor)
        of_penalty = self.program.matrix.transposed_times(self.next_multipliers)
        self.gradient = self.cost + proximal + of_penalty

    def _step(self):
        """Make one Newton step for each linear program without a final status."""
        matrix, least = self.program.matrix, self.width * (_PROXIMAL_RATIO * self.width)
        solve = matrix.active_solver(self.active, least + self.damping)
        direction = solve(-self.width * self.gradient)
        length, accepted = self._search(direction, matrix.times(direction))
        moved = (accepted & (self.status < 0)).unsqueeze(-1)
        before = self.active
        self.x = torch.where(moved, self.x + length * direction, self.x)
        self.slack = torch.where(moved, self.program.slack(self.x), self.slack)
        self._evaluate()
        # The function is quadratic while `active` is constant, so the full Newton step is exact.
        exact = ((length == 1) & (self.damping == 0)).squeeze(-1) & (self.active == before).all(-1)
        self.stalled = exact | ~accepted
        self.n_iter = self.n_iter + (self.status < 0)
        # Without damping, each variable without an active row would need a Newton step of its own.
        more = (_MORE_DAMPING * torch.maximum(self.damping, least)).clamp(max=1.0)
        less = self.damping / _MORE_DAMPING
        less = torch.where(less < least, 0.0, less)
        full = torch.where(length == 1, less, self.damping)
        self.damping = torch.where(length < _SHORT, more, full)

    def _search(self, direction, image):
        """Return a step length that meets Armijo's rule, and whether one was found."""
        rho = _PROXIMAL_RATIO * self.width
        slope = _dot(self.gradient, direction)
        linear = _dot(self.cost + rho * (self.x - self.anchor), direction)
        square = rho * _dot(direction, direction)
        length = torch.ones_like(slope)
        accepted = self.status.unsqueeze(-1) >= 0
        for _ in range(_MAX_HALVINGS):
            shifted = (self.slack + length * image) / self.width + self.multipliers
            trial = self.program.project(shifted)
            # Compute a^2 - b^2 as (a - b)(a + b), so that rounding does not hide small decreases.
            penalty = _dot(trial - self.next_multipliers, trial + self.next_multipliers)
            fall = length * linear + 0.5 * length**2 * square + 0.5 * self.width * penalty
            new_slope = linear + length * square + _dot(image, trial)
            accepted = accepted | (fall <= _ARMIJO * length * slope)
            # By convexity, a new slope near or below 0 proves a decrease even if rounding hides it.
            accepted = accepted | (new_slope <= -_ARMIJO * slope)
            if accepted.all():
                break
            length = torch.where(accepted, length, 0.5 * length)
        return length, accepted.squeeze(-1)

    def _judge(self, settled):
        """Give each program in the mask `settled` either a final status or a new subproblem."""
        ray = settled & self._is_ray(self.x - self.anchor) & ~self.has_ray
        column = settled.unsqueeze(-1)
        if self.use_multipliers:
            error = self.program.error(self.x, self.next_multipliers, self.cost)
            proof = self._is_proof(self.next_multipliers - self.multipliers)
            feasible = torch.where(self.has_ray, UNBOUNDED, OPTIMAL)
            self._close(settled & (error <= self.tol), feasible)
            self._close(settled & proof, INFEASIBLE)
            self.multipliers = torch.where(column, self.next_multipliers, self.multipliers)
        else:
            gradient = self.cost + self.program.matrix.transposed_times(self.next_multipliers)
            error = _largest(gradient) / (1 + _largest(self.next_multipliers))
            smallest = self.width <= self.last_width
            self._close(settled & (smallest & (error <= self.tol)).squeeze(-1), OPTIMAL)
            self._close(ray, UNBOUNDED)
        narrower = torch.maximum(_SHRINKAGE * self.width, self.last_width)
        self.width = torch.where(column, narrower, self.width)
        self.anchor = torch.where(column, self.x, self.anchor)
        if self.use_multipliers and ray.any():
            self._drop_cost(ray)
        self._evaluate()

    def _close(self, programs, status):
        self.status = torch.where(programs & (self.status < 0), status, self.status)

    def _drop_cost(self, ray):
        """Restart the programs in the mask `ray` with zero costs, to test if they are feasible."""
        column = ray.unsqueeze(-1)
        self.has_ray = self.has_ray | ray
        self.cost = self.cost.masked_fill(column, 0)
        self.x = self.anchor = self.x.masked_fill(column, 0)
        self.multipliers = self.multipliers.masked_fill(column, 0)
        self.width = self.width.masked_fill(column, 1)
        self.slack = torch.where(column, -self.program.rhs, self.slack)

    def _is_ray(self, direction):
        """Return whether the cost falls without bound along `direction` or its corrected copy."""
        direction = direction / or_one(_largest(direction))
        found = self._falls(direction, self.certified_norm)
        if (self._falls(direction, _LEAST_NORM) & ~found).any():
            found = found | self._falls(self._straightened(direction), self.certified_norm)
        return found

    def _falls(self, direction, norm):
        program = self.program
        violation = _largest(program.project(program.matrix.times(direction)) / program.row_norms)
        fall = -_dot(self.cost, direction)
        return ((fall > self.tol) & (norm * violation <= fall)).squeeze(-1)

    def _straightened(self, direction):
        """Return `direction`, corrected so that small violations of constraints disappear."""
        matrix, fall = self.program.matrix, -_dot(self.cost, direction)
        rise = matrix.times(direction) / self.program.row_norms
        unseen = self.program.equality | (_LEAST_NORM * rise > -fall)
        solve = matrix.active_solver(unseen, direction.new_tensor(_POLISHING_DAMPING))
        for _ in range(REFINEMENTS):
            direction = direction - solve(matrix.transposed_times(unseen * matrix.times(direction)))
        return direction

    def _is_proof(self, step):
        """Return whether a step of the multipliers proves infeasibility by Farkas' lemma."""
        step = self.program.project(step)
        step = step / or_one(_largest(step))
        contradiction = -_dot(self.program.rhs, step)
        error = _largest(self.program.matrix.transposed_times(step))
        certified = self.certified_norm * error <= contradiction
        return ((contradiction > self.tol) & certified).squeeze(-1)


def _polish(program, x, multipliers, solved, noise):
    """Solve the active rows as equations. Keep the old x and multipliers unless the error falls."""
    active = program.active_rows(multipliers, noise)
    solve = program.matrix.active_solver(active, x.new_tensor(_POLISHING_DAMPING))
    new_x, new_multipliers = x, active * multipliers
    for _ in range(REFINEMENTS):
        new_x = new_x - solve(program.matrix.transposed_times(active * program.slack(new_x)))
        gradient = program.cost + program.matrix.transposed_times(new_multipliers)
        new_multipliers = new_multipliers - active * program.matrix.times(solve(gradient))
    old, new = (x, multipliers), (new_x, program.project(new_multipliers))
    better = program.error(*new, program.cost) < program.error(*old, program.cost)
    better = solved & better.unsqueeze(-1)
    return [torch.where(better, *pair) for pair in zip(new, old, strict=True)]


def _polish_minimiser(program, width, x):
    """Return x after undamped Newton steps, or the old x if these steps change active rows."""
    new_x, new_slack = x, program.slack(x)
    active = program.equality | (new_slack > 0)
    solve = program.matrix.active_solver(active, x.new_tensor(_POLISHING_DAMPING))
    for _ in range(REFINEMENTS):
        gradient = width * program.cost + program.matrix.transposed_times(active * new_slack)
        new_x = new_x - solve(gradient)
        new_slack = program.slack(new_x)
    same_piece = ((program.equality | (new_slack > 0)) == active).all(-1, keepdim=True)
    return torch.where(same_piece, new_x, x)


def _dot(a, b):
    return (a * b).sum(-1, keepdim=True)


def _largest(values):
    return values.abs().amax(-1, keepdim=True)
