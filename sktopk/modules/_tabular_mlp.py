"""Ensembles of networks: TabularMLP with its layers, and separate networks in one module."""

from __future__ import annotations

import inspect
import math
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from typing import Self

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.nn import functional as F
from torch.nn.modules.module import _has_any_global_hook

from ._normalized_linear import MemberNormalizedLinear
from ._table_encoder import TableEncoder


class TabularMLP(nn.Module):
    r"""Ensemble of multi-layer perceptrons for tabular data.

    .. math::
        f(x) = W_m h_{m-1} + b_m, \qquad h_l = \max(0, W_l h_{l-1} + b_l), \qquad h_0 = e(x)

    All ensemble members share the encoder e, a :class:`TableEncoder`. Each member has its own
    linear layers, with ReLU and dropout.

    Parameters
    ----------
    n_features : int
        Number of input columns.
    n_outputs : int
        Number of scores, one per class.
    hidden_layer_sizes : tuple of int, default=(128, 128)
        Width of each hidden layer of a member.
    n_members : int, default=1
        Number of ensemble members.
    dropout : float, default=0.0
        Probability of dropping a hidden unit during training. All members drop the same units.
    n_bins, n_encoded, missing_indicator, n_categories
        Parameters of the encoder, see :class:`TableEncoder`.
    normalize : bool, default=False
        Whether the last layer is a :class:`NormalizedLinear`. Losses with `max_margin` need it.
    dtype : torch.dtype, default=None
        Data type of the weights, and `dtype` of the encoder. None means torch's default.
    generator : torch.Generator, default=None
        Random generator for initial weights and dropout. None means torch's global generator.

    Attributes
    ----------
    encoder : TableEncoder
        The first layer, without trainable weights.
    layers : ModuleList
        Linear layers. The first axis of each parameter indexes the ensemble members.

    Examples
    --------
    >>> import torch
    >>> from sktopk.modules import TabularMLP
    >>> X = torch.tensor([[0.0, 1e6], [1.0, 2e6], [2.0, 3e6], [4.0, torch.nan]])
    >>> network = TabularMLP(2, 3, n_members=8).from_data(X)
    >>> network(X).shape
    torch.Size([4, 8, 3])
    """

    # Estimators pass missing values, and categories as integers, to networks with this attribute.
    takes_tables = True

    def __init__(
        self,
        n_features: int,
        n_outputs: int,
        hidden_layer_sizes: Sequence[int] = (128, 128),
        n_members: int = 1,
        dropout: float = 0.0,
        n_bins: int = 0,
        n_encoded: int | str = "auto",
        missing_indicator: bool | Sequence[int] = False,
        n_categories: dict[int, int] | None = None,
        normalize: bool = False,
        *,
        dtype: torch.dtype | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.n_features, self.n_outputs, self.n_members = n_features, n_outputs, n_members
        self.dropout = Dropout(dropout, generator=generator)
        of_columns = n_features, n_bins, n_encoded, missing_indicator, n_categories
        self.encoder = TableEncoder(*of_columns, dtype=dtype)
        sizes = (self.encoder.n_outputs, *hidden_layer_sizes, n_outputs)
        kinds = [MemberLinear] * len(hidden_layer_sizes)
        kinds.append(MemberNormalizedLinear if normalize else MemberLinear)
        self.layers = nn.ModuleList(
            kind(n_members, *pair, dtype=dtype, generator=generator)
            for kind, pair in zip(kinds, pairwise(sizes), strict=True)
        )

    def from_data(self, X: Tensor, sample_weight: Tensor | None = None) -> Self:
        """Compute scaling and bins of columns from samples, see :meth:`TableEncoder.from_data`."""
        self.encoder.from_data(X, sample_weight)
        return self

    def forward(self, x: Tensor, own: Tensor | None = None, encoded: bool = False) -> Tensor:
        """Return scores (n_samples, n_members, n_outputs) of samples x (n_samples, n_features).

        With one member, the scores have shape (n_samples, n_outputs). To give members different
        samples, pass x of shape (n_members, n_samples, n_features), or pass `own`: row m of `own`
        has the indices of member m's samples. ``encoded=True`` means that x is already encoded.
        """
        h = x if encoded else self.encoder(x)
        # `h[own]` takes four times as long as `index_select`.
        h = h if own is None else h.index_select(0, own.flatten()).unflatten(0, own.shape)
        drops = self.dropout.p and self.dropout.training
        plain = not drops and is_plain_training(h) and all(map(is_as_made, self.layers))
        parameters = [p for each in self.layers if plain for p in (each.weight, each.bias)]
        # `MemberLayers` requires at least one trainable parameter.
        if any(p.requires_grad for p in parameters):
            scores = MemberLayers.apply(h, *parameters)
        else:
            for layer in self.layers[:-1]:
                # Overwrite the input of ReLU only if neither autograd nor a hook can use it later.
                inplace = not (torch.is_grad_enabled() or torch.jit.is_tracing())
                h = F.relu(layer(h), inplace=inplace and is_as_made(layer))
                if drops:
                    # Use one mask for all members, because drawing masks is as slow as the layers.
                    h = h * self.dropout(torch.ones_like(h[0]))
            scores = self.layers[-1](h)
        scores = scores.transpose(0, 1)
        return scores.squeeze(1) if self.n_members == 1 else scores

    def score_member(self, x: Tensor, m: int) -> Tensor:
        """Return scores (n_samples, n_outputs) of member m for samples x, see :meth:`forward`."""
        is_ours = type(self).forward is TabularMLP.forward and "forward" not in vars(self)
        if not is_ours or any(map(has_hooks, self.layers)):
            scores = self(x)
            return scores[:, m] if self.n_members > 1 else scores
        h, (*hidden, last) = self.encoder(x), self.layers
        for layer in hidden:
            h = layer.of_member(h, m).relu_()
        return last.of_member(h, m)


class MemberLinear(nn.Module):
    """One linear layer for each of several networks that share no weights."""

    def __init__(self, n_members, in_features, out_features, *, dtype=None, generator=None):
        super().__init__()
        self.n_members, self.in_features, self.out_features = n_members, in_features, out_features
        self.weight = nn.Parameter(torch.empty(n_members, out_features, in_features, dtype=dtype))
        self.bias = nn.Parameter(torch.empty(n_members, out_features, dtype=dtype))
        bound = 1 / math.sqrt(in_features) if in_features else 0.0
        nn.init.uniform_(self.weight, -bound, bound, generator=generator)
        nn.init.uniform_(self.bias, -bound, bound, generator=generator)

    def forward(self, x):
        """Return outputs (n_members, n_samples, out_features) of all members for shared samples x.

        x may also have shape (n_members, n_samples, in_features).
        """
        if x.dim() == 2:
            values = F.linear(x, self.weight.flatten(0, 1), self.bias.flatten())
            return values.unflatten(1, self.weight.shape[:2]).transpose(0, 1)
        return _linear(x, self.weight, self.bias)

    def of_member(self, x, m):
        """Return outputs (n_samples, out_features) of member m for x (n_samples, in_features)."""
        return F.linear(x, self.weight[m], self.bias[m])

    def extra_repr(self):
        names = ("n_members", "in_features", "out_features")
        return ", ".join(f"{name}={getattr(self, name)}" for name in names)


class MemberLayers(torch.autograd.Function):
    """Linear layers of several networks as one differentiable function, with ReLU between layers.

    ``apply(x, weight_1, bias_1, ...)`` returns the scores of all members, in two thirds of the time
    of separate layers. x gets no gradient.
    """

    @staticmethod
    def forward(ctx, x, *parameters):
        layers = _inputs(x, parameters)
        ctx.save_for_backward(*parameters, *layers)
        return _linear(layers[-1], *parameters[-2:])

    @staticmethod
    def backward(ctx, gradient):
        saved, needed = ctx.saved_tensors, ctx.needs_input_grad[1:]
        n_layers = len(saved) // 3
        parameters, layers = saved[: 2 * n_layers], saved[2 * n_layers :]
        if torch.is_grad_enabled():
            # Compute the layer inputs again with an autograd graph, for second derivatives.
            layers = _inputs(layers[0], parameters)
        found = [None] * len(needed)
        lowest = needed.index(True) // 2
        for layer in reversed(range(lowest, n_layers)):
            found[2 * layer] = torch.bmm(gradient.transpose(1, 2), layers[layer])
            found[2 * layer + 1] = gradient.sum(1)
            if layer > lowest:
                weight = parameters[2 * layer]
                # With one output, the outer product is faster than `bmm`.
                product = torch.mul if weight.shape[1] == 1 else torch.bmm
                gradient = product(gradient, weight)
                into = {} if torch.is_grad_enabled() else {"grad_input": gradient}  # half the time
                gradient = torch.ops.aten.threshold_backward(gradient, layers[layer], 0, **into)
        return None, *found


def _inputs(x, parameters):
    """Return a list with the input of each layer, of shape (n_members, n_samples, width)."""
    # Use `expand`, because it gives all members the same samples without copies.
    layers = [x if x.dim() == 3 else x.expand(len(parameters[0]), -1, -1)]
    for weight, bias in zip(parameters[:-2:2], parameters[1:-2:2], strict=True):
        layers.append(_linear(layers[-1], weight, bias).relu_())
    return layers


def _linear(h, weight, bias):
    return torch.baddbmm(bias.unsqueeze(1), h, weight.transpose(1, 2))


def is_as_made(layer):
    """Return whether calling a layer runs `MemberLinear.forward` and no hooks."""
    return type(layer) is MemberLinear and not has_hooks(layer)


def has_hooks(layer):
    # torch has no public function to test for hooks.
    hooks = "_forward_pre_hooks", "_forward_hooks", "_backward_pre_hooks", "_backward_hooks"
    found = "forward" in vars(layer) or any(getattr(layer, each) for each in hooks)
    return found or _has_any_global_hook()


def is_plain_training(h):
    if not torch.is_grad_enabled() or h.requires_grad:
        return False
    if torch.compiler.is_compiling() or torch.jit.is_tracing():
        return False
    # torch has no public function to test for torch.func and forward-mode differentiation.
    if torch._C._are_functorch_transforms_active() or forward_ad._current_level >= 0:
        return False
    device = h.device.type
    return not (torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device))


