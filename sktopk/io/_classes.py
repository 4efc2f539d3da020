"""The classes whose objects a file may hold beside plain values and arrays."""

import dataclasses
from importlib import import_module

from sklearn.base import BaseEstimator
from sklearn.frozen import FrozenEstimator

import sktopk
from sktopk import losses
from sktopk._common._categories import Categories
from sktopk._estimators._net_classifier import NetClassifier
from sktopk._estimators.decisions._any_classifier import GivenScores
from sktopk._estimators.decisions._conformal import Conformity
from sktopk._estimators.decisions._expected_value import IsotonicProbability
from sktopk._estimators.decisions._guarantees import Rate
from sktopk._estimators.decisions._hierarchy import Hierarchy
from sktopk._estimators.decisions._selection import CalibrationRows
from sktopk.metrics._scorer import TopKScorer
from sktopk.metrics._top_scorer import TopScorer
from sktopk.modules import MLP, TabularMLP

from ._steps import STEPS

# LightGBM reads the text of its trees without checking it, and scikit-learn follows the nodes of
# its own without checking them: no file that may lie can bring any.
REFUSED = (sktopk.TopBoostClassifier, sktopk.TopVotingClassifier)
_OURS = tuple(
    each
    for each in (getattr(sktopk, name) for name in sktopk.__all__)
    if isinstance(each, type) and issubclass(each, BaseEstimator) and each not in REFUSED
)
# Thresholds and the like, which are parameters of estimators.
_OF_LOSSES = tuple(
    each
    for each in (getattr(losses, name) for name in losses.__all__)
    if isinstance(each, type) and dataclasses.is_dataclass(each)
)
_OF_DECISIONS = CalibrationRows, Conformity, Hierarchy, IsotonicProbability, Rate
_RECORDS = (*_OF_DECISIONS, Categories, TopKScorer, TopScorer, *_OF_LOSSES)
_STEPS = tuple(getattr(import_module(module), name) for module in STEPS for name in STEPS[module])
NETS = {each for each in _OURS if issubclass(each, NetClassifier)}
ESTIMATORS = {each.__name__: each for each in (*_OURS, GivenScores, FrozenEstimator, *_STEPS)}
# The plain name is scikit-learn's, as in files that were written before there were two.
ESTIMATORS["sktopk.Pipeline"] = sktopk.Pipeline
NAMES = {each: name for name, each in ESTIMATORS.items()}
# What `module` may be: of others the code would have to come along.
MODULES = {each.__name__: each for each in (MLP, TabularMLP)}
RECORDS = {each.__name__: each for each in _RECORDS}
# For skops.io.load: all of ours, none of which runs code that a file brings along.
TRUSTED_TYPES = tuple(f"{each.__module__}.{each.__qualname__}" for each in (*_OURS, *_RECORDS))
