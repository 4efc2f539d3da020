"""The worked example of CONTRIBUTING.md: its code runs, and its places in files exist."""

import doctest
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.datasets import load_iris

from sktopk import TopKClassifier, losses
from tests.losses import references

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "CONTRIBUTING.md"
BLOCK = re.compile(r"^```python\n# (\S+?)(?:, (?:before|after): (.+?))?\n(.*?)^```$", re.M | re.S)

pytestmark = pytest.mark.skipif(not PAGE.is_file(), reason="runs from a checkout")


def test_the_new_loss_equals_its_slow_definition_and_trains(monkeypatch):
    (_, _, code), *others = BLOCK.findall(PAGE.read_text())
    assert len(others) == 5
    for path, place, _ in others:
        lines = (ROOT / path).read_text().splitlines()
        assert sum(line.startswith(place) for line in lines) == 1, path
    new = {"__name__": "sktopk.losses.new", "__package__": "sktopk.losses"}
    exec(code, new)
    loss, module = new["topk_logistic_loss"], new["TopKLogisticLoss"]
    slow = vars(references).copy()
    exec(next(code for path, _, code in others if path.endswith("references.py")), slow)
    scores, label = torch.randn(30, 5, dtype=torch.float64), torch.arange(30) % 5
    expected = [slow["topk_logistic"](s.tolist(), y, 2) for s, y in zip(scores, label, strict=True)]
    np.testing.assert_allclose(loss(scores, label, k=2, reduction="none"), expected)
    for each in (loss, module):
        monkeypatch.setattr(losses, each.__name__, each, raising=False)
        for example in doctest.DocTestFinder().find(each, globs={}):
            assert doctest.DocTestRunner().run(example).failed == 0
    X, y = load_iris(return_X_y=True)
    clf = TopKClassifier(module(k=2), k=2, n_estimators=2, random_state=0).fit(X, y)
    assert clf.score(X, y) > 0.9
