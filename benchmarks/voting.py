"""What does each voter of `TopVotingClassifier` bring: the network, boosting, extra trees?

The tables of two classes of the reporting half of `top_of_the_table.py`, one thread: one default
fit of the vote for each table and split, whose voters are then judged alone and together.

    SKTOPK_DATA=... python benchmarks/voting.py

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
from tables._jobs import BINARY, scores_of

from sktopk import TopVotingClassifier

# The shares that network, boosting and extra trees have in a score.
VOTES = {
    "all three": (1, 1, 1),
    "the network": (1, 0, 0),
    "boosting": (0, 1, 0),
    "extra trees": (0, 0, 1),
    "network and boosting": (1, 1, 0),
    "network and extra trees": (1, 0, 1),
    "boosting and extra trees": (0, 1, 1),
}


def run(table, split):
    """Scores of each vote in every job, and seconds of the processor."""
    rows = split_of(table, split)
    begin = time.process_time()
    clf = TopVotingClassifier(random_state=split).fit(rows.X, rows.y)
    seconds = time.process_time() - begin
    voters = [clf.estimator_.predict_proba(rows.X_test)[:, 1].astype(float)]
    for fitted in clf.others_:
        each = [one.predict_proba(rows.X_test)[:, 1] for one in fitted]
        voters.append(sum(each) / len(each))
    found = {"fit_s": seconds}
    for name, shares in VOTES.items():
        y_score = sum(share * voter for share, voter in zip(shares, voters, strict=True))
        scores = scores_of("binary", rows.y_test, y_score, clf.classes_)
        found |= {f"{name}: {job}": value for job, value in scores.items()}
    return found


def settings(args):
    tables = [t for t in TABLES.values() if HALF[t.name] == "reporting" and t.kind == "binary"]
    return [{"table": table.name, "split": split} for split in seeds_of(args) for table in tables]


def page(runs):
    """Scores of all three, and of fewer less those of all three."""
    mean = 100 * runs.drop(columns=["scale", "split", "s"]).groupby("table").mean()
    rows = []
    for name in VOTES:
        cells = []
        for job in BINARY:
            values = mean[f"{name}: {job}"]
            if name == "all three":
                cells.append(f"{values.mean():.2f}")
                continue
            cells.append(plus_minus(values - mean[f"all three: {job}"], sign="+"))
        rows.append([name, *cells])
    return "\n".join(
        [
            "# What each voter brings",
            "",
            f"`benchmarks/voting.py`: {len(mean)} tables of the reporting half, "
            f"{runs.split.nunique()} splits of each, one default fit of `TopVotingClassifier`, "
            f"{runs.fit_s.median():.1f} s in the median. The first line has the scores of the "
            "vote in percent, the others their differences to it in points, the mean over tables "
            "± half its 95 % confidence interval (Student's t, tables as the sample). The network "
            "is that of four members.",
            "",
            markdown(["votes", *BINARY], rows),
            "",
            "## By table",
            "",
            "Scores in percent of the vote and of each voter alone.",
            *by_table(mean, ("average precision", "recall at 1 % false positives")),
        ]
    )


def by_table(mean, jobs):
    """A table per job: scores of the vote and of its voters, a row for each data set."""
    alone = [name for name in VOTES if " and " not in name]
    text = []
    for job in jobs:
        rows = [
            [table, *(f"{row[f'{v}: {job}']:.1f}" for v in alone)] for table, row in mean.iterrows()
        ]
        text += ["", f"### {job}", "", markdown(["table", *alone], rows)]
    return text


def main():
    parser = arguments(__doc__, "voting", seeds={"full": 3}, prefix="")
    parser.set_defaults(n_jobs=1)
    args = parser.parse_args()
    write_page(args, page(run_missing(run, settings(args), args, seconds=8)))


if __name__ == "__main__":
    main()
