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
    """Make the changes of the page in a copy of the checkout; return the files it names."""
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


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    folder = tmp_path_factory.mktemp("copy")
    ignore = shutil.ignore_patterns("__pycache__", "docs", "baseline*")
    for name in ("sktopk", "tests"):
        shutil.copytree(ROOT / name, folder / name, ignore=ignore)
    shutil.copy(ROOT / "pyproject.toml", folder)
    return folder


def run(folder, *arguments):
    environment = os.environ | {"PYTHONPATH": str(folder), "OMP_NUM_THREADS": "1"}
    return subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, capture_output=True, text=True
    )


def test_the_new_loss_answers_every_question_and_trains(copy):
    changed = apply(copy)
    assert len(set(changed)) == 5, changed
    result = run(
        copy,
        *("-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/losses/test_losses.py"),
        *("tests/losses/test_losses_interface.py", "sktopk/losses/_topk_logistic.py"),
        *("-k", "logistic and not compiles"),
    )
    assert result.returncode == 0, result.stdout[-3000:]
    passed = int(re.search(r"(\d+) passed", result.stdout).group(1))
    assert passed > 30, result.stdout[-3000:]

    result = run(
        copy,
        "-c",
        "from sklearn.datasets import load_iris; from sktopk import TopKClassifier\n"
        "from sktopk.metrics import make_topk_scorer\n"
        "X, y = load_iris(return_X_y=True)\n"
        "clf = TopKClassifier('topk_logistic', k=2, hidden_layer_sizes=(), random_state=0)\n"
        "print(make_topk_scorer(2)(clf.fit(X, y), X, y))",
    )
    assert float(result.stdout) > 0.9, result.stderr[-3000:]
