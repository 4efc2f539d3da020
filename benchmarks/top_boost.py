"""Boosted trees with a loss for the top, compared with the log loss.

The 26 datasets of two classes of `top_of_the_table.py` with the same splits; one thread. The trees
are those of LightGBM with its defaults, so that only the loss differs. The defaults were chosen on
the choosing half.

    python benchmarks/top_boost.py                          # what the file lacks
    python benchmarks/top_boost.py --half choosing --splits 3
    python benchmarks/top_boost.py --report                 # the page, from the file

Every fit is one line of `results/top_boost.jsonl`, and is not repeated. LightGBM comes with the
extra `boosting`.
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
# The difference that does not matter, of scores in [0, 1].
MARGIN = 0.01
LOG, ONE, MEMBERS = {"log_loss_share": 1}, {"n_members": 1}, {"n_members": 5}
# What both halves have: the log loss and the default, with one member and with five.
REPORTED = {
    "log loss": LOG | ONE,
    "top": ONE,
    "log loss, 5 members": LOG | MEMBERS,
    "top, 5 members": MEMBERS,
}
# What is set against what: the loss alone, and the default against LightGBM as it is.
COMPARED = [
    ("top", "log loss"),
    ("top, 5 members", "log loss, 5 members"),
    ("top, 5 members", "log loss"),
]


def cell(table, params, split):
    """The line of one fit: scores and seconds of the processor, or the error it ended with."""
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
    """Settings of the fits that the file lacks, split by split."""
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
    """Return the mean difference of two settings on each dataset of a half, and its clear signs."""
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
    """Mean differences in points with their intervals and verdicts, as Markdown."""
    header = ["job", "setting", "against", "difference", "verdict", "won / equal / lost", "clearly"]
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
            # Of one split nothing is clear.
            clear = f"{(signs > 0).sum()} / {(signs < 0).sum()}" if len(signs) else ""
            rows.append([job, method, baseline, interval, verdict, won, clear])
    return markdown(header, rows)


def scores_by_table(lines):
    """The mean score in percent of each setting on each table."""
    text = []
    for job in BINARY:
        mean = lines.pivot_table(index="table", columns="method", values=job, aggfunc="mean")
        rows = [
            [table, HALF[table], *(f"{100 * mean.loc[table, m]:.1f}" for m in REPORTED)]
            for table in TABLES
            if table in mean.index
        ]
        text += ["", f"### {job}", "", markdown(["table", "half", *REPORTED], rows)]
    return "\n".join(text[1:])


def seconds(lines):
    """Median over the tables of the seconds of a fit."""
    found = lines.groupby(["method", "table"]).fit_s.mean().groupby("method").median()
    return ", ".join(f"{method} {found[method]:.2g}" for method in REPORTED)


def page(lines):
    """The page: the reporting half, how the default was chosen, every score."""
    splits = lines.groupby(["method", "table"]).split.nunique()
    return "\n".join(
        [
            "# Boosted trees with a loss of the top",
            "",
            f"`benchmarks/top_boost.py`: TopBoostClassifier on {lines.table.nunique()} tables of "
            f"two classes, {splits.min()} to {splits.max()} splits, LightGBM's defaults, one "
            "thread. Differences of scores in points: the mean over tables with its 95 % "
            "confidence interval (Student's t, tables as the sample); tables won / equal / lost by "
            "the mean of the splits; clearly won / lost by the corrected resampled t-test, where a "
            "table has several splits. Verdicts have a margin of one point.",
            "",
            f"Seconds of a fit, median of the tables: {seconds(lines)}.",
            "",
            "## The reporting half",
            "",
            table_of(lines, "reporting"),
            "",
            "## The choosing half",
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
    add("--half", choices=HALVES, help="default: both, without what was tried on one")
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
