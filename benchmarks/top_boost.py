"""Boosted trees with a loss of the top: better than LightGBM as it is, or not?

The 26 tables of two classes of `top_of_the_table.py`, the same splits, one thread; trees are those
of LightGBM with its defaults, so that only the loss differs. On the choosing half the recipe was
looked for (what `CHOOSING` has), the reporting half was left alone until it was fixed.

    python benchmarks/top_boost.py                          # what the file lacks
    python benchmarks/top_boost.py --half choosing --splits 3
    python benchmarks/top_boost.py --report                 # the page, from the file
    python benchmarks/top_boost.py --classes several --splits 3

`--classes several` sets a top-k loss against the log loss on four tables of 7 to 26 classes, with
nothing chosen; its lines and page are `results/top_boost_classes.*`.

Every fit is a line of `results/top_boost.jsonl`, written at once; a line that is there is not made
again, so that a run goes on where it was stopped. LightGBM comes with the extra `boosting`.
"""

import argparse
import sys
import time
import warnings
from itertools import product
from pathlib import Path

import numpy as np
import torch
from reproduce._protocol import markdown, mean_and_half
from tables._data import HALF, HALVES, TABLES, split_of
from tables._jobs import BINARY, MULTICLASS, scores_of
from tables._report import read
from top_of_the_table import append

from sktopk import TopBoostClassifier
from sktopk.metrics._scorer import predict_scores
from sktopk.metrics._statistics import PairedDifference, clear_sign, verdict_of

FILE = Path(__file__).parent / "results" / "top_boost.jsonl"
CLASSES_FILE = FILE.with_name("top_boost_classes.jsonl")
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
# Of several classes: the tables, the settings, and what is set against what.
SEVERAL = ["digits", "kddcup, at most 2 000 of a class", "letter, long tail", "shuttle"]
HINGE = "top-3 hinge"
OF_CLASSES = {"log loss": LOG | ONE, HINGE: ONE | {"loss": "topk_hinge_convex", "k": 3}}
# What the default was chosen among: each differs from "top" in what it says.
CHOOSING = {
    "log loss, 200 rounds": LOG | ONE | {"n_estimators": 200},
    "top, 200 rounds": ONE | {"n_estimators": 200},
    **{
        f"share {a} of the log loss": ONE | {"log_loss_share": a}
        for a in (0, 0.3, 0.5, 0.7, 0.8, 0.9)
    },
    "highest 2 % of the negatives": ONE | {"k": 0.02},
    **{
        f"highest {100 * k:g} % of the negatives, share 0.7": ONE | {"k": k, "log_loss_share": 0.7}
        for k in (0.01, 0.1, 0.2)
    },
    "gradient as Hessian": ONE | {"hessian": "gradient"},
    "quadratic surrogate, share 0.7": ONE
    | {"loss_params": {"surrogate": "quadratic"}, "log_loss_share": 0.7},
    "pat_mat_np": ONE
    | {"loss": "pat_mat_np", "loss_params": {"tau": 0.05, "surrogate": "logistic"}},
    "pairwise_auc, share 0.7": ONE
    | {"loss": "pairwise_auc", "loss_params": {"surrogate": "logistic"}, "log_loss_share": 0.7},
}


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
    if args.classes == "several":
        every = product(range(args.splits), SEVERAL, OF_CLASSES)
        for split, name, method in every:
            if (name, method, split) not in done:
                yield name, method, OF_CLASSES[method], split
        return
    for split in range(args.splits):
        for name, table in TABLES.items():
            if table.kind != "binary" or args.half not in (None, HALF[name]):
                continue
            settings = REPORTED | (CHOOSING if args.half == "choosing" else {})
            for method, params in settings.items():
                if (name, method, split) not in done:
                    yield name, method, params, split


