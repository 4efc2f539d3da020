"""Paper 000, tables 3 to 5 and figures 2 to 4: one class of images against the rest.

Class 0 of MNIST and of Fashion-MNIST against the other nine, and the second coarse class of
CIFAR-100 (5 %, images of 16 x 16 pixels) against the other nineteen; the networks of appendix D,
batches of 32 with at least 5 positives for every method. BaseLine is the paper's: the mean of
-log sigmoid(s) over the positives plus the mean of -log(1 - sigmoid(s)) over the negatives, one
output. Prec@Rec and Pat&Mat are methods of table 1; the paper does not say which recall and which
share they were set to. DeepTopPush_0 leaves out the delayed sample.

The published code takes 100 epochs of gradient descent at a rate of 1e-4, weight decay 2e-3. Here
it is 3 epochs at 3.33e-3: the same rate times steps. Beside it the baseline at ten times that
rate, and Adam at 1e-3.

    python benchmarks/reproduce/top_one.py      # the paper's methods, two sets, some 80 minutes
    python benchmarks/reproduce/top_one.py --methods "BaseLine, rate x 10" "BaseLine, Adam"
    python benchmarks/reproduce/top_one.py --data CIFAR100 --seeds 5
    python benchmarks/reproduce/top_one.py --small                 # a minute, to see it run
    python benchmarks/reproduce/top_one.py --scale published       # 100 epochs: an accelerator
"""

import functools
import statistics
from itertools import chain

import numpy as np
import torch
from _balanced import Baseline
from _image_files import load_cifar100, load_fashion_mnist, load_mnist
from _networks import AS_PUBLISHED, CONSTANT_RATE, ConvNet
from _paired import RULE, gain
from _protocol import arguments, markdown, plus_minus, run_missing, seeds_of, write_page
from _top_figures import draw_boxes, draw_curves, draw_thresholds
from sklearn.base import clone

from sktopk import (
    DeepTopPushClassifier,
    PatMatClassifier,
    PrecisionAtRecallClassifier,
)
from sktopk.callbacks import TrueThreshold
from sktopk.metrics import (
    positives_at_top_score,
    precision_at_recall_score,
    true_positive_rate_at_fpr_score,
)
from sktopk.metrics._top_curves import auc_at_quantile_score

DATA = {
    "FashionMNIST": load_fashion_mnist,
    "MNIST": load_mnist,
    "CIFAR100": load_cifar100,
}
# Those that the paper's tables 3 and 4 name at this size.
OF_PAPER = ("FashionMNIST", "MNIST")
# The set of its figures.
OF_FIGURES = "CIFAR100"
BOXES = ("BaseLine", "DeepTopPush_0", "DeepTopPush")
DEEP_TOP_PUSH = DeepTopPushClassifier(buffer_size=1)
# The classifier, its optimizer, and the factor on the learning rate of the scale. Baselines of
# all rates compete in the findings; the table of the paper has the first.
METHODS = {
    "BaseLine": (Baseline(), torch.optim.SGD, 1),
    "DeepTopPush": (DEEP_TOP_PUSH, torch.optim.SGD, 1),
    "BaseLine, rate x 10": (Baseline(), torch.optim.SGD, 10),
    "DeepTopPush_0": (DeepTopPushClassifier(buffer_size=0), torch.optim.SGD, 1),
    "Prec@Rec": (PrecisionAtRecallClassifier(recall=0.5, buffer_size=1), torch.optim.SGD, 1),
    "Pat&Mat": (PatMatClassifier(tau=0.05, buffer_size=1), torch.optim.SGD, 1),
    "BaseLine, Adam": (Baseline(), torch.optim.Adam, 1),
    "DeepTopPush, Adam": (DEEP_TOP_PUSH, torch.optim.Adam, 1),
}
BASELINES = ("BaseLine", "BaseLine, rate x 10")
# Those of the paper are trained by default; other baselines and Adam by `--methods`.
METHODS_OF_PAPER = ("BaseLine", "DeepTopPush", "DeepTopPush_0", "Prec@Rec", "Pat&Mat")
# Who competes with a method: the baselines of its optimizer.
RIVALS = {"sgd": BASELINES, "adam": ("BaseLine, Adam",)}
SCALES = {
    "full": {"n_train": 60_000, "max_epochs": 3},
    "small": {"n_train": 1500, "max_epochs": 1},
    "published": {"n_train": 60_000, "max_epochs": 100},
}
# Rate times steps is that of the published code, but at the scale that only shows that it runs.
EPOCHS, RATE, WEIGHT_DECAY = 100, 1e-4, 2e-3
ADAM = {"learning_rate": 1e-3, "weight_decay": 1e-4}
TRACE = {"n_train": 800, "max_epochs": 2}
TRACES = {"full": TRACE, "small": {"n_train": 200, "max_epochs": 2}, "published": TRACE}
RECALLS = (0.05, 0.1, 0.2, 0.4, 0.6, 0.8)
QUANTILES = (0.1, 0.2)
# Table 3: precision at RECALLS, mean of six data sets, two of which are here.
TABLE_3 = {
    "BaseLine": (96.11, 95.37, 91.38, 89.87, 84.61, 75.92),
    "Prec@Rec": (97.36, 94.73, 93.34, 90.92, 85.82, 76.44),
    "Pat&Mat": (96.99, 96.04, 94.28, 90.06, 85.63, 76.36),
    "DeepTopPush": (99.07, 98.46, 97.05, 93.44, 89.56, 79.50),
}
# Table 4: AUC@quantile at QUANTILES.
TABLE_4 = {
    ("MNIST", "DeepTopPush_0"): (99.74, 94.11),
    ("MNIST", "DeepTopPush"): (99.82, 94.66),
    ("FashionMNIST", "DeepTopPush_0"): (97.77, 91.63),
    ("FashionMNIST", "DeepTopPush"): (98.02, 92.99),
    ("CIFAR100", "DeepTopPush_0"): (66.56, 61.22),
    ("CIFAR100", "DeepTopPush"): (66.32, 60.87),
}
# Table 5: time per epoch of DeepTopPush over BaseLine in percent, batches of 32.
TABLE_5 = {"MNIST": 8.0, "CIFAR100": 25.0}
# Percent, measured once with the same sampler for both, at the sizes of MNIST.
MNIST_OVERHEAD = -3.4


