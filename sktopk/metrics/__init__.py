"""Scores, scorers and plots for the top of a prediction, with any scikit-learn classifier."""

from ._plot import TopKCurveDisplay
from ._scorer import make_topk_scorer
from ._topk import shot_accuracy_score, topk_accuracy_score

__all__ = ["TopKCurveDisplay", "make_topk_scorer", "shot_accuracy_score", "topk_accuracy_score"]
