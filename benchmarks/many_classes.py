"""Thousands to a million classes: what a step, a prediction and quality cost on candidates.

    OMP_NUM_THREADS=1 python benchmarks/many_classes.py > benchmarks/results/many_classes.md

All times are CPU seconds of one thread, which other programs of the machine hardly change. The
cost of each size is measured in a process of its own; memory is the growth of its peak over what
was there after the imports and the data.

Quality: rows around 10 000 prototypes in groups of 10 similar ones, a linear model, four rows of
each class to train and one to judge, learning rates 0.01 (cross-entropy) and 0.001 (smooth top-k)
for all and sampled classes alike. "Same time": as many epochs as the time of the full loss buys.
"""

import argparse
import json
import resource
import statistics
import subprocess
import sys
import warnings
from time import process_time

import numpy as np
import torch
from sktopk._training._class_blocks import first_largest

from sktopk import TopKClassifier

LOSSES = {"cross_entropy": 1e-2, "smooth_topk": 1e-3}
SIZES = (1_000, 10_000, 100_000, 1_000_000)
BATCH, N_FEATURES, N_HIDDEN, N_CANDIDATES, K = 128, 64, 64, 1000, 5


def seconds(function, repeats):
    """Median CPU seconds of some calls after a first one."""
    function()
    found = []
    for _ in range(repeats):
        begin = process_time()
        function()
        found.append(process_time() - begin)
    return statistics.median(found)


