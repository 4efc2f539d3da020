"""What linear_program takes, refuses and returns, and how it tells of unsolved programs."""

import ctypes
import math
import warnings

import numpy as np
import pytest
import torch

from sktopk.losses import linear_program
from tests.losses.linear_programs import (
    hopeless_program,
    tensors,
    unbounded_along_a_face,
    vertex_program,
)

every_method = pytest.mark.parametrize("method", ["newton", "penalty", "highs"])


@every_method
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_result_dtypes(dtype, method):
    expected = torch.float64 if dtype == torch.float64 else torch.float32
    c, A_ub, b_ub = torch.ones(1, dtype=dtype), -torch.ones(1, 1, dtype=dtype), torch.zeros(1)
    result = linear_program(c, A_ub, b_ub.to(dtype), method=method)
    for name, values in result._asdict().items():
        assert values.dtype == (torch.int64 if name in ("status", "n_iter") else expected), name


@every_method
def test_arguments_are_left_alone(method, rng):
    arguments = tensors(vertex_program(rng, 4, 7, 1))
    copies = [argument.clone() for argument in arguments]
    linear_program(*arguments, method=method)
    assert all(map(torch.equal, arguments, copies))


INFEASIBLE = (torch.ones(1), torch.tensor([[1.0], [-1.0]]), torch.tensor([0.0, -2.0]))


def test_failure_warns_raises_or_is_ignored():
    with pytest.warns(RuntimeWarning, match="1 of 1 programs: 1 infeasible") as caught:
        linear_program(*INFEASIBLE)
    assert caught[0].filename == __file__
    with pytest.raises(RuntimeError, match="1 of 1 programs: 1 infeasible"):
        linear_program(*INFEASIBLE, on_failure="raise")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert linear_program(*INFEASIBLE, on_failure="ignore").status == 2
    c = torch.ones(2, 3, 1)
    c[1, 2] = -1
    with pytest.warns(RuntimeWarning, match=r"the first at index \(1, 2\)"):
        linear_program(c, -torch.ones(1, 1), torch.zeros(1))


def test_stopping_early_is_told(rng):
    arguments = tensors(vertex_program(rng, 8, 20, 3))
    with pytest.warns(RuntimeWarning, match="1 stopped by max_iter"):
        result = linear_program(*arguments, max_iter=2)
    assert result.status == 1
    assert result.n_iter == 2
    assert math.isfinite(result.fun.item())


TWO_COSTS = {"c": torch.ones(2, 2)}


@pytest.mark.filterwarnings("ignore:Sparse")
@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"c": [1.0, 1.0]}, TypeError, "c must be a torch.Tensor; got list"),
        ({"c": torch.ones(2).long()}, TypeError, "c must be floating point; got torch.int64"),
        ({"c": torch.tensor(1.0)}, ValueError, "c must have shape"),
        ({"c": torch.ones(0)}, ValueError, "c must have shape"),
        ({"c": torch.ones(2).to_sparse()}, TypeError, "c must have one of the layouts"),
        ({"c": torch.tensor([1.0, torch.nan])}, ValueError, "c must be finite; got nan"),
        ({"A_ub": -torch.eye(3)}, ValueError, r"A_ub must have shape \(..., n_rows, 2\)"),
        ({"A_ub": torch.ones(2)}, ValueError, "A_ub must have shape"),
        ({"A_ub": np.eye(2)}, TypeError, "A_ub must be a torch.Tensor; got ndarray"),
        ({"A_ub": torch.eye(2) / 0}, ValueError, "A_ub must be finite; got inf"),
        ({"A_ub": (torch.eye(2) / 0).to_sparse()}, ValueError, "A_ub must be finite"),
        ({"A_ub": torch.eye(2).to_mkldnn()}, TypeError, "A_ub must have one of the layouts"),
        ({"A_ub": torch.eye(2).to_sparse(1)}, ValueError, "A_ub must have sparse dimensions only"),
        ({"A_ub": None}, ValueError, "b_ub must have shape"),
        ({"b_ub": None}, ValueError, "b_ub must be given with A_ub; got None"),
        ({"b_ub": torch.ones(3)}, ValueError, r"b_ub must have shape \(..., 2\)"),
        ({"b_ub": torch.tensor([1, torch.inf])}, ValueError, "b_ub must be finite; got inf"),
        ({"A_eq": torch.ones(1, 3)}, ValueError, "A_eq must have shape"),
        ({"b_eq": None}, ValueError, "b_eq must be given with A_eq"),
        ({"b_eq": torch.ones(2)}, ValueError, r"b_eq must have shape \(..., 1\)"),
        (TWO_COSTS | {"b_ub": torch.ones(3, 2)}, ValueError, "must broadcast"),
        (
            TWO_COSTS | {"A_ub": torch.eye(2).expand(1, 2, 2).to_sparse()},
            *(ValueError, "sparse A_ub must have no leading dimensions"),
        ),
        (dict.fromkeys(["A_ub", "b_ub", "A_eq", "b_eq"]), ValueError, "at least one row"),
        ({"b_ub": torch.ones(2, device="meta")}, ValueError, "b_ub must be on the device of c"),
        ({"method": "simplex"}, ValueError, "method='simplex' must be one of 'newton'"),
        ({"on_failure": "pass"}, ValueError, "on_failure='pass' must be one of 'warn'"),
        ({"smoothing": 0}, ValueError, "smoothing=0 must be finite and positive"),
        ({"tol": -1}, ValueError, "tol=-1 must be finite and positive"),
        ({"max_iter": 0}, ValueError, "max_iter=0 must be at least 1"),
        ({"max_iter": 1.5}, TypeError, "max_iter must be an integer; got 1.5"),
    ],
)
def test_bad_input(changes, error, message):
    arguments = {"c": torch.ones(2), "A_ub": -torch.eye(2), "b_ub": torch.zeros(2)}
    arguments |= {"A_eq": torch.ones(1, 2), "b_eq": torch.ones(1)}
    with pytest.raises(error, match=message):
        linear_program(**arguments | changes)


def test_nothing_is_printed(capfd):
    rng = np.random.default_rng(3)
    for make in 150 * (hopeless_program, unbounded_along_a_face):
        rounded = [part.float() for part in tensors(make(rng, 8, 12, 3))]
        linear_program(*rounded, method="highs", on_failure="ignore")
    # The C code of HiGHS has a buffer of its own.
    ctypes.CDLL(None).fflush(None)
    assert capfd.readouterr() == ("", "")
