"""The API reference lists every public name, with its parameters and an example."""

import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import pytest

import sktopk

ROOT = Path(sktopk.__file__).parents[1]
NAMES = ["sktopk", *(f"sktopk.{each.name}" for each in pkgutil.iter_modules(sktopk.__path__))]
PUBLIC = {
    f"{module}.{name}": getattr(importlib.import_module(module), name)
    for module in NAMES
    if "._" not in module
    for name in importlib.import_module(module).__all__
}


def test_the_reference_lists_every_public_name():
    pages = ROOT / "docs" / "api"
    if not pages.is_dir():
        pytest.skip("runs from a checkout")
    listed = []
    for page in pages.glob("*.rst"):
        module = ""
        for line in page.read_text().splitlines():
            if line.startswith(".. module:: "):
                module = line.split()[-1]
            elif module and re.fullmatch(r"   \w+", line):
                listed.append(f"{module}.{line.strip()}")
    assert sorted(listed) == sorted(PUBLIC)


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_name_has_an_example_and_documents_every_parameter(name):
    value = PUBLIC[name]
    text = inspect.getdoc(value)
    assert text.split("\n\n")[0].endswith(".")
    assert ">>> " in text
    of_sklearn = name == "sktopk.make_pipeline"
    if of_sklearn or (inspect.isclass(value) and issubclass(value, (Exception, tuple))):
        return
    # The module of a loss has the parameters of its function.
    text += inspect.getdoc(getattr(value, "function", None)) or ""
    function = value.__init__ if inspect.isclass(value) else value
    parameters = set(inspect.signature(function).parameters) - {"self", "args", "kwargs"}
    documented = re.findall(r"^\*{0,2}(\w[\w, *]*?)(?: :|$)", text, re.MULTILINE)
    documented = {each.strip(" *") for names in documented for each in names.split(",")}
    assert parameters - documented == set()
