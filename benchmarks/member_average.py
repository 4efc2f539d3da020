"""How many members, and the mean of what: of their scores, their probabilities or their ranks?

The tables of the choosing half of `top_of_the_table.py`, one thread: `PatMatClassifier(tau=0.01)`
of two classes, `TopKClassifier(k=5)` of several. The scores of the test rows by each member are put
together in three ways. For fewer members another fit is made, as each then leaves out more rows;
so is one of eight that stop by a tenth of the rows, without folds.

    SKTOPK_DATA=... python benchmarks/member_average.py --seeds 1

Runs that are in the CSV are not done again: delete their lines to repeat them.
"""

import math

import torch
from reproduce._protocol import (
    RESULTS,
    arguments,
    markdown,
    mean_and_half,
    run_missing,
    seeds_of,
    write_page,
)
from scipy.special import expit, log_expit, log_softmax, softmax
from scipy.stats import rankdata
from sklearn.preprocessing import StandardScaler
from tables._data import HALF, TABLES, split_of
from tables._jobs import JOBS, scores_of

from sktopk import PatMatClassifier, TopKClassifier

FITS = {
    "8 members": {},
    "4 members": {"n_members": 4},
    "2 members": {"n_members": 2},
    "1 member": {"n_members": 1},
    "8 members, without folds": {"cross_fit": False},
}
# Of scores (n_members, n_samples) of two classes, or (n_members, n_samples, n_classes).
MEANS = {
    "scores": lambda each: each,
    "probabilities": lambda each: softmax(each, -1) if each.ndim == 3 else expit(each),
    "log-probabilities": lambda each: log_softmax(each, -1) if each.ndim == 3 else log_expit(each),
    "ranks": lambda each: rankdata(each, axis=each.ndim - 1),
}
TITLES = {"binary": "Two classes", "multiclass": "Several classes"}
NAMES = {f"{mean}: {job}": math.nan for mean in MEANS for kind in JOBS for job in JOBS[kind]}


def run(table, split, fit):
    """Scores of one fit in every job of its kind, by how the members are put together."""
    rows, kind = split_of(table, split), TABLES[table].kind
    scale = StandardScaler().fit(rows.X)
    if kind == "binary":
        clf = PatMatClassifier(tau=0.01)
    else:
        clf = TopKClassifier(k=min(5, TABLES[table].n_classes - 1))
    clf.set_params(random_state=split, device="cpu", **FITS[fit])
    clf.fit(scale.transform(rows.X), rows.y)
    net = clf.net_
    test_rows = net.rows(scale.transform(rows.X_test))
    each = torch.cat([scores for _, scores in net.score_members(test_rows)]).double()
    # (n_samples, n_members, n_scores), without members where there is one.
    each = (each if each.ndim == 3 else each.unsqueeze(1)).numpy().swapaxes(0, 1)
    each = each[:, :, 0] if kind == "binary" else each
    found = dict(NAMES)
    for name, of in MEANS.items():
        scores = scores_of(kind, rows.y_test, of(each).mean(axis=0), clf.classes_)
        found |= {f"{name}: {job}": value for job, value in scores.items()}
    return found


def settings(args):
    tables = [table for table in TABLES.values() if HALF[table.name] == "choosing"]
    return [
        {"table": table.name, "split": split, "fit": fit}
        for split in seeds_of(args)
        for fit in FITS
        for table in tables
        if table.kind == "binary" or fit == "8 members"
    ]


def page(runs):
    """Differences to the mean of the scores of eight members."""
    text = [
        "# How many members, and the mean of what?",
        "",
        "`benchmarks/member_average.py`: the choosing half of the tables, "
        f"{runs.split.nunique()} split(s) of each. The first line has the scores in percent, the "
        "others differences to it in points, the mean over tables ± half its 95 % confidence "
        "interval (Student's t, tables as the sample); seconds of a fit over those of the first, "
        "the median over tables.",
    ]
    for kind, jobs in JOBS.items():
        of_kind = runs[[TABLES[table].kind == kind for table in runs.table]]
        base = of_kind[of_kind.fit == "8 members"].set_index(["table", "split"])
        rows = []
        for fit, here in of_kind.groupby("fit", sort=False):
            here = here.set_index(["table", "split"])
            both = here.index.intersection(base.index)
            for mean in MEANS:
                if mean != "scores" and fit != "8 members":
                    continue
                cells = []
                for job in jobs:
                    values = 100 * here.loc[both, f"{mean}: {job}"]
                    if (fit, mean) == ("8 members", "scores"):
                        cells.append(f"{values.groupby('table').mean().mean():.2f}")
                        continue
                    change = values - 100 * base.loc[both, f"scores: {job}"]
                    found, half = mean_and_half(change.groupby("table").mean())
                    cells.append(f"{found:+.2f} ± {half:.2f}")
                ratio = (here.s[both] / base.s[both]).median()
                rows.append([fit, mean, *cells, f"{ratio:.2f}"])
        title = f"## {TITLES[kind]}: {base.index.unique('table').size} tables"
        text += ["", title, "", markdown(["fit", "mean of", *jobs, "time"], rows)]
    return "\n".join(text)


def main():
    parser = arguments(__doc__, "members", seeds={"full": 1})
    parser.set_defaults(csv=RESULTS / "member_average.csv", n_jobs=1)
    args = parser.parse_args()
    write_page(args, page(run_missing(run, settings(args), args, seconds=10)))


if __name__ == "__main__":
    main()
