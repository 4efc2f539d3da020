"""CPU seconds of importing sktopk, compared with scikit-learn and with torch; imports take turns.

python benchmarks/import_time.py > benchmarks/results/import_time.md
"""

import argparse
import resource
import statistics
import subprocess
import sys

# Each import, and the imports that it always needs and is compared with.
IMPORTS = {
    "import sklearn": None,
    "import sktopk": "import sklearn",
    "import sklearn.metrics": None,
    "import sktopk.metrics": "import sklearn.metrics",
    "import pandas, sklearn.metrics": None,
    "from sktopk import BudgetClassifier, SetClassifier": "import pandas, sklearn.metrics",
    "import torch, skorch": None,
    "from sktopk import TopKClassifier": "import torch, skorch",
    "from sktopk import *": "import torch, skorch",
}


def cpu_seconds(code):
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return sum(after[:2]) - sum(before[:2])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=11)
    args = parser.parse_args()
    seconds = {code: [] for code in IMPORTS}
    for _ in range(args.repeats):
        for code in IMPORTS:
            seconds[code].append(cpu_seconds(code))
    median = {code: statistics.median(values) for code, values in seconds.items()}
    print("# Import time (`benchmarks/import_time.py`)\n")
    print(f"CPU seconds, medians of {args.repeats}, Python {sys.version.split()[0]}\n")
    print("| import | seconds | ratio | to |")
    print("|---|---|---|---|")
    for code, peer in IMPORTS.items():
        ratio = f"{median[code] / median[peer]:.2f} | `{peer}`" if peer else "1 | "
        print(f"| `{code}` | {median[code]:.2f} | {ratio} |")


if __name__ == "__main__":
    main()
