"""Which score should stop DeepTopPushClassifier: its own, the area under the ROC curve, or none.

Its metric, the share of positives above every negative, hangs on one validation negative. The
estimator therefore watches `partial_auc_log_score` from a false-positive rate of one validation
negative to 1. Here each network is trained once, to the last epoch; the validation rows are scored
after each epoch, and so are fresh rows: what a score would have stopped at is looked up afterwards,
by the rule of `early_stopping`. The differences are paired by split.

    python benchmarks/stopping_score.py

Runs that are in the CSV are not done again: delete their lines to repeat them. The full scale takes
all rows.
"""

from itertools import product

import numpy as np
from real_data import annthyroid, campaign, churn, coil2000
from reproduce._protocol import (
    arguments,
    markdown,
    mean_and_half,
    run_missing,
    seeds_of,
    write_page,
)
from sklearn.metrics import average_precision_score
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from skorch.callbacks import Callback

from sktopk import DeepTopPushClassifier
from sktopk.metrics import partial_auc_log_score, positives_at_top_score, precision_at_k_score

CASES = {"churn": churn, "campaign": campaign, "annthyroid": annthyroid, "coil2000": coil2000}
SCALES = {"small": {"max_rows": 6000, "epochs": 80}, "full": {"max_rows": 10**9, "epochs": 80}}
# Half of the rows train, a tenth of these says when to stop.
FRESH, VALIDATION = 0.5, 0.1
METRICS = {"P@1%": lambda y, s: precision_at_k_score(y, s, k=0.01), "AP": average_precision_score}
STOPS = {
    "own": "its own score, positives at the top",
    "area": "the area, as the estimator does",
    "never": "not stopped",
}


def area(y, y_score):
    """What the estimator watches."""
    return partial_auc_log_score(y, y_score, min_fpr=1 / np.count_nonzero(y == 0), max_fpr=1.0)


WATCHED = {"own": positives_at_top_score, "area": area}


class Epochs(Callback):
    """Append to `curves`, by name, what scores and metrics are after each epoch."""

    def __init__(self, validation, fresh, curves):
        self.validation, self.fresh, self.curves = validation, fresh, curves

    def __deepcopy__(self, memo):
        # The estimator trains with a copy: it shall write where we read.
        return self

    def on_epoch_end(self, net, **kwargs):
        """Score both tables."""
        parts = (self.validation, WATCHED), (self.fresh, METRICS)
        for (X, y), functions in parts:
            scores = np.concatenate(
                [each.numpy().ravel() for _, each in net.score_rows(net.rows(X))]
            )
            for name, function in functions.items():
                self.curves.setdefault(name, []).append(float(function(y, scores)))


def stopped(curve, patience, tol):
    """Index of the best epoch up to the one at which early stopping ends."""
    best, where, age = -np.inf, 0, 0
    for epoch, score in enumerate(curve):
        if score > best + tol:
            age = -1
        if score > best:
            best, where = score, epoch
        age += 1
        if age >= patience:
            break
    return where


def table(data, max_rows, seed):
    """Rows to train on, to stop by and to judge on, standardised; labels 0 and 1, 1 the rarer."""
    X, y = CASES[data]()
    classes, count = np.unique(y, return_counts=True)
    rows = np.random.default_rng(seed).permutation(len(y))[:max_rows]
    X, y = np.asarray(X, np.float32)[rows], (np.asarray(y)[rows] == classes[count.argmin()]) + 0
    options = {"random_state": seed}
    X, X_fresh, y, y_fresh = train_test_split(X, y, test_size=FRESH, stratify=y, **options)
    X, X_val, y, y_val = train_test_split(X, y, test_size=VALIDATION, stratify=y, **options)
    scale = StandardScaler().fit(X).transform
    return (scale(X), y), (scale(X_val), y_val), (scale(X_fresh), y_fresh)


