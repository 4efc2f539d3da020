"""A part of the fuzzing of benchmarks/fuzz_load.py."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "fuzz_load.py"


@pytest.mark.skipif(not SCRIPT.is_file(), reason=f"no {SCRIPT}: runs in a checkout")
@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc and memory limits")
def test_mutated_files_do_no_harm():
    command = [sys.executable, SCRIPT, "--n-files", "500", "--seed", "1000"]
    env = os.environ | {"OMP_NUM_THREADS": "1"}
    run = subprocess.run(command, capture_output=True, text=True, env=env, timeout=300)
    assert run.returncode == 0, run.stdout + run.stderr
    assert run.stdout.startswith("500 files: ")
    assert " 0 failed; 0 processes crashed" in run.stdout
