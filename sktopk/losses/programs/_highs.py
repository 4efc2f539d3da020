"""Linear programs by HiGHS, the simplex and interior-point code that comes with scipy."""

import torch

from ._matrices import DenseRows
from ._newton import Solution

_NUMERICAL_DIFFICULTY = 4


def solve_highs(matrix, rhs, cost, equality):
    """Solve one program after the other on the CPU."""
    # scipy comes with scikit-learn, and only this method needs it.
    from scipy.optimize import linprog
    from scipy.sparse import csr_array

    n_equations = int(equality.sum())
    n_inequalities = len(equality) - n_equations
    solution = Solution(
        torch.zeros_like(cost),
        torch.zeros_like(rhs),
        torch.zeros(len(cost), dtype=torch.int64, device=cost.device),
        torch.zeros(len(cost), dtype=torch.int64, device=cost.device),
    )
    for program in range(len(cost)):
        rows = matrix.entries(program)
        if not isinstance(matrix, DenseRows):
            values, row, column = rows
            rows = csr_array((values, (row, column)), shape=matrix.shape[1:])
        right_side = rhs[program].cpu().numpy()
        arguments = {
            "c": cost[program].cpu().numpy(),
            "A_ub": rows[:n_inequalities] if n_inequalities else None,
            "b_ub": right_side[:n_inequalities] if n_inequalities else None,
            "A_eq": rows[n_inequalities:] if n_equations else None,
            "b_eq": right_side[n_inequalities:] if n_equations else None,
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
