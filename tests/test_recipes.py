"""The recipes of the pages train as they say: each code block is executed on digits."""

import functools
import re
from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn

import sktopk
from sktopk.metrics import topk_accuracy_score

DOCS = Path(sktopk.__file__).parents[1] / "docs"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)

pytestmark = pytest.mark.skipif(not DOCS.is_dir(), reason="runs from a checkout")


class MyNetwork(nn.Sequential):
    """The network of a reader."""

    def __init__(self, n_features, n_outputs):
        super().__init__(nn.Linear(n_features, 64), nn.ReLU(), nn.Linear(64, n_outputs))


@functools.cache
def estimators(page):
    """The variables of a page after its code blocks."""
    namespace = {"MyNetwork": MyNetwork} | {name: getattr(sktopk, name) for name in sktopk.__all__}
    for code in BLOCK.findall((DOCS / page).read_text()):
        exec(compile(code, page, "exec"), namespace)
    return namespace


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    # A network without a layer that scales its input.
    X = (X / 16).astype(np.float32)
    return train_test_split(X, y, test_size=0.5, stratify=y, random_state=0)


@pytest.mark.parametrize(
    ("page", "name"),
    [
        *(("papers.md", name) for name in ("smooth", "noised", "transition")),
        *(("losses.md", name) for name in ("alone", "adjusted", "ldam", "own")),
    ],
)
def test_top_5_accuracy_of(page, name, digits):
    X, X_test, y, y_test = digits
    scores = estimators(page)[name].fit(X, y).decision_function(X_test)
    assert topk_accuracy_score(y_test, scores, k=5) > 0.98


def test_the_ranker_of_the_papers_finds_the_eights(digits):
    X, X_test, y, y_test = digits
    ranker = estimators("papers.md")["ranker"].fit(X, y == 8)
    assert np.mean(y_test[ranker.predict_top(X_test, 80)] == 8) > 0.9
