"""Imbalance (the protocol of paper 004 at CPU size): losses that are linear programs, or not.

Classifiers trained for a metric against cross-entropy with the threshold tuned for it, on five
tables of which only a part of the negatives, or of the positives, is kept for training. What is
printed is a summary made from the numbers, then the numbers; the other file has every run.

    python benchmarks/imbalance.py --csv benchmarks/results/imbalance.csv \
        > benchmarks/results/imbalance.md
"""

import argparse
import sys
import time
import warnings

import numpy as np
import pandas as pd
import torch
from joblib import Parallel, delayed
from real_data import campaign, coil2000, digits, rare_mnist, spambase
from scipy.stats import t
from sklearn.base import clone
from sklearn.metrics import (
    average_precision_score,
    f1_score,
    precision_recall_curve,
    precision_score,
    recall_score,
    roc_auc_score,
)
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.preprocessing import StandardScaler

from sktopk import (
    AUCClassifier,
    FScoreClassifier,
    PrecisionAtRecallClassifier,
    RecallAtPrecisionClassifier,
    TopKClassifier,
)
from sktopk.metrics import precision_at_recall_score, recall_at_precision_score


def digit_eight():
    """The digit 8 against the other nine."""
    X, y = digits()
    return X, y == 8


CASES = {
    "digits, 8 against the rest": digit_eight,
    "spambase": spambase,
    "coil2000": coil2000,
    "campaign": campaign,
    "mnist (adbench)": rare_mnist,
}
MAX_ROWS = 6000
# Shares of the negatives and of the positives that training keeps.
KEPT = {
    "all": (1.0, 1.0),
    "40 % of negatives": (0.4, 1.0),
    "20 % of negatives": (0.2, 1.0),
    "10 % of negatives": (0.1, 1.0),
    "10 % of positives": (1.0, 0.1),
}
N_FOLDS = 5
FOLDS = StratifiedKFold(N_FOLDS, shuffle=True, random_state=0)
VALIDATION = 0.2
# The first one is the default; it is kept where others are as good.
RATES = (1e-3, 3e-4, 3e-3)
LEVEL = 0.8
COMPARED = ["AUC", "AP", "P@R", "F1", "R@P"]
METRICS = [*COMPARED, "recall reached", "precision reached"]
# What the learning rate is chosen by, where it is not the metric itself.
CHOSEN_BY = {"recall reached": "R@P", "precision reached": "R@P"}
# The classifier, and the metric it is trained for.
METHODS = {
    "cross-entropy": (TopKClassifier("cross_entropy", k=1), None),
    "weighted cross-entropy": (
        TopKClassifier("cross_entropy", k=1, class_weight="balanced"),
        None,
    ),
    "AUC, hinge": (AUCClassifier(surrogate="hinge"), "AUC"),
    "AUC, quadratic": (AUCClassifier(surrogate="quadratic"), "AUC"),
    "F-score": (FScoreClassifier(), "F1"),
    "recall at precision": (RecallAtPrecisionClassifier(precision=LEVEL), "R@P"),
    "precision at recall, program": (
        PrecisionAtRecallClassifier(recall=LEVEL, method="program", min_positives=10),
        "P@R",
    ),
    "precision at recall, threshold": (
        PrecisionAtRecallClassifier(recall=LEVEL, method="threshold", min_positives=10),
        "P@R",
    ),
}
COMMON = {"hidden_layer_sizes": (50,), "batch_size": 128}
KEYS = ["data", "kept", "seed", "method", "learning_rate"]


def table(case):
    """Rows and labels 0 and 1, at most MAX_ROWS of them."""
    X, y = CASES[case]()
    if len(y) > MAX_ROWS:
        X, _, y, _ = train_test_split(X, y, train_size=MAX_ROWS, stratify=y, random_state=0)
    return X.astype(np.float32), y.astype(int)


