"""The script for a GPU runs; its figures mean something on a GPU alone."""

import os
import subprocess
import sys

from tests.gpu import ROOT


def test_the_benchmark_runs_small_on_a_cpu(tmp_path):
    output = tmp_path / "gpu.md"
    subprocess.run(
        [sys.executable, "benchmarks/gpu.py", "--device=cpu", "--quick", f"--output={output}"],
        cwd=ROOT,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)},
        check=True,
        timeout=300,
        capture_output=True,
    )
    lines = [line for line in output.read_text().splitlines() if line.startswith("|")]
    assert {line.count("|") for line in lines} == {8}
    text = "\n".join(lines)
    for name in ("tests marked gpu", "epoch, DeepTopPush", "| smooth_topk_loss, ms | 256 x 100"):
        assert name in text
    assert "nan" not in text
