"""This package less each other method, table by table: who wins, by how much, and why not."""

import numpy as np
import pandas as pd
from reproduce._protocol import markdown, plus_minus

from sktopk.metrics._statistics import PairedDifference, clear_sign

from ._methods import OURS

# What is known of the tables that are lost to one method or another.
WHY = {
    "annthyroid": "a row of the 178 positives of a split is worth .56 points of recall, and one of "
    "the 24 that are 1 % of its rows 4.2 of precision. By recall boosting alone is well ahead of "
    "the other voters ([each voter](voting.md)); why is not known.",
    "churn": "boosting alone finds as much as all three voters, extra trees less and the network "
    "least ([each voter](voting.md)): their mean gives away some of its lead. A sum over columns, "
    "as logistic regression is one, tells little here, and trees, which cut columns one after the "
    "other, nearly all.",
    "digits": "not known; not the loss, as the network has the same top-1 with cross-entropy "
    "alone. A point is six of the 599 rows of a split.",
    "kddcup, at most 2 000 of a class": "two or three of the 6 549 rows of a split.",
    "letter": "not the loss, as cross-entropy alone has nearly the same top-1, but the network: "
    "with 5 000 rows [wider layers, and more epochs](tabular_network.md), found the letter more "
    "often than the sizes of the default.",
    "letter, long tail": "as for letter; a tenth of a point is less than two of the 1 781 rows of "
    "a split.",
    "merck METAB": "few rows decide, so that little can be told: of 698 in a split 109 are active, "
    "five inactive ones are 1 % of them, and seven rows are 1 % of all, each of them worth 14 "
    "points of precision in its split.",
    "optdigits": "one of the 50 positives of a split is two points.",
    "pendigits": "one of the 52 positives of a split is two points.",
    "shuttle": "not known; a tenth of a point is eight of the 8 000 rows of a split.",
}


def by_table(scores, kind, half):
    """Ours less each other method: a row per job, method and table, over the splits both have.

    In points, with half the 95 % interval of the corrected resampled t-test and its sign where
    that is clear; one split has none.
    """
    here = scores[(scores.kind == kind) & (scores.half == half)]
    rows = []
    for job, cells in here.groupby("job", sort=False):
        by_method = cells.set_index(["table", "split"]).groupby("method")
        ours = by_method.get_group(OURS) if OURS in by_method.groups else None
        for method, other in by_method:
            if method == OURS or ours is None:
                continue
            both = ours[["score", "n_train", "n_test"]].join(
                other.score.rename("other"), how="inner"
            )
            both = both[np.isfinite(both.score) & np.isfinite(both.other)]
            for table, runs in both.groupby("table"):
                half_width = sign = np.nan
                if len(runs) > 1:
                    fraction = runs.n_test.iloc[0] / (runs.n_test.iloc[0] + runs.n_train.iloc[0])
                    found = PairedDifference.of(runs.score, runs.other, fraction)
                    half_width = 100 * found.half_width(0.95)
                    sign = clear_sign(found.mean, found.half_width(0.95))
                rows.append(
                    {
                        "job": job,
                        "method": method,
                        "table": table,
                        "ours": 100 * runs.score.mean(),
                        "other": 100 * runs.other.mean(),
                        # Scores are kept to six digits: a smaller difference is none.
                        "points": round(100 * (runs.score - runs.other).mean(), 3),
                        "half_width": half_width,
                        "sign": sign,
                        "n_splits": len(runs),
                    }
                )
    columns = "job method table ours other points half_width sign n_splits".split()
    return pd.DataFrame(rows, columns=columns)


def by_job(found):
    """A row per job and method of `by_table`: the mean over tables, and how many are won.

    A table is won where the mean over splits is higher, and clearly won where the interval lies
    above 0.
    """
    rows = []
    for (job, method), cells in found.groupby(["job", "method"], sort=False):
        points, sign = cells.points, cells.sign
        counts = [int((points > 0).sum()), int((points == 0).sum()), int((points < 0).sum())]
        clear = [int((sign > 0).sum()), int((sign < 0).sum())]
        difference = plus_minus(points.to_numpy(), sign="+")
        rows.append(
            [job, method, difference, " / ".join(map(str, counts)), " / ".join(map(str, clear))]
        )
    return rows


def lost(found, methods):
    """The tables of `by_table` that are lost to these methods, and what is known of the reason.

    In bold what is clearly lost. Links are as from the folder of the results.
    """
    found = found[found.method.isin(methods) & (found.points < 0)]
    if not len(found):
        return [f"No table is lost to {' or '.join(methods)}."]
    found = found.sort_values("points", kind="stable")
    rows = []
    for method in methods:
        for row in found[found.method == method].itertuples():
            points = f"{row.points:.2f}"
            if np.isfinite(row.half_width):
                points += f" ± {row.half_width:.2f}"
            cells = [method, row.table, row.job, f"{row.ours:.2f}", f"{row.other:.2f}"]
            rows.append([*cells, f"**{points}**" if row.sign < 0 else points, row.n_splits])
    header = ["lost to", "table", "job", OURS, "the other", "difference", "splits"]
    reasons = [
        f"- {table}: {WHY.get(table, 'not known.')}"
        for table in sorted(set(found.table), key=str.lower)
    ]
    return [markdown(header, rows), "", *reasons]
