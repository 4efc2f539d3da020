"""Plots; matplotlib is imported when something is drawn."""

from ._budget_curve import BudgetCurveDisplay
from ._enrichment import EnrichmentDisplay
from ._loss_comparison import LossComparisonDisplay
from ._precision_quantile import PrecisionQuantileDisplay
from ._set_size import SetSizeDisplay
from ._shot_accuracy import ShotAccuracyDisplay
from ._threshold_trace import ThresholdTraceDisplay
from ._topk_curve import TopKCurveDisplay

__all__ = [
    "BudgetCurveDisplay",
    "EnrichmentDisplay",
    "LossComparisonDisplay",
    "PrecisionQuantileDisplay",
    "SetSizeDisplay",
    "ShotAccuracyDisplay",
    "ThresholdTraceDisplay",
    "TopKCurveDisplay",
]
