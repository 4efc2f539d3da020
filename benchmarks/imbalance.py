"""Imbalance, for paper 004: losses that are linear programs, or not.

Of the paper only abstract and introduction are at hand, so that this is no protocol of its own.
Classifiers trained for a metric against cross-entropy with the threshold tuned for it, on five
tables of which only a part of the negatives, or of the positives, is kept for training. The page
is a summary made from the numbers, then the numbers; the CSV has every run.

    python benchmarks/imbalance.py

Runs that are in the CSV are not done again: delete the lines of a method to repeat it. The full
scale takes all rows and ten times the batches.
"""

import sys
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from real_data import campaign, coil2000, digits, rare_mnist, spambase
from reproduce._protocol import arguments, markdown, run_missing, seeds_of, write_page
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
    PrecisionAtRecallProgramClassifier,
    RecallAtPrecisionClassifier,
    TopKClassifier,
)
from sktopk.metrics import precision_at_recall_score, recall_at_precision_score
from sktopk.modules import MLP

# Where the scripts of the papers have what they share.
sys.path.append(str(Path(__file__).parent / "reproduce"))

from _paired import RULE, VERDICTS, verdict


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
SCALES = {"small": {"max_rows": 6000, "steps": 300}, "full": {"max_rows": 10**9, "steps": 3000}}
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
        PrecisionAtRecallProgramClassifier(recall=LEVEL, min_positives=10),
        "P@R",
    ),
    "precision at recall, threshold": (
        PrecisionAtRecallClassifier(recall=LEVEL, min_positives=10),
        "P@R",
    ),
}
# One plain network, trained with the loss from the start.
COMMON = {
    "module": MLP,
    "hidden_layer_sizes": (50,),
    "n_members": 1,
    "warm_up": 0,
    "early_stopping": False,
    "batch_size": 128,
}


def table(case, max_rows):
    """Rows and labels 0 and 1, at most `max_rows` of them."""
    X, y = CASES[case]()
    if len(y) > max_rows:
        X, _, y, _ = train_test_split(X, y, train_size=max_rows, stratify=y, random_state=0)
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


