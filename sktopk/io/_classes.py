"""The classes whose objects a file may hold beside plain values, arrays and steps."""

from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline

from sktopk._estimators._net_classifier import NetClassifier
from sktopk._estimators.decisions._budget import BudgetClassifier
from sktopk._estimators.decisions._conformal import Conformity
from sktopk._estimators.decisions._guarantees import Rate
from sktopk._estimators.decisions._sets import SetClassifier
from sktopk._estimators.labels._topk_classifier import TopKClassifier
from sktopk._estimators.ranking._auc import AUCClassifier
from sktopk._estimators.ranking._programs import FScoreClassifier, RecallAtPrecisionClassifier
from sktopk._estimators.ranking._top import (
    DeepTopPushClassifier,
    PatMatClassifier,
    PatMatNPClassifier,
    PrecisionAtRecallClassifier,
    RecallAtKClassifier,
    TopPushKClassifier,
)
from sktopk.metrics._scorer import TopKScorer
from sktopk.metrics._top_scorer import TopScorer

_OURS = (
    AUCClassifier,
    BudgetClassifier,
    DeepTopPushClassifier,
    FScoreClassifier,
    PatMatClassifier,
    PatMatNPClassifier,
    PrecisionAtRecallClassifier,
    RecallAtKClassifier,
    RecallAtPrecisionClassifier,
    SetClassifier,
    TopKClassifier,
    TopPushKClassifier,
)
_RECORDS = (Conformity, Rate, TopKScorer, TopScorer)
NETS = {each for each in _OURS if issubclass(each, NetClassifier)}
ESTIMATORS = {each.__name__: each for each in (*_OURS, FrozenEstimator, Pipeline)}
RECORDS = {each.__name__: each for each in _RECORDS}
# Scalars of NumPy, by dtype.
SCALARS = {f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)}
SCALARS |= {"bool", "float16", "float32", "float64", "str_"}
# For skops.io.load: all of ours, none of which runs code that a file brings along.
TRUSTED_TYPES = tuple(f"{each.__module__}.{each.__qualname__}" for each in (*_OURS, *_RECORDS))