def run(data, seed, max_rows, epochs):
    """Train one network and look up where each score would have stopped it."""
    train, validation, fresh = table(data, max_rows, seed)
    curves = {}
    clf = DeepTopPushClassifier(
        max_epochs=epochs, callbacks=[Epochs(validation, fresh, curves)], random_state=seed
    )
    clf.fit(*train)
    rule = clf.n_iter_no_change, clf.tol
    ends = {name: stopped(curves[name], *rule) for name in WATCHED} | {"never": epochs - 1}
    row = {"rows": len(train[1]), "positives": int(train[1].sum())}
    for name, end in ends.items():
        row |= {f"{name} {metric}": curves[metric][end] for metric in METRICS}
        row[f"{name} epoch"] = end + 1
    return row


def settings(args):
    axes = product(CASES, seeds_of(args))
    return [{"data": data, "seed": seed} | SCALES[args.scale] for data, seed in axes]


def difference(runs, metric, one, other):
    mean, half = mean_and_half(runs[f"{one} {metric}"] - runs[f"{other} {metric}"])
    text = f"{mean:+.3f} ± {half:.3f}"
    return f"**{text}**" if abs(mean) > half else text


def values(runs):
    """Means of each way to stop, and differences to stopping by its own score."""
    rows = []
    for data in CASES:
        here = runs[runs.data == data]
        for name, said in STOPS.items():
            cells = [f"{here[f'{name} {m}'].mean():.3f}" for m in METRICS]
            differences = (
                [difference(here, m, name, "own") for m in METRICS] if name != "own" else ["", ""]
            )
            rows.append([data, said, f"{here[f'{name} epoch'].mean():.0f}", *cells, *differences])
    header = [
        "table",
        "stopped by",
        "epoch kept",
        *METRICS,
        *(f"{m}, less its own" for m in METRICS),
    ]
    return markdown(header, rows)


def no_stopping(runs):
    """Differences of no early stopping to both others."""
    rows = []
    for data in CASES:
        here = runs[runs.data == data]
        cells = [difference(here, m, "never", other) for other in WATCHED for m in METRICS]
        rows.append([data, *cells])
    return markdown(["table", *(f"{m}, less {o}" for o in WATCHED for m in METRICS)], rows)


def verdict(runs):
    """In how many tables no early stopping is ahead of both, and in how many clearly so."""
    lines = []
    for metric in METRICS:
        ahead = clear = 0
        for data in CASES:
            here = runs[runs.data == data]
            gains = [
                mean_and_half(here[f"never {metric}"] - here[f"{other} {metric}"])
                for other in WATCHED
            ]
            ahead += all(mean > 0 for mean, _ in gains)
            clear += all(mean > half for mean, half in gains)
        lines.append(
            f"- {metric}: no early stopping is better than both in {ahead} of {len(CASES)} tables, "
            f"by more than the intervals in {clear}."
        )
    return "\n".join(lines)


def page(runs, scale):
    max_rows, epochs = SCALES[scale].values()
    drawn = f"at most {max_rows} rows, drawn anew" if scale == "small" else "all rows"
    return "\n".join(
        [
            "# What stops DeepTopPushClassifier",
            "",
            f"`benchmarks/stopping_score.py`: {len(CASES)} tables, {runs.seed.nunique()} splits "
            f"each, of {drawn}: half of them to train on, a tenth of these to stop by, the other "
            f"half fresh, for the metrics. Defaults of the estimator, {epochs} epochs; after each, "
            "validation rows and fresh rows are scored. Patience, `tol` and the best epoch are "
            "those of `early_stopping`. ± is half of a 95 % confidence interval of Student's t of "
            "the mean of paired differences, taken as if splits, which share rows, were "
            "independent; bold where it leaves out 0.",
            "",
            verdict(runs),
            "",
            values(runs),
            "",
            "## No early stopping, less each score",
            "",
            no_stopping(runs),
        ]
    )


def main():
    parser = arguments(__doc__, "stopping_score", seeds={"small": 10, "full": 10}, prefix="")
    args = parser.parse_args()
    runs = run_missing(run, settings(args), args, seconds=12)
    runs = runs[runs.scale == args.scale]
    if len(runs) == len(settings(args)):
        write_page(args, page(runs, args.scale))


if __name__ == "__main__":
    main()