@functools.lru_cache(maxsize=1)
def loaded(data):
    """All images and whether they are positive, to train on and to test on."""
    parts = []
    for subset in ("train", "test"):
        bunch = DATA[data](subset)
        X, positive = bunch.data, bunch.target == 0
        if data == "CIFAR100":
            X = X.reshape(len(X), 3, 16, 2, 16, 2).mean((3, 5))
            positive = bunch.groups[bunch.target] == 1
        parts += [X, positive.astype(int)]
    return parts


def images(data, n_train, seed):
    """Rows to train on, drawn anew by each seed, and all test rows."""
    X, y, *test = loaded(data)
    rows = np.random.default_rng(seed).permutation(len(y))[:n_train]
    return X[rows], y[rows], *test


def network(n_channels, n_outputs):
    """The network of appendix D; of three convolutions the third has no pixels left at 16 x 16."""
    if n_channels == 1:
        return ConvNet(n_channels, n_outputs)
    return ConvNet(n_channels, n_outputs, channels=(64, 128), kernel_size=3, padding=1)


def untrained(part, method, seed, max_epochs):
    """A classifier with the training of its method; part "trace" records the true threshold."""
    clf, optimizer, factor = METHODS[method]
    rate = RATE * EPOCHS / max_epochs
    rate, decay = factor * rate, WEIGHT_DECAY
    if optimizer is torch.optim.Adam or part == "trace":
        optimizer, rate, decay = torch.optim.Adam, *ADAM.values()
    clf = clone(clf).set_params(
        module=network,
        **AS_PUBLISHED,
        batch_size=32,
        max_epochs=max_epochs,
        learning_rate=rate,
        net_params={"optimizer": optimizer, "optimizer__weight_decay": decay},
        random_state=seed,
    )
    if part == "trace":
        clf.set_params(callbacks=[CONSTANT_RATE, TrueThreshold()])
    return clf


def fitted(part, data, method, seed, n_train, max_epochs):
    """A classifier and the test rows."""
    X, y, *test = images(data, n_train, seed)
    return untrained(part, method, seed, max_epochs).fit(X, y), *test


