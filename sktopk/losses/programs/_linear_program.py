"""Differentiable linear programs."""

import warnings
from typing import NamedTuple

import torch
from torch import Tensor

from sktopk.losses._loss import check_count, check_floating, check_name, check_nonnegative

from ._gradients import differentiable_minimiser, differentiable_optimum, differentiable_vertex
from ._matrices import LAYOUTS, stack_rows
from ._newton import OPTIMAL, STATUS_NAMES, UNBOUNDED, UNDECIDED, Program, Solution, solve_newton

# Limit of Newton steps at tolerance 1e-9 for float32 inputs. Most programs need 20 to 90 steps.
_MOST_STEPS = 100
_RAY_TOLERANCE = 1e-7  # the default of HiGHS


class LinearProgramResult(NamedTuple):
    """Result of :func:`linear_program`, whose docstring describes the fields."""

    x: torch.Tensor
    fun: torch.Tensor
    multipliers_ub: torch.Tensor
    multipliers_eq: torch.Tensor
    status: torch.Tensor
    primal_residual: torch.Tensor
    dual_residual: torch.Tensor
    gap: torch.Tensor
    n_iter: torch.Tensor


def linear_program(
    c: Tensor,
    A_ub: Tensor | None,
    b_ub: Tensor | None,
    A_eq: Tensor | None = None,
    b_eq: Tensor | None = None,
    *,
    method: str = "newton",
    smoothing: float = 1e-2,
    tol: float | None = None,
    max_iter: int = 500,
    on_failure: str = "warn",
) -> LinearProgramResult:
    r"""Solve linear programs, with gradients for all arguments.

    .. math::
        p(c, A, b) = \min_x \; c^\top x \quad \text{subject to} \quad
        A_{ub}\, x \le b_{ub}, \quad A_{eq}\, x = b_{eq}

    Variables may be negative, unlike the default of :func:`scipy.optimize.linprog`. The optimum p
    can be a training loss (see :class:`LinearProgramLoss`). By the envelope theorem, its gradients
    depend on the multipliers :math:`v \ge 0` of the inequalities and :math:`u` of the equations:

    .. math::
        \nabla_c\, p = x, \quad \nabla_{b_{ub}}\, p = -v, \quad \nabla_{A_{ub}}\, p = v x^\top,
        \quad \nabla_{b_{eq}}\, p = -u, \quad \nabla_{A_{eq}}\, p = u x^\top.

    The gradients of ``x`` and ``fun`` are exact if x and the multipliers are unique. Otherwise the
    gradient of ``fun`` is a generalized gradient. Second derivatives raise an error.

    Parameters
    ----------
    c : Tensor of shape (..., n_variables)
        Costs, floating point. The leading dimensions of all arguments broadcast to one shape.
    A_ub : Tensor of shape (..., n_inequalities, n_variables) or None
        Left side of inequalities: dense, sparse COO or CSR. None means no inequalities. A sparse
        `A_ub` is either one matrix for all programs or one matrix for each program. Only the
        stored entries of a sparse `A_ub` get a gradient.
    b_ub : Tensor of shape (..., n_inequalities) or None
        Right side of the inequalities. None if `A_ub` is None.
    A_eq : Tensor of shape (..., n_equations, n_variables), default=None
        Left side of the equations, dense or sparse like `A_ub`. None means no equations.
    b_eq : Tensor of shape (..., n_equations), default=None
        Right side of the equations. None if `A_eq` is None.
    method : {"newton", "penalty", "highs"}, default="newton"
        Algorithm:

        - "newton": proximal method of multipliers [3]_, all programs at once, on the device of `c`.
        - "penalty": penalizes violations [1]_. `fun` is a smooth lower bound of the optimum.
        - "highs": calls :func:`scipy.optimize.linprog` on the CPU, for one program after the other.
    smoothing : float, default=1e-2
        Positive epsilon of "penalty" (see Notes). If smaller, `fun` is more exact, less smooth.
    tol : float, default=None
        Positive tolerance for constraints, dual residual and gap, relative to the largest cost and
        right-hand side. Not used by "highs". None means 1e-9. If `tol` is None and an input is not
        float64, "newton" also tries 1e-6 for programs that it does not solve with 1e-9.

        - Gradients can be wrong if the ratio of two costs, or of the norms of two rows of `A_ub`
          and `A_eq`, is above 1e-2 / `tol`.
        - `status` can be wrong if the norm of the solution or of the multipliers is above a limit.
          This limit is 1e-3 / `tol`, but at least 1e2 and at most 1e6.
    max_iter : int, default=500
        Largest number of Newton steps. Not used by "highs".
    on_failure : {"warn", "raise", "ignore"}, default="warn"
        Unsolved programs, whose gradient is 0, cause a RuntimeWarning, a RuntimeError or nothing.

    Returns
    -------
    result : tuple
        A named tuple of tensors, computed in float64. They are returned in float64 if an argument
        is float64, else in float32. Only `x` and `fun` have a gradient.

        x : Tensor of shape (..., n_variables)
            Solution. For unsolved programs, the last iterate or, with "highs", zeros.
        fun : Tensor of shape (...)
            Optimum; inf if infeasible, -inf if unbounded, the objective at x if stopped early.
        multipliers_ub : Tensor of shape (..., n_inequalities)
            Nonnegative multipliers v of the inequalities: scipy's marginals times -1.
        multipliers_eq : Tensor of shape (..., n_equations)
            Multipliers u of the equations: scipy's marginals times -1.
        status : Tensor of shape (...), int64
            As in scipy.optimize.linprog: 0 optimal, 1 stopped by `max_iter`, 2 infeasible, 3
            unbounded, 4 numerical difficulties ("highs" only).
        primal_residual : Tensor of shape (...)
            Largest violation of a constraint.
        dual_residual : Tensor of shape (...)
            Largest absolute entry of :math:`c + A_{ub}^\top v + A_{eq}^\top u`.
        gap : Tensor of shape (...)
            Distance between the primal and the dual value.
        n_iter : Tensor of shape (...), int64
            Number of Newton steps, or of iterations of HiGHS.

    Raises
    ------
    TypeError, ValueError
        If an argument has the wrong type, layout, shape or range, or is not finite.
    RuntimeError
        If a program is not solved and ``on_failure="raise"``.

    Notes
    -----
    ``method="penalty"`` minimizes
    :math:`c^\top x + \tfrac{1}{2 \varepsilon} (|(A_{ub} x - b_{ub})_+|^2 + |A_{eq} x - b_{eq}|^2)`
    by Newton's method [2]_, where :math:`\varepsilon` is `smoothing`. The minimum `fun` is a smooth
    function of b. `fun` is at most :math:`\varepsilon (|v|^2 + |u|^2) / 2` below the optimum of the
    linear program, where v and u are the optimal multipliers of the linear program. Multiplying a
    constraint by a number can change `fun`. `status` is never 2 (infeasible), because violations of
    constraints are only penalized.

    On a CPU, "newton" is faster than "highs" for up to about 20 variables. It is also faster for
    sparse matrices if most columns have few entries. Constraints may be redundant.

    References
    ----------
    .. [1] Meng et al. (2021). Differentiable optimization of generalized nondecomposable functions
       using linear programs. NeurIPS. Section 4.
    .. [2] Mangasarian (2004). A Newton method for linear programming. Journal of Optimization
       Theory and Applications 121.
    .. [3] Rockafellar (1976). Augmented Lagrangians and applications of the proximal point
       algorithm in convex programming. Mathematics of Operations Research 1.

    Examples
    --------
    Minimize 2 x subject to x >= b, and differentiate the optimum at b = 3:

    >>> import torch
    >>> from sktopk.losses import linear_program
    >>> b = torch.tensor([3.0], requires_grad=True)
    >>> result = linear_program(torch.tensor([2.0]), A_ub=torch.tensor([[-1.0]]), b_ub=-b)
    >>> round(result.fun.item(), 6), result.status.item()
    (6.0, 0)
    >>> result.fun.backward()
    >>> round(b.grad.item(), 6)
    2.0
    """
    check_name(method, "method", ("newton", "penalty", "highs"))
    check_name(on_failure, "on_failure", ("warn", "raise", "ignore"))
    smoothing = check_nonnegative(smoothing, "smoothing", positive=True)
    if tol is not None:
        tol = check_nonnegative(tol, "tol", positive=True)
    check_count(max_iter, "max_iter")
    c = _check_vector(c, "c", c)
    A_ub, b_ub = _check_rows(A_ub, b_ub, "ub", c)
    A_eq, b_eq = _check_rows(A_eq, b_eq, "eq", c)
    batch_shape = _check_batch_shape(c, A_ub, b_ub, A_eq, b_eq)

    dtypes = {argument.dtype for argument in (c, A_ub, b_ub, A_eq, b_eq)}
    dtype = torch.float64 if torch.float64 in dtypes else torch.float32
    # Rounding to float32 can make constraints conflict. "penalty" tolerates conflicts.
    may_conflict = tol is None and method == "newton" and dtypes != {torch.float64}
    tol = 1e-9 if tol is None else tol

    vectors = (each.expand(*batch_shape, each.shape[-1]).double() for each in (c, b_ub, b_eq))
    cost, *rhs = (each.reshape(batch_shape.numel(), each.shape[-1]) for each in vectors)
    rhs = torch.cat(rhs, -1)
    n_inequalities = b_ub.shape[-1]
    equality = torch.arange(rhs.shape[-1], device=c.device) >= n_inequalities
    program = Program(stack_rows(A_ub, A_eq, batch_shape), rhs, cost, equality)
    width = smoothing if method == "penalty" else 0.0
    with torch.no_grad():
        constants = program.detach()
        if method == "highs":
            solution = solve_highs(constants)
        else:
            most = min(max_iter, _MOST_STEPS) if may_conflict else max_iter
            solution = solve_newton(constants, tol=tol, max_iter=most, width=width)
            if may_conflict and (unsolved := solution.status != OPTIMAL).any():
                coarse = solve_newton(constants, tol=1e-6, max_iter=max_iter, width=width)
                # The tolerance is for the largest row. Smaller rows may be violated.
                size = constants.matrix.norms()[0] * coarse.x.abs().amax(1, keepdim=True)
                excess = constants.project(constants.slack(coarse.x)).abs()
                holds = (excess <= 1e-5 * (size + rhs.abs())).all(1)
                solution = coarse.where(unsolved & (holds | (coarse.status != OPTIMAL)), solution)
        residuals = _residuals(constants, solution, width)
    _report(solution.status.view(batch_shape), on_failure)
    fun = differentiable_optimum(program, solution, width)
    if method == "penalty":
        x = differentiable_minimiser(program, solution, width)
    else:
        x = differentiable_vertex(program, solution)

    def batched(values):
        values = values.to(dtype) if values.is_floating_point() else values
        return values.view(batch_shape + values.shape[1:])

    multipliers = solution.multipliers.tensor_split([n_inequalities], 1)
    found = (x, fun, *multipliers, solution.status, *residuals, solution.n_iter)
    return LinearProgramResult(*map(batched, found))


