"""The examples run, with fewer repetitions than a reader would want."""

import functools
import importlib.util
import inspect
import re
from pathlib import Path

import pytest

import sktopk

pyplot = pytest.importorskip("matplotlib.pyplot")

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))
# What examples repeat to be sure of their numbers, by its name there.
SHORT = {"SEEDS": lambda seeds: seeds[:2], "N_CALIBRATIONS": lambda _: 20}


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    """Nothing is written into the checkout, nothing is read from data that may be there."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SKTOPK_DATA", str(tmp_path))
    yield
    pyplot.close("all")


def short(fit):
    """The same `fit`, with two networks and two epochs."""

    @functools.wraps(fit)
    def fit_shortly(self, *args, **kwargs):
        return fit(self.set_params(n_estimators=2, max_epochs=2), *args, **kwargs)

    return fit_shortly


@pytest.fixture
def _short(monkeypatch):
    for name in sktopk.__all__:
        each = getattr(sktopk, name)
        if "max_epochs" in inspect.signature(each).parameters:
            monkeypatch.setattr(each, "fit", short(each.fit))


def load(path):
    """The example as a module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# An example without main() runs when it is loaded, as in a gallery.
@pytest.mark.filterwarnings("ignore:FigureCanvasAgg is non-interactive")
@pytest.mark.usefixtures("_short")
@pytest.mark.parametrize("path", EXAMPLES, ids=[path.stem for path in EXAMPLES])
def test_runs(path, monkeypatch, capsys):
    example = load(path)
    for name, shorten in SHORT.items():
        if hasattr(example, name):
            monkeypatch.setattr(example, name, shorten(getattr(example, name)))
    if hasattr(example, "main"):
        example.main()
    assert capsys.readouterr().out


def test_the_demo_saves_its_figure_and_compares_each_estimator_on_both_tasks(
    tmp_path, monkeypatch, capsys
):
    demo = load(EXAMPLES[[path.stem for path in EXAMPLES].index("demo")])
    monkeypatch.setattr(demo, "SEEDS", range(1))
    monkeypatch.setattr(demo, "N_CALIBRATIONS", 40)
    demo.main()
    assert (tmp_path / "demo.png").stat().st_size > 10_000
    text = capsys.readouterr().out
    best, second = re.findall(r"(?:best: |estimator is )(\w[\w ]+)[.:]", text)[-2:]
    assert (best, second) == ("TopKClassifier", "SVC")
    broken = dict(re.findall(r"^(quantile|BudgetClassifier) +(\d+)%", text, re.MULTILINE))
    assert int(broken["BudgetClassifier"]) <= 5 < int(broken["quantile"])