class Dropout(nn.Dropout):
    """Dropout with random numbers from `generator`. None means torch's global generator."""

    def __init__(self, p, *, generator=None):
        super().__init__(p)
        self.generator = generator

    def forward(self, x):
        if self.generator is None or not self.training:
            return super().forward(x)
        generator = self.generator
        if x.device.type != "cpu":
            # Seed a GPU generator from the CPU generator. Checkpoints then save only the CPU state.
            seed = torch.randint(2**62, (), generator=generator).item()
            generator = torch.Generator(x.device).manual_seed(seed)
        kept = torch.empty_like(x).bernoulli_(1 - self.p, generator=generator)
        return x * kept if self.p == 1 else x * kept.div_(1 - self.p)

    def __getstate__(self):
        # A copy uses torch's global generator: a network and its copy must not share a generator.
        return vars(self) | {"generator": None}


class Members(nn.ModuleList):
    """Ensemble of networks that score the same samples and share no weights."""

    def forward(self, x):
        """Return the scores of all members, of shape (n_samples, n_members, n_outputs)."""
        scores = torch.stack([network(x) for network in self], dim=1)
        return scores if scores.ndim == 3 else scores.unsqueeze(2)

    def score_member(self, x, m):
        return self[m](x)


def mean_of_members(scores):
    """Return the mean over members of scores (n_samples, n_members, n_outputs)."""
    return scores.mean(1) if scores.ndim == 3 else scores


def score_of_member(module, m):
    """Return a function that maps samples to the scores of ensemble member m."""
    if hasattr(module, "score_member"):
        return partial(module.score_member, m=m)
    return lambda x: module(x)[:, m]


def packs_members(module):
    """Return whether one call ``module(..., n_members=n)`` builds the networks of all n members."""
    try:
        return "n_members" in inspect.signature(module).parameters
    except (TypeError, ValueError):  # some builtins have no signature
        return False
