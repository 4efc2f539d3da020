"""Networks for tables: columns are scaled and encoded inside, several members in one product."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Self

import torch
from torch import Tensor, nn

from ._member_linear import MemberLayers, MemberLinear, is_as_made, is_plain_training
from ._mlp import Dropout

# Bins that "auto" has room for, and columns beyond which it has none: two each would not fit.
_ROOM = 512
_WIDE = 256
# Rows that quantiles are taken of; more would not move them by what training could notice.
_SAMPLED = 20_000
# Scaled values end here, far behind where the clip is flat and far from an overflow.
FAR = 1e6
_NARROW = 1e-6


class TabularMLP(nn.Module):
    r"""Ensemble of multi-layer perceptrons for tabular data, with scaled and encoded columns.

    Every column is scaled by its quartiles and clipped smoothly [2]_. A column of more than two
    values can also be encoded piecewise linearly in T bins [1]_, equation 1:

    .. math::
        z = \frac{x - q_{1/2}}{q_{3/4} - q_{1/4}}, \qquad
        \operatorname{clip}(z) = \frac{z}{\sqrt{1 + (z / 3)^2}}, \qquad
        e_t = \min\Bigl(1, \max\Bigl(0, \frac{z - b_{t-1}}{b_t - b_{t-1}}\Bigr)\Bigr)

    Linear layers with ReLU and dropout follow. Ensemble members share the encoded columns, but no
    weight. Their layers are computed in one matrix multiplication each.

    Parameters
    ----------
    n_features : int
        Number of input columns.
    n_outputs : int
        Number of scores, one per class.
    hidden_layer_sizes : tuple of int, default=(128, 128)
        Width of each hidden layer of a member.
    n_members : int, default=1
        Number of networks.
    dropout : float, default=0.0
        Probability of dropping a hidden unit in training, in the same places of all members.
    n_bins : int, default=0
        Largest number of bins of a column; 0 for columns that are only scaled.
    n_encoded : int or "auto", default="auto"
        Largest number of bins of all columns together. All columns of more than two values have
        the same limit; if 2 bins each do not fit, no column has any. "auto" is ``n_bins`` for each
        numerical column, at most 512, and 0 for more than 256 such columns.
    missing_indicator : bool or sequence of int, default=False
        Columns that get an indicator, 1 for missing values: all, none, or these.
    n_categories : dict of {int: int}, default=None
        For each categorical column, whose values are 0, 1, 2, ..., the number n of its categories.
        They are one-hot encoded and scaled by ``n ** -0.5``; other values are encoded as zeros.
    dtype : torch.dtype, default=None
        Of weights and scales; None is torch's default.
    generator : torch.Generator, default=None
        Source of first weights and dropout; None is torch's own.

    Attributes
    ----------
    center, scale : Tensor of shape (n_features,)
        Buffers: z is ``(x - center) * scale``.
    bin_column, bin_start, bin_slope : Tensor of shape (n_encoded,)
        Buffers: the encoding is ``(z[..., bin_column] - bin_start) * bin_slope`` between 0 and 1,
        the bins of a column in ascending order. Slopes of unused bins are 0.
    missing_column : Tensor of shape (n_indicators,)
        Buffer: the columns with an indicator.
    category_column, category_value, category_scale : Tensor of shape (sum of n_categories,)
        Buffers: the indicator ``x[..., category_column] == category_value`` times its scale.
    layers : ModuleList
        Linear layers; the first axis of all parameters is that of the members.

    Notes
    -----
    NaN counts as missing: it is the median of the column, or no category. Infinite values are far
    away on their side. Before :meth:`from_data`, columns are clipped and nothing else.

    Equation 1 of [1]_ leaves the first and the last bin open. Here they end with the samples that
    `from_data` has seen, behind which the clipped column goes on towards 3 or -3.

    References
    ----------
    .. [1] Gorishniy, Rubachev, Babenko. "On Embeddings for Numerical Features in Tabular Deep
       Learning", NeurIPS 2022, equation 1 and section 3.2.1.
    .. [2] Holzmüller, Grinsztajn, Steinwart. "Better by Default: Strong Pre-Tuned MLPs and
       Boosted Trees on Tabular Data", NeurIPS 2024, section 3.

    Examples
    --------
    >>> import torch
    >>> from sktopk.modules import TabularMLP
    >>> X = torch.tensor([[0.0, 1e6], [1.0, 2e6], [2.0, 3e6], [4.0, torch.nan]])
    >>> network = TabularMLP(2, 3, n_members=8).from_data(X)
    >>> network(X).shape
    torch.Size([4, 8, 3])
    >>> network.center, network.scale
    (tensor([1.5000e+00, 2.0000e+06]), tensor([4.0000e-01, 5.0000e-07]))
    """

    def __init__(
        self,
        n_features: int,
        n_outputs: int,
        hidden_layer_sizes: Sequence[int] = (128, 128),
        n_members: int = 1,
        dropout: float = 0.0,
        n_bins: int = 0,
        n_encoded: int | str = "auto",
        missing_indicator: bool = False,
        n_categories: Sequence[int] | None = None,
        *,
        dtype: torch.dtype | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        n_categories = dict(n_categories or {})
        if n_encoded == "auto":
            n_numbers = n_features - len(n_categories)
            n_encoded = min(n_bins * n_numbers, _ROOM) if n_numbers <= _WIDE else 0
        self.n_features = n_features
        self.n_outputs = n_outputs
        self.n_members = n_members
        self.n_bins = n_bins
        self.n_encoded = n_encoded
        self.n_categories = n_categories
        self.dropout = Dropout(dropout, generator=generator)
        self.register_buffer("center", torch.zeros(n_features, dtype=dtype))
        self.register_buffer("scale", torch.ones(n_features, dtype=dtype))
        self.register_buffer("bin_column", torch.zeros(n_encoded, dtype=torch.long))
        self.register_buffer("bin_start", torch.zeros(n_encoded, dtype=dtype))
        self.register_buffer("bin_slope", torch.zeros(n_encoded, dtype=dtype))
        categories = [(j, value) for j, n in n_categories.items() for value in range(n)]
        # What two rows have in common for being of the same category is the product of their
        # indicators, 1 / n: the more categories, the fewer rows has each, and the sooner the
        # network has learnt these by heart.
        category_scale = [n_categories[j] ** -0.5 for j, _ in categories]
        if missing_indicator is True:
            missing = torch.arange(n_features)
        else:
            missing = torch.tensor(list(missing_indicator or ()), dtype=torch.long)
        # Known by the parameters: no part of the state.
        for name, each in {
            "missing_column": missing,
            "category_column": torch.tensor([j for j, _ in categories], dtype=torch.long),
            "category_value": torch.tensor([value for _, value in categories], dtype=torch.long),
            "category_scale": torch.tensor(category_scale, dtype=self.center.dtype),
        }.items():
            self.register_buffer(name, each, persistent=False)
        self.scale[list(n_categories)] = 0.0
        n_inputs = n_features + n_encoded + len(self.missing_column) + len(categories)
        sizes = (n_inputs, *hidden_layer_sizes, n_outputs)
        self.layers = nn.ModuleList(
            MemberLinear(n_members, *pair, dtype=dtype, generator=generator)
            for pair in pairwise(sizes)
        )

    @torch.no_grad()
    def from_data(self, X: Tensor, sample_weight: Tensor | None = None) -> Self:
        """Set scales and bins by the samples of a dataset.

        Parameters
        ----------
        X : Tensor of shape (n_samples, n_features)
            Floating point. NaN, infinite values and categorical columns are ignored. Of more than
            20 000 samples a regular subsample is used, except for columns that seem constant.
            A column that is constant or missing everywhere has the scale 0: its values never
            matter.
        sample_weight : Tensor of shape (n_samples,), default=None
            Nonnegative; weight 2 equals the sample given twice, weight 0 its absence.

        Returns
        -------
        self : TabularMLP

        Raises
        ------
        ValueError
            If X has another number of columns than the network, or no samples.
        """
        if X.dim() != 2 or X.shape[1] != self.n_features or len(X) == 0:
            raise ValueError(
                f"X must have rows of {self.n_features} columns; got shape {tuple(X.shape)}"
            )
        limits = torch.finfo(self.center.dtype)
        weight = torch.ones(len(X)) if sample_weight is None else sample_weight
        weight = weight.detach().double()
        needed = torch.zeros(self.n_features, dtype=torch.long)
        for j in range(self.n_features):
            if j in self.n_categories:
                continue
            values = _values(X[:, j], weight)
            self.center[j], self.scale[j], n_distinct = _scaling(*values, limits)
            needed[j] = n_distinct - 1 if n_distinct > 2 else 0
        for buffer in (self.bin_column, self.bin_start, self.bin_slope):
            buffer.zero_()
        n_bins = next(
            (b for b in range(self.n_bins, 1, -1) if needed.clamp(max=b).sum() <= self.n_encoded), 0
        )
        filled = 0
        for j in needed.nonzero()[:, 0].tolist() if n_bins else []:
            edges = _edges(*_values(X[:, j], weight), n_bins)
            edges = ((edges - self.center[j].double()) * self.scale[j].double()).clamp(-FAR, FAR)
            # A narrower bin has no room for scaled values in float32.
            edges = edges[edges.diff(prepend=edges[:1] - 1) > _NARROW]
            place = slice(filled, filled + len(edges) - 1)
            self.bin_column[place] = j
            self.bin_start[place] = edges[:-1]
            self.bin_slope[place] = 1 / edges.diff()
            filled = place.stop
        return self

    def of_member(self, m: int) -> dict[str, Any]:
        """Which entries of the state dict are those of member m alone: their index by name."""
        return {name: m for name, _ in self.named_parameters()}

    def encode(self, x: Tensor) -> Tensor:
        """Return the input of the first layer for samples x of shape (..., n_features).

        The clipped columns, the bins, the indicators of missing values and the categories, in this
        order: shape (..., n_inputs).
        """
        z = ((x - self.center) * self.scale).clamp(-FAR, FAR)
        # Missing is the median; and an infinite value of a constant column is that constant.
        z = torch.nan_to_num(z, nan=0.0)
        parts = [z / torch.sqrt(1 + (z / 3) ** 2)]
        if self.n_encoded:
            # In place, and whole columns at a time: of many bins this is most of what a row costs.
            bins = z.index_select(-1, self.bin_column)
            parts.append(bins.sub_(self.bin_start).mul_(self.bin_slope).clamp(0, 1))
        if len(self.missing_column):
            parts.append(torch.isnan(x[..., self.missing_column]).to(z.dtype))
        if len(self.category_column):
            is_there = x[..., self.category_column] == self.category_value
            parts.append(is_there * self.category_scale)
        return torch.cat(parts, dim=-1) if len(parts) > 1 else parts[0]

    def forward(self, x: Tensor) -> Tensor:
        """Return scores (n_samples, n_members, n_outputs) of samples x (n_samples, n_features).

        With one member (n_samples, n_outputs). Members may have samples of their own: x of shape
        (n_members, n_samples, n_features).
        """
        h = self.encode(x)
        drops = self.dropout.p and self.training
        parameters = [p for layer in self.layers for p in layer.parameters()]
        # Without a parameter that learns there is no way back.
        learns = any(p.requires_grad for p in parameters) and not drops and is_plain_training(h)
        if learns and all(map(is_as_made, self.layers)):
            scores = MemberLayers.apply(h, *parameters)
        else:
            scores = self._by_layer(h, drops)
        scores = scores.transpose(0, 1)
        return scores.squeeze(1) if self.n_members == 1 else scores

    def _by_layer(self, h, drops):
        for layer in self.layers[:-1]:
            # Not in place of what a hook has seen, nor of a view in a graph, which is copied whole.
            inplace = not torch.is_grad_enabled() and is_as_made(layer)
            h = nn.functional.relu(layer(h), inplace=inplace)
            if drops:
                # One mask for all members, whose units have nothing in common but their number:
                # random numbers cost as much as the products.
                h = h * self.dropout(torch.ones_like(h[0]))
        return self.layers[-1](h)

    def score_member(self, x: Tensor, m: int) -> Tensor:
        """Return what `forward` does of member m, alone: scores (n_samples, n_outputs)."""
        is_ours = type(self).forward is TabularMLP.forward and "forward" not in vars(self)
        if not is_ours or not all(map(is_as_made, self.layers)):
            scores = self(x)
            return scores[:, m] if self.n_members > 1 else scores
        h = self.encode(x)
        for layer in self.layers[:-1]:
            h = nn.functional.relu(layer.of_member(h, m))
        return self.layers[-1].of_member(h, m)


def _values(column, weight):
    """Distinct finite values of a column, sorted, and what each weighs: of some rows, if they vary.

    Both are in float64.
    """
    step = -(-len(column) // _SAMPLED)
    values = _distinct(column[::step], weight[::step])
    # The other values may be too rare for the sample.
    return _distinct(column, weight) if len(values[0]) < 2 and step > 1 else values


def _distinct(column, weight):
    column = column.detach().double()
    kept = column.isfinite() & (weight > 0)
    values, index = column[kept].unique(return_inverse=True)
    return values, torch.zeros_like(values).index_add_(0, index, weight[kept])


def _scaling(values, weight, limits):
    """Centre, scale and number of distinct values."""
    if len(values) == 0:
        return 0.0, 0.0, 0
    low, center, high = _quantiles(values, weight, [0.25, 0.5, 0.75])
    spread = high - low
    if spread <= 1e-6 * (values[-1] - values[0]):
        # Half of the rows or more have one value; how far are the others from it?
        away = (values - center).abs()
        others = away > spread
        spread = values[-1] - values[0]
        if others.any():
            away, order = away[others].sort()
            (spread,) = _quantiles(away, weight[others][order], [0.5])
    if center.abs() > limits.max or not limits.tiny < spread < limits.max:
        return 0.0, 0.0, 0
    return center, 1 / spread, len(values)


def _quantiles(values, weight, shares):
    """Quantiles of sorted values: where a share of the weight ends, the mean with the next one."""
    total = weight.cumsum(0)
    wanted = torch.tensor(shares, dtype=torch.float64) * total[-1]
    # The last digit of a sum must not decide.
    slack = 1e-9 * total[-1]
    last = len(values) - 1
    low = torch.searchsorted(total, wanted - slack).clamp(max=last)
    high = torch.searchsorted(total, wanted + slack).clamp(max=last)
    low, high = values[low], values[high]
    # Not half of the sum, which overflows; exact where both are the same.
    return torch.where(low == high, low, low / 2 + high / 2)


def _edges(values, weight, n_bins):
    """At most n_bins + 1 of the values that part them into bins of about equal weight."""
    if len(values) <= n_bins + 1:
        return values
    # A value that more rows share than belong in a bin parts two of them; quantiles the others.
    often = weight > weight.sum() / n_bins
    rest, total = values[~often], weight[~often].cumsum(0)
    shares = torch.linspace(0, 1, n_bins + 1 - int(often.sum()), dtype=torch.float64)
    # The last edge is the largest value, however little it weighs.
    index = torch.searchsorted(total, (shares[:-1] - 1e-9) * total[-1]).clamp(max=len(rest) - 1)
    return torch.cat([values[often], rest[index], rest[-1:]]).unique()
