"""Objectives and metrics of the top for the scikit-learn wrappers of LightGBM and XGBoost."""

from ._metric import metric
from ._objective import initial_score, objective

__all__ = ["initial_score", "metric", "objective"]
