"""scikit-learn estimators for people who can only look at the top."""

from ._auc import AUCClassifier
from ._budget import BudgetClassifier
from ._nondecomposable import FScoreClassifier, RecallAtPrecisionClassifier
from ._sets import SetClassifier
from ._top import (
    DeepTopPushClassifier,
    PatMatClassifier,
    PatMatNPClassifier,
    PrecisionAtRecallClassifier,
    RecallAtKClassifier,
    TopPushKClassifier,
)
from ._topk import TopKClassifier

__version__ = "0.1.0.dev0"

__all__ = [
    "AUCClassifier",
    "BudgetClassifier",
    "DeepTopPushClassifier",
    "FScoreClassifier",
    "PatMatClassifier",
    "PatMatNPClassifier",
    "PrecisionAtRecallClassifier",
    "RecallAtKClassifier",
    "RecallAtPrecisionClassifier",
    "SetClassifier",
    "TopKClassifier",
    "TopPushKClassifier",
]