def split(X, y, kept, seed):
    """Rows to train on, to choose the learning rate on, and to test on, standardised."""
    train, test = list(FOLDS.split(X, y))[seed]
    train = np.random.default_rng(seed).permutation(train)
    rows = [train[y[train] == label] for label in (0, 1)]
    train = np.concatenate(
        [r[: round(share * len(r))] for share, r in zip(KEPT[kept], rows, strict=True)]
    )
    train, valid = train_test_split(
        train, test_size=VALIDATION, stratify=y[train], random_state=seed
    )
    scaler = StandardScaler().fit(X[train])
    return [(scaler.transform(X[part]), y[part]) for part in (train, valid, test)]


def tuned_thresholds(y, y_score):
    """Thresholds of the largest F1 and, lowest, of enough precision, midway between scores."""
    precision, recall, cut = precision_recall_curve(y, y_score)
    precision, recall = precision[:-1], recall[:-1]
    midway = np.append(np.nextafter(cut[0], -np.inf), (cut[1:] + cut[:-1]) / 2)
    f1 = 2 * precision * recall / np.maximum(precision + recall, 1e-300)
    wanted = min(LEVEL * (1 - 1e-12), precision.max())
    return midway[len(f1) - 1 - f1[::-1].argmax()], midway[np.argmax(precision >= wanted)]


def measure(y, y_score, thresholds):
    """Return METRICS."""
    of_f1, of_precision = (y_score > threshold for threshold in thresholds)
    return [
        roc_auc_score(y, y_score),
        average_precision_score(y, y_score),
        precision_at_recall_score(y, y_score, recall=LEVEL),
        f1_score(y, of_f1),
        recall_at_precision_score(y, y_score, precision=LEVEL),
        recall_score(y, of_precision),
        precision_score(y, of_precision, zero_division=0),
    ]


