"""What a subclass may override is written down in the class that defines it."""

import re

import pytest

import sktopk  # noqa: F401  (defines the subclasses)
from sktopk._estimators._net_classifier import NetClassifier
from sktopk._estimators._parameters import TrainingParameters
from sktopk._estimators.decisions._base import CalibratedDecision, Decision
from sktopk._estimators.ranking._ranking import RankingClassifier, TopClassifier
from sktopk._training._net import Net
from sktopk._training.criteria._base import Criterion

BASES = [
    TrainingParameters,
    NetClassifier,
    RankingClassifier,
    TopClassifier,
    Decision,
    CalibratedDecision,
    Criterion,
    Net,
]


def subclasses(cls):
    for each in cls.__subclasses__():
        yield each
        yield from subclasses(each)


@pytest.mark.parametrize("base", BASES, ids=lambda base: base.__name__)
def test_hooks_are_written_down(base):
    inherited = {name for parent in base.__mro__[1:] for name in vars(parent)}
    own = {name for name in vars(base) if not name.startswith("__") and name not in inherited}
    # Public methods have docstrings, of what they do for users.
    own = {name for name in own if name.startswith("_") or base in (Criterion, Net)}
    overridden = {name for each in subclasses(base) for name in vars(each)} & own
    missing = [name for name in overridden if not re.search(rf"\b{name}\b", base.__doc__)]
    assert not missing
