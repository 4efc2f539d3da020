"""The code of each recommendation makes an estimator, and the README shows all of them."""

import tomllib
from pathlib import Path

import pytest
import sklearn.ensemble
import sklearn.metrics
import sklearn.pipeline
import sklearn.preprocessing
import sklearn.svm

import sktopk
import sktopk.metrics

DOCS = Path(sktopk.__file__).parents[1] / "docs"
SOURCE = DOCS / "recommendations.toml"

pytestmark = pytest.mark.skipif(not SOURCE.is_file(), reason="runs from a checkout")

TASKS = tomllib.loads(SOURCE.read_text())["task"] if SOURCE.is_file() else []
KNOWN = {}
for module in (sklearn.ensemble, sklearn.pipeline, sklearn.preprocessing, sklearn.svm):
    KNOWN |= vars(module)
KNOWN |= {name: getattr(sktopk, name) for name in sktopk.__all__}


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task["key"])
def test_the_estimator_can_be_made_and_the_metric_exists(task):
    estimator = eval(task["code"], KNOWN | {"clf": KNOWN["ExtraTreesClassifier"]()})
    assert callable(estimator.fit)
    name = task["metric"].split("(")[0].strip("\"'")
    assert hasattr(sktopk.metrics, name) or sklearn.metrics.get_scorer(name)
    assert list(DOCS.glob(f"{task['page']}.*"))


def test_the_readme_shows_the_recommendations_in_their_order(monkeypatch):
    monkeypatch.syspath_prepend(DOCS / "_ext")
    from recommended_tasks import markdown_row

    text = (DOCS.parent / "README.md").read_text().split("| you need | use |")[1].split("\n\n")[0]
    assert text.splitlines()[2:] == [markdown_row(t) for t in TASKS if t.get("readme", True)]
