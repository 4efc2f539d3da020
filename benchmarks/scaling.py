"""Time of an epoch by number of samples, features and classes, by batch size and by k.

One size is varied, and the others have a moderate value. Seconds are the median of several epochs
after a first one, on one thread. The exponent p of seconds ~ size^p is fitted by least squares to
the larger half of the sizes, where the fixed cost of a step is small. The last column is the size
at which an epoch takes 36 seconds by this fit, which means 100 epochs in an hour.

    python benchmarks/scaling.py             # about ten minutes
    python benchmarks/scaling.py --report    # the page and the figure from the CSV
"""

import argparse
import warnings
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
import torch

from sktopk import (
    AUCClassifier,
    DeepTopPushClassifier,
    FScoreClassifier,
    PatMatClassifier,
    RecallAtPrecisionClassifier,
    TopKClassifier,
    TopPushKClassifier,
)

RESULTS = Path(__file__).parent / "results"
SENSIBLE = 36.0
# With a smaller exponent, an epoch counts as independent of the size.
GROWS = 0.2
MARKERS = "osv^D<>Pp*Xh" * 2
LABELS = {
    "cross-entropy": lambda k: TopKClassifier("cross_entropy", k=k),
    "smooth top-k": lambda k: TopKClassifier("smooth_topk", k=k),
    "noised top-k": lambda k: TopKClassifier("noised_topk", k=k),
    "top-k hinge, convex": lambda k: TopKClassifier("topk_hinge_convex", k=k),
}
RANKERS = {
    "DeepTopPush": lambda k: DeepTopPushClassifier(),
    "PatMat": lambda k: PatMatClassifier(),
    "AUC": lambda k: AUCClassifier(),
    "F-score": lambda k: FScoreClassifier(),
    "recall at precision": lambda k: RecallAtPrecisionClassifier(),
}
K_OF_A_RANKER = {"TopPushK": lambda k: TopPushKClassifier(k=k)}

# For each varied size: its values, sizes that differ from BASE, and the measured estimators.
BASE = {"rows": 8192, "features": 50, "classes": 10, "batch": 128, "k": 5}
AXES = {
    "rows": ([1_000, 4_000, 16_000, 64_000, 256_000], {}, LABELS | RANKERS),
    "features": ([10, 100, 1_000, 10_000], {"rows": 4096}, LABELS | RANKERS),
    "classes": ([10, 100, 1_000, 10_000, 100_000], {"rows": 2048}, LABELS),
    "batch": ([32, 128, 512, 2048, 8192], {"rows": 16_384}, LABELS | RANKERS),
    "k": (
        [1, 3, 10, 30, 100, 300],
        {"rows": 4096, "classes": 1000, "batch": 1024},
        LABELS | K_OF_A_RANKER,
    ),
}


def table(size, binary):
    """Return samples and labels. With two classes, a tenth of the samples is positive."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((size["rows"], size["features"]), dtype=np.float32)
    if binary:
        score = X[:, 0] + rng.standard_normal(size["rows"])
        return X, score > np.quantile(score, 0.9)
    # If there are more classes than samples, the other classes have no samples.
    return X, np.arange(size["rows"]) * size["classes"] // size["rows"]


def seconds_per_epoch(make, size, binary):
    """Return the median seconds of the epochs after the first."""
    X, y = table(size, binary)
    clf = make(size["k"]).set_params(batch_size=size["batch"], device="cpu", random_state=0)
    if binary or size["classes"] <= size["rows"]:
        clf.set_params(max_epochs=4).fit(X, y)
    else:
        for _ in range(3):
            clf.partial_fit(X, y, classes=np.arange(size["classes"]))
    return float(np.median([row["dur"] for row in clf.history_[1:]]))


def measure(csv):
    rows = []
    for axis, (sizes, others, estimators) in AXES.items():
        for name, make in estimators.items():
            for value in sizes:
                size = BASE | others | {axis: value}
                seconds = seconds_per_epoch(make, size, name in RANKERS | K_OF_A_RANKER)
                rows.append({"axis": axis, "estimator": name, "size": value, "seconds": seconds})
                print(f"{axis} {value}: {name} {seconds:.4f} s", flush=True)
                pd.DataFrame(rows).to_csv(csv, index=False)


def exponent(sizes, seconds):
    """Return slope and intercept of log seconds by log size, for the larger half of the sizes."""
    half = max(0, min(len(sizes) // 2, len(sizes) - 2))
    return np.polyfit(np.log(sizes[half:]), np.log(seconds[half:]), 1)


def sensible_size(sizes, seconds):
    """Return the size at which an epoch takes 36 seconds, or "" if far from measured sizes."""
    slope, intercept = exponent(sizes, seconds)
    size = np.exp((np.log(SENSIBLE) - intercept) / slope) if slope > GROWS else np.inf
    return f"{size:.0e}" if size < 300 * max(sizes) else ""


def report(csv):
    frame = pd.read_csv(csv)
    lines = [
        "# Seconds per epoch by size of data, batch and k (`benchmarks/scaling.py`)",
        "",
        f"torch {torch.__version__}, 1 thread, float32. Held fixed: "
        + ", ".join(f"{name} {value}" for name, value in BASE.items())
        + "; "
        + "; ".join(
            f"against {axis}: " + ", ".join(f"{name} {value}" for name, value in others.items())
            for axis, (_, others, _) in AXES.items()
            if others
        )
        + ".",
        "",
        "| against | estimator | smallest | s | largest | s | exponent | 36 s at |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for (axis, name), group in frame.groupby(["axis", "estimator"], sort=False):
        sizes, seconds = group["size"].to_numpy(), group["seconds"].to_numpy()
        slope, at = exponent(sizes, seconds)[0], sensible_size(sizes, seconds)
        lines.append(
            f"| {axis} | {name} | {sizes[0]} | {seconds[0]:.3g} | {sizes[-1]} | {seconds[-1]:.3g} "
            f"| {slope:.2f} | {at} |"
        )
    csv.with_suffix(".md").write_text("\n".join(lines) + "\n")
    draw(frame, csv.with_suffix(".png"))


def draw(frame, path):
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    names = list(dict.fromkeys(frame["estimator"]))
    styles = dict(zip(names, zip(plt.cm.tab20.colors, MARKERS, strict=False), strict=False))
    figure, axes = plt.subplots(2, 3, figsize=(13, 8), layout="constrained")
    for panel, axis in zip(axes.flat[:-1], AXES, strict=True):
        for name, group in frame[frame["axis"] == axis].groupby("estimator", sort=False):
            color, marker = styles[name]
            panel.loglog(
                group["size"], group["seconds"], color=color, marker=marker, ms=4, label=name
            )
        panel.axhline(SENSIBLE, color="0.5", ls=":", lw=1)
        panel.set(xlabel="batch size" if axis == "batch" else axis, ylabel="seconds per epoch")
    handles = {
        label: handle
        for panel in axes.flat
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True)
    }
    axes.flat[-1].axis("off")
    axes.flat[-1].legend(handles.values(), handles.keys(), loc="center", frameon=False)
    figure.savefig(path, dpi=120)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--report", action="store_true", help="measure nothing")
    parser.add_argument("--csv", type=Path, default=RESULTS / "scaling.csv")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    if not args.report:
        measure(args.csv)
    report(args.csv)


if __name__ == "__main__":
    main()
