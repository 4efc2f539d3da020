"""Newton's method on the exterior penalty: paper 004 says that it needs no line search."""

import numpy as np
import pytest
import torch

from sktopk.losses import linear_program

from .linear_programs import optima, stacked, vertex_program


def newton_without_line_search(c, A, b, width, n_iter=200, damping=1e-9):
    """Minimise width c'x + |(A x - b)_+|^2 / 2 by full generalised Newton steps from 0.

    Return the largest entry of the last gradient over that of the cost.
    """
    x = np.zeros(len(c))
    for _ in range(n_iter):
        above = np.maximum(A @ x - b, 0)
        gradient = width * c + A.T @ above
        if np.abs(gradient).max() <= 1e-8 * width * np.abs(c).max():
            break
        rows = A[above > 0]
        x = x - np.linalg.solve(rows.T @ rows + damping * np.eye(len(c)), gradient)
        if not np.isfinite(x).all():
            return np.inf
    gradient = width * c + A.T @ np.maximum(A @ x - b, 0)
    return np.abs(gradient).max() / (width * np.abs(c).max())


def coupled_programs(n_programs):
    """Random programs whose variables share rows, without equations."""
    rng = np.random.default_rng(0)
    return [vertex_program(rng, 12, 30, 0) for _ in range(n_programs)]


@pytest.mark.parametrize("width", [1e-2, 1e-4])
def test_full_steps_alone_do_not_converge(width):
    programs = coupled_programs(20)
    reached = sum(newton_without_line_search(c, A, b, width) < 1e-6 for c, A, b, *_ in programs)
    assert reached <= 5


def test_where_they_do_the_last_gradient_tells():
    # One variable, one row: the step is exact, and the measure of the test above sees it.
    one = np.ones((1, 1))
    assert newton_without_line_search(-np.ones(1), one, np.ones(1), 1e-2) < 1e-6


def test_with_the_line_search_they_do():
    programs = coupled_programs(20)
    result = linear_program(*stacked(programs))
    assert (result.status == 0).all()
    torch.testing.assert_close(result.fun, optima(programs), rtol=1e-10, atol=1e-10)
