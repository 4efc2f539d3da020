"""The classes whose objects a file may hold beside plain values and arrays."""

import sys
from functools import cache
from importlib import import_module
from typing import NamedTuple

from sklearn.frozen import FrozenEstimator

from sktopk import BudgetClassifier, ExpectedCostClassifier, Pipeline, SetClassifier
from sktopk._common._categories import Categories
from sktopk._estimators.decisions._any_classifier import GivenScores
from sktopk._estimators.decisions._conformal import Conformity
from sktopk._estimators.decisions._expected_value import IsotonicProbability
from sktopk._estimators.decisions._guarantees import Rate
from sktopk._estimators.decisions._hierarchy import Hierarchy
from sktopk._estimators.decisions._selection import CalibrationRows
from sktopk.metrics._scorer import TopKScorer
from sktopk.metrics._top_scorer import TopScorer

from ._steps import STEPS

_DECISIONS = BudgetClassifier, ExpectedCostClassifier, SetClassifier
_OF_DECISIONS = CalibrationRows, Conformity, Hierarchy, IsotonicProbability, Rate
_RECORDS = (*_OF_DECISIONS, Categories, TopKScorer, TopScorer)
_STEPS = tuple(getattr(import_module(module), name) for module in STEPS for name in STEPS[module])


class Known(NamedTuple):
    """Classes by the names they have in files; which are networks; which no file may hold."""

    estimators: dict
    records: dict
    modules: dict
    nets: frozenset
    refused: dict


@cache
def known_classes(*, with_nets):
    """Return the classes that need no torch, or all of them."""
    records = {each.__name__: each for each in _RECORDS}
    estimators = (*_DECISIONS, GivenScores, FrozenEstimator, *_STEPS)
    # The plain name is scikit-learn's, as in files that were written before there were two.
    estimators = {each.__name__: each for each in estimators} | {"sktopk.Pipeline": Pipeline}
    if not with_nets:
        return Known(estimators, records, {}, frozenset(), {})
    # Imported where it is needed: it loads torch.
    from . import _net_classes as of_nets

    return Known(
        estimators | {each.__name__: each for each in of_nets.NETS},
        records | {each.__name__: each for each in of_nets.RECORDS},
        {each.__name__: each for each in of_nets.MODULES},
        frozenset(of_nets.NETS),
        of_nets.REFUSED,
    )


def known_in_process():
    """Return the classes of which there can be objects: those of nets where torch was loaded."""
    return known_classes(with_nets="torch" in sys.modules)


def class_of(kind, name):
    """Return the class of a name in a file; torch is loaded only where others do not have it."""
    for with_nets in (False, True):
        known = getattr(known_classes(with_nets=with_nets), kind)
        if name in known:
            return known[name]
    raise ValueError(f"it holds an unknown class {name!r:.40}")


def is_net(cls):
    """Tell whether objects of the class have a network."""
    return cls in known_in_process().nets


def trusted_types():
    """Return names for `skops.io.load`: all of ours, which run no code that a file brings along."""
    known = known_classes(with_nets=True)
    ours = (*_DECISIONS, Pipeline, *known.nets, *known.records.values())
    return tuple(sorted(f"{each.__module__}.{each.__qualname__}" for each in ours))
