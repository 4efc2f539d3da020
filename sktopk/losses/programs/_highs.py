"""Linear programs by HiGHS, the simplex and interior-point code that comes with scipy."""

import torch

from ._newton import Solution

_NUMERICAL_DIFFICULTY = 4


def solve_highs(matrix, rhs, cost, equality):
    """Solve one program after the other on the CPU."""
    # scipy comes with scikit-learn, and only this method needs it.
    from scipy.optimize import linprog

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
            "bounds": (None, None),
        }
        found = linprog(**arguments, method="highs")
        if found.status == _NUMERICAL_DIFFICULTY:
            # Presolve may see "infeasible or unbounded" without telling which.
            found = linprog(**arguments, method="highs", options={"presolve": False})
        solution.status[program] = found.status
        solution.n_iter[program] = found.nit
        if found.status == 0:
            solution.x[program] = torch.as_tensor(found.x)
            marginals = [found.ineqlin.marginals, found.eqlin.marginals]
            # scipy returns derivatives of the optimum in the right-hand side.
            solution.multipliers[program] = -torch.cat([torch.as_tensor(m) for m in marginals])
    return solution
