"""Halves that no result had a say in, ranks against their definition, runs that go on."""

import json
import re
import sys

import numpy as np
import pandas as pd
import pytest
import top_of_the_table
from scipy.stats import t
from tables import _data, _report
from tables._differences import WHY, by_table, lost
from tables._jobs import JOBS
from tables._methods import DEFAULTS, FEW_ROWS, METHODS, OWN, SHOWN

OTHERS = [name for name in METHODS if name not in OWN]


def of_kind(kind):
    """The names under which this package is shown beside others, by the kind of the tables."""
    ours = {"sktopk"}
    return ours | {"sktopk, network alone" if kind == "binary" else "sktopk, second choice"}


REPORTED = ("binary", "reporting")


@pytest.fixture
def lines():
    """Random scores of all methods, in tenths so that some are tied, on three splits."""
    rng = np.random.default_rng(0)
    found = []
    for name, table in _data.TABLES.items():
        for method in METHODS:
            for split in METHODS[method].splits(table)[:3]:
                scores = {job: rng.integers(1, 10) / 10 for job in JOBS[table.kind]}
                line = {"table": name, "method": method, "split": split, "error": None}
                found.append(line | {"n_train": 20, "n_test": 10} | scores)
    return pd.DataFrame(found).assign(fit_s=1.0, predict_s=0.1)


def test_no_name_in_the_figure_covers_a_dot_or_another_name():
    figure = pytest.importorskip("matplotlib.figure").Figure(figsize=(5.5, 4.6))
    ax = figure.add_subplot(xlim=(0, 10), ylim=(9, 0))
    rng = np.random.default_rng(0)
    for x, y, method in zip(rng.uniform(0, 9, 10), rng.uniform(4, 6, 10), METHODS, strict=False):
        ax.plot(x, y, "o", ms=7, label=method)
    names = [name.get_window_extent() for name in _report.name_dots(ax)]
    dots = [dot.get_window_extent() for dot in ax.get_lines()]
    assert len(names) == len(dots) >= 9
    for i, box in enumerate(names):
        assert not box.count_overlaps(dots + names[:i])


def test_families_of_tables_take_turns_in_alphabetical_order():
    for kind in JOBS:
        families = {}
        for table in _data.TABLES.values():
            if table.kind == kind:
                families.setdefault(table.family, set()).add(_data.HALF[table.name])
        assert all(len(halves) == 1 for halves in families.values())
        turns = [families[name].pop() for name in sorted(families, key=str.lower)]
        assert turns[::2] == ["choosing"] * len(turns[::2])
        assert turns[1::2] == ["reporting"] * len(turns[1::2])


def test_every_job_has_a_default_that_is_a_method_for_it():
    for kind, jobs in JOBS.items():
        for job in jobs:
            assert kind in METHODS[DEFAULTS[job]].kinds


@pytest.mark.parametrize("without", [set(), _data.TRIED])
@pytest.mark.parametrize("kind", JOBS)
def test_rank_is_one_more_than_the_better_methods_and_half_of_the_equal_ones(lines, kind, without):
    rank = _report.ranking(_report.job_scores(lines), kind, "reporting", without=without).rank
    assert {name for name in SHOWN if name in rank.index} == of_kind(kind)
    tables = [t for t in _data.TABLES.values() if t.kind == kind and t.family not in without]
    tables = [t.name for t in tables if _data.HALF[t.name] == "reporting"]
    for job in JOBS[kind]:
        mean = lines.groupby(["table", "method"])[job].mean().round(9).to_dict()
        for method in rank.index:
            ours = {name: SHOWN[name][job] for name in of_kind(kind)}
            own, places = ours.get(method, method), []
            for table in tables:
                shown = [*OTHERS, *ours.values()]
                rivals = [mean[table, m] for m in shown if (table, m) in mean]
                if (table, own) in mean:
                    better = sum(rival > mean[table, own] for rival in rivals)
                    equal = sum(rival == mean[table, own] for rival in rivals) - 1
                    places.append(1 + better + equal / 2)
            assert rank.loc[method, job] == pytest.approx(np.mean(places))


@pytest.mark.parametrize("kind", JOBS)
def test_the_report_names_every_table_on_which_ours_is_behind_all_others(lines, kind):
    found = _report.ranking(_report.job_scores(lines), kind, "reporting")
    said = _report.lasts(found)
    tables = [t.name for t in _data.TABLES.values() if t.kind == kind]
    n_named = 0
    for table in [name for name in tables if _data.HALF[name] == "reporting"]:
        for job in JOBS[kind]:
            mean = lines[lines.table == table].groupby("method")[job].mean()
            names = {SHOWN[name][job]: name for name in of_kind(kind)}
            mean = mean[[name for name in mean.index if name in {*OTHERS, *names}]].round(5)
            (lowest, *more) = mean.index[mean == mean.min()]
            is_named = re.search(rf"{re.escape(f'{table} ({job}: ')}([.0-9]+)", said)
            assert bool(is_named) == (lowest in names and not more)
            if is_named:
                n_named += 1
                assert float(is_named[1]) == pytest.approx(100 * mean.min(), abs=0.006)
                of_ours = said[said.index(f"{names[lowest]} on ") :]
                assert f"{table} ({job}" in of_ours
    assert n_named


