"""What do fewer members and epochs of `TopKClassifier` save, and what do more fits bring?

The tables of several classes of the choosing half of `top_of_the_table.py`, one thread: its
defaults (8 members, at most 100 epochs in each phase, of which ten without a gain end it) beside
fewer members and epochs, less patience, cross-entropy alone, `loss="auto"`, and a plain network.

    SKTOPK_DATA=... python benchmarks/topk_cost.py

Runs that are in the CSV are not done again: delete their lines to repeat them.
"""

from reproduce._protocol import (
    arguments,
    markdown,
    plus_minus,
    run_missing,
    seeds_of,
    write_page,
)
from tables._data import HALF, TABLES, split_of
from tables._jobs import fit_and_score
from tables._methods import METHODS

NETWORKS = {
    "the default": {},
    "5 epochs without a gain": {"n_iter_no_change": 5},
    "4 members": {"n_members": 4},
    "4 members, 30 epochs": {"n_members": 4, "max_epochs": 30},
    "cross-entropy alone": {"loss": "cross_entropy"},
    'loss="auto"': {"loss": "auto"},
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
    fit_s, _, scores = fit_and_score(estimator, rows, "multiclass")
    return {"fit_s": fit_s, **scores}


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
    peers = PLAIN, DEFAULT

    def number(value):
        return f"{value:.2f}" if value == value else ""

    def line(name):
        change = scores.xs(name, axis=1, level="method") - scores.xs(
            DEFAULT, axis=1, level="method"
        )
        change = change.dropna().groupby("table").mean()
        ratios = ((seconds[name] / seconds[peer]).median() for peer in peers)
        n_splits = len(seconds[name].dropna()) / len(change)
        changes = (plus_minus(change[metric], sign="+") for metric in METRICS)
        counts = f"{len(change)}", f"{n_splits:.0f}", f"{seconds[name].median():.1f}"
        return [name, *counts, *(f"{ratio:.2f}" for ratio in ratios), *changes]

    names = [name for name in (PLAIN, *NETWORKS) if name in seconds]
    top = scores["top-5"].xs(0, level="split")
    text = [
        "# What fewer members and epochs save, and what more fits bring",
        "",
        "`benchmarks/topk_cost.py`: tables of several classes, all of the choosing half; one "
        "thread; seconds of the processor. The default has 8 members, at most 100 epochs in each "
        "phase, which ten without a gain end; the others differ as they say. Accuracy in points "
        "less that of the default on the same splits, the mean over tables ± half its 95 % "
        "confidence interval.",
        "",
        markdown(
            [
                "method",
                "tables",
                "splits",
                "fit, s",
                f"times {PLAIN}",
                f"times {DEFAULT}",
                *METRICS,
            ],
            [line(name) for name in names],
        ),
        "",
        "## Top-5 accuracy, table by table, first split",
        "",
        "What is empty was not run.",
        "",
        markdown(["table", *names], [[t, *map(number, top.loc[t, names])] for t in top.index]),
    ]
    return "\n".join(text)


def main():
    parser = arguments(__doc__, "topk_cost", seeds={"full": 1}, prefix="")
    parser.set_defaults(n_jobs=1)
    args = parser.parse_args()
    write_page(args, page(run_missing(run, settings(args), args, seconds=30)))


if __name__ == "__main__":
    main()