def run(part, **setting):
    """Train one network and score it on the test images."""
    clf, X_test, y_test = fitted(part, **setting)
    y_score = clf.decision_function(X_test)
    result = {
        f"precision at recall {r:g}": 100 * precision_at_recall_score(y_test, y_score, recall=r)
        for r in RECALLS
    }
    for normalize in (False, True):
        for q in QUANTILES:
            area = auc_at_quantile_score(y_test, y_score, quantile=q, normalize=normalize)
            result[f"{'normalised ' * normalize}AUC@quantile {q:g}"] = 100 * area
    result["recall at 0.1 % false positives"] = 100 * true_positive_rate_at_fpr_score(
        y_test, y_score, fpr=0.001
    )
    result["positives at top"] = 100 * positives_at_top_score(y_test, y_score)
    seconds = statistics.median(epoch["dur"] for epoch in clf.history_)
    result |= {"seconds per epoch": seconds, "distance": np.nan, "exact": np.nan}
    if part == "trace":
        # The second epoch, as in figure 3; distances in units of the scores.
        estimate, truth = (
            np.asarray(clf.history_[1][name]) for name in ("threshold", "true_threshold")
        )
        result["distance"] = float(np.mean(np.abs(estimate - truth)))
        result["exact"] = float(np.mean(np.isclose(estimate, truth, rtol=1e-4, atol=1e-5)))
    return {name: float(value) for name, value in result.items()}


def settings(args):
    found = [
        {"part": "tables", "data": data, "method": method, "seed": seed} | SCALES[args.scale]
        for seed in seeds_of(args)
        for data in args.data
        for method in args.methods
    ]
    return found + [
        {"part": "trace", "data": data, "method": method, "seed": seed} | TRACES[args.scale]
        for seed in seeds_of(args)
        if seed < 2
        for data in OF_PAPER
        for method in ("DeepTopPush_0", "DeepTopPush")
    ]


def seconds(setting):
    if setting["part"] == "trace":
        return 18 * setting["n_train"] / TRACE["n_train"]
    cost = 3.0 if setting["data"] == "CIFAR100" else 1.3
    return setting["max_epochs"] * setting["n_train"] / 6000 * 2.2 * cost + 3


def to_baseline(runs, method, metric, baselines=BASELINES[:1]):
    """None where no run of the method has a partner."""
    return gain(runs, method, metric, baselines=baselines, column="method", pair=["data", "seed"])


METRICS = (
    *(f"precision at recall {r:g}" for r in RECALLS),
    "recall at 0.1 % false positives",
    "positives at top",
    "normalised AUC@quantile 0.1",
)


def by_optimizer(runs):
    """A row per set of images, comparison and metric: Adam beside gradient descent."""
    every = tuple(chain(*RIVALS.values()))
    pairs = [
        ("DeepTopPush, Adam", RIVALS["adam"]),
        ("DeepTopPush, Adam", ("DeepTopPush",)),
        ("DeepTopPush", RIVALS["adam"]),
        ("DeepTopPush", every),
    ]
    rows = []
    for data, here in runs.groupby("data", sort=False):
        if "DeepTopPush, Adam" not in set(here.method):
            continue
        for method, rivals in pairs:
            gains = [to_baseline(here, method, metric, rivals) for metric in METRICS[:-1]]
            other = rivals[0] if len(rivals) == 1 else "the best BaseLine of the three"
            rows.append([data, f"{method} minus {other}", *map(str, gains)])
    return rows


def overhead(runs):
    """Percent of an epoch of DeepTopPush over one of BaseLine, by the datasets of table 5."""
    found = {"MNIST": MNIST_OVERHEAD}
    fastest = runs[runs.data == "CIFAR100"].groupby("method")["seconds per epoch"].min()
    if {"BaseLine", "DeepTopPush"} <= set(fastest.index):
        found["CIFAR100"] = 100 * (fastest["DeepTopPush"] / fastest["BaseLine"] - 1)
    return found


def not_run(runs, methods):
    """A sentence on the methods of a figure that have no runs, if there are any."""
    missing = [m for m in methods if m not in set(runs[runs.data == OF_FIGURES].method)]
    return f" Not run here: {', '.join(missing)}." if missing else ""


