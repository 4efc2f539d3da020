"""From which rows to take the threshold of a ranker: those that members left out, or all.

A cross-fitted ranker, the default, has its `threshold_` from scores of the training rows, each by
the members that left the row out. Other rows are scored by the mean of all members. Here the
share of fresh rows above that threshold stands beside the share asked for, and beside that above
the threshold which the same network would have from its scores of the rows it was trained on. A
third column scores fresh rows as the left-out ones were, by one member each: where its share is
the one asked for, it is the mean of the members that makes the first differ.

Tables of the choosing half of `top_of_the_table.py` with enough rows, 2 000 to train on.

    SKTOPK_DATA=... python benchmarks/threshold_rows.py

Runs that are in the CSV are not done again: delete their lines to repeat them.
"""

from itertools import product

import numpy as np
import torch
from reproduce._protocol import (
    RESULTS,
    arguments,
    markdown,
    plus_minus,
    run_missing,
    seeds_of,
    write_page,
)
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from tables._data import loaded

from sktopk import PatMatClassifier, PatMatNPClassifier, RecallAtKClassifier

TABLES = ["ALOI", "coil2000", "donors", "landsat", "mnist"]
N_TRAIN, MOST_FRESH = 2000, 20_000
# With the share asked for; of the negatives where the rate is one of false positives.
RANKERS = {
    "PatMat(.02)": (PatMatClassifier(tau=0.02), 0.02),
    "PatMatNP(.01)": (PatMatNPClassifier(tau=0.01), 0.01),
    "RecallAtK(20)": (RecallAtKClassifier(k=20), 0.01),
}
# What is above zero where the threshold is that of ...
BY = {
    "left out": "rows left out",
    "trained": "rows trained on",
    "one member": "rows left out, fresh rows by one member",
}


def midway(scores, share):
    """The number between the last score of the share that is flagged and the next lower one."""
    scores = np.sort(scores)[::-1]
    n = int(np.ceil(share * len(scores) * (1 - 1e-9)))
    return (scores[n - 1] + scores[n]) / 2


def run(table, draw, ranker):
    """Shares of the fresh rows above each threshold."""
    X, y, _ = loaded(table)
    n_fresh = min(MOST_FRESH, len(y) - N_TRAIN)
    train, fresh = train_test_split(
        np.arange(len(y)), train_size=N_TRAIN, test_size=n_fresh, stratify=y, random_state=draw
    )
    scale = StandardScaler().fit(X[train]).transform
    X_train, X_fresh = (scale(X[rows]).astype(np.float32) for rows in (train, fresh))
    clf, share = RANKERS[ranker]
    clf = clf.set_params(random_state=draw, device="cpu").fit(X_train, y[train])
    counted = [np.ones(len(rows), bool) for rows in (train, fresh)]
    if ranker.startswith("PatMatNP"):
        counted = [y[rows] == 0 for rows in (train, fresh)]
    of_train, of_fresh = counted
    # Scores less threshold_, that of the rows left out: here it is 0.
    own, left_out = clf.decision_function(X_train), clf.oob_decision_function_
    above = clf.decision_function(X_fresh)[of_fresh]
    rows = clf.net_.rows(X_fresh)
    each = torch.cat([scores for _, scores in clf.net_.score_members(rows)]).numpy()
    each = each[of_fresh, :, 0] - clf.threshold_
    return {
        "fresh": int(of_fresh.sum()),
        "asked": share,
        "of left out": float((left_out[of_train] > 0).mean()),
        "left out": float((above > 0).mean()),
        "trained": float((above > midway(own[of_train], share)).mean()),
        "one member": float((each > 0).mean()),
    }


def settings(args):
    axes = product(seeds_of(args), TABLES, RANKERS)
    return [{"table": table, "draw": draw, "ranker": ranker} for draw, table, ranker in axes]


def by_ranker(runs):
    """Means over tables and draws."""
    rows = []
    for ranker, (_, share) in RANKERS.items():
        here = runs[runs.ranker == ranker]
        more = [f"{(here[name] > share).sum()} of {len(here)}" for name in BY]
        cells = [plus_minus(here[name] / share) for name in BY]
        rows.append([ranker, f"{share:.2f}", *cells, *more[:2]])
    header = ["ranker", "asked for", *BY.values(), "more than asked, left out", "trained on"]
    return markdown(header, rows)


def by_table(runs):
    """Means over draws."""
    rows = []
    for table, ranker in product(TABLES, RANKERS):
        here = runs[(runs.table == table) & (runs.ranker == ranker)]
        shares = [f"{here[name].mean():.4f}" for name in BY]
        rows.append([table, ranker, here.fresh.max(), f"{RANKERS[ranker][1]:.2f}", *shares])
    return markdown(["table", "ranker", "fresh rows", "asked for", *BY.values()], rows)


def page(runs):
    n_draws = runs.groupby(["table", "ranker"]).size()
    n_draws = " to ".join(map(str, sorted({n_draws.min(), n_draws.max()})))
    return "\n".join(
        [
            "# The rows that a threshold is taken from",
            "",
            f"`benchmarks/threshold_rows.py`: {len(TABLES)} tables of the choosing half, "
            f"{n_draws} draws of {N_TRAIN} training rows of each, at most {MOST_FRESH} of the "
            "others fresh; rankers by default, of eight members. Of the fresh rows (of the "
            "negatives for PatMatNP) the share above the threshold that has the share asked for "
            "of the rows left out, each scored by the member that left it out, or of the rows "
            "trained on, scored as fresh ones are: by the mean of all members. In the last of "
            "the three fresh rows are scored by one member each.",
            "",
            "## The share flagged, divided by the share asked for",
            "",
            "Mean over the draws ± half its 95 % confidence interval (Student's t, taken as "
            "if draws of a table, which share rows, were independent), and the draws in which "
            "more fresh rows were flagged than asked for.",
            "",
            by_ranker(runs),
            "",
            "## Table by table",
            "",
            "Shares flagged, means over draws.",
            "",
            by_table(runs),
        ]
    )


def main():
    parser = arguments(__doc__, "threshold_rows", seeds={"full": 2})
    parser.set_defaults(csv=RESULTS / "threshold_rows.csv", n_jobs=1)
    args = parser.parse_args()
    write_page(args, page(run_missing(run, settings(args), args, seconds=12)))


if __name__ == "__main__":
    main()
