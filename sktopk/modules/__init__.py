"""Networks: plain torch modules, usable without the estimators."""

from ._members import Members
from ._mlp import MLP
from ._normalized_linear import NormalizedLinear
from ._scaled_scores import ScaledScores

__all__ = ["MLP", "Members", "NormalizedLinear", "ScaledScores"]