def _check_vector(vector, name, c):
    shape, least = ("(..., n_variables)", 1) if name == "c" else ("(..., n_rows)", 0)
    return _check(vector, name, c, shape, lambda size: size and size[-1] >= least)


def _check_rows(matrix, rhs, kind, c):
    """Check and return a matrix and its right-hand side. None becomes a tensor without rows."""
    A, b, n = f"A_{kind}", f"b_{kind}", c.shape[-1]
    if matrix is None:
        matrix = c.new_zeros(0, n)
    else:
        shape = f"(..., n_rows, {n}), one column per entry of c"
        matrix = _check(matrix, A, c, shape, lambda size: len(size) > 1 and size[-1] == n, LAYOUTS)
    n_rows = matrix.shape[-2]
    if rhs is None and n_rows:
        raise ValueError(f"{b} must be given with {A}; got None")
    rhs = c.new_zeros(0) if rhs is None else _check_vector(rhs, b, c)
    if rhs.shape[-1] != n_rows:
        raise ValueError(
            f"{b} must have shape (..., {n_rows}), one entry per row of {A}; got {tuple(rhs.shape)}"
        )
    return matrix, rhs


def _check_batch_shape(c, A_ub, b_ub, A_eq, b_eq):
    if not A_ub.shape[-2] + A_eq.shape[-2]:
        raise ValueError("A_ub or A_eq must have at least one row; got no rows")
    shapes = {"c": c.shape[:-1], "A_ub": A_ub.shape[:-2], "b_ub": b_ub.shape[:-1]}
    shapes |= {"A_eq": A_eq.shape[:-2], "b_eq": b_eq.shape[:-1]}
    try:
        batch_shape = torch.broadcast_shapes(*shapes.values())
    except RuntimeError:
        listed = ", ".join(f"{name} {tuple(shape)}" for name, shape in shapes.items())
        raise ValueError(f"leading dimensions of arguments must broadcast; got {listed}") from None
    for name, matrix in (("A_ub", A_ub), ("A_eq", A_eq)):
        if matrix.layout != torch.strided and shapes[name] not in (torch.Size(), batch_shape):
            raise ValueError(
                f"leading dimensions of sparse {name} must be () for one shared matrix, or "
                f"{tuple(batch_shape)} for one matrix per program; got {tuple(shapes[name])}"
            )
    return batch_shape


