"""Networks: plain torch modules, usable without the estimators."""

from ._member_linear import MemberLinear
from ._members import Members
from ._mlp import MLP
from ._normalized_linear import NormalizedLinear
from ._tabular_mlp import TabularMLP

__all__ = ["MLP", "MemberLinear", "Members", "NormalizedLinear", "TabularMLP"]
