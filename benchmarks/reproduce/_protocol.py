"""Code that all reproductions share: arguments, runs that can be stopped and continued, tables.

A script describes each run as a dict of settings, and trains it in a function of these settings
that returns a dict of results. Every finished run is written as one line of a CSV file at once.
Runs in the file are not repeated, so a script that was stopped continues. Results of the first
scale of a script are kept in the repository. Runs, page and figures of other scales go to a folder
for temporary files, unless ``--csv`` names a file::

    args = arguments(__doc__, "name", seeds={"full": 10, "small": 3}).parse_args()
    runs = run_missing(run, settings(args), args, seconds=2.5)
    write_page(args, page(runs))
"""

import argparse
import importlib
import math
import sys
import tempfile
import time
import warnings
from pathlib import Path

import pandas as pd
import torch
from joblib import Parallel, delayed
from scipy.stats import t
from threadpoolctl import threadpool_limits

RESULTS = Path(__file__).parents[1] / "results"


class _Parser(argparse.ArgumentParser):
    """A parser whose default of ``--csv`` depends on the scale."""

    def parse_args(self, *args, **kwargs):
        found = super().parse_args(*args, **kwargs)
        if found.csv is None:
            found.csv = csv_of(found.stem, found.scale, kept=next(iter(found.default_seeds)))
        return found


def csv_of(stem, scale, *, kept):
    """Return the default file for the runs of a scale.

    The scale `kept` has a file in the repository, other scales have a temporary file. Each scale
    always has the same file, so that a stopped script continues.
    """
    temporary = Path(tempfile.gettempdir()) / "sktopk_reproduce" / scale
    return (RESULTS if scale == kept else temporary) / f"{stem}.csv"


def arguments(doc, name, *, seeds, prefix="reproduce_"):
    """Return a parser with the arguments of all reproductions.

    `seeds` has the number of repetitions by scale. The first scale is the default, and its
    results are kept in files that are named `prefix` + `name`.
    """
    stem = prefix + name
    parser = _Parser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    scales = list(seeds)
    add("--scale", choices=scales, default=scales[0], help=f"default: {scales[0]}")
    if "small" in seeds:
        same = "same as --scale small"
        add("--small", action="store_const", dest="scale", const="small", help=same)
    add("--seeds", type=int, help=f"run the seeds below this number (default: {seeds})")
    add("--first-seed", type=int, default=0, help="first seed, to divide the seeds among machines")
    where = f"{csv_of(stem, scales[0], kept=scales[0])}, a temporary file for other scales"
    add(
        "--csv",
        type=Path,
        help=f"file with one line per run, next to page and figures (default: {where})",
    )
    add("--n-jobs", type=int, default=2, help="number of simultaneous runs, each on one core")
    add("--minutes", type=float, default=math.inf, help="begin no run after this number of minutes")
    add("--report", action="store_true", help="train nothing, only write the page from the CSV")
    parser.set_defaults(default_seeds=seeds, stem=stem)
    return parser


def seeds_of(args):
    """Return the seeds to run."""
    last = args.default_seeds[args.scale] if args.seeds is None else args.seeds
    return range(args.first_seed, last)


def run_missing(run, settings, args, *, seconds):
    """Train the runs that the CSV file lacks, and return a frame with all runs.

    Parameters
    ----------
    run : callable
        ``run(**setting)`` returns a dict of results, or None if it must be called again to
        finish. It must be defined at the top level of the script. The columns of the file are
        "scale", the settings, the results and "s" (seconds of the run).
    settings : list of dict
        Settings of each run, with the same keys. Values are strings and numbers.
    args : Namespace
        Parsed arguments of `arguments`.
    seconds : float or callable
        Estimated seconds of a run on one core. A callable gets the setting.
    """
    settings = [{"scale": args.scale, **setting} for setting in settings]
    keys = list(settings[0])
    done = _done(args.csv, keys)
    todo = [] if args.report else [s for s in settings if _key(s.values()) not in done]
    cost = sum(seconds(s) if callable(seconds) else seconds for s in todo) / args.n_jobs
    print(
        f"{len(todo)} runs to do of {len(settings)}, about {cost / 60:.1f} minutes on "
        f"{args.n_jobs} idle cores; results in {args.csv}",
        file=sys.stderr,
        flush=True,
    )
    if args.n_jobs > 1:
        run = _by_name(run)
    # A generator, so that no run begins after the time is over.
    end = time.monotonic() + 60 * args.minutes
    calls = (delayed(_timed)(run, s) for s in todo if time.monotonic() < end)
    found = Parallel(args.n_jobs, return_as="generator_unordered", pre_dispatch=args.n_jobs)(calls)
    for i, row in enumerate(found, 1):
        if row is not None:
            _append(args.csv, row)
        print(f"{i}/{len(todo)} {row or 'unfinished'}", file=sys.stderr, flush=True)
    return pd.read_csv(args.csv) if args.csv.is_file() else pd.DataFrame(columns=keys)


def _by_name(run):
    """Return a function that other processes can import, because caches cannot be pickled."""
    if run.__module__ != "__main__":
        return run
    script = importlib.import_module(Path(sys.modules["__main__"].__file__).stem)
    return getattr(script, run.__name__)


def _timed(run, setting):
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    start = time.perf_counter()
    # torch, scikit-learn's trees and NumPy's matrix multiplications have different thread pools.
    with threadpool_limits(limits=1):
        result = run(**{name: value for name, value in setting.items() if name != "scale"})
    if result is None:
        return None
    result = {k: round(v, 6) if isinstance(v, float) else v for k, v in result.items()}
    return setting | result | {"s": round(time.perf_counter() - start, 2)}


def _key(values):
    return tuple(str(value) for value in values)


def _done(csv, keys):
    """Return the settings of the runs in the file, without an incomplete last line."""
    if not csv.is_file():
        return set()
    text = csv.read_text()
    if not text.endswith("\n"):
        csv.write_text(text[: text.rfind("\n") + 1])
    rows = pd.read_csv(csv, dtype=str, keep_default_na=False)
    if missing := set(keys) - set(rows):
        raise ValueError(f"{csv} lacks the columns {sorted(missing)}: move it away")
    return set(rows[keys].itertuples(index=False, name=None))


def _append(csv, row):
    csv.parent.mkdir(parents=True, exist_ok=True)
    is_new = not csv.is_file()
    if not is_new and (header := list(pd.read_csv(csv, nrows=0))) != list(row):
        raise ValueError(f"{csv} has the columns {header}, the run {list(row)}: move it away")
    pd.DataFrame([row]).to_csv(csv, mode="a", header=is_new, index=False)


def markdown(header, rows):
    """Return a table of Markdown as text."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(str(cell) for cell in line) + " |" for line in lines)


def mean_and_half(values, level=0.95):
    """Return mean and half of the confidence interval (Student's t); NaN for one run."""
    n = len(values)
    if n < 2:
        return float(values.mean()), math.nan
    return float(values.mean()), t.ppf((1 + level) / 2, n - 1) * values.std(ddof=1) / math.sqrt(n)


def plus_minus(values, digits=2, sign=""):
    """Return mean ± half of the 95 % confidence interval as text; one run has no interval."""
    mean, half = mean_and_half(values)
    text = f"{mean:{sign}.{digits}f}"
    return text if math.isnan(half) else f"{text} ± {half:.{digits}f}"


def write_page(args, text):
    """Write the page next to the CSV file, and print it."""
    path = args.csv.with_suffix(".md")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text.rstrip() + "\n")
    print(text)
    print(f"written to {path}", file=sys.stderr)
