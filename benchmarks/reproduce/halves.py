"""Paper 004: two equal halves, most of one removed; losses that are linear programs, or not.

Of paper 004 (Meng et al. 2021) only abstract and introduction are at hand, so that the protocol is
that of the literature that it names: the ten classes of Fashion-MNIST are two halves, 0 to 4 and
5 to 9; of the second, which is positive, 60, 80, 90 or 98 % of the training rows are removed.
Validation and test rows keep their halves. A linear model and one of two convolutions, on images
of 14 x 14 pixels; the learning rate is chosen on validation rows for each method and metric, and
so is the threshold of F1, by one rule for all methods.

    python benchmarks/reproduce/halves.py
    python benchmarks/reproduce/halves.py --small        # a minute, to see it run
"""

import functools
from itertools import product

import numpy as np
from _image_files import load_fashion_mnist
from _networks import ADAM, AS_PUBLISHED, ConvNet
from _paired import RULE, gain
from _protocol import arguments, markdown, mean_and_half, run_missing, seeds_of, write_page
from matplotlib.figure import Figure
from sklearn.base import clone
from sklearn.metrics import (
    average_precision_score,
    f1_score,
    precision_recall_curve,
    roc_auc_score,
)

from sktopk import AUCClassifier, FScoreClassifier, TopKClassifier
from sktopk.modules import MLP

REMOVED = (0.6, 0.8, 0.9, 0.98)
RATES = (1e-3, 3e-3, 1e-2, 3e-2)
MODELS = ("linear", "convolutional")
SCALES = {
    "full": {"rows": 6000, "steps": 300},
    "small": {"rows": 600, "steps": 20},
}
N_VALID, BATCH_SIZE = 2000, 128
METRICS = ("AUC", "AP", "F1")
# The classifier, and the metric that it is trained for.
METHODS = {
    "cross-entropy": (TopKClassifier("cross_entropy", k=1), None),
    "weighted cross-entropy": (
        TopKClassifier("cross_entropy", k=1, class_weight="balanced"),
        None,
    ),
    "AUC, hinge": (AUCClassifier(surrogate="hinge", pos_label=1), "AUC"),
    "AUC, quadratic": (AUCClassifier(surrogate="quadratic", pos_label=1), "AUC"),
    "F-score": (FScoreClassifier(pos_label=1), "F1"),
}
BASELINES = ("cross-entropy", "weighted cross-entropy")
OWN_METRIC = {method: metric for method, (_, metric) in METHODS.items() if metric}
PICTURE = "reproduce_halves.png"


@functools.cache
def images(subset):
    """Images of 14 x 14 pixels, standardised by those to train on, and whether they are positive.

    The mean of 2 x 2 pixels each.
    """
    bunch = load_fashion_mnist(subset)
    X = bunch.data.reshape(len(bunch.data), 1, 14, 2, 14, 2).mean((3, 5))
    if subset == "test":
        mean, spread = images("train")[2:]
    else:
        mean, spread = X.mean(), X.std()
    return (X - mean) / spread, (bunch.target >= 5).astype(int), mean, spread


def parts(removed, rows, seed):
    """Rows to train on, thinned, to choose on and to test on."""
    X, y, *_ = images("train")
    order = np.random.default_rng(seed).permutation(len(y))
    valid, train = order[:N_VALID], order[N_VALID : N_VALID + rows]
    negative, positive = train[y[train] == 0], train[y[train] == 1]
    kept = np.r_[negative, positive[: round((1 - removed) * len(positive))]]
    return [(X[kept], y[kept]), (X[valid], y[valid]), images("test")[:2]]


def network(n_channels, n_outputs):
    """Two convolutions of 8 and 16 channels."""
    return ConvNet(n_channels, n_outputs, channels=(8, 16), kernel_size=3, padding=1)


def best_threshold(y, y_score):
    """The threshold of the largest F1, midway to the next lower score."""
    precision, recall, cut = precision_recall_curve(y, y_score)
    f1 = 2 * precision * recall / np.maximum(precision + recall, 1e-300)
    best = f1[:-1].argmax()
    return cut[best] if best == 0 else (cut[best] + cut[best - 1]) / 2


