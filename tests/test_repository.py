"""What a release is made with cannot change unseen."""

import re
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

import sktopk

ROOT = Path(sktopk.__file__).parents[1]
PINS = [ROOT / "constraints.txt", ROOT / "constraints-oldest.txt", ROOT / "requirements-build.txt"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))

pytestmark = pytest.mark.skipif(not WORKFLOWS, reason="needs the repository")


def pinned(path):
    """The versions in a file of pins, by name in lower case."""
    found = re.findall(r"^([\w.-]+)==(\S+)", path.read_text(), flags=re.MULTILINE)
    return {re.sub(r"[-_.]+", "-", name).lower(): Version(version) for name, version in found}


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_actions_are_commits(path):
    actions = re.findall(r"uses: (.*)", path.read_text())
    assert actions
    assert [each for each in actions if not re.fullmatch(r"\S+@[0-9a-f]{40} # v[\d.]+", each)] == []


def test_a_release_is_built_by_programs_with_known_hashes():
    text, versions = PINS[2].read_text(), pinned(PINS[2])
    assert len(re.findall(r"--hash=sha256:[0-9a-f]{64}\b", text)) == len(versions) > 5
    whole = pinned(PINS[0])
    assert versions == {name: whole[name] for name in versions}


def requirements():
    """What pyproject.toml asks for in all installations and in tests."""
    text = (ROOT / "pyproject.toml").read_text()
    lists = re.findall(r"^(?:dependencies|test|io|boosting|plot) = \[(.*?)\]$", text, re.M | re.S)
    found = [Requirement(each) for part in lists for each in re.findall(r'"([^"]+)"', part)]
    assert {"torch", "skops", "pytest"} < {each.name for each in found}
    return found


@pytest.mark.parametrize("path", PINS[:2], ids=lambda path: path.name)
def test_pins_satisfy_the_requirements(path):
    versions = pinned(path)
    for each in requirements():
        name = re.sub(r"[-_.\[]+", "-", each.name).lower()
        assert versions[name] in each.specifier, each


def test_no_torch_before_its_load_was_safe():
    (torch,) = (each for each in requirements() if each.name == "torch")
    assert "2.5.1" not in torch.specifier
    assert "2.6" in torch.specifier
    assert "pytorch >=2.6" in (ROOT / "conda" / "recipe.yaml").read_text()


@pytest.mark.parametrize("folder", ["sktopk", "tests", "benchmarks", "examples"])
def test_torch_loads_weights_only(folder):
    for path in (ROOT / folder).rglob("*.py"):
        for call in re.findall(r"torch\.load\([^\n]*", path.read_text()):
            assert "weights_only=True" in call, path


def test_all_files_have_the_version_of_the_package():
    files = {
        "CITATION.cff": r"^version: (\S+)$",
        "conda/recipe.yaml": r'^  version: "(\S+)"$',
        "CHANGELOG.md": r"^## (\S+)$",
    }
    found = {
        name: re.search(line, (ROOT / name).read_text(), re.MULTILINE).group(1)
        for name, line in files.items()
    }
    assert found == dict.fromkeys(files, sktopk.__version__)
