"""scikit-learn estimators that are trained with losses for the top of a ranking."""

import sys
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

__version__ = "0.3.0"

__all__ = [
    "AUCClassifier",
    "BudgetClassifier",
    "DeepTopPushClassifier",
    "FScoreClassifier",
    "PatMatClassifier",
    "PatMatNPClassifier",
    "Pipeline",
    "PrecisionAtRecallClassifier",
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

if TYPE_CHECKING:  # Editors and type checkers read these imports instead of `__getattr__`.
    from ._estimators._pipeline import Pipeline, make_pipeline
    from ._estimators.boosted._top_boost import TopBoostClassifier
    from ._estimators.decisions._budget import BudgetClassifier
    from ._estimators.decisions._sets import SetClassifier
    from ._estimators.pat_mat import (
        PatMatClassifier,
        PatMatNPClassifier,
        PrecisionAtRecallClassifier,
        RecallAtFPRClassifier,
    )
    from ._estimators.programs import AUCClassifier, FScoreClassifier, RecallAtPrecisionClassifier
    from ._estimators.ranking import (
        DeepTopPushClassifier,
        RecallAtKClassifier,
        ThresholdClassifier,
        TopPushKClassifier,
    )
    from ._estimators.topk import TopKClassifier

# Modules of the public names, imported on first access because many of them import torch.
_HOMES = {
    "AUCClassifier": "programs",
    "BudgetClassifier": "decisions._budget",
    "DeepTopPushClassifier": "ranking",
    "FScoreClassifier": "programs",
    "PatMatClassifier": "pat_mat",
    "PatMatNPClassifier": "pat_mat",
    "Pipeline": "_pipeline",
    "PrecisionAtRecallClassifier": "pat_mat",
    "RecallAtFPRClassifier": "pat_mat",
    "RecallAtKClassifier": "ranking",
    "RecallAtPrecisionClassifier": "programs",
    "SetClassifier": "decisions._sets",
    "ThresholdClassifier": "ranking",
    "TopBoostClassifier": "boosted._top_boost",
    "TopKClassifier": "topk",
    "TopPushKClassifier": "ranking",
    "make_pipeline": "_pipeline",
}
_MODULES = "boosting callbacks datasets io losses metrics model_selection modules samplers".split()
_listed = _MODULES
# Without torch, `import *`, dir and help list only the names that work.
if sys.modules.get("torch") is None and find_spec("torch") is None:
    _listed = ["datasets", "io", "metrics"]
    __all__[:] = ["BudgetClassifier", "Pipeline", "SetClassifier", "make_pipeline"]


def __getattr__(name):
    if name not in _HOMES and name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        if name in _MODULES:
            return import_module(f"{__name__}.{name}")
        home = import_module(f"{__name__}._estimators.{_HOMES[name]}")
    except ModuleNotFoundError as error:  # sktopk may be installed without its dependencies
        raise ImportError(f"sktopk.{name} needs {error.name}: pip install it first") from error
    # Store the result, because Python calls `__getattr__` only for names that are not stored.
    return globals().setdefault(name, getattr(home, name))


def __dir__():
    return sorted([*__all__, *_listed, "__version__"])