def run(model, removed, method, learning_rate, seed, rows, steps):
    """Train one network and score it."""
    (X, y), *judged = parts(removed, rows, seed)
    flat = model == "linear"
    clf = clone(METHODS[method][0]).set_params(
        module=MLP if flat else network,
        hidden_layer_sizes=(),
        max_epochs=-(-steps * BATCH_SIZE // len(y)),
        random_state=seed,
        **AS_PUBLISHED | ADAM | {"batch_size": BATCH_SIZE, "learning_rate": learning_rate},
    )
    clf.fit(X.reshape(len(X), -1) if flat else X, y)
    found, cut = {"positives": int(y.sum())}, None
    for part, (X_part, y_part) in zip(("valid", "test"), judged, strict=True):
        score = clf.decision_function(X_part.reshape(len(X_part), -1) if flat else X_part)
        cut = best_threshold(y_part, score) if cut is None else cut
        values = (
            roc_auc_score(y_part, score),
            average_precision_score(y_part, score),
            f1_score(y_part, score > cut),
        )
        found |= {f"{part} {m}": 100 * float(v) for m, v in zip(METRICS, values, strict=True)}
    return found


def settings(args):
    names = "model", "removed", "method", "learning_rate", "seed"
    found = [
        dict(zip(names, (model, removed, method, rate, seed), strict=True)) | SCALES[args.scale]
        for seed, model, removed, method, rate in product(
            seeds_of(args), args.models, args.removed, METHODS, RATES
        )
    ]
    return found


def chosen(runs):
    """A row per model, removed, method, seed and metric: the test value at the chosen rate.

    Runs of which a rate is missing are left out.
    """
    keys = ["model", "removed", "method", "seed"]
    whole = runs.groupby(keys).learning_rate.transform("nunique") == len(RATES)
    runs = runs[whole].reset_index(drop=True)
    found = []
    for metric in METRICS:
        best = runs.loc[runs.groupby(keys)[f"valid {metric}"].idxmax()]
        values = best[[*keys, "positives", "learning_rate"]].assign(
            metric=metric, value=best[f"test {metric}"]
        )
        found.extend(values.to_dict("records"))
    return found


def compared(runs, method, metric, baseline):
    return gain(
        runs[runs.metric == metric],
        method,
        "value",
        baselines=[baseline] if isinstance(baseline, str) else baseline,
        column="method",
        pair=["seed"],
    )


def beside_the_better(table):
    """A row per model and part removed: each method on its metric less the better baseline."""
    rows = []
    for (model, removed), here in table.groupby(["model", "removed"], sort=False):
        gains = [compared(here, *own, BASELINES) for own in OWN_METRIC.items()]
        rows.append([model, f"{100 * removed:g} %", *map(str, gains)])
    return rows


def page(runs):
    table = type(runs)(chosen(runs))
    settings = table.groupby(["model", "removed", "method"]).seed.nunique()
    n_runs = {
        model: f"{n.min()} to {n.max()}" if n.min() < n.max() else f"{n.min()}"
        for model, n in settings.groupby(level="model", sort=False)
    }
    at_most = (table.learning_rate == max(RATES)).mean()
    text = [
        "# Two halves, most of one removed: trained for the metric, or by cross-entropy",
        "",
        "`benchmarks/reproduce/halves.py`. Of the paper only abstract and introduction are at "
        "hand, without a number to subtract: the protocol is that of the literature it names. "
        "Classes 5 to 9 of Fashion-MNIST are positive, 0 to 4 negative; of "
        f"{SCALES['full']['rows']} training rows a part of the positive half is removed, "
        f"validation ({N_VALID}) and test rows (10 000) keep their halves. Images of 14 x 14 "
        "pixels; a linear model, and two convolutions of 8 and 16 channels; one network, Adam, "
        f"batches of {BATCH_SIZE}, {SCALES['full']['steps']} of them, the learning rate "
        f"({', '.join(f'{r:g}' for r in RATES)}) chosen on validation rows for each method and "
        f"metric, the threshold of F1 there as well. In {at_most:.0%} of the choices it was the "
        "largest one offered. With the two smallest alone the larger was chosen in nine of ten "
        "cases, and the convolutional network was ahead of both cross-entropies by up to .6 "
        "points: gains of too small a rate. "
        + "; ".join(f"{model}: {n} runs" for model, n in n_runs.items())
        + " with rows and initial weights of their own; differences in points, paired by run: "
        + f"{RULE}. {runs.s.sum() / 60:.0f} minutes on cores that others shared.",
        "",
        f"![What training for the metric gains]({PICTURE})",
        "",
        "## Beside the better of both cross-entropies",
        "",
        "Each method on what it is trained for, less cross-entropy or weighted cross-entropy, "
        "whichever has the higher mean.",
        "",
        markdown(
            ["model", "removed", *(f"{method}: {metric}" for method, metric in OWN_METRIC.items())],
            beside_the_better(table),
        ),
    ]
    for model, of_model in table.groupby("model", sort=False):
        rows = []
        for removed, here in of_model.groupby("removed"):
            first = f"{100 * removed:g} %, {here.positives.mean():.0f} left"
            for method in METHODS:
                cells = []
                for metric in METRICS:
                    own = here[(here.metric == metric) & (here.method == method)].value
                    mean, _ = mean_and_half(own)
                    cell = f"{mean:.2f}"
                    if method != "cross-entropy":
                        won = compared(here, method, metric, "cross-entropy")
                        cell += f" ({won})"
                    cells.append(f"**{cell}**" if metric == METHODS[method][1] else cell)
                rows.append([first, method, *cells])
        text += [
            "",
            f"## {model.capitalize()}",
            "",
            "In brackets the difference to cross-entropy. Bold: what the method is trained for.",
            "",
            markdown(["removed", "method", *METRICS], rows),
        ]
    return "\n".join(text)


def draw(runs, path):
    """Differences to cross-entropy by the part that is removed, with their intervals."""
    table = type(runs)(chosen(runs))
    figure = Figure(figsize=(10, 6.4), layout="constrained")
    axes = figure.subplots(2, 2, sharex=True, sharey="col")
    labels = [f"{100 * removed:g} %" for removed in REMOVED]
    for of_model, model in zip(axes, MODELS, strict=True):
        for ax, metric in zip(of_model, ("AUC", "F1"), strict=True):
            methods = [
                m for m in METHODS if OWN_METRIC.get(m, metric) == metric and m != BASELINES[0]
            ]
            for i, method in enumerate(methods):
                gains = [
                    compared(here, method, metric, BASELINES[0])
                    for _, here in table[table.model == model].groupby("removed")
                ]
                x = np.arange(len(gains)) + 0.12 * (i - (len(methods) - 1) / 2)
                mean, half = ([getattr(gain, name) for gain in gains] for name in ("mean", "half"))
                ax.errorbar(x, mean, half, fmt="o", capsize=3, label=method)
            ax.axhline(0, color="k", lw=1)
            ax.set_xticks(range(len(labels)), labels)
            ax.set(title=f"{model}, {metric}")
            ax.legend(fontsize=8)
        of_model[0].set_ylabel("points over cross-entropy")
    for ax in axes[-1]:
        ax.set_xlabel("removed of the positive half")
    figure.savefig(path, dpi=100)


def main():
    parser = arguments(__doc__, "halves", seeds={"full": 10, "small": 2})
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--removed", nargs="+", type=float, default=list(REMOVED))
    args = parser.parse_args()
    cost = {"full": {"linear": 0.6, "convolutional": 3.0}, "small": dict.fromkeys(MODELS, 0.3)}
    runs = run_missing(run, settings(args), args, seconds=lambda s: cost[args.scale][s["model"]])
    runs = runs[runs.scale == args.scale]
    if len(runs) and args.scale == "full":
        draw(runs, args.csv.with_name(PICTURE))
        write_page(args, page(runs))


if __name__ == "__main__":
    main()