def peak():
    """Most bytes that this process has held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def table(n_rows, n_classes):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n_rows, N_FEATURES), dtype=np.float32)
    return X, rng.integers(n_classes, size=n_rows)


def classifier(loss, n_candidates):
    return TopKClassifier(
        loss,
        k=K,
        n_candidates=n_candidates,
        hidden_layer_sizes=(N_HIDDEN,),
        batch_size=BATCH,
        random_state=0,
    )


def cost_of_step(loss, n_classes, n_candidates):
    """Milliseconds of a step and peak MB of a training."""
    X, y = table(BATCH, n_classes)
    # Training imports more.
    classifier(loss, 10).partial_fit(X, y % 50)
    before = peak()
    clf = classifier(loss, n_candidates)
    clf.partial_fit(X, y, classes=np.arange(n_classes))
    clf.net_.module_.train()
    batch = torch.from_numpy(X), (torch.from_numpy(y), None)
    slow = n_candidates is None and n_classes > 10_000
    step = seconds(lambda: clf.net_.step(batch), 2 if slow else 20)
    return {"ms": step * 1e3, "MB": (peak() - before) / 1e6}


def cost_of_prediction(way, n_classes):
    """Milliseconds per row of the five best classes."""
    n_rows = 256 if n_classes > 100_000 else 1024
    X, y = table(n_rows, n_classes)
    clf = classifier("cross_entropy", 10).partial_fit(X[:1], y[:1], classes=np.arange(n_classes))
    rows = clf.net_.rows(X)

    def all_at_once():
        for _, scores in clf.net_.score_rows(rows):
            first_largest(scores, K)

    function = all_at_once if way == "rows" else lambda: clf.predict_topk(X)
    return {"ms": seconds(function, 1 if n_classes > 100_000 else 3) / n_rows * 1e3}


def in_process(*arguments):
    """What `cost` prints in a fresh process."""
    command = [sys.executable, __file__, "--cost", json.dumps(arguments)]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)


def report_cost(sizes):
    print("## A training step\n")
    print(f"Batch {BATCH}, {N_FEATURES} features, {N_HIDDEN} hidden, Adam, float32, k = {K}.\n")
    print(
        f"| loss | classes | all: ms | {N_CANDIDATES} candidates: ms | times faster "
        "| all: peak MB | candidates: peak MB |"
    )
    print("|---|---|---|---|---|---|---|")
    for loss in LOSSES:
        for n in sizes:
            full, few = (in_process("step", loss, n, m) for m in (None, N_CANDIDATES))
            print(
                f"| {loss} | {n:,} | {full['ms']:,.1f} | {few['ms']:.1f} | "
                f"{full['ms'] / few['ms']:.1f} | {full['MB']:,.0f} | {few['MB']:,.0f} |",
                flush=True,
            )
    print("\n## The five best classes of a row\n")
    print("| classes | scores of all classes, 32 or more rows: ms per row | `predict_topk` |")
    print("|---|---|---|")
    for n in sizes:
        rows, blocks = (in_process("prediction", way, n) for way in ("rows", "blocks"))
        print(f"| {n:,} | {rows['ms']:.3f} | {blocks['ms']:.3f} |", flush=True)


def prototypes(n_classes, seed):
    """Training and test rows around prototypes, and the labels of both."""
    rng = np.random.default_rng(seed)
    centres = np.repeat(rng.standard_normal((n_classes // 10, 32)), 10, axis=0)
    centres += 0.5 * rng.standard_normal(centres.shape)
    y = rng.permutation(np.repeat(np.arange(n_classes), 5))
    X = (centres[y] + 0.9 * rng.standard_normal((len(y), 32))).astype(np.float32)
    # The last row of each class judges.
    last = np.zeros(len(y), dtype=bool)
    last[len(y) - 1 - np.unique(y[::-1], return_index=True)[1]] = True
    return X[~last], y[~last], X[last], y[last]


def quality(loss, n_candidates, epochs, data):
    """CPU seconds of the fit, top-1 and top-5 accuracy."""
    X, y, X_test, y_test = data
    clf = TopKClassifier(
        loss,
        k=K,
        n_candidates=n_candidates,
        hidden_layer_sizes=(),
        learning_rate=LOSSES[loss],
        batch_size=256,
        max_epochs=epochs,
        random_state=0,
    )
    begin = process_time()
    clf.fit(X, y)
    end = process_time()
    hit = clf.predict_topk(X_test, K) == y_test[:, np.newaxis]
    return end - begin, hit[:, 0].mean(), hit.any(axis=1).mean()


def report_quality(n_classes, n_seeds, epochs):
    print(f"\n## Quality at {n_classes:,} classes, {n_seeds} seeds\n")
    print("Mean and, in brackets, the standard error over seeds of the difference from all.\n")
    print("| loss | classes of a step | epochs | CPU s | top-1 | top-5 |")
    print("|---|---|---|---|---|---|")
    for loss in LOSSES:
        found = {}
        for seed in range(n_seeds):
            data = prototypes(n_classes, seed)
            full = quality(loss, None, epochs, data)
            few = quality(loss, n_classes // 20, epochs, data)
            longer = max(epochs, round(epochs * full[0] / few[0]))
            runs = {
                ("all", f"{epochs}"): full,
                (f"labels + {n_classes // 20}", f"{epochs}"): few,
                (f"labels + {n_classes // 5}", f"{epochs}"): quality(
                    loss, n_classes // 5, epochs, data
                ),
                (f"labels + {n_classes // 20}", "same time"): quality(
                    loss, n_classes // 20, longer, data
                ),
            }
            for name, run in runs.items():
                found.setdefault(name, []).append(run)
        base = np.array(found["all", f"{epochs}"])
        for (classes, length), runs in found.items():
            mean = np.mean(runs, axis=0)
            error = np.std(runs - base, axis=0, ddof=1) / n_seeds**0.5 if n_seeds > 1 else 0 * mean
            print(
                f"| {loss} | {classes} | {length} | {mean[0]:.1f} | {mean[1]:.3f} "
                f"({error[1]:.3f}) | {mean[2]:.3f} ({error[2]:.3f}) |",
                flush=True,
            )


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="small sizes, one seed")
    parser.add_argument("--cost", type=json.loads, help=argparse.SUPPRESS)
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    if args.cost:
        what, *rest = args.cost
        print(json.dumps({"step": cost_of_step, "prediction": cost_of_prediction}[what](*rest)))
        return
    print("# Many classes (`benchmarks/many_classes.py`)\n")
    print(f"torch {torch.__version__}, CPU time of one thread, float32\n")
    report_cost(SIZES[:2] if args.quick else SIZES)
    report_quality(*(1_000, 1, 2) if args.quick else (10_000, 3, 4))


if __name__ == "__main__":
    main()
