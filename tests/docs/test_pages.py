"""Pages as they are written: blocks of two pages run, references lead somewhere."""

import ast
import contextlib
import io
import re
import warnings
from pathlib import Path
from pydoc import locate
from string import ascii_uppercase

import numpy as np
import pandas as pd
import pytest
import sklearn.datasets

import sktopk
from sktopk import losses

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


def targets(page, text):
    """The files that relative Markdown links and :doc: roles of a page lead to."""
    for link in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text) if page.suffix == ".md" else ():
        if "://" not in link:
            yield link, page.parent / link
    for link in re.findall(r"(?::doc:|{doc})`(?:[^`<]*<)?([^`>]+)>?`", text):
        base = DOCS if link.startswith("/") else page.parent
        path = base / link.lstrip("/")
        yield link, path
        if "gallery" in path.parts:  # made of examples
            inside = path.parts[path.parts.index("gallery") + 1 :]
            yield link, ROOT.joinpath("examples", *inside)


def exists(path):
    candidates = [path, *(Path(f"{path}{suffix}") for suffix in (".rst", ".md", ".py"))]
    return any(each.exists() for each in candidates) or (
        path.name == "index" and (path.parent / "GALLERY_HEADER.rst").exists()
    )


def pages():
    own = [*DOCS.glob("*.md"), *DOCS.glob("*.rst"), *DOCS.glob("[ageb]*/*.rst")]
    own = [page for page in own if "generated" not in page.parts and "gallery" not in page.parts]
    return [*own, *DOCS.glob("evidence/*.md"), *(ROOT / name for name in MARKDOWN)]


def test_links_lead_to_files():
    broken = []
    for page in pages():
        found = {}
        for link, path in targets(page, page.read_text()):
            found[link] = found.get(link, False) or exists(path)
        broken += [(page.name, link) for link, there in found.items() if not there]
    assert broken == []


def test_names_of_the_package_exist():
    missing = [
        (page.name, name)
        for page in pages()
        for name in re.findall(
            r":(?:class|func|meth|mod|attr):`~?(sktopk[\w.]*)`|(?<=formula:: )(sktopk[\w.]*)",
            page.read_text(),
        )
        for name in name
        if name and locate(name) is None
    ]
    assert missing == []


def test_the_guide_has_at_most_twelve_pages():
    text = (DOCS / "guide" / "index.rst").read_text()
    lists = re.findall(r"^\.\. toctree::\n((?:   .*\n|\n)+)", text + "\n", re.MULTILINE)
    assert len(lists) == 5  # start, labels, ranking, thresholds and sets, deployment
    entries = [line.strip() for each in lists for line in each.splitlines()]
    entries = [line for line in entries if line and not line.startswith(":")]
    assert 10 <= len(entries) <= 12
    assert all(exists(DOCS / "guide" / entry) for entry in entries)


GALLERY = [
    path
    for path in sorted((ROOT / "examples").rglob("*.py"))
    if path.stem != "demo" and "scale" not in path.parts
]


@pytest.mark.parametrize("path", GALLERY, ids=[path.stem for path in GALLERY])
def test_an_example_states_its_result_first(path):
    tree = ast.parse(path.read_text())
    assert "Result: " in ast.get_docstring(tree)


@pytest.mark.parametrize("path", GALLERY, ids=[path.stem for path in GALLERY])
def test_the_thumbnail_of_an_example_has_one_panel(path):
    text = path.read_text()
    figures = re.findall(r"plt\.subplots\(([^)]*)\)|\.from_estimator", text)
    number = re.search(r"sphinx_gallery_thumbnail_number = (\d+)", text)
    shown = figures[int(number.group(1)) - 1 if number else 0]
    assert not re.match(r"\d", shown)


def test_each_loss_has_its_equation_in_the_guide_once():
    text = "".join(page.read_text() for page in (DOCS / "guide").glob("*.rst"))
    shown = [
        each for each in re.findall(r"^\.\. formula:: sktopk\.losses\.(\w+_loss)$", text, re.M)
    ]
    functions = [name for name in losses.__all__ if name.endswith("_loss")]
    assert sorted(shown) == sorted(functions)
