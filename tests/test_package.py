"""What is shipped: the wheel's contents, lazy imports, documented public names."""

import ast
import importlib
import inspect
import json
import pickle
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
import torch
from torch import nn

import sktopk
from sktopk.modules import ScaledScores

ROOT = Path(sktopk.__file__).parents[1]
MODULES = [
    "sktopk",
    "sktopk.boosting",
    "sktopk.datasets",
    "sktopk.io",
    "sktopk.losses",
    "sktopk.metrics",
    "sktopk.model_selection",
    "sktopk.modules",
    "sktopk.samplers",
]
PUBLIC = [
    (name, getattr(module, name))
    for module in map(importlib.import_module, MODULES)
    for name in module.__all__
]


@pytest.mark.parametrize("name", [*MODULES[1:], "sktopk.callbacks"])
def test_importing_the_package_is_enough_for_its_modules(name):
    code = f"import sys, sktopk; assert {name} is sys.modules[{name!r}]"
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def test_the_package_has_no_other_attributes():
    with pytest.raises(AttributeError, match="module 'sktopk' has no attribute 'of_nothing'"):
        sktopk.of_nothing  # noqa: B018


@pytest.mark.parametrize(("name", "value"), PUBLIC, ids=[name for name, _ in PUBLIC])
def test_every_public_name_is_documented(name, value):
    doc = inspect.getdoc(value)
    assert doc, name
    summary = doc.split("\n\n")[0]
    assert summary.endswith("."), summary
    is_shell = ":func:`" in summary
    for section in ["Parameters"] if not is_shell else []:
        assert f"\n{section}\n---" in doc, (name, section)
    if inspect.isfunction(value):
        for section in ("Returns", "Raises"):
            assert f"\n{section}\n---" in doc, (name, section)


# The shell of a loss points to its function, which has the parameters.
WITH_PARAMETERS = [(n, v) for n, v in PUBLIC if "\nParameters\n---" in inspect.getdoc(v)]


@pytest.mark.parametrize(("name", "value"), WITH_PARAMETERS, ids=[n for n, _ in WITH_PARAMETERS])
def test_documented_parameters_are_the_real_ones(name, value):
    doc = inspect.getdoc(value)
    section = doc.split("\nParameters\n---")[1].split("\n\n")[0]
    lines = [line for line in section.splitlines()[1:] if line and not line.startswith(" ")]
    documented = [n.strip(" *") for line in lines for n in line.split(" : ")[0].split(",")]
    # A section ends at a blank line, which a parameter's text may contain.
    signature = inspect.signature(value.__init__ if inspect.isclass(value) else value)
    real = [n for n in signature.parameters if n not in ("self", "kwargs")]
    assert documented == real[: len(documented)], name


OPTIONAL = "matplotlib skops safetensors onnx onnxruntime polars hypothesis lightgbm".split()
DISPLAYS = {
    "BudgetCurveDisplay": ([1, 2], [0.5, 0.7]),
    "EnrichmentDisplay": ([0, 1], [0, 1]),
    "LossComparisonDisplay": (["a"], [0.5], [0.7]),
    "SetSizeDisplay": ([1], [2], [1.0], [0.9]),
    "ShotAccuracyDisplay": ([0.5, 0.6, 0.7],),
    "ThresholdTraceDisplay": ([1, 2], [0.5, 0.7]),
    "TopKCurveDisplay": ([1, 2], [0.5, 0.7]),
}
FRESH = """
import json, sys
before = set(sys.modules)
import sktopk
alone = sorted(set(sys.modules) - before)
import torch, sklearn
before = set(sys.modules)
from sktopk import *
added = sorted(set(sys.modules) - before)
from sktopk import io, metrics
optional = [name for name in sys.argv[1].split() if name in sys.modules]
sys.modules["matplotlib"] = None
drawn = {}
for name, arrays in json.loads(sys.argv[2]).items():
    display = getattr(metrics, name)(*arrays)
    try:
        display.plot()
    except ImportError as error:
        drawn[name] = str(error)
json.dump([alone, added, optional, drawn], sys.stdout)
"""


@pytest.fixture(scope="module")
def fresh():
    """What a new process imports with sktopk, and what its displays say without matplotlib."""
    command = [sys.executable, "-c", FRESH, " ".join(OPTIONAL), json.dumps(DISPLAYS)]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def test_importing_loads_no_optional_package(fresh):
    assert fresh[2] == []


def test_importing_loads_nothing_but_the_list_of_names(fresh):
    assert [name for name in fresh[0] if name.split(".")[0] not in sys.stdlib_module_names] == [
        "sktopk"
    ]


def test_importing_all_loads_no_slow_part_of_torch_or_scikit_learn(fresh):
    added = fresh[1]
    assert "sktopk.losses" in added
    assert [name for name in added if name.split(".")[0] == "torch"] == []
    parts = ("linear_model", "ensemble", "neural_network", "datasets")
    slow = tuple(f"sklearn.{part}" for part in parts)
    assert [name for name in added if name.startswith(slow)] == []


def test_metrics_and_decisions_load_no_torch_here_nor_in_workers():
    command = [sys.executable, "-W", "ignore", "-m", "tests.without_torch"]
    run = subprocess.run(command, cwd=Path(__file__).parents[1], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout) == [[], [], []]


