"""What a linear program asks of its arguments."""

import torch

from sktopk.losses._loss import check_floating

from ._matrices import SPARSE_LAYOUTS


def check_vector(vector, name, c):
    """Return a finite floating point tensor of at least one dimension, beside `c`."""
    check_floating(vector, name)
    if vector.ndim < 1 or (name == "c" and not vector.shape[-1]):
        kind = "(..., n_variables)" if name == "c" else "(..., n_rows)"
        raise ValueError(f"{name} must have shape {kind}; got {tuple(vector.shape)}")
    _check_layout(vector, name, ())
    _check_device(vector, name, c)
    _check_finite(vector, name)
    return vector


def check_matrix(matrix, name, c):
    """Return a matrix, coalesced if it is sparse; None becomes one without rows."""
    n_variables = c.shape[-1]
    if matrix is None:
        return c.new_zeros(0, n_variables)
    check_floating(matrix, name)
    _check_layout(matrix, name, SPARSE_LAYOUTS)
    if matrix.ndim < 2 or matrix.shape[-1] != n_variables:
        raise ValueError(
            f"{name} must have shape (..., n_rows, {n_variables}), one column per entry of c; "
            f"got {tuple(matrix.shape)}"
        )
    _check_device(matrix, name, c)
    if matrix.layout == torch.sparse_coo:
        if matrix.dense_dim():
            raise ValueError(
                f"{name} must have sparse dimensions only; got {matrix.dense_dim()} dense ones"
            )
        matrix = matrix.coalesce()
    _check_finite(matrix if matrix.layout == torch.strided else matrix.values(), name)
    return matrix


def check_rhs(rhs, name, matrix, matrix_name, c):
    """Return the right side of a matrix; None goes with a matrix without rows."""
    n_rows = matrix.shape[-2]
    if rhs is None:
        if n_rows:
            raise ValueError(f"{name} must be given with {matrix_name}; got None")
        return c.new_zeros(0)
    rhs = check_vector(rhs, name, c)
    if rhs.shape[-1] != n_rows:
        raise ValueError(
            f"{name} must have shape (..., {n_rows}), one entry per row of {matrix_name}; "
            f"got {tuple(rhs.shape)}"
        )
    return rhs


def check_batch_shape(c, A_ub, b_ub, A_eq, b_eq):
    """Return the shape that numbers the programs of the batch."""
    if not A_ub.shape[-2] + A_eq.shape[-2]:
        raise ValueError("A_ub and A_eq must have at least one row together; got none")
    shapes = {
        "c": c.shape[:-1],
        "A_ub": A_ub.shape[:-2],
        "b_ub": b_ub.shape[:-1],
        "A_eq": A_eq.shape[:-2],
        "b_eq": b_eq.shape[:-1],
    }
    try:
        batch_shape = torch.broadcast_shapes(*shapes.values())
    except RuntimeError:
        listed = ", ".join(f"{name} {tuple(shape)}" for name, shape in shapes.items())
        raise ValueError(f"the leading dimensions must broadcast; got {listed}") from None
    for name, matrix in (("A_ub", A_ub), ("A_eq", A_eq)):
        if matrix.layout != torch.strided and shapes[name] not in (torch.Size(), batch_shape):
            raise ValueError(
                f"sparse {name} must have no leading dimensions or those of the batch "
                f"{tuple(batch_shape)}; got {tuple(shapes[name])}"
            )
    return batch_shape


def _check_layout(tensor, name, sparse_layouts):
    allowed = (torch.strided, *sparse_layouts)
    if tensor.layout not in allowed:
        layouts = ", ".join(str(layout) for layout in allowed)
        raise TypeError(f"{name} must have one of the layouts {layouts}; got {tensor.layout}")


def _check_device(tensor, name, c):
    if tensor.device != c.device:
        raise ValueError(f"{name} must be on the device of c ({c.device}); got {tensor.device}")


def _check_finite(values, name):
    finite = values.detach().isfinite()
    if not finite.all():
        raise ValueError(f"{name} must be finite; got {values.detach()[~finite][0].item()}")
