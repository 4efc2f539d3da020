"""Boosted trees with a loss for the top, compared with the log loss.

The data are the 26 datasets of two classes of `top_of_the_table.py`, with the same splits and one
thread. All trees have the defaults of LightGBM, so that only the loss differs. The defaults of
TopBoostClassifier were chosen on the development datasets, called the choosing half.

    python benchmarks/top_boost.py                          # fits that are missing in the file
    python benchmarks/top_boost.py --half choosing --splits 3
    python benchmarks/top_boost.py --report                 # the page, from the file

Every fit is one line of `results/top_boost.jsonl`, and is not repeated. The extra `boosting`
installs LightGBM.
"""

import argparse
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import torch
from reproduce._protocol import markdown, mean_and_half
from tables._data import HALF, HALVES, TABLES, split_of
from tables._jobs import BINARY, scores_of
from tables._report import read
from top_of_the_table import append

from sktopk import TopBoostClassifier
from sktopk.metrics._scorer import predict_scores
from sktopk.metrics._statistics import PairedDifference, verdict_of

FILE = Path(__file__).parent / "results" / "top_boost.jsonl"
SPLITS = 5
# Differences up to this size do not matter, for scores in [0, 1].
MARGIN = 0.01
LOG, ONE, MEMBERS = {"log_loss_share": 1}, {"n_members": 1}, {"n_members": 5}
# Settings of both halves: the log loss and the default, with one member and with five.
REPORTED = {
    "log loss": LOG | ONE,
    "top": ONE,
    "log loss, 5 members": LOG | MEMBERS,
    "top, 5 members": MEMBERS,
}
# Compared settings: both losses with equal numbers of members, and the default with LightGBM.
COMPARED = [
    ("top", "log loss"),
    ("top, 5 members", "log loss, 5 members"),
    ("top, 5 members", "log loss"),
]


def cell(table, params, split):
    """Return the line of one fit: scores and CPU seconds, or the error."""
    rows = split_of(table, split)
    classifier = TopBoostClassifier(random_state=split, n_jobs=1, **params)
    start = time.process_time()
    try:
        classifier.fit(rows.X, rows.y)
        line = {"fit_s": time.process_time() - start}
        labels, y_score = predict_scores(classifier, rows.X_test)
        line |= scores_of(TABLES[table].kind, rows.y_test, y_score, labels)
    except Exception as error:  # a setting that fails is a result
        line = {"error": f"{type(error).__name__}: {error}"[:300]}
    line |= {"n_train": len(rows.y), "n_test": len(rows.y_test)}
    return {name: round(v, 6) if isinstance(v, float) else v for name, v in line.items()}


def missing(args):
    """Return the settings of fits that are missing in the file, sorted by split."""
    done = read(args.file)
    done = set(zip(done.table, done.method, done.split, strict=True))
    for split in range(args.splits):
        for name, table in TABLES.items():
            if table.kind != "binary" or args.half not in (None, HALF[name]):
                continue
            for method, params in REPORTED.items():
                if (name, method, split) not in done:
                    yield name, method, params, split


def difference(lines, half, job, method, baseline):
    """Return by dataset: the mean difference of two settings, and its sign (0: not significant)."""
    here = lines[lines.table.map(HALF) == half]
    here = here.set_index(["table", "split"])
    own, base = (here[here.method == each] for each in (method, baseline))
    both = own[[job, "n_train", "n_test"]].join(base[job].rename("base"), how="inner")
    means, signs = [], []
    for _, runs in both.groupby("table"):
        means.append((runs[job] - runs.base).mean())
        if len(runs) > 1:
            fraction = runs.n_test.iloc[0] / (runs.n_test.iloc[0] + runs.n_train.iloc[0])
            found = PairedDifference.of(runs[job], runs.base, fraction)
            clear = abs(found.mean) > found.half_width(0.95)
            signs.append(int(np.sign(found.mean)) if clear else 0)
    return np.array(means).round(9), np.array(signs)


