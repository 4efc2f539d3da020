"""Pages in the sources: their code runs, and links and names exist."""

import contextlib
import doctest
import functools
import io
import re
import tomllib
import warnings
from pathlib import Path
from string import ascii_uppercase

import numpy as np
import pandas as pd
import pytest
import sklearn.datasets
import sklearn.ensemble
import sklearn.metrics
import sklearn.pipeline
import sklearn.preprocessing
import sklearn.svm
import torch
from sklearn.datasets import load_digits, load_iris
from sklearn.model_selection import train_test_split
from torch import nn

import sktopk
from sktopk import TopKClassifier, losses
from sktopk.metrics import topk_accuracy_score
from tests.losses import references

ROOT = Path(sktopk.__file__).parents[1]
DOCS = ROOT / "docs"
RUN = "compare days getting_started guide/estimator losses promises sets top top_gains".split()
FITTED = {"papers.md": ["smooth", "noised", "transition"], "loss_reference.md": ["ldam", "own"]}
WARN = ["docs/guide/estimator.md", "docs/promises.md"]  # their blocks show warnings
pytestmark = pytest.mark.skipif(not DOCS.is_dir(), reason="runs from a checkout")

BLOCK = re.compile(r"^```python\n(.*?)^```$(?:\n\n```text\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"(?:\d+\.\d+|\d+)%?")


@pytest.fixture
def _letters(request, monkeypatch):
    """Replace `fetch_openml` by a function that reads *letter* from a local copy."""

    def fetch_openml(name, *, version, return_X_y, as_frame):
        assert (name, return_X_y, as_frame) == ("letter", True, False)
        shared = request.getfixturevalue("shared")  # skips the page if there is no copy
        table = pd.read_csv(shared / "data" / "pmlb" / "letter.tsv.gz", sep="\t")
        y = table.pop("target").to_numpy()
        return table.to_numpy(float), np.array(list(ascii_uppercase))[y - y.min()]

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fetch_openml)


def numbers(text):
    """The numbers of a text; 5% is 0.05."""
    return [float(n.strip("%")) / (100 if n.endswith("%") else 1) for n in NUMBER.findall(text)]


