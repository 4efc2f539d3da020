"""scikit-learn estimators for people who can only look at the top."""

import importlib

from ._estimators._pipeline import Pipeline, make_pipeline
from ._estimators.boosted._top_boost import TopBoostClassifier
from ._estimators.decisions._budget import BudgetClassifier
from ._estimators.decisions._expected_cost import ExpectedCostClassifier
from ._estimators.decisions._monitor import Monitor
from ._estimators.decisions._sets import SetClassifier
from ._estimators.labels._topk_classifier import TopKClassifier
from ._estimators.ranking._auc import AUCClassifier
from ._estimators.ranking._programs import (
    FScoreClassifier,
    PrecisionAtRecallProgramClassifier,
    RecallAtPrecisionClassifier,
)
from ._estimators.ranking._threshold_classifier import ThresholdClassifier
from ._estimators.ranking._top import (
    DeepTopPushClassifier,
    PatMatClassifier,
    PatMatNPClassifier,
    PrecisionAtRecallClassifier,
    RecallAtFPRClassifier,
    RecallAtKClassifier,
    TopPushKClassifier,
)

__version__ = "0.1.0.dev0"

__all__ = [
    "AUCClassifier",
    "BudgetClassifier",
    "DeepTopPushClassifier",
    "ExpectedCostClassifier",
    "FScoreClassifier",
    "Monitor",
    "PatMatClassifier",
    "PatMatNPClassifier",
    "Pipeline",
    "PrecisionAtRecallClassifier",
    "PrecisionAtRecallProgramClassifier",
    "RecallAtFPRClassifier",
    "RecallAtKClassifier",
    "RecallAtPrecisionClassifier",
    "SetClassifier",
    "ThresholdClassifier",
    "TopBoostClassifier",
    "TopKClassifier",
    "TopPushKClassifier",
    "make_pipeline",
]

_MODULES = (
    "boosting",
    "callbacks",
    "datasets",
    "io",
    "losses",
    "metrics",
    "model_selection",
    "modules",
    "samplers",
)


def __getattr__(name):
    # So that `import sktopk` is enough for sktopk.io.dump, and takes no longer.
    if name in _MODULES:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


# Pickles, error messages and documentation name the public place, wherever a class lives inside.
for _name in __all__:
    globals()[_name].__module__ = __name__
del _name