def _check(tensor, name, c, shape, fits, layouts=(torch.strided,)):
    check_floating(tensor, name)
    if tensor.layout not in layouts:
        listed = ", ".join(map(str, layouts))
        raise TypeError(f"{name} must have one of the layouts {listed}; got {tensor.layout}")
    if not fits(tensor.shape):
        raise ValueError(f"{name} must have shape {shape}; got {tuple(tensor.shape)}")
    if tensor.device != c.device:
        raise ValueError(f"{name} must be on the device of c ({c.device}); got {tensor.device}")
    if tensor.layout == torch.sparse_coo:
        if n := tensor.dense_dim():
            raise ValueError(f"{name}.dense_dim() must be 0: use to_dense().to_sparse(); got {n}")
        tensor = tensor.coalesce()
    values = (tensor if tensor.layout == torch.strided else tensor.values()).detach()
    finite = values.isfinite()
    if not finite.all():
        raise ValueError(f"{name} must be finite; got {values[~finite][0].item()}")
    return tensor


def _report(status, on_failure):
    failed = status != OPTIMAL
    if on_failure == "ignore" or not failed.any():
        return
    counts = {name: int((status == code).sum()) for code, name in STATUS_NAMES.items()}
    kinds = [f"{count} {name}" for name, count in counts.items() if count]
    if status.ndim:
        kinds.append(f"the first at index {tuple(failed.nonzero()[0].tolist())}")
    n_failed, kinds = int(failed.sum()), ", ".join(kinds)
    message = f"linear_program did not solve {n_failed} of {status.numel()} programs: {kinds}"
    if on_failure == "raise":
        raise RuntimeError(message)
    message += ". Their gradients are zero. Check `status`, or pass on_failure='raise'."
    warnings.warn(message, RuntimeWarning, stacklevel=3)


