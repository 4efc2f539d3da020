"""Metrics, scorers and displays of rankings and of top-k labels, for any classifier."""

from ._budget_table import budget_table
from ._plot._bars import SetSizeDisplay, ShotAccuracyDisplay
from ._plot._budget_curve import BudgetCurveDisplay
from ._plot._curves import EnrichmentDisplay, TopKCurveDisplay
from ._plot._loss_comparison import LossComparisonDisplay
from ._scorer import make_topk_scorer
from ._sets import make_set_scorer, set_coverage_score, set_size_score
from ._top import (
    enrichment_factor_score,
    positives_at_top_score,
    precision_at_k_score,
    precision_at_recall_score,
    recall_at_k_score,
    recall_at_precision_score,
    true_positive_rate_at_fpr_score,
)
from ._top_curves import bedroc_score
from ._top_scorer import make_top_scorer
from ._topk import shot_accuracy_score, topk_accuracy_score

__all__ = [
    "BudgetCurveDisplay",
    "EnrichmentDisplay",
    "LossComparisonDisplay",
    "SetSizeDisplay",
    "ShotAccuracyDisplay",
    "TopKCurveDisplay",
    "bedroc_score",
    "budget_table",
    "enrichment_factor_score",
    "make_set_scorer",
    "make_top_scorer",
    "make_topk_scorer",
    "positives_at_top_score",
    "precision_at_k_score",
    "precision_at_recall_score",
    "recall_at_k_score",
    "recall_at_precision_score",
    "set_coverage_score",
    "set_size_score",
    "shot_accuracy_score",
    "topk_accuracy_score",
    "true_positive_rate_at_fpr_score",
]