def fit(method, X, y, steps, learning_rate, seed):
    n_batches = -(-len(y) // COMMON["batch_size"])
    clf = clone(METHODS[method][0]).set_params(
        **COMMON, max_epochs=-(-steps // n_batches), learning_rate=learning_rate, random_state=seed
    )
    return clf.fit(X, y)


def run(case, data, kept, seed, steps):
    """Train every method with every learning rate on one fold; a dict per network."""
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    (X, y), *judged = split(*data, kept, seed)
    rows = []
    for method in METHODS:
        for rate in RATES:
            start = time.perf_counter()
            clf = fit(method, X, y, steps, rate, seed)
            row = dict(zip(KEYS, (case, kept, seed, method, rate), strict=True))
            row |= {"rows": len(y), "positives": y.sum(), "s": time.perf_counter() - start}
            thresholds = tuned_thresholds(y, clf.decision_function(X))
            for part, (X_part, y_part) in zip(("valid", "test"), judged, strict=True):
                values = measure(y_part, clf.decision_function(X_part), thresholds)
                row |= {f"{part} {m}": v for m, v in zip(METRICS, values, strict=True)}
            rows.append(row)
    return rows


def seconds_of_fits(data, n_folds, steps):
    """Estimate the time that the networks of `n_folds` folds take one process."""
    (X, y), *_ = split(*data, "all", 0)
    fit("cross-entropy", X, y, 1, RATES[0], 0)
    start = time.perf_counter()
    for method in METHODS:
        fit(method, X, y, steps // 5, RATES[0], 0)
    return 5 * len(RATES) * n_folds * (time.perf_counter() - start)


def arrays(runs):
    """Test values (case, kept, method, seed, metric): with equal and with chosen learning rates."""
    counts = [runs[key].nunique() for key in KEYS]
    parts = {}
    for part in ("valid", "test"):
        values = runs[[f"{part} {m}" for m in METRICS]].to_numpy()
        # Runs are written seed by seed, methods inside.
        parts[part] = values.reshape(*counts, len(METRICS)).swapaxes(2, 3)
    by = [METRICS.index(CHOSEN_BY.get(m, m)) for m in METRICS]
    best = parts["valid"][..., by].argmax(-2)
    chosen = np.take_along_axis(parts["test"], best[..., None, :], -2)[..., 0, :]
    return {
        f"learning rate {RATES[0]:g} for all": parts["test"][..., 0, :],
        "learning rate chosen on the validation rows": chosen,
    }


def compare(values):
    """Mean difference to cross-entropy, half the width of its interval, and who won.

    1 where the 95 % confidence interval lies above 0, -1 below, 0 where it does not tell.
    """
    difference = values - values[:, :, :1]
    # Training rows overlap: the variance of Nadeau and Bengio, tested on 1 / N_FOLDS.
    variance = (1 / N_FOLDS + 1 / (N_FOLDS - 1)) * difference.var(3, ddof=1)
    mean, half = difference.mean(3), t.ppf(0.975, N_FOLDS - 1) * np.sqrt(variance)
    return mean, half, (mean > half).astype(int) - (mean < -half)


def line(*cells):
    print("|", " | ".join(str(cell) for cell in cells), "|")


def header(*cells):
    print()
    line(*cells)
    line(*("---" for _ in cells))


def places(where, cases, kept):
    """The settings that `where` is true of, in brackets."""
    shares = {c: [k for j, k in enumerate(kept) if where[i, j]] for i, c in enumerate(cases)}
    text = "; ".join(f"{case}: {', '.join(found)}" for case, found in shares.items() if found)
    return f"{where.sum()} ({text})" if text else "0"


def counted(won, mean):
    """Won / tied / lost, and the mean difference."""
    return " / ".join(str(np.sum(won == w)) for w in (1, 0, -1)) + f", {mean.mean():+.3f}"


def summary(results, cases, kept):
    """Print what was won, tied and lost: in all, by metric, by what was kept, by data."""
    print("\n## Summary\n")
    names = list(METHODS)
    own = [(names.index(m), METRICS.index(metric)) for m, (_, metric) in METHODS.items() if metric]
    compared = {name: compare(values) for name, values in results.items()}
    for name, judged in compared.items():
        mean, half, won = (a[:, :, 1:, : len(COMPARED)] for a in judged)
        its_mean, its_won = (np.stack([a[:, :, i, j] for i, j in own]) for a in judged[::2])
        print(
            f"- With the {name}, the classifiers trained for a metric won {np.sum(its_won == 1)}, "
            f"tied {np.sum(its_won == 0)} and lost {np.sum(its_won == -1)} of {its_won.size} "
            f"comparisons with cross-entropy on this metric; the mean difference is "
            f"{its_mean.mean():+.3f}. All methods on all metrics: {np.sum(won == 1)} won, "
            f"{np.sum(won == 0)} tied, {np.sum(won == -1)} lost of {won.size}. Without any "
            f"difference, {0.025 * its_won.size:.0f} and {0.025 * won.size:.0f} would be won by "
            f"chance, and as many lost. The median interval is ±{np.median(half):.3f}: smaller "
            f"differences do not show."
        )
        for (i, j), m, w in zip(own, its_mean, its_won, strict=True):
            print(
                f"  - {names[i]}, {METRICS[j]}: won {places(w == 1, cases, kept)}, tied "
                f"{np.sum(w == 0)}, lost {places(w == -1, cases, kept)}; mean difference "
                f"{m.mean():+.3f}, from {m.min():+.3f} to {m.max():+.3f}."
            )
    for name, (mean, _, won) in compared.items():
        print(f"\n### Won / tied / lost, and mean difference: {name}\n\nIts own metric is bold.")
        header("method", *COMPARED)
        for i in range(1, len(names)):
            cells = [counted(won[:, :, i, j], mean[:, :, i, j]) for j in range(len(COMPARED))]
            bold = [f"**{c}**" if (i, j) in own else c for j, c in enumerate(cells)]
            line(names[i], *bold)
        print("\nIts own metric, by what was kept and by data.")
        header("method, metric", *kept, *cases)
        for i, j in own:
            parts = [(won[:, k, i, j], mean[:, k, i, j]) for k in range(len(kept))]
            parts += [(won[c, :, i, j], mean[c, :, i, j]) for c in range(len(cases))]
            line(f"{names[i]}, {METRICS[j]}", *(counted(*part) for part in parts))


def tables(results, runs, cases, kept):
    """Print means and differences of every setting."""
    for name, values in results.items():
        mean, half, won = compare(values)
        for c, case in enumerate(cases):
            print(f"\n## {case}: {name}")
            header("training rows", "method", *METRICS)
            for k, share in enumerate(kept):
                here = runs[(runs.data == case) & (runs.kept == share)]
                rows = f"{share}: {here.rows.mean():.0f}, {here.positives.mean():.0f} positive"
                for i, method in enumerate(METHODS):
                    cells = [f"{v:.3f}" for v in values[c, k, i].mean(0)]
                    for j in range(len(COMPARED) if i else 0):
                        text = f"{mean[c, k, i, j]:+.3f} ± {half[c, k, i, j]:.3f}"
                        cells[j] += f" (**{text}**)" if won[c, k, i, j] else f" ({text})"
                    line(rows, method, *cells)


def report(runs, steps):
    cases, kept = (list(runs[key].unique()) for key in ("data", "kept"))
    results = arrays(runs)
    print("# Imbalance: trained for the metric, or by cross-entropy with a tuned threshold\n")
    print(
        f"`benchmarks/imbalance.py`: {len(cases)} data sets, at most {MAX_ROWS} rows of each, "
        f"drawn once. Of the training rows all or a part of one class is kept; the test rows stay "
        f"as they are, so that thresholds tuned on thinned rows meet other proportions. Where "
        f"positives are rare, fewer negatives are less imbalance, not more. {N_FOLDS} folds, each "
        f"with its own initialisation; of its training rows {VALIDATION:.0%} are set aside, to "
        f"choose the learning rate of {', '.join(f'{r:g}' for r in sorted(RATES))} for each method "
        f"and metric. All methods: {COMMON['hidden_layer_sizes'][0]} hidden units, standardised "
        f"features, Adam, batches of {COMMON['batch_size']} (at least 10 rows of them positive, "
        f"but for cross-entropy), the epochs that make {steps} batches, else defaults.\n\n"
        f"AUC, average precision (AP), precision at recall {LEVEL} (P@R) and recall at precision "
        f"{LEVEL} (R@P) are those of the scores. F1, and the recall and precision reached, are "
        f"those at thresholds tuned for F1 and for precision {LEVEL} on the training rows, by the "
        f"same rule for all (a precision of 0 where nothing is flagged). Differences are paired by "
        f"fold. The intervals are 95 % confidence intervals of Student's t, n = {N_FOLDS}, with "
        f"the correction of Nadeau and Bengio for training rows that overlap; won is above 0, lost "
        f"below, tied neither. {len(runs)} networks, {runs.s.sum() / 60:.0f} minutes of training "
        f"on cores that others shared."
    )
    summary(results, cases, kept)
    tables(results, runs, cases, kept)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", nargs="+", default=list(CASES), choices=list(CASES))
    parser.add_argument("--kept", nargs="+", default=list(KEPT), choices=list(KEPT))
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--n-jobs", type=int, default=2)
    parser.add_argument("--csv", help="where every run is written")
    parser.add_argument("--read", help="report on the runs of this file instead of new ones")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    if args.read:
        report(pd.read_csv(args.read), args.steps)
        return
    data = {case: table(case) for case in args.cases}
    folds = [(c, data[c], k, s) for c in data for k in args.kept for s in range(N_FOLDS)]
    seconds = seconds_of_fits(data[args.cases[0]], len(folds), args.steps) / args.n_jobs
    n_networks = len(folds) * len(METHODS) * len(RATES)
    print(f"{n_networks} networks, about {seconds / 60:.1f} minutes", file=sys.stderr, flush=True)
    found = Parallel(args.n_jobs)(delayed(run)(*fold, args.steps) for fold in folds)
    runs = pd.DataFrame([row for rows in found for row in rows]).round(4)
    if args.csv:
        runs.to_csv(args.csv, index=False)
    report(runs, args.steps)


if __name__ == "__main__":
    main()
