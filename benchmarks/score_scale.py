"""How large a scale does the smooth loss want with a network of hidden layers of your own?

All tables of several classes of `top_of_the_table.py`, one thread: `module=MLP`, one network of
100 hidden units, 100 epochs from the start with the loss, `score_scale` of "auto" (k max(5, 10
tau), which is 50 at k = 5), 5 and 1, and cross-entropy with the scale 1. Tables of fewer than six
classes have k = n_classes - 1.

    SKTOPK_DATA=... python benchmarks/score_scale.py

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
from tables._data import HALF, HALVES, TABLES, split_of
from tables._jobs import JOBS, fit_and_score
from tables._methods import METHODS

AUTO = "smooth, auto"
SCALED = {
    AUTO: {"loss": "smooth_topk"},
    "smooth, 5": {"loss": "smooth_topk", "score_scale": 5.0},
    "smooth, 1": {"loss": "smooth_topk", "score_scale": 1.0},
    "cross-entropy": {},
}
METRICS = list(JOBS["multiclass"])


def run(table, split, method):
    """The scores of one fit and its seconds of the processor."""
    rows = split_of(table, split)
    estimator = METHODS["plain MLP"].make(TABLES[table].n_classes, split)
    estimator[-1].set_params(**SCALED[method])
    fit_s, _, scores = fit_and_score(estimator, rows, "multiclass")
    return {"fit_s": fit_s, **scores}


def settings(args):
    tables = [table.name for table in TABLES.values() if table.kind == "multiclass"]
    return [
        {"table": table, "split": split, "method": method}
        for split in seeds_of(args)
        for method in SCALED
        for table in tables
    ]


def page(runs):
    """Means over tables of the differences to "auto", by half, and the top 5 of each table."""
    scores = 100 * runs.pivot(index=["table", "split"], columns="method", values=METRICS)
    half = scores.index.get_level_values("table").map(HALF)
    text = [
        "# A scale for networks of your own",
        "",
        "`benchmarks/score_scale.py`, whose first lines say what is what: points more than the "
        'smooth loss with `score_scale="auto"`, the mean over tables ± half its 95 % confidence '
        f"interval (Student's t, tables as the sample); {runs['split'].nunique()} splits of "
        f"{runs['table'].nunique()} tables.",
        "",
    ]
    lines = []
    for name in HALVES:
        own = scores[half == name]
        for method in list(SCALED)[1:]:
            less = own.xs(method, axis=1, level=1) - own.xs(AUTO, axis=1, level=1)
            means = less.groupby("table").mean()
            found = [plus_minus(means[metric], sign="+") for metric in METRICS]
            lines.append([name, method, *found])
    top = scores["top-5"].groupby("table").mean()
    each = [[t, HALF[t], *(f"{top.loc[t, m]:.2f}" for m in SCALED)] for t in top.index]
    return "\n".join(
        [
            *text,
            markdown(["half", "method", *METRICS], lines),
            "",
            "## Top-5 accuracy, table by table",
            "",
            markdown(["table", "half", *SCALED], each),
        ]
    )


def main():
    parser = arguments(__doc__, "score_scale", seeds={"full": 2}, prefix="")
    parser.set_defaults(n_jobs=1)
    args = parser.parse_args()
    write_page(args, page(run_missing(run, settings(args), args, seconds=10)))


if __name__ == "__main__":
    main()
