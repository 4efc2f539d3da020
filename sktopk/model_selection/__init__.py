"""Statistical comparison of losses on a dataset."""

from ._compare import compare_losses
from ._result import LossComparison

__all__ = ["LossComparison", "compare_losses"]
