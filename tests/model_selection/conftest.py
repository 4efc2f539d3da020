from functools import partial

import pytest

from sktopk.model_selection import _baselines

FEW = {"HistGradientBoostingClassifier": "max_iter", "ExtraTreesClassifier": "n_estimators"}


@pytest.fixture(autouse=True)
def _few_trees(monkeypatch):
    """These tests make hundreds of fits and do not depend on the number of trees."""
    for name, n_trees in FEW.items():
        monkeypatch.setattr(_baselines, name, partial(getattr(_baselines, name), **{n_trees: 5}))
