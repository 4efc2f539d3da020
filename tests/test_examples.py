"""The examples run, with shorter training."""

import functools
import importlib.util
import re
from pathlib import Path

import pytest
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor

import sktopk

pyplot = pytest.importorskip("matplotlib.pyplot")

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))
SHORT = {"n_estimators": 2, "n_members": 2, "max_epochs": 2}
ESTIMATORS = [getattr(sktopk, name) for name in sktopk.__all__]
ESTIMATORS += [ExtraTreesClassifier, ExtraTreesRegressor]
pytestmark = pytest.mark.filterwarnings("ignore:FigureCanvasAgg is non-interactive")


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    yield
    pyplot.close("all")


def short(fit):
    """The same `fit`, with few networks, trees and epochs."""

    @functools.wraps(fit)
    def fit_shortly(self, *args, **kwargs):
        known = self.get_params(deep=False)
        self.set_params(**{name: value for name, value in SHORT.items() if name in known})
        return fit(self, *args, **kwargs)

    return fit_shortly


def load(name):
    (path,) = (path for path in EXAMPLES if path.stem == name)
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", [path.stem for path in EXAMPLES if path.stem != "demo"])
def test_an_example_runs_and_prints_its_results(name, monkeypatch, capsys):
    for each in ESTIMATORS:
        if hasattr(each, "fit"):
            monkeypatch.setattr(each, "fit", short(each.fit))
    load(name)
    assert capsys.readouterr().out


def test_the_demo_saves_a_figure_and_reports_that_sktopk_is_best(tmp_path, monkeypatch, capsys):
    demo = load("demo")
    monkeypatch.setattr(demo, "SEEDS", range(1))
    monkeypatch.setattr(demo, "N_CALIBRATIONS", 40)
    demo.main()
    assert (tmp_path / "demo.png").stat().st_size > 10_000
    text = capsys.readouterr().out
    assert re.search(r"below the best: (\w+)", text)[1] == "TopKClassifier"
    broken = dict(re.findall(r"^(quantile|sktopk) +(\d+)\.\d%", text, re.MULTILINE))
    assert int(broken["sktopk"]) <= 5 < int(broken["quantile"])
