"""scikit-learn estimators for people who can only look at the top."""

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.2.0"

__all__ = [
    "AUCClassifier",
    "BudgetClassifier",
    "DeepTopPushClassifier",
    "FScoreClassifier",
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
    "TopVotingClassifier",
    "make_pipeline",
]

if TYPE_CHECKING:  # Editors and type checkers read what `__getattr__` does.
    from ._estimators._pipeline import Pipeline, make_pipeline
    from ._estimators.boosted._top_boost import TopBoostClassifier
    from ._estimators.decisions._budget import BudgetClassifier
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
    from ._estimators.voting._top_voting import TopVotingClassifier

# Loaded when they are asked for (SPEC 1), so that metrics and decisions need no torch.
_HOMES = {
    "AUCClassifier": "ranking._auc",
    "BudgetClassifier": "decisions._budget",
    "DeepTopPushClassifier": "ranking._top",
    "FScoreClassifier": "ranking._programs",
    "PatMatClassifier": "ranking._top",
    "PatMatNPClassifier": "ranking._top",
    "Pipeline": "_pipeline",
    "PrecisionAtRecallClassifier": "ranking._top",
    "PrecisionAtRecallProgramClassifier": "ranking._programs",
    "RecallAtFPRClassifier": "ranking._top",
    "RecallAtKClassifier": "ranking._top",
    "RecallAtPrecisionClassifier": "ranking._programs",
    "SetClassifier": "decisions._sets",
    "ThresholdClassifier": "ranking._threshold_classifier",
    "TopBoostClassifier": "boosted._top_boost",
    "TopKClassifier": "labels._topk_classifier",
    "TopPushKClassifier": "ranking._top",
    "TopVotingClassifier": "voting._top_voting",
    "make_pipeline": "_pipeline",
}
_SUBMODULES = (
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
    if name in _HOMES:
        home = import_module(f"{__name__}._estimators.{_HOMES[name]}")
        # Kept, so that it is asked for once.
        return globals().setdefault(name, getattr(home, name))
    if name in _SUBMODULES:
        return import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return sorted([*__all__, *_SUBMODULES, "__version__"])
