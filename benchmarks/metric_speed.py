"""Speed and memory of top-k accuracy against one numpy.partition pass over the same scores.

The partition is the pass that finding each row's k largest scores would need. It runs both over
the whole array (a copy of all scores) and over chunks of 256 rows; the ratio is to the faster.
"""

import argparse
import statistics
import time
import tracemalloc

import numpy as np

from sktopk.metrics import topk_accuracy_score


def generate(n_samples, n_classes, rng):
    """Return labels and float32 scores, written in place."""
    y_score = np.empty((n_samples, n_classes), dtype=np.float32)
    rng.standard_normal(out=y_score, dtype=np.float32)
    return rng.integers(n_classes, size=n_samples), y_score


def partition_in_chunks(y_score, k, n_rows=256):
    for start in range(0, len(y_score), n_rows):
        np.partition(y_score[start : start + n_rows], -k, axis=1)


def seconds(run):
    start = time.perf_counter()
    run()
    return time.perf_counter() - start


def peak_memory(run):
    tracemalloc.start()
    run()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n-samples", type=int, default=1_000_000)
    parser.add_argument("--n-classes", type=int, default=1_000)
    parser.add_argument("--k", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()

    y_true, y_score = generate(args.n_samples, args.n_classes, np.random.default_rng(0))
    labels, k = np.arange(args.n_classes), args.k
    runs = {
        "numpy.partition, whole array": lambda: np.partition(y_score, -k, axis=1),
        "numpy.partition, 256 rows": lambda: partition_in_chunks(y_score, k),
    }
    for average in ("micro", "macro"):
        runs[f"topk_accuracy_score, {average}"] = lambda average=average: topk_accuracy_score(
            y_true, y_score, k=k, labels=labels, average=average
        )
    # Taken in turns: a slow minute of the machine then touches all of them.
    times = {name: [] for name in runs}
    for _ in range(args.repeats):
        for name, run in runs.items():
            times[name].append(seconds(run))
    median = {name: statistics.median(values) for name, values in times.items()}
    best_partition = min(value for name, value in median.items() if "partition" in name)

    print(
        f"{args.n_samples:,} x {args.n_classes:,} float32 scores ({y_score.nbytes / 1e6:,.0f} MB), "
        f"k = {k}, median of {args.repeats}\n"
    )
    print("| | seconds | ratio to the faster partition (aim 1.2) | extra MB |")
    print("|---|---|---|---|")
    for name, run in runs.items():
        print(
            f"| {name} | {median[name]:.3f} | {median[name] / best_partition:.2f} "
            f"| {peak_memory(run) / 1e6:.1f} |"
        )


if __name__ == "__main__":
    main()
