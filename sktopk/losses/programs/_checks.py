"""Checks of the arguments of a linear program."""

import torch

from sktopk.losses._loss import check_floating

from ._matrices import SPARSE_LAYOUTS


def check_vector(vector, name, c):
    """Return `vector` after checks: finite floats, at least one dimension, on the device of `c`."""
    shape, least = ("(..., n_variables)", 1) if name == "c" else ("(..., n_rows)", 0)
    return _check(vector, name, c, (), shape, lambda size: size and size[-1] >= least)


def check_rows(matrix, rhs, kind, c):
    """Return the checked matrix and right-hand side, without rows if both are None."""
    A, b, n = f"A_{kind}", f"b_{kind}", c.shape[-1]
    if matrix is None:
        matrix = c.new_zeros(0, n)
    else:
        shape = f"(..., n_rows, {n}), one column per entry of c"
        matrix = _check(
            matrix, A, c, SPARSE_LAYOUTS, shape, lambda size: len(size) > 1 and size[-1] == n
        )
    n_rows = matrix.shape[-2]
    if rhs is None and n_rows:
        raise ValueError(f"{b} must be given with {A}; got None")
    rhs = c.new_zeros(0) if rhs is None else check_vector(rhs, b, c)
    if rhs.shape[-1] != n_rows:
        raise ValueError(
            f"{b} must have shape (..., {n_rows}), one entry per row of {A}; got {tuple(rhs.shape)}"
        )
    return matrix, rhs


def check_batch_shape(c, A_ub, b_ub, A_eq, b_eq):
    """Return the common batch shape of the linear programs."""
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
                f"sparse {name} must have no leading dimensions or the batch shape "
                f"{tuple(batch_shape)}; got {tuple(shapes[name])}"
            )
    return batch_shape


def _check(tensor, name, c, sparse_layouts, shape, fits):
    check_floating(tensor, name)
    allowed = (torch.strided, *sparse_layouts)
    if tensor.layout not in allowed:
        layouts = ", ".join(str(layout) for layout in allowed)
        raise TypeError(f"{name} must have one of the layouts {layouts}; got {tensor.layout}")
    if not fits(tensor.shape):
        raise ValueError(f"{name} must have shape {shape}; got {tuple(tensor.shape)}")
    if tensor.device != c.device:
        raise ValueError(f"{name} must be on the device of c ({c.device}); got {tensor.device}")
    if tensor.layout == torch.sparse_coo:
        if n_dense := tensor.dense_dim():
            raise ValueError(f"{name} must have sparse dimensions only; got {n_dense} dense ones")
        tensor = tensor.coalesce()
    values = (tensor if tensor.layout == torch.strided else tensor.values()).detach()
    finite = values.isfinite()
    if not finite.all():
        raise ValueError(f"{name} must be finite; got {values[~finite][0].item()}")
    return tensor
