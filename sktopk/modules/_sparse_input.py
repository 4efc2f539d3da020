"""A linear layer that multiplies sparse rows as they are."""

import warnings

import torch
from torch import nn

with warnings.catch_warnings():
    # Torch says once in a process that CSR tensors are young; products of them are all that is
    # used here. Later, in one of several threads, filters could not be set and put back safely.
    warnings.simplefilter("ignore", UserWarning)
    torch.sparse_csr_tensor([0, 0], [], [], (1, 1), check_invariants=False)


class SparseRows:
    """Rows of a CSR matrix as the input of a network.

    Parameters
    ----------
    rows : Tensor of shape (n_samples, n_features)
        Sparse CSR.
    transpose : callable
        Returns the transpose, a sparse CSR Tensor of shape (n_features, n_samples), which the
        gradient is made with. Called in the backward pass, once.
    """

    def __init__(self, rows, transpose):
        self.rows, self.transpose = rows, transpose
        self.shape = rows.shape

    def __len__(self):
        return len(self.rows)


class _Product(torch.autograd.Function):
    """``x W' + b`` for sparse rows x, with gradients of W and b."""

    @staticmethod
    def forward(ctx, x, weight, bias):
        ctx.x = x
        return torch.addmm(bias, x.rows, weight.t().contiguous())

    @staticmethod
    def backward(ctx, gradient):
        gradient = gradient.contiguous()
        return None, (ctx.x.transpose() @ gradient).t(), gradient.sum(0)


class SparseInputLinear(nn.Linear):
    """A linear layer that also takes `SparseRows`, and multiplies nothing by their zeros."""

    def forward(self, x):
        """Return the scores (n_samples, out_features) of a Tensor or `SparseRows`."""
        if isinstance(x, SparseRows):
            return _Product.apply(x, self.weight, self.bias)
        return super().forward(x)


def takes_sparse(module):
    """Whether the first layer of a network multiplies sparse rows here."""
    first = next(iter(module), None) if isinstance(module, nn.Sequential) else None
    return isinstance(first, SparseInputLinear) and torch.backends.mkl.is_available()
