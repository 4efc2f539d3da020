"""From which scores to take the threshold of a ranker: a share of fresh rows is to be above it.

A cross-fitted ranker, the default, scores fresh rows by the mean of all members, and each row of
its training has a member that left it out. `threshold_` is taken from what all members would say
of the training rows if none had seen them: the scores of a row that a member was trained on are
moved, by rank and class, to those of the rows that it left out. Beside it thresholds from the
scores of the rows left out as they are, each by the members that did, and from those of the rows
trained on, by the mean of all. A last column scores fresh rows as the left-out ones are, by one
member each: where its share is the one asked for, it is the mean of the members that makes the
threshold of the left-out rows too high.

Tables of the choosing half of `top_of_the_table.py` with enough rows, 2 000 to train on.

    SKTOPK_DATA=... python benchmarks/threshold_rows.py

Runs that are in the CSV are not done again: delete their lines to repeat them.
"""

from itertools import product

import numpy as np
from reproduce._protocol import (
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
# The scores that the threshold is taken from.
BY = {
    "as unseen": "all members, as if none had seen a row: `threshold_`",
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
    # All scores are less threshold_.
    left_out = midway(clf.oob_decision_function_[of_train], share)
    trained = midway(clf.decision_function(X_train)[of_train], share)
    above = clf.decision_function(X_fresh)[of_fresh]
    each = clf.net_.score_by_member(clf.net_.rows(X_fresh)).numpy()[of_fresh] - clf.threshold_
    return {
        "fresh": int(of_fresh.sum()),
        "asked": share,
        "as unseen": float((above > 0).mean()),
        "left out": float((above > left_out).mean()),
        "trained": float((above > trained).mean()),
        "one member": float((each > left_out).mean()),
    }


def settings(args):
    axes = product(seeds_of(args), TABLES, RANKERS)
    return [{"table": table, "draw": draw, "ranker": ranker} for draw, table, ranker in axes]


def by_ranker(runs):
    """Means over tables and draws."""
    rows = []
    for ranker, (_, share) in RANKERS.items():
        here = runs[runs.ranker == ranker]
        cells = [plus_minus(here[name] / share) for name in BY]
        rows.append([ranker, f"{share:.2f}", *cells])
    header = ["ranker", "asked for", *BY.values()]
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
            "negatives for PatMatNP), scored by the mean of all members, the share above the "
            "threshold that has the share asked for of other scores: of those that all members "
            "would give the training rows if none had seen them, of the rows left out, each scored "
            "by the member that left it out, or of the rows trained on, scored as fresh ones are. "
            "In the last column fresh rows are scored by one member each.",
            "",
            "## The share flagged, divided by the share asked for",
            "",
            "Mean over the draws ± half its 95 % confidence interval (Student's t, taken as "
            "if draws of a table, which share rows, were independent).",
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
    parser = arguments(__doc__, "threshold_rows", seeds={"full": 2}, prefix="")
    parser.set_defaults(n_jobs=1)
    args = parser.parse_args()
    write_page(args, page(run_missing(run, settings(args), args, seconds=12)))


if __name__ == "__main__":
    main()
