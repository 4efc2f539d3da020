"""Solution of linear programs by HiGHS, the simplex and interior-point solver of scipy."""

import torch

from ._newton import OPTIMAL, UNBOUNDED, Solution

_UNDECIDED = 4
_RAY_TOLERANCE = 1e-7  # the default of HiGHS


def solve_highs(matrix, rhs, cost, equality):
    """Solve linear programs one after the other on the CPU."""
    n_inequalities = len(equality) - int(equality.sum())
    status, n_iter = cost.new_zeros((2, len(cost)), dtype=torch.int64)
    solution = Solution(torch.zeros_like(cost), torch.zeros_like(rhs), status, n_iter)
    for program in range(len(cost)):
        rows = matrix.entries(program)
        right_side = rhs[program].cpu().numpy()
        arguments = {
            "c": cost[program].cpu().numpy(),
            "A_ub": rows[:n_inequalities],
            "b_ub": right_side[:n_inequalities],
            "A_eq": rows[n_inequalities:],
            "b_eq": right_side[n_inequalities:],
        }
        found = _linprog(arguments)
        if found.status == _UNDECIDED:
            found = _decided(arguments, found)
        solution.status[program] = found.status
        solution.n_iter[program] = found.nit
        if found.status == OPTIMAL:
            solution.x[program] = torch.as_tensor(found.x)
            marginals = [found.ineqlin.marginals, found.eqlin.marginals]
            # scipy's marginals are derivatives by the right-hand side: the negated multipliers.
            solution.multipliers[program] = -torch.cat([torch.as_tensor(m) for m in marginals])
    return solution


def _linprog(arguments, method="highs", bounds=(None, None)):
    # Import scipy here, because only method="highs" needs it.
    from scipy.optimize import linprog

    return linprog(**arguments, method=method, bounds=bounds)


def _decided(arguments, found):
    """Return the result for a linear program for which HiGHS returned no definite status.

    A feasible program is unbounded if its cost decreases along a ray. HiGHS without presolve would
    find this, but it may print to stdout.
    """
    feasible = _linprog(arguments | {"c": 0 * arguments["c"]})
    if feasible.status != OPTIMAL:
        return feasible
    zero = {name: 0 * arguments[name] for name in ("b_ub", "b_eq")}
    ray = _linprog(arguments | zero, bounds=(-1, 1))
    if ray.status == OPTIMAL and ray.fun < -_RAY_TOLERANCE * abs(arguments["c"]).max():
        found.status = UNBOUNDED
        return found
    return _linprog(arguments, method="highs-ipm")
