"""Processes that train together: one network, one loss over the rows of all of them."""

import numpy as np
import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel


def world_size():
    """Number of processes that train together, 1 where `torch.distributed` is not in use."""
    if distributed.is_available() and distributed.is_initialized():
        return distributed.get_world_size()
    return 1


def all_objects(value):
    """The value of each process, in the order of their ranks."""
    if world_size() == 1:
        return [value]
    values = [None] * world_size()
    distributed.all_gather_object(values, value)
    return values


def total(value):
    """Sum of the numbers or arrays of each process."""
    return sum(all_objects(value))


def joined(*arrays):
    """Each of the arrays with the rows of all processes."""
    if world_size() == 1:
        return arrays
    return tuple(map(np.concatenate, zip(*all_objects(arrays), strict=True)))


def in_parallel(module):
    """The module with gradients averaged over all processes."""
    if world_size() == 1 or isinstance(module, DistributedDataParallel):
        return module
    device = next(module.parameters()).device
    return DistributedDataParallel(module, [device] if device.type == "cuda" else None)


def share_buffers(module):
    """Give every process the buffers of the first, such as those of batch normalisation."""
    if world_size() > 1:
        for buffer in module.buffers():
            distributed.broadcast(buffer, 0)


def check_equal_batches(n_batches):
    """Raise unless every process has as many batches in an epoch, or all would wait for ever."""
    lengths = all_objects(n_batches)
    if len(set(lengths)) != 1:
        raise ValueError(
            "every process must have the same number of batches in an epoch; "
            f"got {lengths}: give each as many rows, for classifiers of two classes of each class"
        )


class _AllRows(torch.autograd.Function):
    """Concatenate the rows of all processes.

    Each process computes the same loss L from all rows, and gradients are averaged over the m
    processes afterwards (as DistributedDataParallel does): with m dL/ds of its own rows, the
    average is the gradient of L.
    """

    @staticmethod
    def forward(ctx, rows, sizes):
        ctx.sizes = sizes
        # Gathering needs equal lengths.
        padded = rows.new_zeros(max(sizes))
        padded[: len(rows)] = rows
        gathered = [torch.empty_like(padded) for _ in sizes]
        distributed.all_gather(gathered, padded)
        return torch.cat([each[:size] for each, size in zip(gathered, sizes, strict=True)])

    @staticmethod
    def backward(ctx, gradient):
        rank = distributed.get_rank()
        start = sum(ctx.sizes[:rank])
        return len(ctx.sizes) * gradient[start : start + ctx.sizes[rank]], None


def all_rows(rows, sizes):
    """Tensor (n,) of this process as the rows of all, with their gradient.

    Parameters
    ----------
    rows : Tensor of shape (sizes[rank],)
    sizes : list of int
        Number of rows of each process.
    """
    return _AllRows.apply(rows, sizes)


def share_totals(criterion, class_total, weight, n_rows, partial):
    """Tell a criterion what it has to know of the rows of all processes.

    Parameters
    ----------
    criterion : nn.Module
    class_total : ndarray of shape (2,)
        What the classes weigh in training, in all processes together.
    weight, n_rows : ndarray of shape (2,)
        What they weigh, and how many rows they have, in the batches of this process.
    partial : bool
        Whether these batches come on top of others.
    """
    if not hasattr(criterion, "begin"):
        return
    class_total, weight, n_rows = (
        torch.from_numpy(np.asarray(each, dtype=np.float64))
        for each in (class_total, total(weight), total(n_rows))
    )
    mean_weight = (weight / n_rows.clamp(min=1)).clamp(min=1e-300)
    criterion.begin(class_total, mean_weight, int(n_rows.sum()), resumed=partial)
