from functools import partial

import pytest
from sklearn.ensemble import ExtraTreesClassifier, HistGradientBoostingClassifier

from sktopk.model_selection import _baselines


@pytest.fixture(autouse=True)
def _few_trees(monkeypatch):
    """These tests make hundreds of fits and do not depend on the number of trees."""
    few = partial(HistGradientBoostingClassifier, max_iter=5)
    monkeypatch.setattr(_baselines, "HistGradientBoostingClassifier", few)
    few = partial(ExtraTreesClassifier, n_estimators=10)
    monkeypatch.setattr(_baselines, "ExtraTreesClassifier", few)
