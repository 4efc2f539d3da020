"""What does a vote cost, and what would be left of it in ten times LightGBM's time?

The tables of two classes of the choosing half of `top_of_the_table.py`, one thread:
the network of `TopVotingClassifier` with fewer members and epochs, alone and with the same trees,
beside LightGBM and a plain network of 100 epochs. The products of matrices of a training are timed
alone, as what no other code of this network can save. Then a million rows of 100 columns are
predicted, and the same is done of their products.

    SKTOPK_DATA=... python benchmarks/vote_cost.py

Runs that are in the CSV are not done again: delete their lines to repeat them.
"""

import time

import numpy as np
from reproduce._protocol import (
    arguments,
    markdown,
    plus_minus,
    run_missing,
    seeds_of,
    write_page,
)
from sklearn.datasets import make_classification
from tables._data import HALF, TABLES, split_of
from tables._jobs import scores_of
from tables._methods import METHODS
from tables._products import of_predictions, of_training

from sktopk import PatMatClassifier, TopVotingClassifier

# Members, the most epochs of a phase, and how many without a gain end it.
NETWORKS = {
    "1 of 3": (1, 3, 10),
    "1 of 30": (1, 30, 10),
    "4 of 5": (4, 5, 10),
    "4 of 15": (4, 15, 10),
    "4 of 30": (4, 30, 5),
    "4 of 30, patient": (4, 30, 10),
    "8 of 100": (8, 100, 10),
}
DEFAULT = "4 of 30"
METRIC = "average precision"
PEERS = ("LightGBM", "plain MLP")
PREDICTED = "1 000 000 rows of 100 columns"


def run(table, split):
    """Seconds of the processor and average precision of each network, with trees and without."""
    if table == PREDICTED:
        return predictions()
    rows, found = split_of(table, split), {}

    def fitted(name, classifier):
        begin = time.process_time()
        classifier.fit(rows.X, rows.y)
        found[f"{name}: s"] = time.process_time() - begin
        return classifier

    def judge(name, y_score):
        found[f"{name}: AP"] = scores_of("binary", rows.y_test, y_score, [0, 1])[METRIC]

    for name in PEERS:
        peer = fitted(name, METHODS[name].make(2, split))
        judge(name, peer.predict_proba(rows.X_test)[:, 1])
    vote = fitted("vote", TopVotingClassifier(random_state=split))
    trees = sum(
        np.mean([each.predict_proba(rows.X_test)[:, 1] for each in folds], axis=0)
        for folds in vote.others_
    )
    judge("trees", trees)
    for name, (n_members, max_epochs, patience) in NETWORKS.items():
        network = PatMatClassifier(
            tau=0.01,
            n_members=n_members,
            max_epochs=max_epochs,
            n_iter_no_change=patience,
            calibration="auto",
            random_state=split,
            device="cpu",
        )
        own = fitted(name, network).predict_proba(rows.X_test)[:, 1]
        found[f"{name}: products, s"] = of_training(network, len(rows.y))
        judge(name, own)
        judge(f"{name} and trees", own + trees)
    return dict(sorted(found.items()))


def predictions():
    """Seconds of the processor for a million rows, under the names of the other runs."""
    X, y = make_classification(1_008_000, 100, weights=[0.97], random_state=0)
    X, found = X.astype(np.float32), {}
    classifiers = {
        **{name: METHODS[name].make(2, 0) for name in PEERS},
        "vote": TopVotingClassifier(random_state=0),
        "8 of 100": PatMatClassifier(tau=0.01, calibration="auto", random_state=0, device="cpu"),
    }
    for name, classifier in classifiers.items():
        classifier.fit(X[:8000], y[:8000])
        begin = time.process_time()
        classifier.predict_proba(X[8000:])
        found[f"{name}: s"] = time.process_time() - begin
    found["8 of 100: products, s"] = of_predictions(classifiers["8 of 100"], 1_000_000)
    parts = "trees: AP", *(f"{name}: AP" for name in PEERS)
    ends = ": AP", " and trees: AP", ": products, s"
    networks = [f"{name}{end}" for name in NETWORKS for end in ends]
    names = [*(f"{name}: s" for name in (*PEERS, "vote", *NETWORKS)), *parts, *networks]
    return {name: found.get(name, float("nan")) for name in sorted(names)}


