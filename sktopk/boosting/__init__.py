"""Boosted trees trained for the top: objectives and evaluation functions for other libraries.

They work on the arrays that LightGBM's and XGBoost's scikit-learn wrappers pass, and need neither.
"""

from ._metric import metric
from ._objective import initial_score, objective

__all__ = ["initial_score", "metric", "objective"]
