"""Arrays of other libraries where scikit-learn dispatches on the library of an array."""

import os
import subprocess
import sys

import numpy as np
import pytest

from sktopk import TopKClassifier
from sktopk.metrics import precision_at_k_score, topk_accuracy_score

xp = pytest.importorskip("array_api_strict")


def test_arrays_of_other_libraries_are_answered_as_those_of_numpy():
    from tests.with_array_api import QUESTIONS

    # SciPy reads the variable when it is imported.
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "tests.with_array_api"],
        env={**os.environ, "SCIPY_ARRAY_API": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[-1]) == len(QUESTIONS)


@pytest.mark.parametrize(
    ("name", "use"),
    [
        ("y_score", lambda y, s: precision_at_k_score(np.arange(6) % 2, s[:, 0], k=2)),
        ("y_score", lambda y, s: topk_accuracy_score(np.arange(6) % 3, s, k=2)),
        ("y_true", lambda y, s: topk_accuracy_score(y, np.eye(6)[:, :3], k=2)),
        ("X", lambda y, s: TopKClassifier(k=2).fit(s, np.arange(6) % 3)),
        ("y", lambda y, s: TopKClassifier(k=2).fit(np.eye(6), y)),
    ],
)
def test_an_array_on_another_device_is_refused_by_name(name, use):
    """As CuPy's are, which NumPy cannot read either; with dispatch on they are copied."""
    elsewhere = xp.Device("device1")
    y = xp.asarray(np.arange(6) % 3, device=elsewhere)
    scores = xp.asarray(np.eye(6)[:, :3], device=elsewhere)
    with pytest.raises(TypeError, match=rf"^{name} must be .* array_api_strict.* on .*device1"):
        use(y, scores)