def settings(args):
    tables = [t for t in TABLES.values() if HALF[t.name] == "choosing" and t.kind == "binary"]
    own = [{"table": table.name, "split": split} for split in seeds_of(args) for table in tables]
    return [*own, {"table": PREDICTED, "split": 0}]


def page(runs):
    """Times as medians of ratios within a run, average precision less that of the default."""
    predicted = runs[runs.table == PREDICTED]
    runs = runs[runs.table != PREDICTED]
    mean = 100 * runs.drop(columns=["scale", "split", "s"]).groupby("table").mean()
    default = mean[f"{DEFAULT} and trees: AP"]
    trees_s = (runs["vote: s"] - runs[f"{DEFAULT}: s"]).clip(lower=0)

    def line(name, score, seconds):
        times = [f"{(seconds / runs[f'{peer}: s']).median():.1f}" for peer in PEERS]
        change = plus_minus(mean[f"{score}: AP"] - default, sign="+")
        return [name, f"{seconds.median():.2f}", *times, change]

    rows = [line(name, name, runs[f"{name}: s"]) for name in PEERS]
    rows.append(line("the trees of the vote alone", "trees", trees_s))
    floors = []
    for name in NETWORKS:
        seconds = runs[f"{name}: s"]
        n_members, max_epochs, patience = NETWORKS[name]
        words = f"{n_members} member{'s' * (n_members > 1)} of {max_epochs} epochs"
        if max_epochs > patience:
            words += f", patience {patience}"
        rows.append(line(f"{words}, alone", name, seconds))
        least = runs[f"{name}: products, s"]
        ratios = [f"{(least / runs[f'{peer}: s']).median():.1f}" for peer in PEERS]
        floors.append(
            [words, f"{least.median():.2f}", f"{(least / seconds).median():.0%}", *ratios]
        )
        rows.append(line(f"{words}, and trees", f"{name} and trees", seconds + trees_s))
    header = ["method", "fit, s", *(f"times {peer}" for peer in PEERS), "AP less the vote's"]
    text = [
        "# What a vote costs",
        "",
        f"`benchmarks/vote_cost.py`: {len(mean)} tables of the choosing half, "
        f"splits of each: {runs.split.nunique()}; one thread; seconds of the processor and their "
        "ratios as medians. Average precision in points less that of the default vote (4 members "
        "of at most 30 epochs in each phase, of which 5 without a gain, the patience, end it, and "
        "trees), the mean over tables ± half its 95 % confidence interval. The default's members, "
        "epochs, patience and trees were chosen on these tables.",
        "",
        markdown(header, rows),
        "",
        "## Of which products of matrices",
        "",
        "Timed alone, one after the other and of full batches: what a training of these networks "
        "takes at the least, whatever code is around them.",
        "",
        markdown(["network", "s", "of its fit", *(f"times {peer}" for peer in PEERS)], floors),
    ]
    if len(predicted):
        one = predicted.iloc[0]
        seconds = {name: one[f"{name}: s"] for name in PEERS}
        seconds["the products of a network of 8 members"] = one["8 of 100: products, s"]
        seconds["network of 8 members"] = one["8 of 100: s"]
        seconds["vote"] = one["vote: s"]
        rows = [
            [name, f"{s:.1f}", f"{s / seconds['plain MLP']:.1f}"] for name, s in seconds.items()
        ]
        text += ["", f"## Predictions of {PREDICTED}", ""]
        text.append(markdown(["method", "s", "times the plain network"], rows))
    return "\n".join(text)


def main():
    parser = arguments(__doc__, "vote_cost", seeds={"full": 2}, prefix="")
    parser.set_defaults(n_jobs=1)
    args = parser.parse_args()
    write_page(args, page(run_missing(run, settings(args), args, seconds=40)))


if __name__ == "__main__":
    main()
