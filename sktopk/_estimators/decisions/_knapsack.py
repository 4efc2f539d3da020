"""The rows of most expected value that a sum of money, or of minutes, pays for."""

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp

from sktopk.metrics._ranking import encode_groups

# Of so many rows that the bounds leave open, the best choice takes well under a second.
_N_EXACT = 1000
# Most choices are settled in a hundred nodes. Values that are costs and a constant are not in a
# hundred thousand, which take minutes.
_MOST_NODES = 1000


def affordable_in_groups(value, cost, groups, budget):
    """Return the mask of what `most_valuable` takes of each group, and what to warn of."""
    group = np.zeros(len(cost), dtype=np.intp)
    if groups is not None:
        group = encode_groups(groups, len(cost))
    taken, n_without, n_whole = np.zeros(len(cost), dtype=bool), 0, 0
    for rows in np.split(np.argsort(group, kind="stable"), np.cumsum(np.bincount(group))[:-1]):
        taken[rows] = most_valuable(value[rows], cost[rows], budget)
        n_without += bool(len(rows)) and cost[rows].min() > budget
        n_whole += cost[rows].sum() < budget
    n_groups = group.max(initial=0) + 1
    where = "" if groups is None else " of {} of " + f"{n_groups} groups"
    problems = []
    if n_without:
        cheapest = f"the cheapest row costs more: none{where.format(n_without)} is flagged"
        problems.append(f"budget={budget:g} but {cheapest}")
    if n_whole:
        problems.append(f"budget={budget:g} but all rows{where.format(n_whole)} cost less")
    return taken, problems


def most_valuable(value, cost, budget):
    r"""Return the mask of the rows of most value that together cost at most `budget`.

    First by value per cost, leaving out what no longer fits. The value :math:`V` of that, or of
    the best row alone if it is more, is at least half of the best :math:`V^*`, and lacks less
    than the value of a single row (Dantzig, 1957):

    .. math::
        V^* \le U = \sum_{i < b} v_i + \frac{v_b}{c_b} \Bigl( B - \sum_{i < b} c_i \Bigr)

    with the first row b that does not fit. A row whose value differs from :math:`c_i v_b / c_b` by
    more than U - V is in every better choice, or in none. Of the others, unless they are too
    many, integer programming makes the best choice, or the best that so many nodes find.
    """
    taken = (value > 0) & (cost <= 0)
    rows = np.flatnonzero((value > 0) & (cost > 0) & (cost <= budget))
    # Costs stay as they are: whole minutes add up without rounding.
    value, cost = value[rows] / value.max(initial=1e-300), cost[rows]
    order = np.lexsort((-value, -value_per_cost(value, cost)))
    rows, value, cost = rows[order], value[order], cost[order]
    n_fit = _n_that_fit(cost, budget)
    if n_fit == len(rows):
        taken[rows] = True
        return taken
    chosen = _greedy(cost, budget)
    if value[chosen].sum() < value.max():
        chosen = np.arange(len(rows)) == value.argmax()
    per_cost = value[n_fit] / cost[n_fit]
    most = value[:n_fit].sum() + per_cost * (budget - cost[:n_fit].sum())
    gap = most - value[chosen].sum()
    surplus = value - per_cost * cost
    # Not below what rounding makes of a gap of zero.
    is_open = np.abs(surplus) <= gap + 1e-12
    if gap > 1e-12 and np.count_nonzero(is_open) <= _N_EXACT:
        better = surplus > 0
        left = budget - cost[better & ~is_open].sum()
        better[is_open] = _best(value[is_open], cost[is_open], left)
        if cost[better].sum() <= budget and value[better].sum() > value[chosen].sum():
            chosen = better
    taken[rows[chosen]] = True
    return taken


def value_per_cost(value, cost):
    """Return the ratio, infinite for what costs nothing and 0 for what is worth nothing."""
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        return np.where(value > 0, value / cost, 0.0)


def _n_that_fit(cost, left):
    return np.searchsorted(np.cumsum(cost), left, side="right")


def _greedy(cost, left):
    """Return the mask of the first rows that fit, one after another."""
    chosen, rows = np.zeros(len(cost), dtype=bool), np.arange(len(cost))
    while len(rows):
        n_fit = _n_that_fit(cost[rows], left)
        chosen[rows[:n_fit]] = True
        left -= cost[rows[:n_fit]].sum()
        rows = rows[n_fit + 1 :]
        rows = rows[cost[rows] <= left]
    return chosen


def _best(value, cost, left):
    """Return the best choice that integer programming finds, all False where there is none."""
    if left <= 0:
        return np.zeros(len(value), dtype=bool)
    found = milp(
        -value,
        integrality=np.ones(len(value)),
        bounds=Bounds(0, 1),
        constraints=LinearConstraint(cost[None] / left, ub=1.0),
        # The presolve of HiGHS 1.12 prints a line of its own now and then, and saves no time here.
        options={"mip_rel_gap": 0.0, "node_limit": _MOST_NODES, "presolve": False},
    )
    return np.zeros(len(value), dtype=bool) if found.x is None else found.x > 0.5
