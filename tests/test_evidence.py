"""Pages of figures are made of the results files, and comparisons are what they say."""

import importlib.util
import io
import re
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import t, ttest_rel

PROJECT = Path(__file__).parents[1]
SCRIPT = PROJECT / "benchmarks" / "evidence.py"
AGAIN = "run `python benchmarks/evidence.py`"

pytestmark = pytest.mark.skipif(not SCRIPT.is_file(), reason=f"no {SCRIPT}: runs in a checkout")


@pytest.fixture(scope="module")
def evidence():
    with pytest.MonkeyPatch.context() as patch:
        for folder in (SCRIPT.parent, SCRIPT.parent / "reproduce"):
            patch.syspath_prepend(folder)
        spec = importlib.util.spec_from_file_location("evidence", SCRIPT)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        yield module


@pytest.fixture(scope="module")
def paired(evidence):
    return importlib.import_module("_paired")


@pytest.fixture(scope="module")
def jobs(evidence):
    return importlib.import_module("evidence_jobs")


@pytest.fixture(scope="module")
def found(evidence):
    return evidence.all_findings()


def test_pages_are_what_the_results_files_make(evidence, found):
    made = evidence.pages(found)
    for path, text in made.items():
        assert path.read_text() == text, f"{path} is not up to date: {AGAIN}"
    assert set((evidence.DOCS / "evidence").iterdir()) <= set(made)


def test_the_figure_was_drawn_of_the_findings(evidence, found):
    assert not evidence.figure_is_stale(found), f"{evidence.FIGURE} is not up to date: {AGAIN}"
    name = next(iter(found))
    changed = found | {name: [replace(found[name][0], verdict="one run"), *found[name][1:]]}
    assert evidence.figure_is_stale(changed)


def test_bars_are_the_shares_of_the_findings(jobs, found):
    figure = jobs.draw(found, io.BytesIO())
    every = [f for findings in found.values() for f in findings if f.loss not in jobs.RIVALS]
    drawn = 0
    for ax in figure.axes:
        sources = jobs.JOBS[ax.get_title(loc="left")]
        for place, label in enumerate(ax.get_yticklabels()):
            own = [
                f
                for name, belongs in sources.items()
                for f in found[name]
                if f.loss == label.get_text() and belongs(f)
            ]
            drawn += len(own)
            bars = [bar for bar in ax.patches if round(bar.get_y() + bar.get_height() / 2) == place]
            shares = [sum(f.verdict == v for f in own) / len(own) for v in jobs.VERDICTS]
            np.testing.assert_allclose([bar.get_width() for bar in bars], shares)
            np.testing.assert_allclose([bar.get_x() for bar in bars], np.cumsum([0, *shares[:-1]]))
    # Each finding belongs to one job.
    assert drawn == len(every)


@pytest.mark.parametrize(
    ("counts", "says"),
    [
        ((3, 1, 1, 0), "**yes**"),
        ((2, 1, 10, 1), "**compare**: it may pay"),
        ((5, 7, 3, 5), "**compare**: it may pay"),
        ((4, 0, 0, 4), "**compare**: it may pay"),
        ((0, 1, 14, 4), "no"),
        # One of 25, or one of each, is chance.
        ((1, 0, 24, 0), "nothing was found for it"),
        ((1, 13, 10, 1), "no need: as good"),
        ((0, 0, 4, 0), "nothing was found for it"),
    ],
)
def test_an_answer_is_more_than_chance(jobs, paired, counts, says):
    findings = [
        paired.Finding("loss", "here", "metric", "+0.00", verdict)
        for verdict, count in zip(jobs.VERDICTS, counts, strict=True)
        for _ in range(count)
    ]
    assert jobs.counted(findings) == [*counts]
    assert jobs.answer(findings) == says


def test_each_picture_is_on_one_page(evidence):
    shown = Counter()
    for page in evidence.DOCS.rglob("*.md"):
        shown.update(re.findall(r"\]\((?:\.\./)+benchmarks/results/(\S+\.png)\)", page.read_text()))
    assert set(shown.values()) == {1}
    assert evidence.FIGURE in shown
    assert {path.name for path in evidence.RESULTS.glob("*.png")} == set(shown)


FOLD = re.compile(r"<details>.*?</details>", re.DOTALL)


