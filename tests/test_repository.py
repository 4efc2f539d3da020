"""Files of the repository agree with each other, and a release runs only known programs."""

import re
import tomllib
from pathlib import Path

import pytest

import sktopk

ROOT = Path(sktopk.__file__).parents[1]

pytestmark = pytest.mark.skipif(not (ROOT / ".github").exists(), reason="needs the repository")


@pytest.mark.parametrize("name", ["tests", "docs", "release"])
def test_actions_of_a_workflow_are_commits(name):
    actions = re.findall(r"uses: (.*)", (ROOT / ".github/workflows" / f"{name}.yml").read_text())
    assert actions
    assert [each for each in actions if not re.match(r"\S+@[0-9a-f]{40} # v", each)] == []


@pytest.mark.parametrize("folder", ["sktopk", "tests", "benchmarks", "examples"])
def test_torch_loads_weights_only(folder):
    for path in (ROOT / folder).rglob("*.py"):
        for call in re.findall(r"torch\.load\([^\n]*", path.read_text()):
            assert "weights_only=True" in call, path


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("CITATION.cff", "version: {}"),
        ("conda/recipe.yaml", '  version: "{}"'),
        ("CHANGELOG.md", "## {}"),
    ],
)
def test_a_file_has_the_version_of_the_package(name, line):
    assert line.format(sktopk.__version__) in (ROOT / name).read_text().splitlines()


def test_the_conda_recipe_has_the_dependencies_of_the_package():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    recipe = (ROOT / "conda" / "recipe.yaml").read_text()
    assert "torch>=2.6" in project["dependencies"]  # older ones run code of weights_only files
    for each in project["dependencies"]:
        name, least = each.replace("torch", "pytorch").split(">=")
        assert f"- {name} >={least}\n" in recipe
