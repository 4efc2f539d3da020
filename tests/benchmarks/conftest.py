"""The scripts beside the package import each other by name; the tests run in a checkout."""

import sys
from pathlib import Path

REPRODUCE = Path(__file__).parents[2] / "benchmarks" / "reproduce"

if REPRODUCE.is_dir():
    sys.path += [str(REPRODUCE), str(REPRODUCE.parent)]
else:
    collect_ignore_glob = ["test_*.py"]
