"""Multi-layer perceptron whose first layer accepts sparse input."""

import math
import warnings
from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import nn

from ._normalized_linear import NormalizedLinear
from ._tabular_mlp import Dropout, Members

# torch warns of the first CSR tensor. Create it at import: warning filters are not thread-safe.
with warnings.catch_warnings(action="ignore", category=UserWarning):
    torch.sparse_csr_tensor([0, 0], [], [], (1, 1), check_invariants=False)


class MLP(nn.Sequential):
    r"""Multi-layer perceptron with ReLU, optional batch normalization and optional dropout.

    .. math::
        f(x) = W_m\, h_{m-1} + b_m, \qquad h_l = \max(0, W_l h_{l-1} + b_l), \quad h_0 = x

    Parameters
    ----------
    n_features : int
        Number of input columns.
    n_outputs : int
        Number of scores, one per class.
    hidden_layer_sizes : tuple of int, default=(100,)
        Width of each hidden layer; ``()`` is a linear model.
    batch_norm : bool, default=False
        Whether to apply batch normalization before each ReLU.
    dropout : float, default=0.0
        Probability of dropping a hidden unit during training.
    normalize : bool, default=False
        Whether the last layer is a :class:`NormalizedLinear`. Losses with `max_margin` need True.
    dtype : torch.dtype, default=None
        Data type of the weights. None means torch's default.
    generator : torch.Generator, default=None
        CPU generator for initial weights and dropout. None means torch's global generator, which
        all threads share. In a copy of the network, dropout always uses the global generator.

    References
    ----------
    .. [1] Adam, Mácha, Šmídl. "DeepTopPush: Simple and Scalable Method for Accuracy at the
       Top", 2020, appendix D.

    Examples
    --------
    The network of [1]_ for molecules, with 100 principal components as input:

    >>> import torch
    >>> from sktopk.modules import MLP
    >>> network = MLP(100, 1, hidden_layer_sizes=(50, 25), batch_norm=True)
    >>> network(torch.zeros(2, 100)).shape
    torch.Size([2, 1])
    """

    def __init__(
        self,
        n_features: int,
        n_outputs: int,
        hidden_layer_sizes: Sequence[int] = (100,),
        batch_norm: bool = False,
        dropout: float = 0.0,
        normalize: bool = False,
        *,
        dtype: torch.dtype | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        sizes = (n_features, *hidden_layer_sizes)
        layers = []
        for n_in, n_out in pairwise(sizes):
            layers.append(_linear(layers, n_in, n_out, dtype, generator))
            if batch_norm:
                layers.append(nn.BatchNorm1d(n_out, dtype=dtype))
            layers.append(nn.ReLU())
            if dropout:
                layers.append(Dropout(dropout, generator=generator))
        if normalize:
            layers.append(NormalizedLinear(sizes[-1], n_outputs, dtype=dtype, generator=generator))
        else:
            layers.append(_linear(layers, sizes[-1], n_outputs, dtype, generator))
        super().__init__(*layers)

    def __getitem__(self, index):
        return nn.Sequential(*self)[index]


def _linear(below, n_in, n_out, dtype, generator):
    """Return a linear layer with torch's default initialization, drawn from `generator`."""
    kind = nn.Linear if below else SparseInputLinear
    # Without an argument `device`, `skip_init` would ignore torch's default device.
    device = torch.get_default_device()
    layer = nn.utils.skip_init(kind, n_in, n_out, device=device, dtype=dtype)
    nn.init.kaiming_uniform_(layer.weight, a=math.sqrt(5), generator=generator)
    bound = 1 / math.sqrt(n_in) if n_in else 0
    nn.init.uniform_(layer.bias, -bound, bound, generator=generator)
    return layer


class SparseRows:
    """A sparse CSR tensor of samples. The function `transpose` returns its transpose in CSR."""

    def __init__(self, rows, transpose):
        self.rows, self.transpose, self.shape = rows, transpose, rows.shape

    def __len__(self):
        return len(self.rows)


class _Product(torch.autograd.Function):
    """Product ``x W' + b`` for `SparseRows` x, with gradients for W and b."""

    @staticmethod
    def forward(ctx, x, weight, bias):
        ctx.x = x
        return torch.addmm(bias, x.rows, weight.t().contiguous())

    @staticmethod
    def backward(ctx, gradient):
        gradient = gradient.contiguous()
        return None, (ctx.x.transpose() @ gradient).t(), gradient.sum(0)


class SparseInputLinear(nn.Linear):
    """Linear layer that also accepts `SparseRows`, and then skips zeros."""

    def forward(self, x):
        if isinstance(x, SparseRows):
            return _Product.apply(x, self.weight, self.bias)
        return super().forward(x)


def takes_sparse(module):
    """Return whether the first layer of a network supports sparse input on this machine."""
    if isinstance(module, Members):
        return all(map(takes_sparse, module))
    first = next(iter(module), None) if isinstance(module, nn.Sequential) else None
    return isinstance(first, SparseInputLinear) and torch.backends.mkl.is_available()
