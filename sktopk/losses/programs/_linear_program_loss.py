"""A loss defined by the user's own linear program."""

import inspect
from collections.abc import Callable

from torch import Tensor, nn

from ._linear_program import linear_program

_PROGRAM = ("c", "A_ub", "b_ub", "A_eq", "b_eq")
_OPTIONS = ("method", "smoothing", "tol", "max_iter", "on_failure")


class LinearProgramLoss(nn.Module):
    r"""Loss that is the optimum of a linear program, which a function builds from the scores.

    .. math::
        L(s, y) = \min_x \; c^\top x \quad \text{subject to} \quad
        A_{ub}\, x \le b_{ub}, \quad A_{eq}\, x = b_{eq}

    Any of :math:`c, A_{ub}, b_{ub}, A_{eq}, b_{eq}` may depend on the scores :math:`s`.
    :func:`linear_program` solves the program and computes the gradient.

    Parameters
    ----------
    build : callable
        Function ``build(scores, target)`` that returns a dict with c and one or both of the pairs
        (A_ub, b_ub) and (A_eq, b_eq). If the loss is called with weights, `build` also gets
        `sample_weight`. Define `build` at module level to make the loss picklable.
    method, smoothing, tol, max_iter, on_failure
        Parameters of :func:`linear_program`, with the same defaults.

    Raises
    ------
    TypeError, ValueError
        When the loss is called, if `build` or its arrays are invalid.
    RuntimeError
        When the loss is called, if the program has no solution and ``on_failure="raise"``.

    Examples
    --------
    The mean of the k largest hinges :math:`l_i` is the minimum of :math:`t + \sum_i z_i / k`,
    subject to :math:`z_i \ge l_i - t` and :math:`z_i \ge 0`:

    >>> import torch
    >>> from sktopk.losses import LinearProgramLoss
    >>> def largest_hinges(scores, target, k=2):
    ...     n = len(scores)
    ...     hinge = (1 - (2 * target - 1) * scores).relu()
    ...     one, eye = torch.ones(n, 1), torch.eye(n)  # the variables are t and z
    ...     A = torch.cat([torch.cat([-one, -eye], 1), torch.cat([0 * one, -eye], 1)])
    ...     c = torch.cat([torch.ones(1), torch.full((n,), 1 / k)])
    ...     return {"c": c, "A_ub": A, "b_ub": torch.cat([-hinge, torch.zeros(n)])}
    >>> scores = torch.tensor([2.0, -1.0, 0.5, 0.0], requires_grad=True)
    >>> loss = LinearProgramLoss(largest_hinges)(scores, torch.tensor([1, 1, 0, 0]))
    >>> round(loss.item(), 4)
    1.75
    >>> loss.backward()
    """

    def __init__(
        self,
        build: Callable[..., dict[str, Tensor]],
        *,
        method: str = "newton",
        smoothing: float = 1e-2,
        tol: float | None = None,
        max_iter: int = 500,
        on_failure: str = "warn",
    ) -> None:
        super().__init__()
        self.build, self.method, self.smoothing = build, method, smoothing
        self.tol, self.max_iter, self.on_failure = tol, max_iter, on_failure

    def forward(
        self, scores: Tensor, target: Tensor, sample_weight: Tensor | None = None
    ) -> Tensor:
        """Return the optimum, of shape (), of the linear program that `build` returns."""
        if not callable(self.build):
            raise TypeError(f"build must be callable; got {type(self.build).__name__}")
        weights = {} if sample_weight is None else {"sample_weight": sample_weight}
        takes = inspect.signature(self.build).parameters.values() if weights else ()
        if weights and all(p.name != "sample_weight" and p.kind != p.VAR_KEYWORD for p in takes):
            raise TypeError(
                "sample_weight was given, but build does not take it: add the parameter "
                "sample_weight to build, or call the loss without weights"
            )
        program = self.build(scores, target, **weights)
        if not isinstance(program, dict):
            raise TypeError(f"build must return a dict; got {type(program).__name__}")
        if unknown := sorted(map(str, set(program) - set(_PROGRAM))):
            raise ValueError(
                f"keys of the dict that build returns must be among {', '.join(_PROGRAM)}; "
                f"got {', '.join(unknown)}"
            )
        if "c" not in program:
            raise ValueError(f"build must return a dict with key c, the costs; got {list(program)}")
        options = {name: getattr(self, name) for name in _OPTIONS}
        fun = linear_program(**{"A_ub": None, "b_ub": None, **program}, **options).fun
        if fun.ndim:
            raise ValueError(
                "build must return one program, without leading dimensions; "
                f"got a batch of shape {tuple(fun.shape)}"
            )
        return fun

    def extra_repr(self) -> str:
        build = getattr(self.build, "__name__", repr(self.build))
        return ", ".join([f"build={build}", *(f"{n}={getattr(self, n)!r}" for n in _OPTIONS)])
