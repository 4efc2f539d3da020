"""Batches that several processes share: one loss over the scores of all of them."""

import numpy as np
import torch
from torch import distributed


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


def share_totals(criterion, n_batches, class_total, weight, n_rows, partial):
    """Tell a criterion what it has to know of the rows of all processes.

    Parameters
    ----------
    criterion : nn.Module
    n_batches : int
        Of an epoch, which must be that of the others.
    class_total : ndarray of shape (2,)
        What the classes weigh in training.
    weight, n_rows : ndarray of shape (2,)
        What they weigh, and how many rows they have, in the batches that follow.
    partial : bool
        Whether these batches come on top of others.
    """
    lengths = all_objects(n_batches)
    if len(set(lengths)) != 1:
        raise ValueError(
            "every process must have the same number of batches in an epoch; "
            f"got {lengths}: give each as many rows of each class"
        )
    if not hasattr(criterion, "class_total"):
        return
    class_total, weight, n_rows = (
        torch.from_numpy(np.asarray(sum(all_objects(each)), dtype=np.float64))
        for each in (class_total, weight, n_rows)
    )
    # In float64, whatever the float type of the network.
    device = criterion.class_total.device
    criterion.class_total = class_total.to(device)
    criterion.mean_weight = (weight / n_rows.clamp(min=1)).clamp(min=1e-300).to(device)
    criterion.n_rows = (criterion.n_rows if partial else 0) + int(n_rows.sum())