def page(runs, scale):
    trace, runs = runs[runs.part == "trace"], runs[runs.part == "tables"]
    sizes = SCALES[scale]
    counts = runs.groupby(["data", "method"], sort=False).seed.nunique()
    done = "; ".join(
        f"{data}: " + ", ".join(f"{method} {n}" for method, n in of_data.droplevel(0).items())
        for data, of_data in counts.groupby(level=0, sort=False)
    )
    text = [
        "# Paper 000: one class of images against the rest",
        "",
        f"`benchmarks/reproduce/top_one.py`, scale {scale}: {sizes['n_train']} training images, "
        f"{sizes['max_epochs']} epochs of gradient descent at "
        f"{RATE * EPOCHS / sizes['max_epochs']:.3g} (the paper: {EPOCHS} at {RATE:g}, the same "
        "rate times steps"
        + (
            "; CIFAR-100 at 16 x 16 pixels and with two convolutions, the paper: 32 x 32 and three"
            if "CIFAR100" in set(runs.data)
            else ""
        )
        + "), weight decay "
        f"{WEIGHT_DECAY:g}, batches of 32 with at least 5 positives for every method; all 10 000 "
        "test images. BaseLine is the paper's: both classes weigh the same, one output. Runs, each "
        f"with its own order of the rows and initial weights: {done}. ± is half a 95 % confidence "
        "interval.",
        "",
        "## Table 3: precision at recall, %",
        "",
        "The paper's gains are means over six image sets, ours are of one each: compare the "
        f"differences, ours paired by run: {RULE}. Two runs or fewer say neither.",
    ]
    for data, here in runs.groupby("data", sort=False):
        rows = []
        for method in METHODS:
            of_method = here[here.method == method]
            if of_method.empty:
                continue
            for i, recall in enumerate(RECALLS):
                metric = f"precision at recall {recall:g}"
                cells = [method, recall, plus_minus(of_method[metric])]
                if method != "BaseLine" and (won := to_baseline(here, method, metric)):
                    tuned = to_baseline(here, method, metric, BASELINES[1:])
                    cells += [str(won), "" if tuned is None else str(tuned)]
                    if method in TABLE_3:
                        paper = TABLE_3[method][i] - TABLE_3["BaseLine"][i]
                        cells += [f"{paper:+.2f}", f"{won.mean - paper:+.2f}"]
                rows.append(cells + [""] * (7 - len(cells)))
        header = [
            "method",
            "recall",
            "precision",
            "minus BaseLine",
            "minus it at ten times its rate",
        ]
        header += ["paper's gain", "deviation of the gain"]
        text += ["", f"**{data}**", "", markdown(header, rows)]
    text += [
        "",
        "## Table 4: AUC@quantile, %",
        "",
        f"With a tenth of positives a perfect ranking has an area of {50 + 50 * np.log(2):.1f} up "
        "to quantile 0.2 by the paper's definition, less than its table says; over the best "
        "attainable area (normalised) the scale ends at 100. CIFAR-100, with a twentieth, has "
        f"{50 + 50 * np.log(2):.1f} and {25 + 25 * np.log(4):.1f} up to quantile 0.1 and 0.2.",
    ]
    rows = []
    for (data, method), theirs in TABLE_4.items():
        here = runs[(runs.data == data) & (runs.method == method)]
        if here.empty:
            continue
        for q, value in zip(QUANTILES, theirs, strict=True):
            raw, scaled = (here[f"{kind}AUC@quantile {q:g}"] for kind in ("", "normalised "))
            deviation = f"{raw.mean() - value:+.2f}", f"{scaled.mean() - value:+.2f}"
            rows.append([data, method, q, value, plus_minus(raw), plus_minus(scaled), *deviation])
    header = ["data", "method", "quantile", "paper", "ours", "ours, normalised"]
    text += ["", markdown([*header, "deviation", "deviation, normalised"], rows)]
    rows = []
    for data, here in runs.groupby("data", sort=False):
        for metric in METRICS:
            won = to_baseline(here, "DeepTopPush", metric, ["DeepTopPush_0"])
            if won is not None:
                rows.append([data, metric, won.difference, won.verdict])
    if rows:
        text += ["", "What the delayed sample adds (DeepTopPush minus DeepTopPush_0):", ""]
        text.append(markdown(["data", "metric", "ours", "it"], rows))
    if compared := by_optimizer(runs):
        text += [
            "",
            "## Adam beside gradient descent",
            "",
            f"Adam at {ADAM['learning_rate']:g}, weight decay {ADAM['weight_decay']:g}, the same "
            "epochs and batches. The paper has gradient descent alone.",
            "",
            markdown(["data", "difference", *METRICS[:-1]], compared),
        ]
    text += ["", "## All methods", ""]
    metrics = METRICS[len(RECALLS) :]
    rows = [
        [data, method, *(plus_minus(here[m]) for m in metrics)]
        for (data, method), here in runs.groupby(["data", "method"], sort=False)
    ]
    text.append(markdown(["data", "method", *(f"{m}, %" for m in metrics)], rows))
    text += [
        "",
        "## Table 5: time per epoch over BaseLine, batches of 32",
        "",
        "MNIST: measured once with the same sampler for both, one epoch "
        "each, two fits at once on two cores, random pixels. CIFAR-100: the fastest epoch of the "
        "runs of each, 16 x 16 pixels, on cores that others shared. The paper: a P100 GPU. A few "
        "percent say nothing.",
        "",
        markdown(
            ["data", "paper", "ours", "deviation, points"],
            [
                [data, f"{TABLE_5[data]:+.0f} %", f"{ours:+.1f} %", f"{ours - TABLE_5[data]:+.1f}"]
                for data, ours in overhead(runs).items()
            ],
        ),
        "",
        f"## Figure 2: precision and recall on {OF_FIGURES}",
        "",
        "Means of the runs, and each run, at the recalls of table 3. The paper: where recall is "
        "small, all methods for the top are above BaseLine. AP-Perf is not drawn: it is another "
        "package, in Julia, that takes forty times as long." + not_run(runs, TABLE_3),
        "",
        "![Figure 2](reproduce_top_one_figure_2.png)",
        "",
        "## Figure 3: the estimate of the threshold in the second epoch",
        "",
        "800 images, two epochs of Adam: mean distance of the estimate to the largest score of all "
        "negatives, and the share of steps in which it is that score. The paper shows a curve, "
        "for CIFAR-100: without the delayed sample the estimate jumps, with it, it settles on "
        "the truth after six plateaus.",
        "",
    ]
    rows = [
        [data, method, plus_minus(here.distance), f"{100 * here.exact.mean():.0f} %"]
        for (data, method), here in trace.groupby(["data", "method"], sort=False)
    ]
    text.append(markdown(["data", "method", "distance", "exact"], rows))
    text += [
        "",
        "One run on FashionMNIST:",
        "",
        "![Figure 3](reproduce_top_one_figure_3.png)",
        "",
        f"## Figure 4: with and without the delayed sample on {OF_FIGURES}",
        "",
        f"{METRICS[-1]}, %. The paper shows boxes of ten runs, of a measure that the text at hand "
        "does not name: with the delayed sample the mean is one point above that without, and both "
        "are far above BaseLine. Its table 4 has .2 points less with it on these images."
        + not_run(runs, BOXES),
        "",
        "![Figure 4](reproduce_top_one_figure_4.png)",
        "",
        "Figures 6 and 7 have a page of their own, and so has that of the molecules. Figure 1 is "
        "a drawing; figure 5, where a threshold without a gradient fails, is "
        "`examples/threshold_gradient.py`.",
    ]
    return "\n".join(text)


