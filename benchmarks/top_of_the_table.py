"""Who is best at the top? The estimators of this package beside the usual ones, on 42 tables.

Two classes are judged where few rows are looked at, several classes where few labels are. At
most 8 000 rows train and 8 000 test, drawn anew for each of ten splits, of 40 where few rows test,
the same for all methods; one thread. Defaults are chosen on one half of the tables and reported on
the other: families of tables take turns in alphabetical order (`tables/_data.py`). Methods with
their defaults, but for "LightGBM, tuned" (20 tries); the slow ones have three splits, and boosting
on a table of more than 50 classes is left out where one fit takes minutes.

    python benchmarks/top_of_the_table.py                          # what the file lacks
    python benchmarks/top_of_the_table.py --methods LightGBM --splits 3 --shard 0/2
    python benchmarks/top_of_the_table.py --report                 # the page and the figure

Every fit is a line of the file, written at once; a line that is there is not made again, so that
a run goes on where it was stopped, and several may work side by side on other shards. To try
other parameters on the choosing half, in a file of their own:

    python benchmarks/top_of_the_table.py --methods TopKClassifier --half choosing \\
        --set batch_size=512 --label "batch 512" --file /tmp/tries.jsonl

LightGBM and pytabkit come with the extra `bench`.
"""

import argparse
import ast
import json
import os
import sys
import time
import warnings
from pathlib import Path

import torch
from tables._data import HALF, HALVES, TABLES, split_of
from tables._jobs import JOBS, fit_and_score
from tables._methods import FEW_SPLITS, METHODS, MORE_SPLITS, last_step
from tables._report import read, write_report

FILE = Path(__file__).parent / "results" / "top_of_the_table.jsonl"


def cell(table, method, split, params):
    """The line of one fit: its scores, or the error it ended with, and its seconds."""
    rows, n_classes = split_of(table, split), TABLES[table].n_classes
    line = {"n_train": len(rows.y), "n_test": len(rows.y_test)}
    estimator = METHODS[method].make(n_classes, split)
    last = last_step(estimator)
    last.set_params(**params)
    try:
        fit_s, predict_s, scores = fit_and_score(estimator, rows, TABLES[table].kind)
        line |= {"fit_s": fit_s, "predict_s": predict_s, **scores}
        if hasattr(last, "n_tried_"):
            line["n_tried"] = last.n_tried_
    except Exception as error:  # a method that fails is a result
        line |= {"error": f"{type(error).__name__}: {error}"[:300]}
    return {name: round(v, 6) if isinstance(v, float) else v for name, v in line.items()}


def missing(args):
    """Settings of the cells that the file lacks: the first splits of all methods come first."""
    done = read(args.file)
    done = set(zip(done.table, done.method, done.split, strict=True))
    shard, n_shards = map(int, args.shard.split("/"))
    tables = [table for i, table in enumerate(TABLES.values()) if i % n_shards == shard]
    for splits in (range(FEW_SPLITS), range(FEW_SPLITS, args.splits)):
        for method in args.methods:
            for table in tables:
                if is_asked(table, args):
                    for split in METHODS[method].splits(table):
                        key = table.name, named(method, args), split
                        if split in splits and split < args.splits and key not in done:
                            yield table.name, method, split


def is_asked(table, args):
    is_wanted = args.half in (None, HALF[table.name]) and table.kind in args.kinds
    return is_wanted and (not args.tables or any(part in table.name for part in args.tables))


def named(method, args):
    return f"{method}, {args.label}" if args.label else method


def append(path, line):
    """Write a line at once: processes do not mix theirs."""
    text = json.dumps(line, ensure_ascii=False, allow_nan=False) + "\n"
    if path.is_file() and not path.read_bytes().endswith(b"\n"):
        text = "\n" + text  # a kill broke the last line off
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(file, text.encode())
    finally:
        os.close(file)


def value(text):
    """A name and its value, of ``name=value``."""
    name, _, value = text.partition("=")
    try:
        return name, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return name, value


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--methods", nargs="+", choices=METHODS, default=list(METHODS), metavar="NAME")
    add("--tables", nargs="+", help="substrings of names", metavar="NAME")
    add("--kinds", nargs="+", choices=JOBS, default=list(JOBS), metavar="NAME")
    add("--half", choices=HALVES, help="default: both")
    add("--splits", type=int, default=10 * MORE_SPLITS, help="at most so many of each table")
    add("--shard", default="0/1", help="every n-th table from the i-th on: i/n")
    add("--set", nargs="+", type=value, default=[], metavar="NAME=VALUE", help="parameters")
    add("--label", default="", help="added to the names of methods in the file")
    add("--file", type=Path, default=FILE)
    add("--minutes", type=float, default=float("inf"), help="begin no fit after so many minutes")
    add("--list", action="store_true", help="only count what the file lacks")
    add("--report", action="store_true", help="train nothing: the page and the figure of the file")
    args = parser.parse_args()
    if args.report:
        print(write_report(args.file))
        return
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    todo = list(missing(args))
    print(f"{len(todo)} fits to do; results in {args.file}", file=sys.stderr, flush=True)
    end = time.monotonic() + 60 * args.minutes
    for i, (table, method, split) in enumerate(todo if not args.list else [], 1):
        if time.monotonic() > end:
            break
        name = named(method, args)
        line = {"table": table, "method": name, "split": split}
        line |= cell(table, method, split, dict(args.set))
        append(args.file, line)
        said = line.get("error") or f"{line['fit_s']:.1f} s"
        print(f"{i}/{len(todo)} {table}, {name}, {split}: {said}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