@pytest.mark.parametrize("name", sktopk.__all__)
def test_public_names_are_of_the_package_wherever_they_live(name):
    value = getattr(sktopk, name)
    assert value.__module__ == "sktopk"
    assert pickle.loads(pickle.dumps(value)) is value


def test_what_is_loaded_on_demand_is_what_is_listed():
    (block,) = [n for n in ast.parse(inspect.getsource(sktopk)).body if isinstance(n, ast.If)]
    of_editors = {name.name: line.module for line in block.body for name in line.names}
    assert sktopk.__all__ == sorted(sktopk._HOMES)
    assert of_editors == {name: f"_estimators.{home}" for name, home in sktopk._HOMES.items()}
    for name, home in sktopk._HOMES.items():
        assert vars(importlib.import_module(f"sktopk._estimators.{home}"))[name] is getattr(
            sktopk, name
        )
    folder = Path(sktopk.__file__).parent
    parts = {each.stem for each in folder.iterdir() if each.name[0] != "_"} - {"py"}  # py.typed
    assert set(dir(sktopk)) == {*sktopk.__all__, *parts, "__version__"}
    assert all(getattr(sktopk, part).__name__ == f"sktopk.{part}" for part in parts)
    with pytest.raises(AttributeError, match="module 'sktopk' has no attribute 'TopKClasifier'"):
        sktopk.TopKClasifier  # noqa: B018


def test_matplotlib_is_imported_only_when_something_is_drawn(fresh):
    *_, drawn = fresh
    assert drawn == {
        name: f'{name}.plot needs matplotlib: pip install "sktopk[plot]"'
        for name in sktopk.metrics.__all__
        if name.endswith("Display")
    }


@pytest.mark.parametrize(
    ("folder", "allowed"),
    [
        ("losses", {"torch", "scipy", "sktopk.losses"}),  # HiGHS, on demand
        ("modules", {"torch"}),
        (
            "metrics",
            {"numpy", "scipy", "sklearn", "sktopk.metrics", "sktopk._common", "matplotlib"},
        ),
    ],
)
def test_layers_import_only_what_they_may(folder, allowed):
    for path in (ROOT / "sktopk" / folder).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [node.module]
            for name in names:
                known = name.split(".")[0] in {*sys.stdlib_module_names, *allowed}
                assert known or name.startswith(tuple(allowed)), (path, name)


def test_wheel_holds_only_the_package(tmp_path):
    if not (ROOT / "pyproject.toml").exists():
        pytest.skip("runs from a checkout")
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", tmp_path, ROOT],
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names}
    assert tops == {"sktopk", f"sktopk-{sktopk.__version__}.dist-info"}
    others = [n for n in names if n.startswith("sktopk/") and not n.endswith(".py")]
    assert others == ["sktopk/py.typed"]
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert any(name.endswith("sboms/sktopk.cdx.json") for name in names)  # PEP 770


def test_workflows_and_the_recipe_say_what_the_project_says():
    if not (ROOT / ".github").is_dir():
        pytest.skip("runs from a checkout")
    makefile = (ROOT / "Makefile").read_text()
    workflows = [path.read_text() for path in (ROOT / ".github" / "workflows").glob("*.yml")]
    targets = {name for text in workflows for name in re.findall(r"run: make (\S+)", text)}
    assert targets >= {"test", "test-oldest", "test-wheel", "notebooks", "test-docs", "dist"}
    for name in targets:
        assert re.search(rf"^{name}:", makefile, re.MULTILINE), name
    # What .ci/run has to pass.
    of_ci = set(re.findall(r"^make (\S+)", (ROOT / ".ci" / "run").read_text(), re.MULTILINE))
    assert of_ci <= targets
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    recipe = (ROOT / "conda" / "recipe.yaml").read_text()
    for each in project["dependencies"]:
        name, least = each.replace("torch", "pytorch").split(">=")
        assert f"- {name} >={least}\n" in recipe


def test_scaled_scores_keep_the_function_they_wrap():
    network = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    x = torch.randn(5, 3)
    before = network(x)
    torch.testing.assert_close(ScaledScores(network, 2, 30.0)(x), before)


def test_scaled_scores_leave_other_layers_alone():
    network = nn.Sequential(nn.Linear(3, 4), nn.Tanh())
    x = torch.randn(5, 3)
    before = network(x)
    torch.testing.assert_close(ScaledScores(network, 2, 30.0)(x), 30.0 * before)


def test_the_citation_is_of_this_version_and_names_the_papers():
    yaml = pytest.importorskip("yaml")
    if not (ROOT / "CITATION.cff").exists():
        pytest.skip("runs from a checkout")
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert {"cff-version", "message", "title", "authors"} <= set(citation)
    assert citation["version"] == sktopk.__version__
    assert len(citation["references"]) == 5
    docs = " ".join("".join(inspect.getdoc(value) or "" for _, value in PUBLIC).split())
    for paper in citation["references"]:
        assert {"title", "authors", "year", "notes"} <= set(paper)
        # As the docstrings have it, to which the notes point.
        assert " ".join(paper["title"].split()[:4]).lower() in docs.lower(), paper["title"]
        assert paper["notes"].split()[0].rstrip(",") in docs


def test_classifiers_are_those_that_an_index_knows():
    trove = pytest.importorskip("trove_classifiers")
    if not (ROOT / "pyproject.toml").exists():
        pytest.skip("runs from a checkout")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(project["classifiers"]) <= trove.classifiers
    assert project["authors"]
    assert project["keywords"]
