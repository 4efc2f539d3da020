"""Encoder of tabular data: scaled columns, bins, missing values and categories."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Self

import torch
from torch import Tensor, nn

# n_encoded="auto": at most 128 bins in total, and no bins for more than 64 numerical columns.
_AUTO_BINS = 128
_AUTO_COLUMNS = 64
_SAMPLED = 20_000  # maximum number of samples for quantiles
# Scaled values are first clipped to [-FAR, FAR], because the smooth clip squares the values.
FAR = 1e6
_MIN_BIN_WIDTH = 1e-6


class TableEncoder(nn.Module):
    r"""Encoder of tabular data, the first layer of :class:`TabularMLP` or of your own network.

    Columns x are scaled to z by their quartiles q, and smoothly clipped [2]_. Columns with more
    than two distinct values can also be encoded in bins. Bin t, from :math:`b_{t-1}` to
    :math:`b_t`, is encoded as :math:`e_t` [1]_:

    .. math::
        z = \frac{x - q_{1/2}}{q_{3/4} - q_{1/4}}, \qquad
        \operatorname{clip}(z) = \frac{z}{\sqrt{1 + (z / 3)^2}}, \qquad
        e_t = \min\Bigl(1, \max\Bigl(0, \frac{z - b_{t-1}}{b_t - b_{t-1}}\Bigr)\Bigr)

    There are no trainable weights. Estimators call :meth:`from_data` before they train a network.

    Parameters
    ----------
    n_features : int
        Number of input columns.
    n_bins : int, default=0
        Largest number of bins per column. With 0, columns are not encoded in bins.
    n_encoded : int or "auto", default="auto"
        Upper limit of the total number of bins in all columns. If ``n_bins`` bins per column would
        exceed the limit, columns get fewer bins, or none. "auto" means ``n_bins`` times the number
        of numerical columns, at most 128. With over 64 numerical columns, "auto" means no bins.
    missing_indicator : bool or sequence of int, default=False
        Columns that get a 0-1 indicator of missing values: all (True), none (False) or indices.
    n_categories : dict of {int: int}, default=None
        Maps each categorical column's index to its number n of categories. Categories 0 to n - 1
        are one-hot encoded, with ``n ** -0.5`` instead of 1. Negative values count as category 0.
        NaN gets the mean of the n encodings. All other values get only zeros. For a data frame,
        estimators pass missing and unknown categories as NaN or, if the column had missing values
        in `fit`, as category 0.
    dtype : torch.dtype, default=None
        Data type of `center`, `scale` and the encoding. None means torch's default.

    Attributes
    ----------
    n_outputs : int
        Number of columns of the encoding.
    center, scale : Tensor of shape (n_features,)
        Buffers. The scaled columns are ``z = (x - center) * scale``.
    bin_column, bin_start, bin_slope : Tensor of shape (n_encoded,)
        Buffers. Bins are encoded as ``(z[..., bin_column] - bin_start) * bin_slope``, clipped to
        [0, 1], where z has the scaled columns. Unused bins have slope 0.
    missing_column : Tensor of shape (n_indicators,)
        Buffer: indices of the columns with a missing-value indicator.
    category_column, category_value, category_scale : Tensor of shape (sum of n_categories,)
        Buffers: x >= 0 becomes ``(x[..., category_column] == category_value) * category_scale``.

    Notes
    -----
    Missing numerical values (NaN) are replaced by the median of the column. Infinite values are
    clipped. Without :meth:`from_data`, columns are clipped but not scaled. In [1]_, the first and
    last bin are unbounded. Here, the bins cover only the range of the column's values.

    References
    ----------
    .. [1] Gorishniy, Rubachev, Babenko. "On Embeddings for Numerical Features in Tabular Deep
       Learning", NeurIPS 2022, equation 1 and section 3.2.1.
    .. [2] Holzmüller, Grinsztajn, Steinwart. "Better by Default: Strong Pre-Tuned MLPs and
       Boosted Trees on Tabular Data", NeurIPS 2024, section 3.

    Examples
    --------
    >>> import torch
    >>> from sktopk.modules import TableEncoder
    >>> X = torch.tensor([[0.0, 1e6], [1.0, 2e6], [2.0, 3e6], [4.0, torch.nan]])
    >>> encoder = TableEncoder(2).from_data(X)
    >>> encoder.center, encoder.scale
    (tensor([1.5000e+00, 2.0000e+06]), tensor([4.0000e-01, 5.0000e-07]))

    As the first layer of a network for ``sktopk.TopKClassifier(module=network)``:

    >>> def network(n_features, n_outputs):
    ...     encoder = TableEncoder(n_features)
    ...     return torch.nn.Sequential(encoder, torch.nn.Linear(encoder.n_outputs, n_outputs))
    """

    def __init__(
        self,
        n_features: int,
        n_bins: int = 0,
        n_encoded: int | str = "auto",
        missing_indicator: bool | Sequence[int] = False,
        n_categories: dict[int, int] | None = None,
        *,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        n_categories = dict(n_categories or {})
        missing = range(n_features) if missing_indicator is True else missing_indicator or ()
        for name, each in {"n_categories": n_categories, "missing_indicator": missing}.items():
            if any(j not in range(n_features) for j in each):
                raise ValueError(f"{name} must have indices in [0, {n_features}); got {each}")
        if n_bins < 0:
            raise ValueError(f"n_bins={n_bins} must be nonnegative")
        if n_encoded == "auto":
            n_numbers = n_features - len(n_categories)
            n_encoded = min(n_bins * n_numbers, _AUTO_BINS) if n_numbers <= _AUTO_COLUMNS else 0
        self.n_features, self.n_categories = n_features, n_categories
        self.n_bins, self.n_encoded = n_bins, n_encoded
        self.register_buffer("center", torch.zeros(n_features, dtype=dtype))
        self.register_buffer("scale", torch.ones(n_features, dtype=dtype))
        self.register_buffer("bin_column", torch.zeros(n_encoded, dtype=torch.long))
        self.register_buffer("bin_start", torch.zeros(n_encoded, dtype=dtype))
        self.register_buffer("bin_slope", torch.zeros(n_encoded, dtype=dtype))
        categories = [(j, value) for j, n in n_categories.items() for value in range(n)]
        # Smaller values reduce overfitting to columns of many categories.
        category_scale = [n_categories[j] ** -0.5 for j, _ in categories]
        # Do not save these buffers in the state dict, because the constructor recomputes them.
        for name, each in {
            "missing_column": torch.tensor(list(missing), dtype=torch.long),
            "category_column": torch.tensor([j for j, _ in categories], dtype=torch.long),
            "category_value": torch.tensor([value for _, value in categories], dtype=torch.long),
            "category_scale": torch.tensor(category_scale, dtype=self.center.dtype),
        }.items():
            self.register_buffer(name, each, persistent=False)
        self.scale[list(n_categories)] = 0.0
        self.n_outputs = n_features + n_encoded + len(self.missing_column) + len(categories)

    @torch.no_grad()
    def from_data(self, X: Tensor, sample_weight: Tensor | None = None) -> Self:
        """Compute the scaling and the bins of all columns from the samples of a dataset.

        Parameters
        ----------
        X : Tensor of shape (n_samples, n_features)
            Floating-point samples. NaN, infinite values and categorical columns are ignored. If
            there are more than 20 000 samples, only 20 000 are used. If a column is constant in
            these samples, all its values are used. Columns without two distinct values get scale 0.
        sample_weight : Tensor of shape (n_samples,), default=None
            Nonnegative weights. A sample of weight 2 counts like two identical samples.

        Returns
        -------
        self : TableEncoder

        Raises
        ------
        ValueError
            If X or `sample_weight` has a wrong shape, X is empty, or a weight is not in [0, inf).
        """
        if X.dim() != 2 or X.shape[1] != self.n_features or len(X) == 0:
            raise ValueError(
                f"X must have shape (n_samples, {self.n_features}) and at least one sample; got "
                f"shape {tuple(X.shape)}"
            )
        limits = torch.finfo(self.center.dtype)
        weight = X.new_ones(len(X)) if sample_weight is None else sample_weight
        if weight.shape != X.shape[:1]:
            came = tuple(weight.shape)
            raise ValueError(f"sample_weight must have shape ({len(X)},); got {came}")
        low, high = weight.aminmax()
        if not 0 <= low <= high < torch.inf:
            raise ValueError(f"sample_weight must be in [0, inf); got {low:g} to {high:g}")
        weight, rows = weight.detach().double(), spread_rows(len(X), _SAMPLED).to(X.device)
        needed, found = torch.zeros(self.n_features, dtype=torch.long), {}
        for j in [j for j in range(self.n_features) if j not in self.n_categories]:
            values = _distinct(X[rows, j], weight[rows])
            # If these rows are constant, use all samples to find rare other values.
            if len(values[0]) < 2 and len(rows) < len(X):
                values = _distinct(X[:, j], weight)
            self.center[j], self.scale[j], n_distinct = _scaling(*values, limits)
            needed[j] = n_distinct - 1 if n_distinct > 2 else 0
            if needed[j] and 2 * len(found) < self.n_encoded:  # a column has at least two bins
                found[j] = values
        for buffer in (self.bin_column, self.bin_start, self.bin_slope):
            buffer.zero_()
        n_bins = next(
            (b for b in range(self.n_bins, 1, -1) if needed.clamp(max=b).sum() <= self.n_encoded), 0
        )
        filled = 0
        for j in needed.nonzero()[:, 0].tolist() if n_bins else []:
            edges = _edges(*found[j], n_bins).to(self.center.device)
            edges = ((edges - self.center[j].double()) * self.scale[j].double()).clamp(-FAR, FAR)
            # Merge bins narrower than `_MIN_BIN_WIDTH`, which float32 cannot resolve.
            edges = edges[edges.diff(prepend=edges[:1] - 1) > _MIN_BIN_WIDTH]
            place = slice(filled, filled + len(edges) - 1)
            self.bin_column[place] = j
            self.bin_start[place] = edges[:-1]
            self.bin_slope[place] = 1 / edges.diff()
            filled = place.stop
        return self

    def _load_from_state_dict(self, state_dict, prefix, *args):
        # torch checks only shapes, and an invalid column index stops all computations of a GPU.
        columns = state_dict.get(f"{prefix}bin_column")
        if columns is not None and ((columns < 0) | (columns >= max(self.n_features, 1))).any():
            raise ValueError(f"bin_column must have column indices in [0, {self.n_features})")
        super()._load_from_state_dict(state_dict, prefix, *args)

    def forward(self, x: Tensor) -> Tensor:
        """Return the encoding (..., n_outputs) of samples x of shape (..., n_features).

        The encoding has, in this order: clipped columns, bins, missing indicators and categories.
        """
        if x.shape[-1:] != self.center.shape:
            raise ValueError(f"x must have shape (..., {self.n_features}); got {tuple(x.shape)}")
        # Round to the dtype of the weights only after scaling, because `scale` may be float64.
        z = ((x - self.center) * self.scale).clamp(-FAR, FAR).to(self.bin_start.dtype)
        # NaN is a missing value, or infinity times scale 0. Replace NaN by 0, the median of z.
        z = torch.nan_to_num(z, nan=0.0)
        parts = [z / torch.sqrt(1 + (z / 3) ** 2)]
        if self.n_encoded:
            # Work in place, because this step is the slowest if there are many bins.
            bins = z.index_select(-1, self.bin_column)
            parts.append(bins.sub_(self.bin_start).mul_(self.bin_slope).clamp(0, 1))
        if len(self.missing_column):
            parts.append(torch.isnan(x[..., self.missing_column]).to(z.dtype))
        if len(self.category_column):
            given = x[..., self.category_column]
            is_there = given.clamp(min=0) == self.category_value
            parts.append((is_there + given.isnan() * self.category_scale**2) * self.category_scale)
        return torch.cat(parts, dim=-1) if len(parts) > 1 else parts[0]


def spread_rows(n_rows, most):
    """Return one random index for each of `most` equal parts, or all indices if most >= n_rows."""
    # Every n-th row could be of one kind, for example the first of two readings.
    n, generator = min(n_rows, most), torch.Generator().manual_seed(0)
    edges = torch.arange(n + 1) * n_rows // max(n, 1)
    return edges[:-1] + (edges.diff() * torch.rand(n, generator=generator).double()).long()


def _distinct(column, weight):
    """Return the sorted distinct finite values of a column and their weights, in float64."""
    column = column.detach().double()
    kept = column.isfinite() & (weight > 0)
    values, index = column[kept].unique(return_inverse=True)
    return values, torch.zeros_like(values).index_add_(0, index, weight[kept])


def _scaling(values, weight, limits):
    """Return three numbers: center, scale and number of distinct values (all 0 if constant)."""
    if len(values) == 0:
        return 0.0, 0.0, 0
    first, low, center, high, last = _quantiles(values, weight, [0.01, 0.25, 0.5, 0.75, 0.99])
    spread, away = high - low, (values - center).abs()
    others = away > spread
    # A single distant value, such as a code for missing values, must not determine the scale.
    is_rounding = others.sum() > 1 and spread <= limits.resolution * (last - first)
    if spread == 0 or is_rounding:
        # If half the values equal the median, use the median distance of the other values from it.
        spread = values[-1] - values[0]
        if others.any():
            away, order = away[others].sort()
            (spread,) = _quantiles(away, weight[others][order], [0.5])
    if center.abs() > limits.max or not limits.tiny < spread < limits.max:
        return 0.0, 0.0, 0
    return center, 1 / spread, len(values)


def _quantiles(values, weight, shares):
    """Return weighted quantiles of sorted values. A quantile between two values is their mean."""
    total = weight.cumsum(0)
    wanted = total.new_tensor(shares) * total[-1]
    # Tolerate rounding errors in `total` if a quantile is exactly between two values.
    slack = 1e-9 * total[-1]
    last = len(values) - 1
    low = values[torch.searchsorted(total, wanted - slack).clamp(max=last)]
    high = values[torch.searchsorted(total, wanted + slack).clamp(max=last)]
    # Halve both values first, because `low + high` may overflow. Do not round equal values.
    return torch.where(low == high, low, low / 2 + high / 2)


def _edges(values, weight, n_bins):
    """Return at most n_bins + 1 of the values, as edges of bins with about equal weight."""
    if len(values) <= n_bins + 1:
        return values
    # Each value with more weight than an average bin is an edge. The other edges are quantiles.
    often = weight > weight.sum() / n_bins
    rest, total = values[~often], weight[~often].cumsum(0)
    n_edges = n_bins + 1 - int(often.sum())
    shares = torch.linspace(0, 1, n_edges, dtype=torch.float64, device=total.device)
    # Always add the largest remaining value as an edge, so that the bins include all values.
    index = torch.searchsorted(total, (shares[:-1] - 1e-9) * total[-1]).clamp(max=len(rest) - 1)
    return torch.cat([values[often], rest[index], rest[-1:]]).unique()
