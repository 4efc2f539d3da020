"""Is a network of this package together with boosting better than each alone?

The tables of two classes of the reporting half of `top_of_the_table.py`, one thread:
`PatMatClassifier(tau=0.01)` and scikit-learn's HistGradientBoostingClassifier, each with its
defaults, and scikit-learn's soft vote of the two, the mean of their probabilities.

    SKTOPK_DATA=... python benchmarks/net_and_boosting.py

A fit that is in the CSV is not made again: delete its lines to repeat it.
"""

import argparse
import csv
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from scipy.stats import t
from sklearn.ensemble import HistGradientBoostingClassifier, VotingClassifier
from tables._data import HALF, TABLES, split_of
from tables._jobs import BINARY, scores_of

from sktopk import PatMatClassifier

PATH = Path(__file__).parent / "results" / "net_and_boosting.csv"
COLUMNS = ["table", "split", "model", *BINARY]


def run(table, split):
    """Lines of the three models on one split."""
    rows = split_of(table.name, split)
    vote = VotingClassifier(
        [
            (
                "network",
                PatMatClassifier(tau=0.01, calibration="auto", random_state=split, device="cpu"),
            ),
            ("boosting", HistGradientBoostingClassifier(random_state=split)),
        ],
        voting="soft",
    ).fit(rows.X, rows.y)
    each = vote.transform(rows.X_test).reshape(len(rows.X_test), 2, 2)[:, :, 1].T
    scores = {
        # The order of the scores is that of the probabilities, without their ties.
        "network": vote.estimators_[0].decision_function(rows.X_test),
        "boosting": vote.estimators_[1].decision_function(rows.X_test),
        "both": each.mean(axis=0),
    }
    for model, y_score in scores.items():
        found = scores_of("binary", rows.y_test, y_score, vote.classes_)
        yield {"table": table.name, "split": split, "model": model, **found}


def report():
    """The page: the vote beside each of the two, over tables."""
    data = pd.read_csv(PATH)
    n_splits = data.split.nunique()
    mean = data.groupby(["model", "table"])[list(BINARY)].mean() * 100
    text = [
        f"# {__doc__.splitlines()[0]}\n",
        __doc__.split("\n\n")[1] + "\n",
        f"{len(mean.loc['both'])} tables, the mean of {n_splits} splits of each. Scores in "
        "percent; differences in points, the mean over tables with its 95 % confidence interval "
        "(Student's t), and how many tables are won / equal / lost.\n",
        "| job | network | boosting | both | both - network | both - boosting |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for job in BINARY:
        cells = [f"{mean.loc[model][job].mean():.1f}" for model in ("network", "boosting", "both")]
        for rival in ("network", "boosting"):
            change = mean.loc["both"][job] - mean.loc[rival][job]
            half = t.ppf(0.975, len(change) - 1) * change.std(ddof=1) / len(change) ** 0.5
            sign = np.sign(change.round(9))
            won = " / ".join(str(int((sign == s).sum())) for s in (1, 0, -1))
            cells.append(f"{change.mean():+.2f} ± {half:.2f} ({won})")
        text.append(f"| {job} | {' | '.join(cells)} |")
    PATH.with_suffix(".md").write_text("\n".join(text) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--splits", type=int, default=3)
    args = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    done = pd.read_csv(PATH) if PATH.is_file() else pd.DataFrame(columns=COLUMNS)
    done = set(zip(done.table, done.split, strict=True))
    of_half = [each for each in TABLES.values() if HALF[each.name] == "reporting"]
    for split in range(args.splits):
        for table in of_half:
            if table.kind != "binary" or (table.name, split) in done:
                continue
            lines = list(run(table, split))
            with PATH.open("a", newline="") as file:
                writer = csv.DictWriter(file, COLUMNS)
                if file.tell() == 0:
                    writer.writeheader()
                writer.writerows(lines)
            print(table.name, split, file=sys.stderr, flush=True)
    report()


if __name__ == "__main__":
    main()
