"""The mean of what: of the scores of members, of their probabilities or of their ranks?

The tables of the choosing half of `top_of_the_table.py`, one thread: `PatMatClassifier(tau=0.01)`
of two classes, `TopKClassifier(k=5)` of several. The scores of the test rows by each of eight
members are put together in four ways.

    SKTOPK_DATA=... python benchmarks/member_average.py

Runs that are in the CSV are not done again: delete their lines to repeat them.
"""

import math

import torch
from reproduce._protocol import (
    arguments,
    markdown,
    plus_minus,
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

# Of scores (n_members, n_samples) of two classes, or (n_members, n_samples, n_classes).
MEANS = {
    "scores": lambda each: each,
    "probabilities": lambda each: softmax(each, -1) if each.ndim == 3 else expit(each),
    "log-probabilities": lambda each: log_softmax(each, -1) if each.ndim == 3 else log_expit(each),
    "ranks": lambda each: rankdata(each, axis=each.ndim - 1),
}
TITLES = {"binary": "Two classes", "multiclass": "Several classes"}
NAMES = {f"{mean}: {job}": math.nan for mean in MEANS for kind in JOBS for job in JOBS[kind]}


def run(table, split):
    """Scores of one fit in every job of its kind, by how the members are put together."""
    rows, kind = split_of(table, split), TABLES[table].kind
    scale = StandardScaler().fit(rows.X)
    if kind == "binary":
        clf = PatMatClassifier(tau=0.01)
    else:
        clf = TopKClassifier(k=min(5, TABLES[table].n_classes - 1))
    clf.set_params(random_state=split, device="cpu")
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
    tables = [table.name for table in TABLES.values() if HALF[table.name] == "choosing"]
    return [{"table": table, "split": split} for split in seeds_of(args) for table in tables]


def page(runs):
    """Differences to the mean of the scores."""
    text = [
        "# The mean of what?",
        "",
        "`benchmarks/member_average.py`: the choosing half of the tables, "
        f"{runs.split.nunique()} split(s) of each, networks of eight members. The first line has "
        "the scores in percent, the others differences to it in points, the mean over tables ± "
        "half its 95 % confidence interval (Student's t, tables as the sample).",
    ]
    for kind, jobs in JOBS.items():
        mean = runs[[TABLES[table].kind == kind for table in runs.table]].groupby("table")
        mean = 100 * mean[list(NAMES)].mean()
        if len(mean) < 2:
            continue
        rows = []
        for name in MEANS:
            cells = []
            for job in jobs:
                values = mean[f"{name}: {job}"]
                if name == "scores":
                    cells.append(f"{values.mean():.2f}")
                    continue
                cells.append(plus_minus(values - mean[f"scores: {job}"], sign="+"))
            rows.append([name, *cells])
        title = f"## {TITLES[kind]}: {len(mean)} tables"
        text += ["", title, "", markdown(["mean of", *jobs], rows)]
    return "\n".join(text)


def main():
    parser = arguments(__doc__, "member_average", seeds={"full": 1}, prefix="")
    parser.set_defaults(n_jobs=1)
    args = parser.parse_args()
    write_page(args, page(run_missing(run, settings(args), args, seconds=10)))


if __name__ == "__main__":
    main()
