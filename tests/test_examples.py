"""The examples run, with fewer repetitions than a reader would want."""

import importlib.util
import re
import runpy
import sys
from pathlib import Path

import pytest

pyplot = pytest.importorskip("matplotlib.pyplot")

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))
# What examples do at length to be sure of their numbers, by the name they give it.
SHORT = {
    "SEEDS": lambda seeds: seeds[:1],
    "GRID": lambda grid: {name: values[:1] for name, values in grid.items()},
    "SETTINGS": lambda settings: {k: {**v, "max_epochs": 2} for k, v in settings.items()},
}


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    """Nothing is written into the checkout, nothing read from data that may be there."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SKTOPK_DATA", str(tmp_path))
    yield
    pyplot.close("all")


def load(path):
    """The example as a module, with two epochs wherever it says how many."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    code = re.sub(r'(max_epochs(?:=|": ))\d+', r"\g<1>2", path.read_text())
    exec(compile(code, path, "exec"), vars(module))
    return module


# An example without main() runs when it is loaded, as in a gallery.
@pytest.mark.filterwarnings("ignore:FigureCanvasAgg is non-interactive")
@pytest.mark.parametrize("path", EXAMPLES, ids=[path.stem for path in EXAMPLES])
def test_runs(path, monkeypatch, capsys):
    example = load(path)
    for name, shorten in SHORT.items():
        if hasattr(example, name):
            monkeypatch.setattr(example, name, shorten(getattr(example, name)))
    if hasattr(example, "main"):
        example.main()
    assert capsys.readouterr().out


@pytest.mark.filterwarnings("ignore:FigureCanvasAgg is non-interactive")
def test_a_fixed_threshold_diverges_and_one_with_its_gradient_settles(tmp_path, monkeypatch):
    (path,) = (path for path in EXAMPLES if path.stem == "threshold_gradient")
    picture = tmp_path / "picture.png"
    monkeypatch.setattr(sys, "argv", [str(path), str(picture)])
    traces = runpy.run_path(str(path), run_name="__main__")["traces"]
    assert picture.stat().st_size > 10_000

    norms, losses = traces["largest negative, fixed"]
    n = len(norms)
    # Both still grow at the end as fast as they did in the middle.
    for values in (norms, losses):
        late, early = values[-1] - values[n // 2], values[n // 2] - values[0]
        assert late > 0.9 * early > 1
    norms, losses = traces["largest negative"]
    assert max(norms[n // 2 :]) < 0.3 < norms[0]
    assert max(losses[n // 2 :]) < 1.5 < losses[0]
    _, losses = traces["second largest negative"]
    assert losses[-1] < 0.3
