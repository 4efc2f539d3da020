"""README, chart and pages recommend the same estimator for a task."""

import ast
import re
import runpy
import tomllib
from pathlib import Path

import matplotlib.pyplot as plt
import pytest
import sklearn.ensemble
import sklearn.metrics
import sklearn.pipeline
import sklearn.preprocessing
import sklearn.svm

import sktopk
import sktopk.metrics

ROOT = Path(sktopk.__file__).parents[1]
DOCS = ROOT / "docs"
SOURCE = DOCS / "recommendations.toml"

pytestmark = pytest.mark.skipif(not SOURCE.is_file(), reason="runs from a checkout")

TASKS = tomllib.loads(SOURCE.read_text())["task"] if SOURCE.is_file() else []
KNOWN = {}
for module in (sklearn.ensemble, sklearn.pipeline, sklearn.preprocessing, sklearn.svm):
    KNOWN |= vars(module)
KNOWN |= {name: getattr(sktopk, name) for name in sktopk.__all__}
CASES = pytest.mark.parametrize("task", TASKS, ids=lambda task: task["key"])


def recommended(text):
    """The classes that a text names."""
    return {name for name in re.findall(r"\b[A-Z]\w+\b(?=\()|\b\w+Classifier\b", text)}


def rows():
    """The estimator cell of each row of Markdown tables with an estimator, by the first cell."""
    found = {}
    for page in (ROOT / "README.md", *DOCS.glob("*.md")):
        for line in page.read_text().splitlines():
            cells = [cell.strip() for cell in line.strip("|").split(" | ")]
            if line.startswith("| ") and len(cells) > 1:
                found.setdefault(cells[0], []).append((page.name, cells[1]))
    return found


@CASES
def test_the_code_makes_an_estimator_that_can_be_fitted(task):
    estimator = eval(task["code"], KNOWN | {"clf": KNOWN["ExtraTreesClassifier"]()})
    assert callable(estimator.fit)
    assert recommended(task.get("shown", "")) <= recommended(task["code"])


@CASES
def test_the_metric_exists(task):
    for node in ast.walk(ast.parse(task["metric"])):
        if isinstance(node, ast.Call):
            assert callable(getattr(sktopk.metrics, node.func.id))
        elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            sklearn.metrics.get_scorer(node.value.value)


@CASES
def test_the_page_of_the_task_exists(task):
    assert any((DOCS / f"{task['page']}{suffix}").is_file() for suffix in (".rst", ".md"))


@CASES
def test_tables_recommend_the_estimator_of_the_source(task):
    found = rows().get(task["need"], [])
    assert any(page == "README.md" for page, _ in found) == task.get("readme", True)
    for page, cell in found:
        assert recommended(cell) == recommended(task.get("shown", task["code"])), page


def test_the_readme_has_no_other_recommendations():
    text = (ROOT / "README.md").read_text().split("| you need | use |")[1].split("\n\n")[0]
    needs = [line.split(" | ")[0].strip("| ") for line in text.splitlines()[2:]]
    assert needs == [task["need"] for task in TASKS if task.get("readme", True)]


def test_the_readme_shows_the_evidence_of_the_source(monkeypatch):
    monkeypatch.syspath_prepend(DOCS / "_ext")
    from recommended_tasks import markdown_row

    text = (ROOT / "README.md").read_text()
    missing = [t["key"] for t in TASKS if t.get("readme", True) and markdown_row(t) not in text]
    assert missing == []


@pytest.fixture(scope="module")
def chart():
    """The texts of the chart from top to bottom, in the order of its columns."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(DOCS / "_ext")
        ax = runpy.run_path(str(DOCS / "plots" / "decision_chart.py"))["ax"]
    texts = sorted((text.get_position()[0], -text.get_position()[1], text) for text in ax.texts)
    yield [" ".join(text.get_text().split()) for *_, text in texts]
    plt.close("all")


@CASES
def test_the_chart_shows_the_estimator_below_the_task(task, chart):
    below = chart[chart.index(task["need"]) + 1]
    assert recommended(below) == recommended(task.get("shown", task["code"]))


def test_the_guide_and_the_front_page_show_the_source():
    pages = [DOCS / "index.rst", *(DOCS / "guide").glob("*.rst")]
    shown = [page.name for page in pages if ".. recommendations::" in page.read_text()]
    assert "index.rst" in shown
    assert len(shown) > 1