def draw(runs, folder, trace):
    """Figures 2 and 4 of the runs, and figure 3, for which a network is trained, once."""
    names = {i: folder / f"reproduce_top_one_figure_{i}.png" for i in (2, 3, 4)}
    here = runs[(runs.part == "tables") & (runs.data == OF_FIGURES)]
    draw_curves(here, METHODS, RECALLS).savefig(names[2], dpi=100)
    draw_boxes(here, BOXES, METRICS[-1]).savefig(names[4], dpi=100)
    if not names[3].is_file():
        trained = {
            method: fitted("trace", data="FashionMNIST", method=method, seed=0, **trace)[0]
            for method in ("DeepTopPush_0", "DeepTopPush")
        }
        draw_thresholds(trained).savefig(names[3], dpi=100)


def main():
    parser = arguments(__doc__, "top_one", seeds={"full": 10, "small": 2, "published": 10})
    parser.add_argument("--data", nargs="+", default=OF_PAPER, choices=list(DATA))
    parser.add_argument("--methods", nargs="+", default=METHODS_OF_PAPER, choices=list(METHODS))
    args = parser.parse_args()
    runs = run_missing(run, settings(args), args, seconds=seconds)
    runs = runs[runs.scale == args.scale]
    draw(runs, args.csv.parent, TRACES[args.scale])
    write_page(args, page(runs, args.scale))


if __name__ == "__main__":
    main()
