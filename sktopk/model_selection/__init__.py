"""Comparisons of losses that can come out against them."""

from ._compare import compare_losses
from ._result import LossComparison

__all__ = ["LossComparison", "compare_losses"]