def difference(lines, half, job, method, baseline):
    """Mean over the splits of each table of one score minus another, and its clear signs.

    Of the tables of a half, or for None of all.
    """
    here = lines[[half in (None, HALF[table]) for table in lines.table]]
    here = here.set_index(["table", "split"])
    own, base = (here[here.method == each] for each in (method, baseline))
    both = own[[job, "n_train", "n_test"]].join(base[job].rename("base"), how="inner")
    means, signs = [], []
    for _, runs in both.groupby("table"):
        means.append((runs[job] - runs.base).mean())
        if len(runs) > 1:
            fraction = runs.n_test.iloc[0] / (runs.n_test.iloc[0] + runs.n_train.iloc[0])
            found = PairedDifference.of(runs[job], runs.base, fraction)
            signs.append(clear_sign(found.mean, found.half_width(0.95)))
    return np.array(means).round(9), np.array(signs)


def table_of(lines, half, pairs, jobs=BINARY):
    """Mean differences in points with their intervals and verdicts, as Markdown."""
    header = ["job", "setting", "against", "difference", "verdict", "won / equal / lost", "clearly"]
    rows = []
    for job in jobs:
        for method, baseline in pairs:
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


def scores_by_table(lines, jobs=BINARY, settings=REPORTED):
    """The mean score in percent of each setting on each table."""
    text = []
    for job in jobs:
        mean = lines.pivot_table(index="table", columns="method", values=job, aggfunc="mean")
        rows = [
            [table, HALF[table], *(f"{100 * mean.loc[table, m]:.1f}" for m in settings)]
            for table in TABLES
            if table in mean.index
        ]
        text += ["", f"### {job}", "", markdown(["table", "half", *settings], rows)]
    return "\n".join(text[1:])


def seconds(lines, settings=REPORTED):
    """Median over the tables of the seconds of a fit."""
    found = lines.groupby(["method", "table"]).fit_s.mean().groupby("method").median()
    return ", ".join(f"{method} {found[method]:.2g}" for method in settings)


def summary(lines):
    """What the site shows: the reporting half."""
    return table_of(lines, "reporting", COMPARED)


def summary_of_classes(lines):
    """What the site shows of several classes."""
    return table_of(lines, None, [(HINGE, "log loss")], MULTICLASS)


def page_of_classes(lines):
    """The page of several classes."""
    splits = lines.groupby(["method", "table"]).split.nunique()
    return "\n".join(
        [
            "# Boosted trees with a top-k loss: several classes",
            "",
            f"`benchmarks/top_boost.py --classes several`: TopBoostClassifier on "
            f"{lines.table.nunique()} tables of 7 to 26 classes, {splits.min()} to {splits.max()} "
            "splits, LightGBM's defaults, one member, one thread: the convex top-3 hinge with a "
            "share of 0.6 of the log loss, against the log loss alone. Nothing was chosen on these "
            "tables. Differences and verdicts are those of [the page of two "
            "classes](top_boost.md).",
            "",
            f"Seconds of a fit, median of the tables: {seconds(lines, OF_CLASSES)}.",
            "",
            summary_of_classes(lines),
            "",
            "## Scores in percent",
            "",
            scores_by_table(lines, MULTICLASS, OF_CLASSES),
            "",
        ]
    )


def page(lines):
    """The page: the reporting half, how the default was chosen, every score."""
    tried = COMPARED + [(setting, "log loss") for setting in CHOOSING]
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
            summary(lines),
            "",
            "## The choosing half: what the default was chosen among",
            "",
            '"top" is the default with one member: share 0.6 of the log loss, the mean of the '
            "highest 5 % of the negatives, logistic surrogate, curvature as Hessian, 100 rounds. "
            "The others differ from it in what they say.",
            "",
            table_of(lines, "choosing", tried),
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
    add("--classes", choices=("two", "several"), default="two")
    add("--splits", type=int, default=SPLITS)
    add("--file", type=Path, help="default: the one of these classes")
    add("--minutes", type=float, default=float("inf"), help="begin no fit after so many minutes")
    add("--report", action="store_true", help="train nothing: the page of the file")
    args = parser.parse_args()
    several = args.classes == "several"
    args.file = args.file or (CLASSES_FILE if several else FILE)
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
    make = page_of_classes if several else page
    args.file.with_suffix(".md").write_text(make(lines[lines.error.isna()]))


if __name__ == "__main__":
    main()