def table_of(lines, half):
    """Return mean differences in points with intervals and verdicts, as Markdown."""
    header = ["metric", "setting", "minus", "difference", "verdict"]
    header += ["better / equal / worse datasets", "clearly better / worse"]
    rows = []
    for job in BINARY:
        for method, baseline in COMPARED:
            means, signs = difference(lines, half, job, method, baseline)
            if len(means) < 2:
                continue
            mean, half_width = mean_and_half(means)
            counts = [int((means > 0).sum()), int((means == 0).sum()), int((means < 0).sum())]
            interval = f"{100 * mean:+.2f} ± {100 * half_width:.2f}"
            verdict = verdict_of(mean, half_width, MARGIN)
            won = " / ".join(map(str, counts))
            # With one split there is no significance.
            clear = f"{(signs > 0).sum()} / {(signs < 0).sum()}" if len(signs) else ""
            rows.append([job, method, baseline, interval, verdict, won, clear])
    return markdown(header, rows)


def scores_by_table(lines):
    """Return the mean score in percent of each setting on each dataset."""
    text = []
    for job in BINARY:
        mean = lines.pivot_table(index="table", columns="method", values=job, aggfunc="mean")
        rows = [
            [table, HALF[table], *(f"{100 * mean.loc[table, m]:.1f}" for m in REPORTED)]
            for table in TABLES
            if table in mean.index
        ]
        text += ["", f"### {job}", "", markdown(["dataset", "half", *REPORTED], rows)]
    return "\n".join(text[1:])


def seconds(lines):
    """Return the median seconds of a fit over datasets."""
    found = lines.groupby(["method", "table"]).fit_s.mean().groupby("method").median()
    return ", ".join(f"{method} {found[method]:.2g}" for method in REPORTED)


def page(lines):
    """Return the page: held-out datasets, development datasets, all scores."""
    splits = lines.groupby(["method", "table"]).split.nunique()
    return "\n".join(
        [
            "# Boosted trees with a loss for the top",
            "",
            f"`benchmarks/top_boost.py`: TopBoostClassifier on {lines.table.nunique()} datasets of "
            f"two classes, {splits.min()} to {splits.max()} splits, LightGBM's defaults, one "
            "thread. Differences are in points: the mean over datasets with its 95 % confidence "
            "interval (Student's t, datasets as the sample). Verdicts have a margin of one point. "
            "Datasets are better, equal or worse by the mean over splits. They are clearly better "
            'or worse by the corrected resampled t-test, if a dataset has several splits. "top" '
            "is the default loss of TopBoostClassifier.",
            "",
            f"Seconds of a fit, median over datasets: {seconds(lines)}.",
            "",
            "## Held-out datasets (the reporting half)",
            "",
            table_of(lines, "reporting"),
            "",
            "## Development datasets (the choosing half)",
            "",
            table_of(lines, "choosing"),
            "",
            "## Scores in percent",
            "",
            scores_by_table(lines),
            "",
        ]
    )


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--half", choices=HALVES, help="default: both halves")
    add("--splits", type=int, default=SPLITS)
    add("--file", type=Path, default=FILE)
    add("--minutes", type=float, default=float("inf"), help="begin no fit after so many minutes")
    add("--report", action="store_true", help="train nothing: the page of the file")
    args = parser.parse_args()
    if not args.report:
        torch.set_num_threads(1)
        warnings.simplefilter("ignore")
        end = time.monotonic() + 60 * args.minutes
        todo = list(missing(args))
        for i, (table, method, params, split) in enumerate(todo, 1):
            if time.monotonic() > end:
                break
            line = {"table": table, "method": method, "split": split}
            line |= cell(table, params, split)
            append(args.file, line)
            said = line.get("error") or f"{line['fit_s']:.1f} s"
            print(f"{i}/{len(todo)} {table}, {method}, {split}: {said}", file=sys.stderr)
    lines = read(args.file)
    args.file.with_suffix(".md").write_text(page(lines[lines.error.isna()]))


if __name__ == "__main__":
    main()
