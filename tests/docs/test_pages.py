"""Pages as they are written: blocks of two pages run, references lead somewhere."""

import contextlib
import functools
import io
import re
import warnings
from pathlib import Path
from string import ascii_uppercase

import numpy as np
import pandas as pd
import pytest
import sklearn.datasets
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn

import sktopk
from sktopk.metrics import topk_accuracy_score

ROOT = Path(sktopk.__file__).parents[1]
DOCS = ROOT / "docs"
MARKDOWN = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"]

pytestmark = pytest.mark.skipif(not DOCS.is_dir(), reason="runs from a checkout")

BLOCK = re.compile(r"^```python\n(.*?)^```$(?:\n\n```text\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"(?:\d+\.\d+|\d+)%?")


@pytest.fixture
def _letters(request, monkeypatch):
    """`fetch_openml` reads its only dataset of the pages from a local copy."""

    def fetch_openml(name, *, version, return_X_y, as_frame):
        assert (name, return_X_y, as_frame) == ("letter", True, False)
        shared = request.getfixturevalue("shared")  # skips the page if there is no copy
        table = pd.read_csv(shared / "data" / "pmlb" / "letter.tsv.gz", sep="\t")
        y = table.pop("target").to_numpy()
        return table.to_numpy(float), np.array(list(ascii_uppercase))[y - y.min()]

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fetch_openml)


def numbers(text):
    """The numbers of a text; 5% is 0.05."""
    found = NUMBER.findall(text)
    return [float(n.strip("%")) / (100 if n.endswith("%") else 1) for n in found]


@pytest.mark.usefixtures("_letters")
@pytest.mark.parametrize("page", ["README.md", "docs/getting_started.md"])
def test_the_blocks_of_a_page_run_and_print_what_follows_them(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = BLOCK.findall((ROOT / page).read_text())
    assert len(blocks) >= 2
    namespace = {}
    for code, shown in blocks:
        if page == "README.md":
            namespace = {}  # each example runs alone
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), warnings.catch_warnings():
            warnings.simplefilter("error")
            exec(compile(code, page, "exec"), namespace)
        text = printed.getvalue()
        assert NUMBER.sub("#", text).split() == NUMBER.sub("#", shown).split()
        # CPUs round differently
        assert numbers(text) == pytest.approx(numbers(shown), rel=0.05, abs=0.03)


def test_the_front_page_shows_the_example_of_the_readme():
    readme = BLOCK.findall((ROOT / "README.md").read_text())[0]
    front = re.findall(
        r"^\.\. code-block:: (?:python|text)\n\n((?:   .*\n|\n)+)",
        (DOCS / "index.rst").read_text(),
        re.M,
    )
    assert [[line.strip() for line in block.split("\n") if line] for block in front] == [
        [line.strip() for line in block.split("\n") if line] for block in readme
    ]


@pytest.mark.parametrize("page", MARKDOWN)
def test_relative_links_lead_to_files(page):
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", (ROOT / page).read_text())
    assert [each for each in links if "://" not in each and not (ROOT / each).exists()] == []


class MyNetwork(nn.Sequential):
    """The network of a reader."""

    def __init__(self, n_features, n_outputs):
        super().__init__(nn.Linear(n_features, 64), nn.ReLU(), nn.Linear(64, n_outputs))


@functools.cache
def estimators(page):
    """The variables of a page after its code blocks."""
    namespace = {"MyNetwork": MyNetwork} | {name: getattr(sktopk, name) for name in sktopk.__all__}
    for code, _ in BLOCK.findall((DOCS / page).read_text()):
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
        *(("losses.md", name) for name in ("alone", "adjusted", "ldam")),
        ("loss_reference.md", "own"),
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