def test_tables_that_are_lost_are_listed_each_with_its_interval(lines):
    found = by_table(_report.job_scores(lines), "binary", "reporting")
    text = lost(found, ["LightGBM"])[0].splitlines()[2:]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text]
    listed = {(table, job): cells for _, table, job, *cells in rows}
    n_lost = 0
    for table in [each for each in _data.TABLES.values() if each.kind == "binary"]:
        for job in JOBS["binary"]:
            if _data.HALF[table.name] != "reporting":
                continue
            here = lines[lines.table == table.name].set_index(["method", "split"])[job]
            each = 100 * (here[DEFAULTS[job]] - here["LightGBM"]).to_numpy()
            assert ((table.name, job) in listed) == (each.mean() < -1e-9)
            if each.mean() < -1e-9:
                n_lost += 1
                # Nadeau and Bengio: of 30 rows 10 test.
                half = t.ppf(0.975, 2) * (each.var(ddof=1) * (1 / 3 + 1 / 2)) ** 0.5
                expected = f"{each.mean():.2f} ± {half:.2f}"
                expected = f"**{expected}**" if -each.mean() > half else expected
                assert listed[table.name, job][2:] == [expected, "3"]
    assert len(rows) == n_lost > 0


def test_what_is_known_of_a_loss_is_of_tables_there_are():
    assert set(WHY) <= set(_data.TABLES)


def test_a_failed_fit_is_ranked_last_and_an_unfinished_method_is_not_ranked(lines):
    lines.loc[lines.method == "LightGBM", "error"] = "ValueError: no"
    lines = lines[~((lines.method == "random forest") & (lines.table == "churn"))]
    found = _report.ranking(_report.job_scores(lines), "binary", "reporting")
    assert found.rank.loc["LightGBM"].eq(len(found.rank)).all()
    assert "random forest" not in found.rank.index
    done, wanted = found.unfinished["random forest"]
    assert done == wanted - 1


def test_more_splits_are_of_all_tables_with_few_rows_to_test():
    lines = _report.read(top_of_the_table.FILE)
    n_test = lines.dropna(subset="n_test").groupby("table").n_test.first()
    binary = {name for name, table in _data.TABLES.items() if table.kind == "binary"}
    reported = {name for name in binary if _data.HALF[name] == "reporting"}
    assert {name for name in reported if n_test[name] < 1000} == set(FEW_ROWS)


def test_ranks_compare_the_splits_that_all_methods_have(lines):
    expected = _report.ranking(_report.job_scores(lines), "binary", "reporting").rank
    more = lines[(lines.method == "LightGBM") & (lines.split == 0)].assign(split=7)
    more[[*JOBS["binary"]]] = 1.0
    scores = _report.job_scores(pd.concat([lines, more]))
    pd.testing.assert_frame_equal(_report.ranking(scores, "binary", "reporting").rank, expected)


def test_a_method_of_fewer_splits_takes_none_from_the_usual_ranks(lines):
    expected = _report.usual(_report.job_scores(lines[lines.method != "LightGBM"]), *REPORTED)
    few = _report.job_scores(lines[(lines.method != "LightGBM") | (lines.split == 0)])
    pd.testing.assert_frame_equal(_report.usual(few, *REPORTED).rank, expected.rank)
    assert "LightGBM" in _report.ranking(few, *REPORTED).rank.index


def test_a_line_that_a_kill_broke_off_is_left_out_and_made_again(tmp_path, monkeypatch, capsys):
    path = tmp_path / "fits.jsonl"
    call = ["--methods", "logistic regression", "--tables", "digits", "--splits", "2"]
    call = ["top_of_the_table.py", *call, "--file", str(path)]
    # Of the tables whose names have "digits", the one that comes with scikit-learn.
    tables = {"digits": _data.TABLES["digits"]}
    monkeypatch.setattr(top_of_the_table, "TABLES", tables)
    monkeypatch.setattr(sys, "argv", call)
    # Of the whole process: other tests may want more.
    monkeypatch.setattr(top_of_the_table.torch, "set_num_threads", lambda n: None)

    def scores():
        found = [json.loads(line) for line in path.read_text().splitlines() if line]
        return [{k: v for k, v in line.items() if not k.endswith("_s")} for line in found]

    top_of_the_table.main()
    whole = scores()
    assert [line["split"] for line in whole] == [0, 1]
    assert all(0.9 < line["top-1"] <= line["top-3"] <= 1 for line in whole)
    top_of_the_table.main()
    assert scores() == whole
    path.write_text(path.read_text()[:-30])
    assert len(_report.read(path)) == 1
    top_of_the_table.main()
    assert _report.read(path)["top-1"].tolist() == [line["top-1"] for line in whole]
    assert "0 fits to do" in capsys.readouterr().err
