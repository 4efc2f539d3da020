"""Classes for the constraint matrices of a batch of linear programs, dense or sparse.

Inequality rows come before equality rows. M_J denotes the active rows of the matrix M.
"""

from typing import NamedTuple

import torch

LAYOUTS = (torch.strided, torch.sparse_coo, torch.sparse_csr)
_EQUILIBRATION_POWERS = (0.5, 0.5, 0.5, 0.5, 1.0)  # each pass divides by norms to this power
_CG_TOLERANCE = 1e-11
_CG_MAX_ITER = 2000


def or_one(size):
    """Return nonnegative numbers with 0 replaced by 1, so that they can be divisors."""
    return torch.where(size > 0, size, 1.0)


class DenseRows(NamedTuple):
    """Dense matrices of shape (n_programs, n_rows, n_variables), or (1, ...) if shared."""

    values: torch.Tensor

    def times(self, x):
        """Multiply each matrix by its own vector. x has shape (n_programs, n_variables)."""
        return (self.values @ x.unsqueeze(-1)).squeeze(-1)

    def transposed_times(self, y):
        """Multiply the transpose of each matrix by a vector. y has shape (n_programs, n_rows)."""
        return (self.values.mT @ y.unsqueeze(-1)).squeeze(-1)

    def scaled(self, rows, columns):
        return DenseRows(rows.unsqueeze(-1) * self.values * columns.unsqueeze(-2))

    def norms(self):
        """Return the Euclidean norms of the rows and of the columns."""
        return self.values.norm(dim=-1), self.values.norm(dim=-2)

    def active_solver(self, active, damping):
        r"""Return the function g -> (M_J'M_J + damping I)^{-1} g, where M_J has the active rows."""
        hessian = self.values.mT @ (active.unsqueeze(-1) * self.values)
        diagonal = hessian.diagonal(dim1=-2, dim2=-1)
        # Use at least `floor`: smaller damping is lost in rounding errors of the diagonal.
        floor = 1e-14 * diagonal.amax(-1, keepdim=True)
        diagonal += torch.maximum(damping, floor)
        factor, failed = torch.linalg.cholesky_ex(hessian)
        if failed.any():
            diagonal += 1e3 * floor
            factor = torch.linalg.cholesky_ex(hessian).L
        return lambda g: torch.cholesky_solve(g.unsqueeze(-1), factor).squeeze(-1)

    def entries(self, program):
        """Return the matrix of one program as an array."""
        return self.values[program if len(self.values) > 1 else 0].cpu().numpy()


class SparseRows(NamedTuple):
    """Sparse counterpart of `DenseRows`: the entries of one block-diagonal matrix."""

    rows: torch.Tensor  # indices: row r of program b has the index b * n_rows + r
    columns: torch.Tensor
    values: torch.Tensor
    shape: tuple

    def times(self, x):
        return self._sum(self.values * x.reshape(-1).index_select(0, self.columns), self.rows, 1)

    def transposed_times(self, y):
        return self._sum(self.values * y.reshape(-1).index_select(0, self.rows), self.columns, 2)

    def _sum(self, entries, places, axis):
        shape = self.shape[0], self.shape[axis]
        return entries.new_zeros(shape[0] * shape[1]).index_add(0, places, entries).view(shape)

    def scaled(self, rows, columns):
        factors = rows.reshape(-1)[self.rows] * columns.reshape(-1)[self.columns]
        return self._replace(values=self.values * factors)

    def norms(self):
        squares = self.values.square()
        return self._sum(squares, self.rows, 1).sqrt(), self._sum(squares, self.columns, 2).sqrt()

    def active_solver(self, active, damping):
        weighted = self.values * active.reshape(-1)[self.rows]
        diagonal = self._sum(weighted * self.values, self.columns, 2) + damping

        def product(p):
            inner = self.times(p).view(-1).index_select(0, self.rows)
            return self._sum(weighted * inner, self.columns, 2).add_(damping * p)

        return lambda g: conjugate_gradients(product, diagonal, g)

    def entries(self, program):
        from scipy.sparse import csr_array

        _, n_rows, n_variables = self.shape
        mine = self.rows.div(n_rows, rounding_mode="floor") == program
        rows, columns = self.rows[mine] % n_rows, self.columns[mine] % n_variables
        values, *place = (part.cpu().numpy() for part in (self.values[mine], rows, columns))
        return csr_array((values, tuple(place)), shape=(n_rows, n_variables))


