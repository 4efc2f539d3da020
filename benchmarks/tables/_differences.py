"""This package compared with each other method, by dataset and by metric."""

import numpy as np
import pandas as pd
from reproduce._protocol import markdown, plus_minus

from sktopk.metrics._statistics import PairedDifference

from ._methods import OURS


def by_table(scores, kind):
    """Return scores of sktopk minus each other method: a row per metric, method and dataset.

    Differences are means in points over common splits. A row also has half the 95 % interval of the
    corrected resampled t-test, and the sign of the difference (0 if the interval contains 0).
    """
    here = scores[scores.kind == kind]
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
                    clear = abs(found.mean) > found.half_width(0.95)
                    sign = int(np.sign(found.mean)) if clear else 0
                rows.append(
                    {
                        "job": job,
                        "method": method,
                        "table": table,
                        "ours": 100 * runs.score.mean(),
                        "other": 100 * runs.other.mean(),
                        # Scores have six digits, so smaller differences are ties.
                        "points": round(100 * (runs.score - runs.other).mean(), 3),
                        "half_width": half_width,
                        "sign": sign,
                        "n_splits": len(runs),
                    }
                )
    columns = "job method table ours other points half_width sign n_splits".split()
    return pd.DataFrame(rows, columns=columns)


def by_job(found):
    """Return a row per metric and method: mean over datasets, and number of datasets won.

    A dataset is won if the mean over splits is higher, and clearly won if the interval lies
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


def clearly_lost(found):
    """Return the rows of `by_table` whose interval lies below 0, as Markdown."""
    header = ["lost to", "dataset", "metric", OURS, "the other", "difference", "splits"]
    rows = [
        [
            row.method,
            row.table,
            row.job,
            f"{row.ours:.2f}",
            f"{row.other:.2f}",
            f"{row.points:.2f} ± {row.half_width:.2f}",
            row.n_splits,
        ]
        for row in found[found.sign < 0].sort_values(["method", "points"]).itertuples()
    ]
    return markdown(header, rows) if rows else "None."
