"""What `import sktopk` costs over importing torch and scikit-learn: CPU seconds, interleaved.

python benchmarks/import_time.py > benchmarks/results/import_time.md
"""

import argparse
import resource
import statistics
import subprocess
import sys

IMPORTS = {
    "torch and scikit-learn": "import torch, sklearn",
    "sktopk": "import sktopk",
    "sktopk and all its parts": (
        "import sktopk, sktopk.losses, sktopk.metrics, sktopk.modules, sktopk.samplers"
    ),
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
    seconds = {name: [] for name in IMPORTS}
    for _ in range(args.repeats):
        for name, code in IMPORTS.items():
            seconds[name].append(cpu_seconds(code))
    print("# Import time (`benchmarks/import_time.py`)\n")
    print(f"CPU seconds, medians of {args.repeats}, Python {sys.version.split()[0]}\n")
    print("| import | seconds | ratio (aim 1.15) |")
    print("|---|---|---|")
    base = seconds["torch and scikit-learn"]
    for name, values in seconds.items():
        ratio = statistics.median(a / b for a, b in zip(values, base, strict=True))
        print(f"| {name} | {statistics.median(values):.2f} | {ratio:.2f} |")


if __name__ == "__main__":
    main()
