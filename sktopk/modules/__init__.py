"""Networks as plain torch modules, usable without the estimators."""

from ._mlp import MLP
from ._normalized_linear import NormalizedLinear
from ._table_encoder import TableEncoder
from ._tabular_mlp import TabularMLP

__all__ = ["MLP", "NormalizedLinear", "TableEncoder", "TabularMLP"]