def conjugate_gradients(product, diagonal, g):
    """Solve one positive definite system per row of `g`, with the diagonal as preconditioner."""
    x = torch.zeros_like(g)
    residual, search = g, g / diagonal
    square = (residual * search).sum(-1, keepdim=True)
    goal = _CG_TOLERANCE**2 * square
    for _ in range(min(_CG_MAX_ITER, 20 + 4 * g.shape[-1])):
        running = square > goal
        if not running.any():
            break
        image = product(search)
        curvature = (search * image).sum(-1, keepdim=True)
        length = torch.where(running & (curvature > 0), square / curvature, 0.0)
        x = x + length * search
        residual = residual - length * image
        preconditioned = residual / diagonal
        before, square = square, (residual * preconditioned).sum(-1, keepdim=True)
        search = preconditioned + torch.where(running, square / before, 0.0) * search
    return x


def sparse_matrix(entries, shape, like):
    """Return a sparse matrix from triples (rows, columns, values), with the dtype of `like`."""
    triples = []
    for entry in entries:
        parts = (torch.as_tensor(part, device=like.device).reshape(-1) for part in entry)
        triples.append(torch.broadcast_tensors(*parts))
    *indices, values = (torch.cat(parts) for parts in zip(*triples, strict=True))
    values = values.to(like.dtype)
    return torch.sparse_coo_tensor(torch.stack(indices), values, shape, check_invariants=False)


def stack_rows(A_ub, A_eq, batch_shape):
    """Return the matrices A_ub and A_eq, stacked by differentiable operations."""
    if A_ub.layout == A_eq.layout == torch.strided:
        if A_ub.ndim == A_eq.ndim == 2:
            return DenseRows(torch.cat([A_ub, A_eq]).double().unsqueeze(0))
        parts = [A.expand(*batch_shape, *A.shape[-2:]).double() for A in (A_ub, A_eq)]
        return DenseRows(torch.cat(parts, -2).flatten(0, -3))
    n_rows, n_variables = A_ub.shape[-2] + A_eq.shape[-2], A_ub.shape[-1]
    pieces = []
    for A, first_row in ((A_ub, 0), (A_eq, A_ub.shape[-2])):
        program, row, column, values = _flat_entries(A, batch_shape)
        row = program * n_rows + first_row + row
        pieces.append((row, program * n_variables + column, values.double()))
    rows, columns, values = (torch.cat(parts) for parts in zip(*pieces, strict=True))
    return SparseRows(rows, columns, values, (batch_shape.numel(), n_rows, n_variables))


def _flat_entries(A, batch_shape):
    """Return four tensors: the program, row, column and value of each entry of the matrices."""
    if A.layout == torch.strided:
        A = A.expand(*batch_shape, *A.shape[-2:])
        shape = batch_shape.numel(), *A.shape[-2:]
        everywhere = torch.ones(shape, dtype=torch.bool, device=A.device)
        return *everywhere.nonzero(as_tuple=True), A.reshape(-1)
    if A.layout == torch.sparse_csr:
        indices, values = A.detach().to_sparse_coo().coalesce().indices(), A.values().flatten()
    else:
        indices, values = A.indices(), A.values()
    *batch, row, column = indices
    if batch:
        program = torch.zeros_like(row)
        for index, size in zip(batch, batch_shape, strict=True):
            program = program * size + index
        return program, row, column, values
    n_programs, n_entries = batch_shape.numel(), len(row)
    program = torch.arange(n_programs, device=A.device).repeat_interleave(n_entries)
    return program, row.repeat(n_programs), column.repeat(n_programs), values.repeat(n_programs)


def equilibrate(program, *, scale_rows):
    """Return factors that scale columns and, if `scale_rows`, rows to norms near 1."""
    matrix = program.matrix
    rows, columns = torch.ones_like(program.rhs), torch.ones_like(program.cost)
    for power in _EQUILIBRATION_POWERS if scale_rows else (1.0,):
        columns = columns / or_one(matrix.scaled(rows, columns).norms()[1]) ** power
        if scale_rows:
            rows = rows / or_one(matrix.scaled(rows, columns).norms()[0]) ** power
    return rows, columns
