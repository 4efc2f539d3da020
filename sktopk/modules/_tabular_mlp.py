"""Multi-layer perceptrons for tabular data, with an encoder and several ensemble members."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Self

import torch
from torch import Tensor, nn

from ._members import MemberLayers, MemberLinear, has_hooks, is_as_made, is_plain_training
from ._mlp import Dropout
from ._normalized_linear import MemberNormalizedLinear
from ._table_encoder import TableEncoder


class TabularMLP(nn.Module):
    r"""Ensemble of multi-layer perceptrons for tabular data.

    .. math::
        f(x) = W_m h_{m-1} + b_m, \qquad h_l = \max(0, W_l h_{l-1} + b_l), \qquad h_0 = e(x)

    The encoder e is a :class:`TableEncoder`, which scales and encodes the columns. Linear layers
    with ReLU and dropout follow. The ensemble members share the encoder, but no weights. Each layer
    is computed for all members in one matrix multiplication.

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
        Whether the last layer is a :class:`NormalizedLinear`. Use it for losses with margins such
        as :func:`sktopk.losses.ldam_loss`.
    dtype : torch.dtype, default=None
        Data type of weights and scales. None means torch's default.
    generator : torch.Generator, default=None
        Source of initial weights and dropout. None means torch's global generator.

    Attributes
    ----------
    encoder : TableEncoder
        The first layer, without trainable weights.
    layers : ModuleList
        Linear layers. The first axis of each parameter is the ensemble member.

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
        self.encoder = TableEncoder(
            n_features, n_bins, n_encoded, missing_indicator, n_categories, dtype=dtype
        )
        sizes = (self.encoder.n_outputs, *hidden_layer_sizes, n_outputs)
        kinds = [MemberLinear] * len(hidden_layer_sizes)
        kinds.append(MemberNormalizedLinear if normalize else MemberLinear)
        self.layers = nn.ModuleList(
            kind(n_members, *pair, dtype=dtype, generator=generator)
            for kind, pair in zip(kinds, pairwise(sizes), strict=True)
        )

    def from_data(self, X: Tensor, sample_weight: Tensor | None = None) -> Self:
        """Compute scales and bins from samples, see :meth:`TableEncoder.from_data`."""
        self.encoder.from_data(X, sample_weight)
        return self

    def forward(self, x: Tensor, own: Tensor | None = None, encoded: bool = False) -> Tensor:
        """Return scores (n_samples, n_members, n_outputs) of samples x (n_samples, n_features).

        With one member, the scores have shape (n_samples, n_outputs). If x has shape (n_members,
        n_samples, n_features), each member gets its own samples. The same holds if `own` has the
        positions in x of the samples of each member, a Tensor of shape (n_members, n_samples).
        With `encoded`, x is a result of the encoder.
        """
        h = x if encoded else self.encoder(x)
        h = h if own is None else h[own]
        drops = self.dropout.p and self.training
        parameters = [p for layer in self.layers for p in layer.parameters()]
        # `MemberLayers` requires at least one trainable parameter.
        learns = any(p.requires_grad for p in parameters) and not drops and is_plain_training(h)
        if learns and all(map(is_as_made, self.layers)):
            scores = MemberLayers.apply(h, *parameters)
        else:
            scores = self._by_layer(h, drops)
        scores = scores.transpose(0, 1)
        return scores.squeeze(1) if self.n_members == 1 else scores

    def _by_layer(self, h, drops):
        for layer in self.layers[:-1]:
            # Overwrite the input of ReLU only if neither autograd nor a hook can use it later.
            inplace = not torch.is_grad_enabled() and is_as_made(layer)
            h = nn.functional.relu(layer(h), inplace=inplace)
            if drops:
                # Draw one mask for all members, because drawing is as slow as the multiplications.
                h = h * self.dropout(torch.ones_like(h[0]))
        return self.layers[-1](h)

    def score_member(self, x: Tensor, m: int) -> Tensor:
        """Return the scores (n_samples, n_outputs) of ensemble member m for the samples x."""
        is_ours = type(self).forward is TabularMLP.forward and "forward" not in vars(self)
        if not is_ours or any(map(has_hooks, self.layers)):
            scores = self(x)
            return scores[:, m] if self.n_members > 1 else scores
        h = self.encoder(x)
        for layer in self.layers[:-1]:
            h = nn.functional.relu(layer.of_member(h, m))
        return self.layers[-1].of_member(h, m)
