"""Pages as they are written: blocks of two pages run, references lead somewhere."""

import contextlib
import io
import re
import warnings
from pathlib import Path
from string import ascii_uppercase

import numpy as np
import pandas as pd
import pytest
import sklearn.datasets

import sktopk

ROOT = Path(sktopk.__file__).parents[1]
DOCS = ROOT / "docs"
MARKDOWN = ["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"]

pytestmark = pytest.mark.skipif(not DOCS.is_dir(), reason="runs from a checkout")

BLOCK = re.compile(r"^```python\n(.*?)^```$(?:\n\n```text\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"(?:\d+\.\d+|\d+)%?")


@pytest.fixture
def _letters(request, monkeypatch):
    """`fetch_openml` reads its only dataset of the pages from a local copy."""

    def fetch_openml(name, *, version, return_X_y, as_frame):
        assert (name, return_X_y, as_frame) == ("letter", True, False)
        shared = request.getfixturevalue("shared")  # skips the page if there is no copy
        table = pd.read_csv(shared / "data" / "pmlb" / "letter.tsv.gz", sep="\t")
        y = table.pop("target").to_numpy()
        return table.to_numpy(float), np.array(list(ascii_uppercase))[y - y.min()]

    monkeypatch.setattr(sklearn.datasets, "fetch_openml", fetch_openml)


def numbers(text):
    """The numbers of a text; 5% is 0.05."""
    found = NUMBER.findall(text)
    return [float(n.strip("%")) / (100 if n.endswith("%") else 1) for n in found]


@pytest.mark.usefixtures("_letters")
@pytest.mark.parametrize("page", ["README.md", "docs/getting_started.md"])
def test_the_blocks_of_a_page_run_and_print_what_follows_them(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = BLOCK.findall((ROOT / page).read_text())
    assert len(blocks) >= 2
    namespace = {}
    for code, shown in blocks:
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), warnings.catch_warnings():
            warnings.simplefilter("error")
            exec(compile(code, page, "exec"), namespace)
        text = printed.getvalue()
        assert NUMBER.sub("#", text).split() == NUMBER.sub("#", shown).split()
        # CPUs round differently
        assert numbers(text) == pytest.approx(numbers(shown), rel=0.05, abs=0.03)


def test_the_front_page_shows_the_example_of_the_readme():
    readme = BLOCK.findall((ROOT / "README.md").read_text())[0]
    front = re.findall(
        r"^\.\. code-block:: (?:python|text)\n\n((?:   .*\n|\n)+)",
        (DOCS / "index.rst").read_text(),
        re.M,
    )
    assert [[line.strip() for line in block.split("\n") if line] for block in front] == [
        [line.strip() for line in block.split("\n") if line] for block in readme
    ]


@pytest.mark.parametrize("page", MARKDOWN)
def test_relative_links_lead_to_files(page):
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", (ROOT / page).read_text())
    assert [each for each in links if "://" not in each and not (ROOT / each).exists()] == []
