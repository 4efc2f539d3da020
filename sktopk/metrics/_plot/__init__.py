"""Plots; matplotlib is imported when something is drawn."""

from ._topk_curve import TopKCurveDisplay

__all__ = ["TopKCurveDisplay"]
