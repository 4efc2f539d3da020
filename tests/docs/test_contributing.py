"""The worked example of CONTRIBUTING.md, applied to a copy of the package."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "CONTRIBUTING.md"
BLOCK = re.compile(
    r"^```python\n# (?P<path>\S+?)(?:, (?P<where>before|after): (?P<anchor>.+?))?\n"
    r"(?P<code>.*?)^```$",
    re.MULTILINE | re.DOTALL,
)

pytestmark = pytest.mark.skipif(not PAGE.is_file(), reason="runs from a checkout")


def apply(folder):
    """Make the changes of the page in a copy of the checkout; return the files."""
    changed = []
    for path, where, anchor, code in BLOCK.findall(PAGE.read_text()):
        file = folder / path
        if where:
            text = file.read_text()
            (line,) = (line for line in text.splitlines(True) if line.startswith(anchor))
            file.write_text(text.replace(line, line + code if where == "after" else code + line, 1))
        else:
            assert not file.exists()
            file.write_text(code)
        changed.append(path)
    return changed


# In a process that imports the copy.
CODE = """
import pytest
from sklearn.datasets import load_iris

code = pytest.main([
    "-q", "-p", "no:cacheprovider", "-k", "logistic and not compiles",
    "tests/losses/test_every_loss.py", "tests/losses/test_interface.py",
    "sktopk/losses/_topk_logistic.py",
])
from sktopk import TopKClassifier
from sktopk.metrics import make_topk_scorer

X, y = load_iris(return_X_y=True)
clf = TopKClassifier("topk_logistic", k=2, n_estimators=2, random_state=0)
print("score", make_topk_scorer(2)(clf.fit(X, y), X, y))
raise SystemExit(code)
"""


def test_the_new_loss_passes_the_tests_of_losses_and_trains(tmp_path):
    ignore = shutil.ignore_patterns("__pycache__", "docs", "baseline*")
    for name in ("sktopk", "tests"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=ignore)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    assert len(set(apply(tmp_path))) == 5
    environment = os.environ | {"PYTHONPATH": str(tmp_path), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", CODE]
    run = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
    said = run.stdout[-3000:] + run.stderr[-3000:]
    assert run.returncode == 0, said
    assert int(re.search(r"(\d+) passed", run.stdout).group(1)) > 20, said
    assert float(re.search(r"score (\S+)", run.stdout).group(1)) > 0.9, said
