"""Plots; matplotlib is imported when something is drawn."""

from ._enrichment import EnrichmentDisplay
from ._precision_quantile import PrecisionQuantileDisplay
from ._topk_curve import TopKCurveDisplay

__all__ = ["EnrichmentDisplay", "PrecisionQuantileDisplay", "TopKCurveDisplay"]
