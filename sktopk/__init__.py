"""scikit-learn estimators for people who can only look at the top."""

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
    "DeepTopPushClassifier",
    "PatMatClassifier",
    "PatMatNPClassifier",
    "PrecisionAtRecallClassifier",
    "RecallAtKClassifier",
    "TopKClassifier",
    "TopPushKClassifier",
]
