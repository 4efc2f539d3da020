"""Top-of-ranking objectives and metrics for LightGBM and XGBoost (scikit-learn API)."""

from ._metric import metric
from ._objective import initial_score, objective

__all__ = ["initial_score", "metric", "objective"]