def test_a_page_of_a_paper_begins_with_a_table_a_figure_and_ten_sentences(evidence, found):
    for stem in evidence.PAGES:
        text = evidence.page_of(stem, found)
        first, *headings = re.split(r"^##+ .*$", FOLD.sub("", text), flags=re.MULTILINE)
        lines = first.splitlines()
        assert [line.startswith("|") for line in lines].count(True) > 2
        # One table: no other line between its own.
        table = [i for i, line in enumerate(lines) if line.startswith("|")]
        assert table == list(range(table[0], table[-1] + 1))
        assert first.count("![") == (stem in evidence.evidence_papers.OF_PAPERS)
        prose = " ".join(line for line in lines if not line.startswith(("|", "!", "#")))
        assert 1 <= len(re.findall(r"[.!?](?=\s|$)", prose)) <= 10
        # All else is folded.
        assert not "".join(headings).strip()


def test_folds_of_a_page_have_every_finding_and_no_section(evidence, found):
    for stem, (_, names, _) in evidence.PAGES.items():
        text = evidence.page_of(stem, found)
        assert text.count("<details>") == text.count("</details>") == len(FOLD.findall(text))
        for fold in FOLD.findall(text):
            assert not re.search(r"^#", fold, flags=re.MULTILINE)
        for f in (f for name in names for f in found.get(name, ())):
            assert f"{f.setting} ({f.difference})" in text


def test_every_marked_region_is_filled(evidence):
    for name in ("top.md", "losses.md", "scale.md", "tables.md", "promises.md", "boosting.md"):
        regions = [m[2] for m in evidence.evidence_regions.MARKS.finditer(_doc(evidence, name))]
        assert regions
        assert set(regions) <= set(evidence.evidence_regions.REGIONS)


def test_text_outside_of_regions_stays(evidence):
    text = _doc(evidence, "top.md")
    emptied = evidence.evidence_regions.MARKS.sub(r"\1\3", text)
    assert "\n" in emptied
    assert len(emptied) < len(text)
    assert evidence.evidence_regions.filled(emptied) == text
    with pytest.raises(ValueError, match="no region is made from 'nothing'"):
        evidence.evidence_regions.filled("<!-- from nothing: begin -->\n<!-- end -->")


def _doc(evidence, name):
    return (evidence.DOCS / name).read_text()


SCALED = ["noise_level", "top_one", "top_objective", "long_tails", "top_curve"]


@pytest.mark.parametrize("name", SCALED)
def test_page_of_a_reproduction_is_what_its_runs_make(evidence, name):
    if not (evidence.RESULTS / f"reproduce_{name}.md").is_file():
        pytest.skip("has not been run to its end")
    runs = evidence.table_of(f"reproduce_{name}")
    text = importlib.import_module(name).page(runs, runs.scale.iloc[0])
    assert (evidence.RESULTS / f"reproduce_{name}.md").read_text() == text.rstrip() + "\n"


@pytest.mark.parametrize(
    "name",
    ["label_noise", "training_size", "margin", "crops", "halves", "activity", "epochs"],
)
def test_page_of_a_fair_reproduction_is_what_its_runs_make(evidence, name):
    if not (evidence.RESULTS / f"reproduce_{name}.md").is_file():
        pytest.skip("has not been run to its end")
    text = importlib.import_module(name).page(evidence.table_of(f"reproduce_{name}"))
    assert (evidence.RESULTS / f"reproduce_{name}.md").read_text() == text.rstrip() + "\n"


def test_settings_of_two_runs_are_no_evidence(evidence, paired):
    few = [paired.Gain("ce", 1.0, 2.0, 1.0, 0.1, n) for n in (1, 2, 3)]
    assert [gain.verdict for gain in few] == ["too few runs", "too few runs", "won"]
    for findings in evidence.all_findings().values():
        assert {f.verdict for f in findings} <= set(paired.VERDICTS)


def test_the_papers_in_a_minute_say_what_was_measured(evidence, found):
    text = evidence.page(found)
    text = text[text.index("## The papers in a minute") :]
    noisy = [
        f
        for f in found["reproduce_label_noise"]
        if f.loss == "smooth_topk" and not f.setting.endswith("p = 0")
    ]
    assert _range(noisy) in _line(text, "| [paper 001]")
    assert _range(found["reproduce_training_size"]) in _line(text, "|  | few training rows")
    for model, start in (("convolutional", "| [paper 004]"), ("linear", "|  | trained for")):
        of_model = [f for f in found["reproduce_halves"] if f.setting.startswith(model)]
        assert _range(of_model) in _line(text, start)
    curve = {(f.loss, f.setting): f.difference for f in found["reproduce_top_curve"]}
    for how in ("cutout", "mixup"):
        row = _line(text, f"|  | CIFAR-100 with {how}")
        assert curve["topk_transition", f"CIFAR-100, {how}"] in row


