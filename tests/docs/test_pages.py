"""The pages as they are written: nothing is missing, no equation stands twice."""

import inspect
import re
from collections import Counter
from pathlib import Path

import pytest

import sktopk
from sktopk import losses

ROOT = Path(sktopk.__file__).parents[1]
DOCS = ROOT / "docs"

pytestmark = pytest.mark.skipif(not DOCS.is_dir(), reason="runs from a checkout")


def test_the_architecture_page_names_every_file_of_the_private_rooms():
    page = (DOCS / "architecture.rst").read_text()
    package = ROOT / "sktopk"
    rooms = [path for path in package.glob("_*/") if path.name != "__pycache__"]
    files = {path.name for room in rooms for path in room.rglob("_*.py")} - {"__init__.py"}
    named = set(re.findall(r"(?<!\w)(_\w+\.py)", page))
    assert files - named == set()
    assert named <= {path.name for path in package.rglob("*.py")}


def test_each_loss_has_its_equation_in_the_guide_once():
    shown = Counter()
    for page in (DOCS / "guide").glob("*.rst"):
        shown.update(re.findall(r"^\.\. formula:: (\S+)$", page.read_text(), re.MULTILINE))
    assert [name for name, times in shown.items() if times > 1] == []
    functions = {
        f"sktopk.losses.{name}"
        for name in losses.__all__
        if name.endswith("_loss") and inspect.isfunction(getattr(losses, name))
    }
    assert functions - set(shown) == set()


def test_hand_written_pages_repeat_no_equation():
    pages = [*DOCS.glob("*.md"), *DOCS.glob("*.rst"), *(DOCS / "guide").glob("*.rst")]
    for page in pages:
        text = page.read_text()
        assert "$$" not in text, page.name
        assert ".. math::" not in text, page.name