def run(data, kept, seed, method, learning_rate, max_rows, steps):
    """Train one network on one fold."""
    (X, y), *judged = split(*table(data, max_rows), kept, seed)
    n_batches = -(-len(y) // COMMON["batch_size"])
    clf = clone(METHODS[method][0]).set_params(
        **COMMON, max_epochs=-(-steps // n_batches), learning_rate=learning_rate, random_state=seed
    )
    clf.fit(X, y)
    thresholds = tuned_thresholds(y, clf.decision_function(X))
    row = {"rows": len(y), "positives": y.sum()}
    for part, (X_part, y_part) in zip(("valid", "test"), judged, strict=True):
        values = measure(y_part, clf.decision_function(X_part), thresholds)
        row |= {f"{part} {m}": float(v) for m, v in zip(METRICS, values, strict=True)}
    return row


def settings(args):
    axes = CASES, KEPT, seeds_of(args), METHODS, RATES
    names = "data", "kept", "seed", "method", "learning_rate"
    return [dict(zip(names, each, strict=True)) | SCALES[args.scale] for each in product(*axes)]


def arrays(runs):
    """Test values (data, kept, method, seed, metric): equal and chosen learning rates.

    NaN where a setting has not been run.
    """
    axes = CASES, KEPT, METHODS, RATES, range(runs.seed.nunique())
    names = ["data", "kept", "method", "learning_rate", "seed"]
    table = runs.set_index(names).reindex(pd.MultiIndex.from_product(axes, names=names))
    valid, test = (
        table[[f"{part} {m}" for m in METRICS]].to_numpy().reshape(*map(len, axes), -1)
        for part in ("valid", "test")
    )
    by = [METRICS.index(CHOSEN_BY.get(m, m)) for m in METRICS]
    best = valid[..., by].argmax(3)
    chosen = np.take_along_axis(test, best[:, :, :, None], 3)[:, :, :, 0]
    return {
        f"learning rate {RATES[0]:g} for all": test[:, :, :, 0],
        "learning rate chosen on the validation rows": chosen,
    }


def compare(values):
    """Mean difference to cross-entropy, half the width of its interval, and one of VERDICTS."""
    difference = values - values[:, :, :1]
    n = values.shape[3]
    # Training rows overlap: the variance of Nadeau and Bengio, tested on 1 / N_FOLDS.
    variance = (1 / n + 1 / (N_FOLDS - 1)) * difference.var(3, ddof=1)
    mean, half = difference.mean(3), t.ppf(0.975, n - 1) * np.sqrt(variance)
    return mean, half, np.vectorize(verdict, otypes=[object])(100 * mean, 100 * half)


OWN = [(i, METRICS.index(metric)) for i, (_, metric) in enumerate(METHODS.values()) if metric]


def own(values):
    """Of (data, kept, method, metric) what each method is trained for, methods first."""
    return np.stack([values[:, :, i, j] for i, j in OWN])


def places(where):
    """The settings that `where` is true of, in brackets."""
    shares = {c: [k for j, k in enumerate(KEPT) if where[i, j]] for i, c in enumerate(CASES)}
    text = "; ".join(f"{case}: {', '.join(found)}" for case, found in shares.items() if found)
    return f"{where.sum()} ({text})" if text else "0"


def counted(won, mean):
    """Won / as good / cannot tell / lost, and the mean difference."""
    return " / ".join(str(np.sum(won == v)) for v in VERDICTS) + f", {mean.mean():+.3f}"


def in_words(won):
    """How many of the comparisons were won, as good, lost, and how many cannot tell."""
    return ", ".join(f"{np.sum(won == v)} {v}" for v in VERDICTS)


def summary(results):
    """What the comparisons say: in all, by metric, by what was kept, by data."""
    text = ["## Summary", ""]
    names = list(METHODS)
    compared = {name: compare(values) for name, values in results.items()}
    for name, judged in compared.items():
        half, won = (a[:, :, 1:, : len(COMPARED)] for a in judged[1:])
        its_mean, its_won = own(judged[0]), own(judged[2])
        text.append(
            f"- With the {name}, the classifiers trained for a metric, in {its_won.size} "
            f"comparisons with cross-entropy on this metric: {in_words(its_won)}; the mean "
            f"difference is {its_mean.mean():+.3f}. All methods on all metrics: {in_words(won)}, "
            f"of {won.size}. Without any difference, {0.025 * its_won.size:.0f} and "
            f"{0.025 * won.size:.0f} would be won by chance, and as many lost. "
            f"The median interval is ±{np.median(half):.3f}: smaller "
            f"differences do not show."
        )
        text += [
            f"  - {names[i]}, {METRICS[j]}: won {places(w == 'won')}, as good "
            f"{np.sum(w == 'as good')}, cannot tell {np.sum(w == 'cannot tell')}, lost "
            f"{places(w == 'lost')}; mean difference {m.mean():+.3f}, from {m.min():+.3f} to "
            f"{m.max():+.3f}."
            for (i, j), m, w in zip(OWN, its_mean, its_won, strict=True)
        ]
    for name, (mean, _, won) in compared.items():
        text += ["", f"### Won / as good / cannot tell / lost, and mean difference: {name}", ""]
        rows = []
        for i in range(1, len(names)):
            cells = [counted(won[:, :, i, j], mean[:, :, i, j]) for j in range(len(COMPARED))]
            bold = [f"**{c}**" if (i, j) in OWN else c for j, c in enumerate(cells)]
            rows.append([names[i], *bold])
        text += ["Its own metric is bold.", "", markdown(["method", *COMPARED], rows), ""]
        rows = []
        for i, j in OWN:
            parts = [(won[:, k, i, j], mean[:, k, i, j]) for k in range(len(KEPT))]
            parts += [(won[c, :, i, j], mean[c, :, i, j]) for c in range(len(CASES))]
            rows.append([f"{names[i]}, {METRICS[j]}", *(counted(*part) for part in parts)])
        text += ["Its own metric, by what was kept and by data.", ""]
        text.append(markdown(["method, metric", *KEPT, *CASES], rows))
    return text


def tables(results, runs):
    """Means and differences of every setting."""
    text = []
    for name, values in results.items():
        mean, half, won = compare(values)
        for c, case in enumerate(CASES):
            rows = []
            for k, share in enumerate(KEPT):
                here = runs[(runs.data == case) & (runs.kept == share)]
                kept = f"{share}: {here.rows.mean():.0f}, {here.positives.mean():.0f} positive"
                for i, method in enumerate(METHODS):
                    cells = [f"{v:.3f}" for v in values[c, k, i].mean(0)]
                    for j in range(len(COMPARED) if i else 0):
                        difference = f"{mean[c, k, i, j]:+.3f} ± {half[c, k, i, j]:.3f}"
                        clear = won[c, k, i, j] in ("won", "lost")
                        bold = f"**{difference}**" if clear else difference
                        cells[j] += f" ({bold})"
                    rows.append([kept, method, *cells])
            text += ["", f"## {case}: {name}", ""]
            text.append(markdown(["training rows", "method", *METRICS], rows))
    return text


def page(runs, scale):
    results = arrays(runs)
    max_rows, steps = SCALES[scale].values()
    rows = f"at most {max_rows} rows of each, drawn once" if scale == "small" else "all rows"
    text = [
        "# Imbalance: trained for the metric, or by cross-entropy with a tuned threshold",
        "",
        f"`benchmarks/imbalance.py`: {len(CASES)} data sets, {rows}. Of the training rows all or a "
        "part of one class is kept; the test rows stay as they are, so that thresholds tuned on "
        "thinned rows meet other proportions. Where positives are rare, fewer negatives are less "
        "imbalance, not more (of the digits 10 % are positive, with a tenth of the negatives 52 "
        "%), and a tenth of the positives of a small table leaves 3 rows to choose a rate on: "
        "`reproduce/halves.py` takes two equal halves instead. "
        f"{N_FOLDS} folds, each with its own initialisation; of its training "
        f"rows {VALIDATION:.0%} are set aside, to choose the learning rate of "
        f"{', '.join(f'{r:g}' for r in sorted(RATES))} for each method and metric. All methods: "
        f"{COMMON['hidden_layer_sizes'][0]} hidden units, standardised features, Adam, batches of "
        f"{COMMON['batch_size']} (at least 10 rows of them positive, but for cross-entropy), the "
        f"epochs that make {steps} batches, else defaults.",
        "",
        f"AUC, average precision (AP), precision at recall {LEVEL} (P@R) and recall at precision "
        f"{LEVEL} (R@P) are those of the scores. F1, and the recall and precision reached, are "
        f"those at thresholds tuned for F1 and for precision {LEVEL} on the training rows, by the "
        "same rule for all (a precision of 0 where nothing is flagged). Differences are paired by "
        "fold. The intervals are 95 % confidence intervals of Student's t, n = "
        f"{runs.seed.nunique()}, with the correction of Nadeau and Bengio for training rows that "
        f"overlap. In points (hundredths), {RULE}. "
        f"{len(runs)} networks, {runs.s.sum() / 60:.0f} minutes of training on shared cores.",
        "",
        *summary(results),
        *tables(results, runs),
    ]
    return "\n".join(text)


def main():
    parser = arguments(__doc__, "imbalance", seeds={"small": N_FOLDS, "full": N_FOLDS}, prefix="")
    args = parser.parse_args()
    runs = run_missing(run, settings(args), args, seconds=0.45 if args.scale == "small" else 4)
    runs = runs[runs.scale == args.scale]
    if len(runs) == len(settings(args)):
        write_page(args, page(runs, args.scale))


if __name__ == "__main__":
    main()
