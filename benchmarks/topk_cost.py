"""What do fewer members and epochs of `TopKClassifier` save, and what would a larger rate bring?

The tables of several classes of the choosing half of `top_of_the_table.py`, one thread: its
defaults (8 members, at most 100 epochs in each phase, a learning rate of 3e-3) beside a larger
rate, fewer members and epochs, and a plain network.

    SKTOPK_DATA=... python benchmarks/topk_cost.py

Runs that are in the CSV are not done again: delete their lines to repeat them.
"""

import time

from reproduce._protocol import (
    arguments,
    markdown,
    plus_minus,
    run_missing,
    seeds_of,
    write_page,
)
from tables._data import HALF, TABLES, split_of
from tables._jobs import scores_of
from tables._methods import METHODS

from sktopk.metrics._scorer import predict_scores

NETWORKS = {
    "the default": {},
    "rate 1e-2": {"learning_rate": 1e-2},
    "4 members": {"n_members": 4},
    "4 members, 30 epochs": {"n_members": 4, "max_epochs": 30},
}
DEFAULT = next(iter(NETWORKS))
PLAIN = "plain MLP"
METRICS = ("top-1", "top-3", "top-5", "macro top-5")


def run(table, split, method):
    """The scores of one fit and its seconds of the processor."""
    rows, n_classes = split_of(table, split), TABLES[table].n_classes
    name = PLAIN if method == PLAIN else "TopKClassifier"
    estimator = METHODS[name].make(n_classes, split)
    estimator[-1].set_params(**NETWORKS.get(method, {}))
    begin = time.process_time()
    estimator.fit(rows.X, rows.y)
    seconds = time.process_time() - begin
    labels, y_score = predict_scores(estimator, rows.X_test)
    return {"fit_s": seconds, **scores_of("multiclass", rows.y_test, y_score, labels)}


def settings(args):
    tables = [t for t in TABLES.values() if HALF[t.name] == "choosing" and t.kind == "multiclass"]
    return [
        {"table": table.name, "split": split, "method": method}
        for split in seeds_of(args)
        for method in (PLAIN, *NETWORKS)
        for table in tables
    ]


def page(runs):
    """Scores less those of the default on the same splits, seconds as medians of their ratios."""
    runs = runs.pivot_table(["fit_s", *METRICS], ["table", "split"], "method")
    scores, seconds = 100 * runs[list(METRICS)], runs["fit_s"]

    def line(name):
        change = scores.xs(name, axis=1, level="method") - scores.xs(
            DEFAULT, axis=1, level="method"
        )
        change = change.dropna().groupby("table").mean()
        ratio = (seconds[name] / seconds[PLAIN]).median()
        n_splits = len(seconds[name].dropna()) / len(change)
        changes = (plus_minus(change[metric], sign="+") for metric in METRICS)
        return [name, f"{n_splits:.0f}", f"{seconds[name].median():.1f}", f"{ratio:.1f}", *changes]

    top = scores["top-5"].dropna().groupby("table").mean()
    names = [PLAIN, *NETWORKS]
    text = [
        "# What fewer members and epochs save, and what a larger rate would bring",
        "",
        f"`benchmarks/topk_cost.py`: {len(top)} tables of several classes, all of the choosing "
        "half; one thread; seconds of the processor. The default has 8 members, at most 100 epochs "
        "in each phase and a learning rate of 3e-3; the others differ as they say. Accuracy in "
        "points less that of the default, the mean over tables ± half its 95 % confidence "
        "interval.",
        "",
        markdown(
            ["method", "splits", "fit, s", f"times {PLAIN}", *METRICS], [line(n) for n in names]
        ),
        "",
        "## Top-5 accuracy, table by table, splits that all have",
        "",
        markdown(
            ["table", *names], [[t, *(f"{top.loc[t, n]:.2f}" for n in names)] for t in top.index]
        ),
    ]
    return "\n".join(text)


def main():
    parser = arguments(__doc__, "topk_cost", seeds={"full": 1}, prefix="")
    parser.set_defaults(n_jobs=1)
    args = parser.parse_args()
    write_page(args, page(run_missing(run, settings(args), args, seconds=30)))


if __name__ == "__main__":
    main()