def _range(findings):
    values = [float(f.difference.split()[0]) for f in findings]
    verdicts = Counter(f.verdict for f in findings)
    counted = [f"{verdicts[v]} {v}" for v in ("won", "as good", "cannot tell", "lost")]
    said = ", ".join(each for each in counted if not each.startswith("0 "))
    return f"{min(values):+.1f} to {max(values):+.1f} points: {said}"


def test_a_minute_is_enough_for_a_cell(evidence, found):
    rows = evidence.evidence_papers.table(
        found, {stem: title for stem, (title, *_) in evidence.PAGES.items()}, evidence.table_of
    ).splitlines()[2:]
    papers = [row.split("|")[1].strip() for row in rows]
    assert sum(map(bool, papers)) == len(evidence.evidence_papers.OF_PAPERS)
    for row in rows:
        _, claims, here = row.strip("|").split("|")
        assert re.match(r" \*\*(yes|in part|no|cannot tell|not run|too few runs)\*\*: ", here)
        assert len(here.split()) <= 25
        assert len(claims.split()) <= 40


@pytest.mark.parametrize(
    ("verdicts", "holds"),
    [
        (["won", "won"], "yes"),
        (["won", "lost"], "in part"),
        (["won", "lost", "lost"], "no"),
        (["won", "cannot tell"], "in part"),
        (["as good", "cannot tell"], "no"),
        (["lost"], "no"),
        (["cannot tell", "cannot tell"], "cannot tell"),
        ([], "too few runs"),
    ],
)
def test_a_claim_to_be_ahead_holds_where_all_settings_are_won(evidence, verdicts, holds):
    assert evidence.evidence_papers._held(verdicts) == holds


def test_scores_order_molecules_as_their_runs_say(evidence, found):
    runs = evidence.table_of("reproduce_activity")
    random = runs[runs.number >= 0]
    claims = evidence.evidence_papers.claims("deep_top_push", found, evidence.table_of)
    (claim,) = (each for each in claims if "molecules" in each.says)
    assert claim.holds == "yes"
    for data, here in random.groupby("data"):
        wide = here.pivot(index="number", columns="method")
        top, rank = wide["activity of 5%"], wide["rank correlation"]
        own = f"{top['DeepTopPush'].mean():+.2f}", f"{rank['DeepTopPush'].mean():.2f}"
        away = [
            max(abs(each[m].mean() - each["DeepTopPush"].mean()) for m in each)
            for each in (top, rank)
        ]
        said = claim.here[claim.here.index(f"{data}: ") :]
        assert said.startswith(f"{data}: first 5 % at {own[0]}")
        assert f"rank correlation {own[1]}; other methods within {away[0]:.2f} and" in said
        difference = 100 * (rank["DeepTopPush"] - rank["cross-entropy, same network"])
        (finding,) = (
            f
            for f in found["reproduce_activity"]
            if f.setting == f"{data} molecules" and f.metric.startswith("rank")
        )
        # A third as many molecules to test as to train on: the splits share them.
        half = t.ppf(0.975, 9) * (difference.var() * (1 / 10 + 1 / 3)) ** 0.5
        assert finding.difference == f"{difference.mean():+.2f} ± {half:.2f}"


def test_pages_of_imbalance_and_molecules_are_what_their_runs_make(evidence):
    runs = evidence.table_of("imbalance")
    text = evidence.imbalance.page(runs, runs.scale.iloc[0])
    assert (evidence.RESULTS / "imbalance.md").read_text() == text + "\n"
    runs = pd.read_csv(evidence.RESULTS / "molecules.csv", keep_default_na=False)
    text = importlib.import_module("molecules").page(runs)
    assert (evidence.RESULTS / "molecules.md").read_text() == text + "\n"


def test_page_of_the_tables_is_what_its_fits_make(evidence):
    report = evidence.evidence_regions.top_of_the_table
    text = report.page(report.read(evidence.RESULTS / "top_of_the_table.jsonl"))
    again = "run `python benchmarks/top_of_the_table.py --report`"
    assert (evidence.RESULTS / "top_of_the_table.md").read_text() == text, again


