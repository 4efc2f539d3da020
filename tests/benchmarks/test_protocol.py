"""What all reproductions share: where results go, runs that survive a kill, threads."""

import importlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pandas as pd
import pytest
import sklearn.ensemble  # noqa: F401  (its threads)
from threadpoolctl import threadpool_info, threadpool_limits

pytest.importorskip("PIL")
pytest.importorskip("mpmath")

REPRODUCE = Path(__file__).parents[2] / "benchmarks" / "reproduce"
SCRIPTS = sorted(path.stem for path in REPRODUCE.glob("[!_]*.py"))


@pytest.fixture
def protocol():
    return importlib.import_module("_protocol")


@pytest.fixture
def folders(protocol, monkeypatch, tmp_path):
    """Folders in the place of the kept results and of temporary files."""
    kept, temporary = tmp_path / "kept", tmp_path / "temporary"
    monkeypatch.setattr(protocol, "RESULTS", kept)
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    return kept, temporary


class Reached(Exception):
    """Thrown in the place of the first run, with the arguments."""


def arguments_of(name, monkeypatch, *given):
    """The arguments with which a script begins its runs."""

    def stopped(run, settings, args, *, seconds):
        raise Reached(args)

    script = importlib.import_module(name)
    for module in (script, importlib.import_module("_choosing")):
        if hasattr(module, "run_missing"):
            monkeypatch.setattr(module, "run_missing", stopped)
    monkeypatch.setattr(sys, "argv", [f"{name}.py", *given])
    with pytest.raises(Reached) as caught:
        script.main()
    return caught.value.args[0]


@pytest.mark.parametrize("name", SCRIPTS)
def test_only_the_default_scale_writes_where_results_are_kept(name, folders, monkeypatch):
    kept, temporary = folders
    assert arguments_of(name, monkeypatch).csv == kept / f"reproduce_{name}.csv"
    small = arguments_of(name, monkeypatch, "--small")
    assert small.csv.name == f"reproduce_{name}.csv"
    assert small.csv.is_relative_to(temporary)
    mine = arguments_of(name, monkeypatch, "--small", "--csv", "mine.csv")
    assert mine.csv == Path("mine.csv")


@pytest.mark.parametrize("scale", ["small", "full"])
@pytest.mark.parametrize("name", ["imbalance", "stopping_score"])
def test_so_do_benchmarks_that_keep_their_small_scale(name, scale, monkeypatch):
    csv = arguments_of(name, monkeypatch, "--scale", scale).csv
    kept = REPRODUCE.parent / "results" / f"{name}.csv"
    assert kept.is_file()
    assert (csv == kept) == (scale == "small")
    assert csv.name == kept.name


def test_a_small_run_leaves_the_kept_results_alone(protocol, folders, capsys):
    kept, temporary = folders
    seeds = {"full": 2, "small": 1}
    for given in ([], ["--small"], ["--small"]):
        args = protocol.arguments("doc", "made_up", seeds=seeds).parse_args([*given, "--n-jobs=1"])
        settings = [{"seed": seed} for seed in protocol.seeds_of(args)]
        runs = protocol.run_missing(_run, settings, args, seconds=1)
        assert set(runs.scale) == {args.scale}
        assert len(runs) == len(settings)
        protocol.write_page(args, f"page of {args.scale}")
        assert str(args.csv.with_suffix(".md")) in capsys.readouterr().err
    assert (kept / "reproduce_made_up.md").read_text() == "page of full\n"
    assert pd.read_csv(kept / "reproduce_made_up.csv").scale.tolist() == ["full", "full"]
    (small,) = temporary.rglob("*.csv")
    assert pd.read_csv(small).scale.tolist() == ["small"]


def test_a_run_has_one_thread(protocol, tmp_path):
    args = protocol.arguments("doc", "made_up", seeds={"full": 1}).parse_args(
        ["--csv", str(tmp_path / "runs.csv"), "--n-jobs=1"]
    )
    with threadpool_limits(limits=2):
        runs = protocol.run_missing(_threads, [{"seed": 0}], args, seconds=1)
    # scikit-learn's are among them, which torch does not set.
    assert runs.most.tolist() == [1]


SCRIPT = """
from functools import cache

from _protocol import arguments, run_missing, seeds_of


@cache
def rows(seed):
    return 10 * seed


def run(seed):
    return {"value": rows(seed)}


if __name__ == "__main__":
    args = arguments(__doc__, "made_up", seeds={"full": 2}).parse_args()
    run_missing(run, [{"seed": seed} for seed in seeds_of(args)], args, seconds=1)
"""


def test_a_script_with_a_cache_runs_in_two_processes(tmp_path):
    script, csv = tmp_path / "made_up.py", tmp_path / "runs.csv"
    script.write_text(SCRIPT)
    subprocess.run(
        [sys.executable, script, "--csv", csv, "--n-jobs=2"],
        env=os.environ | {"PYTHONPATH": str(REPRODUCE)},
        check=True,
        timeout=300,
    )
    runs = pd.read_csv(csv)
    assert dict(zip(runs.seed, runs.value, strict=True)) == {0: 0, 1: 10}


def _run(seed):
    return {"value": 0.5 + seed}


def _threads(seed):
    return {"most": max(pool["num_threads"] for pool in threadpool_info())}