def _residuals(program, solution, width):
    """Return three tensors: primal residual, dual residual and duality gap of each program."""
    x, multipliers = solution.x, solution.multipliers
    violation = program.project(program.slack(x)).abs().amax(-1)
    dual = (program.cost + program.matrix.transposed_times(multipliers)).abs().amax(-1)
    gap = (program.cost * x).sum(-1) + (program.rhs * multipliers).sum(-1)
    return violation, dual, (gap + width * multipliers.square().sum(-1)).abs()


def solve_highs(program):
    """Solve linear programs one after the other on the CPU, by scipy's HiGHS."""
    rhs, cost = program.rhs, program.cost
    n_inequalities = int((~program.equality).sum())
    status, n_iter = cost.new_zeros((2, len(cost)), dtype=torch.int64)
    solution = Solution(torch.zeros_like(cost), torch.zeros_like(rhs), status, n_iter)
    for i in range(len(cost)):
        A, b = program.matrix.entries(i), rhs[i].cpu().numpy()
        arguments = {"A_ub": A[:n_inequalities], "b_ub": b[:n_inequalities]}
        arguments |= {"A_eq": A[n_inequalities:], "b_eq": b[n_inequalities:]}
        arguments["c"] = cost[i].cpu().numpy()
        found = _linprog(arguments)
        if found.status == UNDECIDED:
            found = _decided(arguments, found)
        solution.status[i], solution.n_iter[i] = found.status, found.nit
        if found.status == OPTIMAL:
            solution.x[i] = torch.as_tensor(found.x)
            marginals = [found.ineqlin.marginals, found.eqlin.marginals]
            # scipy's marginals, derivatives with respect to the right-hand side, are -multipliers.
            solution.multipliers[i] = -torch.cat([torch.as_tensor(m) for m in marginals])
    return solution


def _linprog(arguments, method="highs", bounds=(None, None)):
    # Import scipy here, because only method="highs" needs it.
    from scipy.optimize import linprog

    return linprog(**arguments, method=method, bounds=bounds)


def _decided(arguments, found):
    """Return the result for a linear program for which HiGHS returned no definite status."""
    # Find a feasible point, then a descent ray. One run without presolve would do, but may print.
    feasible = _linprog(arguments | {"c": 0 * arguments["c"]})
    if feasible.status != OPTIMAL:
        return feasible
    zero = {name: 0 * arguments[name] for name in ("b_ub", "b_eq")}
    ray = _linprog(arguments | zero, bounds=(-1, 1))
    if ray.status == OPTIMAL and ray.fun < -_RAY_TOLERANCE * abs(arguments["c"]).max():
        found.status = UNBOUNDED
        return found
    return _linprog(arguments, method="highs-ipm")