def test_another_figure_in_a_file_is_another_figure_on_the_page(evidence, tmp_path, monkeypatch):
    for path in evidence.RESULTS.glob("*.csv"):
        shutil.copy(path, tmp_path)
    monkeypatch.setattr(evidence, "RESULTS", tmp_path)
    before = evidence.page()
    runs = pd.read_csv(tmp_path / "imbalance.csv")
    where = (runs.data == "spambase") & (runs.method == "F-score")
    runs.loc[where, ["valid F1", "test F1"]] = [[0.999, 0.999]] * where.sum()
    runs.to_csv(tmp_path / "imbalance.csv", index=False)
    after = evidence.page()
    row = "| F-score |"
    assert _line(after, row) != _line(before, row)
    assert _line(after, "| AUC, hinge |") == _line(before, "| AUC, hinge |")
    job = "| rows by an area, F1, precision or recall |"
    assert "| nothing was found for it | `AUC, hinge` |" in _line(before, job)
    # Of F-score five of 33 settings are won.
    assert "| **compare**: it may pay | `F-score` |" in _line(after, job)


def _line(text, start):
    return next(line for line in text.splitlines() if line.startswith(start))


def test_a_verdict_is_the_interval_of_the_paired_differences(paired):
    rng = np.random.default_rng(0)
    base = rng.normal(50, 5, size=6)
    values = {
        "cross_entropy": base,
        "cross_entropy, other": base + 2,
        "better": base + 3 + 0.1 * rng.normal(size=6),
        "worse": base + 1 + 0.1 * rng.normal(size=6),
        "alike": base + 2 + np.array([0.3, -0.3, 0.2, -0.2, 0.1, -0.1]),
        "noisy": base + 2.1 + 5 * rng.normal(size=6),
    }
    runs = pd.DataFrame(
        [
            {"loss": loss, "seed": seed, "top": value}
            for loss, each in values.items()
            for seed, value in enumerate(each)
        ]
    ).sample(frac=1, random_state=0)
    baselines = ["cross_entropy", "cross_entropy, other", "not run"]
    expected = {"better": "won", "worse": "lost", "noisy": "cannot tell", "alike": "as good"}
    for loss, verdict in expected.items():
        found = paired.gain(runs, loss, "top", baselines=baselines, column="loss", pair=["seed"])
        assert found.baseline == "cross_entropy, other"
        test = ttest_rel(values[loss], values["cross_entropy, other"])
        low, high = test.confidence_interval(0.95)
        np.testing.assert_allclose([found.mean - found.half, found.mean + found.half], [low, high])
        assert found.verdict == verdict
        assert found.n == 6
    folds = {"baselines": baselines, "column": "loss", "pair": ["seed"], "overlap": 0.25}
    found = paired.gain(runs, "noisy", "top", **{**folds, "overlap": 0.0})
    corrected = paired.gain(runs, "noisy", "top", **folds)
    assert corrected.half == pytest.approx(found.half * (1 + 6 * 0.25) ** 0.5)


def test_a_comparison_takes_only_runs_that_both_have(paired):
    runs = pd.DataFrame(
        {"loss": ["ce", "ce", "x", "y"], "seed": [0, 1, 1, 2], "top": [1.0, 2.0, 5.0, 9.0]}
    )
    found = paired.gain(runs, "x", "top", baselines=["ce"], column="loss", pair=["seed"])
    assert (found.n, found.mean, found.verdict) == (1, 3.0, "too few runs")
    for loss in ("y", "not run", "ce"):
        none = paired.gain(runs, loss, "top", baselines=["ce"], column="loss", pair=["seed"])
        assert none is None


def test_findings_of_the_imbalance_protocol_follow_nadeau_and_bengio(evidence):
    runs = evidence.table_of("imbalance")
    runs = runs[(runs.data == "spambase") & (runs.kept == "10 % of negatives")]
    differences = []
    for seed in range(5):
        best = {}
        for method in ("cross-entropy", "F-score"):
            each = runs[(runs.seed == seed) & (runs.method == method)]
            # Of equally good rates the one that comes first in the script.
            each = each.set_index("learning_rate").loc[list(evidence.imbalance.RATES)]
            best[method] = each["test F1"].to_numpy()[np.argmax(each["valid F1"].to_numpy())]
        differences.append(100 * (best["F-score"] - best["cross-entropy"]))
    mean = sum(differences) / 5
    variance = sum((d - mean) ** 2 for d in differences) / 4
    half = t.ppf(0.975, 4) * (variance * (1 / 5 + (1 / 5) / (4 / 5))) ** 0.5
    (found,) = (
        f
        for f in evidence.of_imbalance(evidence.table_of("imbalance"))
        if f.loss == "F-score" and f.setting == "spambase, training on 10 % of negatives"
    )
    assert found.difference == f"{mean:+.2f} ± {half:.2f}"
    unclear = "as good" if abs(mean) + half <= 1 else "cannot tell"
    assert found.verdict == ("won" if mean > half else "lost" if mean < -half else unclear)
