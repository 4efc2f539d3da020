"""The contents of the wheel, lazy imports, public names, and files that agree with each other."""

import json
import pickle
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import sktopk

ROOT = Path(sktopk.__file__).parents[1]
PARTS = "boosting callbacks datasets io losses metrics model_selection modules samplers".split()
checkout = pytest.mark.skipif(not (ROOT / ".github").exists(), reason="no checkout")
FRESH = """
import json, sys
before = set(sys.modules)
import sktopk
alone = sorted(set(sys.modules) - before)
for name in sys.argv[2].split():
    assert getattr(sktopk, name.split(".")[1]) is sys.modules[name]
import torch, sklearn
before = set(sys.modules)
from sktopk import *
added = sorted(set(sys.modules) - before)
from sktopk import io, metrics
optional = [name for name in sys.argv[1].split() if name in sys.modules]
sys.modules["matplotlib"] = None
drawn = {}
for name in sys.argv[3].split():
    display = getattr(metrics, name)
    try:
        display.__new__(display).plot()
    except ImportError as error:
        drawn[name] = str(error)
json.dump([alone, added, optional, drawn], sys.stdout)
"""


def test_importing_sktopk_imports_no_optional_and_no_slow_modules():
    parts = " ".join(f"sktopk.{part}" for part in PARTS)
    displays = [name for name in dir(sktopk.metrics) if name.endswith("Display")]
    optional = "matplotlib skops onnx onnxruntime polars hypothesis lightgbm"
    command = [sys.executable, "-c", FRESH, optional, parts, " ".join(displays)]
    run = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT)
    alone, added, optional, drawn = json.loads(run.stdout)
    known = sys.stdlib_module_names
    assert [name for name in alone if name.split(".")[0] not in known] == ["sktopk"]
    slow = {f"sklearn.{part}" for part in "linear_model ensemble neural_network datasets".split()}
    assert slow.isdisjoint(added)
    assert optional == []
    message = '{}.plot needs matplotlib: pip install "sktopk[plot]"'
    assert drawn == {name: message.format(name) for name in displays}


def test_metrics_and_decisions_import_no_torch_also_in_worker_processes():
    command = [sys.executable, "-W", "ignore", "-m", "tests.without_torch"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout) == [[], [], []]


def test_a_missing_dependency_is_named():
    code = "import inspect, sys; m = sys.modules; m['torch'] = None; import sktopk; del m['torch']"
    code += "; inspect.getmembers(sktopk); assert 'torch' not in m"
    code += "; m['torch'] = None; sktopk.TopKClassifier"
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert "ImportError: sktopk.TopKClassifier needs torch: pip install it first" in run.stderr


def test_public_names_have_sktopk_as_their_module():
    for name in sktopk.__all__:
        value = getattr(sktopk, name)
        assert value.__module__ == "sktopk"
        assert pickle.loads(pickle.dumps(value)) is value
    folder = Path(sktopk.__file__).parent
    parts = {each.stem for each in folder.iterdir() if each.name[0] != "_"} - {"py"}  # py.typed
    assert set(dir(sktopk)) == {*sktopk.__all__, *parts, "__version__"}
    assert sorted(sktopk.__all__) == sktopk.__all__
    with pytest.raises(AttributeError, match="module 'sktopk' has no attribute 'TopKClasifier'"):
        sktopk.TopKClasifier  # noqa: B018


@checkout
def test_wheel_holds_only_the_package(tmp_path):
    command = ["-m", "build", "--wheel", "--no-isolation", "--outdir", tmp_path, ROOT]
    subprocess.run([sys.executable, *command], check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names}
    assert tops == {"sktopk", f"sktopk-{sktopk.__version__}.dist-info"}
    others = [n for n in names if n.startswith("sktopk/") and not n.endswith(".py")]
    assert others == ["sktopk/py.typed"]
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert any(name.endswith("sboms/sktopk.cdx.json") for name in names)  # PEP 770


@checkout
def test_citation_recipe_and_changelog_have_the_version_of_the_package():
    for name, line in {
        "CITATION.cff": "version: {}",
        "conda/recipe.yaml": '  version: "{}"',
        "CHANGELOG.md": "## {}",
    }.items():
        assert line.format(sktopk.__version__) in (ROOT / name).read_text().splitlines(), name


@checkout
def test_the_conda_recipe_has_the_dependencies_of_the_package():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    recipe = (ROOT / "conda" / "recipe.yaml").read_text()
    assert "torch>=2.8" in project["dependencies"]  # torch before 2.6 runs code in files
    for each in project["dependencies"]:
        name, least = each.replace("torch", "pytorch").split(">=")
        assert f"- {name} >={least}\n" in recipe
