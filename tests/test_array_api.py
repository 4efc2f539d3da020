"""Arrays of other libraries where scikit-learn dispatches on the library of an array."""

import os
import subprocess
import sys

import pytest

pytest.importorskip("array_api_strict")


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