@pytest.mark.usefixtures("_letters")
@pytest.mark.parametrize("page", ["README.md", *(f"docs/{page}.md" for page in RUN)])
def test_the_blocks_of_a_page_run_and_print_what_follows_them(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text, namespace = (ROOT / page).read_text(), {}
    blocks = BLOCK.findall(text) + re.findall(r"(?ms)^```py\n(.*?)^```$()", text)  # fragments last
    assert any(shown for _, shown in blocks)
    for code, shown in blocks:
        printed = io.StringIO()
        action = "ignore" if page in WARN else "error"
        with contextlib.redirect_stdout(printed), warnings.catch_warnings(action=action):
            exec(compile(code, page, "exec"), namespace)
        printed = printed.getvalue()
        assert NUMBER.sub("#", printed).split() == NUMBER.sub("#", shown).split()
        # The tolerances allow for CPUs that round differently.
        assert numbers(printed) == pytest.approx(numbers(shown), rel=0.05, abs=0.03)


@pytest.mark.parametrize("page", ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"])
def test_relative_links_lead_to_files(page):
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", (ROOT / page).read_text())
    assert [each for each in links if "://" not in each and not (ROOT / each).exists()] == []


class MyNetwork(nn.Sequential):
    def __init__(self, n_features, n_outputs):
        super().__init__(nn.Linear(n_features, 64), nn.ReLU(), nn.Linear(64, n_outputs))


@functools.cache
def estimators(page):
    namespace = {"MyNetwork": MyNetwork} | {name: getattr(sktopk, name) for name in sktopk.__all__}
    for code, _ in BLOCK.findall((DOCS / page).read_text()):
        exec(compile(code, page, "exec"), namespace)
    return namespace


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    # Scale X to [0, 1], because `MyNetwork` does not scale its input.
    X = (X / 16).astype(np.float32)
    return train_test_split(X, y, train_size=0.3, stratify=y, random_state=0)


@pytest.mark.parametrize(("page", "name"), [(page, n) for page in FITTED for n in FITTED[page]])
def test_classifiers_on_pages_have_a_top_5_accuracy_above_98_percent(page, name, digits):
    X, X_test, y, y_test = digits
    scores = estimators(page)[name].fit(X, y).decision_function(X_test)
    assert topk_accuracy_score(y_test, scores, k=5) > 0.98


def test_the_ranker_on_the_page_papers_finds_the_digit_eight(digits):
    X, X_test, y, y_test = digits
    ranker = estimators("papers.md")["ranker"].fit(X, y == 8)
    assert np.mean(y_test[ranker.predict_top(X_test, 80)] == 8) > 0.9


# The worked example of CONTRIBUTING.md: its code runs, and its places in files exist.

PLACED = re.compile(r"^```python\n# (\S+?)(?:, (?:before|after): (.+?))?\n(.*?)^```$", re.M | re.S)


def test_the_example_loss_of_contributing_equals_its_slow_definition_and_trains(monkeypatch):
    (_, _, code), *others = PLACED.findall((ROOT / "CONTRIBUTING.md").read_text())
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


SOURCE = DOCS / "recommendations.toml"
TASKS = tomllib.loads(SOURCE.read_text())["task"] if SOURCE.is_file() else []
KNOWN = vars(sklearn.ensemble) | vars(sklearn.pipeline) | vars(sklearn.preprocessing)
KNOWN |= vars(sklearn.svm) | {name: getattr(sktopk, name) for name in sktopk.__all__}


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task["key"])
def test_recommended_estimators_can_be_created_and_stand_on_their_page(task):
    estimator = eval(task["code"], KNOWN | {"clf": KNOWN["ExtraTreesClassifier"]()})
    assert callable(estimator.fit)
    name = task["metric"].split("(")[0].strip("\"'")
    assert hasattr(sktopk.metrics, name) or sklearn.metrics.get_scorer(name)
    (page,) = DOCS.glob(f"{task['page']}.*")
    recommended = {*re.findall(r"\w+Classifier|SVR", task["code"])}
    assert recommended - {*re.findall(r"\w+", page.read_text())} == set()


def rows(page, column):
    """The rows of the tables of a page that end with a column."""
    tables = (DOCS / page).read_text().split(f"| {column} |\n")[1:]
    return [row for table in tables for row in table.split("\n\n")[0].splitlines()[1:]]


def test_numbers_and_estimators_in_measurements_of_the_readme_stand_on_the_linked_pages():
    measured = r"^.*\[[\d.]+ (?:to|of) [\d.]+.*$"
    for row in re.findall(measured, (ROOT / "README.md").read_text(), re.M):
        pages = [(ROOT / page).read_text() for page in re.findall(r"\((docs/[^)#]+)", row)]
        texts = re.sub(r"\]\([^)]*\)|%", "", row), "".join(pages).replace("%", "")
        shown, found = ({*re.findall(rf"{NUMBER.pattern}|\w+Classifier", text)} for text in texts)
        assert shown - found == set(), row


def test_the_table_shows_all_recommended_estimators_and_front_pages_name_no_others(monkeypatch):
    monkeypatch.syspath_prepend(DOCS / "_ext")
    from recommended_tasks import markdown_row

    assert rows("measured.md", "what we measured") == [markdown_row(task) for task in TASKS]
    recommended = {*re.findall(r"\w+Classifier", SOURCE.read_text())}
    for page in ("../README.md", "index.rst", "guide/estimator.md"):
        named = {*re.findall(r"\w+Classifier", (DOCS / page).read_text())} & {*sktopk.__all__}
        assert named - recommended == set(), page
