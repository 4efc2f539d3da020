"""Sparse matrices of the linear programs that losses are the optimum of."""

import torch


def sparse_matrix(entries, shape, like):
    """Return a sparse matrix in the dtype and on the device of `like`.

    Parameters
    ----------
    entries : list of (rows, columns, values)
        Numbers or vectors, of which each triple is broadcast. Values may carry a gradient.
    """
    row, column, value = [], [], []
    for entry in entries:
        r, c, v = torch.broadcast_tensors(
            *(torch.as_tensor(part, device=like.device).reshape(-1) for part in entry)
        )
        row.append(r)
        column.append(c)
        value.append(v.to(like.dtype))
    indices = torch.stack([torch.cat(row), torch.cat(column)])
    return torch.sparse_coo_tensor(indices, torch.cat(value), shape, check_invariants=False)


def hinge_rows(batch):
    """Return the entries and the right sides of sign tau - z <= sign kink and -z <= 0.

    Their variables are x = [tau, z_1, ..., z_n]; they take the rows 0 to 2n - 1.
    """
    i = torch.arange(len(batch.scores), device=batch.scores.device)
    entries = [(i, 0, batch.sign), (i, 1 + i, -1.0), (len(i) + i, 1 + i, -1.0)]
    right = batch.sign * batch.kink
    return entries, torch.cat([right, torch.zeros_like(right)])
