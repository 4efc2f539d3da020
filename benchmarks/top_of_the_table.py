"""Comparison of the estimators of this package with common methods, on 42 datasets.

Metrics of two classes measure the top of a ranking, metrics of several classes the first labels. At
most 8 000 training and 8 000 test samples are drawn for each of ten splits (40 splits if few
samples are tested). All methods have the same samples and one thread. Defaults were chosen on one
half of the datasets ("choosing") and are reported on the other half: families of datasets take
turns in alphabetical order (`tables/_data.py`). Methods have their defaults, except "LightGBM,
tuned" (20 tries). Slow methods have three splits. Boosting is excluded on datasets with more than
50 classes if one fit takes minutes.

    python benchmarks/top_of_the_table.py                  # fits that are missing in the file
    python benchmarks/top_of_the_table.py --methods LightGBM --splits 3 --shard 0/2
    python benchmarks/top_of_the_table.py --report                 # the page and the figure

Every fit is written as one line of the file at once, and is not repeated. A run that was stopped
therefore continues, and several processes can work on different shards. To try other parameters on
the choosing half, with another file:

    python benchmarks/top_of_the_table.py --methods TopKClassifier --half choosing \
        --set batch_size=512 --label "batch 512" --file /tmp/tries.jsonl

The extra `bench` installs LightGBM and pytabkit.
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
    """Return the line of one fit: scores and seconds, or the error."""
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
    """Return the settings of fits that are missing in the file, sorted by split."""
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
    """Write a whole line at once, so that lines of several processes do not mix."""
    text = json.dumps(line, ensure_ascii=False, allow_nan=False) + "\n"
    if path.is_file() and not path.read_bytes().endswith(b"\n"):
        text = "\n" + text  # the last line is incomplete
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(file, text.encode())
    finally:
        os.close(file)


def value(text):
    """Return name and value of ``name=value``."""
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
    add(
        "--splits", type=int, default=10 * MORE_SPLITS, help="largest number of splits of a dataset"
    )
    add("--shard", default="0/1", help="i/n: every n-th dataset from the i-th on")
    add("--set", nargs="+", type=value, default=[], metavar="NAME=VALUE", help="parameters")
    add("--label", default="", help="added to the names of methods in the file")
    add("--file", type=Path, default=FILE)
    add(
        "--minutes",
        type=float,
        default=float("inf"),
        help="begin no fit after this number of minutes",
    )
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
