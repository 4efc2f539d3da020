"""The API reference: every public name is listed, has its parameters and an example."""

import importlib
import inspect
import re
from pathlib import Path

import pytest

import sktopk

ROOT = Path(sktopk.__file__).parents[1]
MODULES = [
    "sktopk",
    "sktopk.boosting",
    "sktopk.callbacks",
    "sktopk.datasets",
    "sktopk.io",
    "sktopk.losses",
    "sktopk.metrics",
    "sktopk.model_selection",
    "sktopk.modules",
    "sktopk.samplers",
]
PUBLIC = {
    f"{module}.{name}": getattr(importlib.import_module(module), name)
    for module in MODULES
    for name in importlib.import_module(module).__all__
}
every_name = pytest.mark.parametrize("name", PUBLIC)


def test_the_reference_lists_every_public_name():
    pages = ROOT / "docs" / "api"
    if not pages.is_dir():
        pytest.skip("runs from a checkout")
    listed = []
    for page in pages.glob("*.rst"):
        module = ""
        for line in page.read_text().splitlines():
            if line.startswith((".. module:: ", ".. currentmodule:: ")):
                module = line.split()[-1]
            elif module and re.fullmatch(r"   \w+", line):
                listed.append(f"{module}.{line.strip()}")
    assert sorted(listed) == sorted(PUBLIC)


@every_name
def test_has_an_example(name):
    assert ">>> " in PUBLIC[name].__doc__


@every_name
def test_documents_every_parameter(name):
    value = PUBLIC[name]
    of_sklearn = name == "sktopk.make_pipeline"
    if of_sklearn or (inspect.isclass(value) and issubclass(value, (Exception, tuple))):
        return
    text = inspect.getdoc(value)
    # The module of a loss has the parameters of its function.
    text += inspect.getdoc(getattr(value, "function", None)) or ""
    function = value.__init__ if inspect.isclass(value) else value
    parameters = set(inspect.signature(function).parameters) - {"self", "args", "kwargs"}
    documented = re.findall(r"^\*{0,2}(\w[\w, *]*?)(?: :|$)", text, re.MULTILINE)
    documented = {each.strip(" *") for names in documented for each in names.split(",")}
    assert parameters - documented == set()
