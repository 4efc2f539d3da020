"""Pages of figures are made of the results files, and comparisons are what they say."""

import importlib.util
import shutil
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


def test_pages_are_what_the_results_files_make(evidence):
    for path, text in evidence.pages().items():
        assert path.read_text() == text, f"{path} is not up to date: {AGAIN}"


def test_every_marked_region_is_filled(evidence):
    for name in ("top.md", "losses.md", "scale.md", "tables.md", "boosting.md"):
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


@pytest.mark.parametrize("name", ["noise_level", "top_one"])
def test_page_of_a_reproduction_is_what_its_runs_make(evidence, name):
    if not (evidence.RESULTS / f"reproduce_{name}.md").is_file():
        pytest.skip("has not been run to its end")
    runs = evidence.table_of(f"reproduce_{name}")
    text = getattr(evidence, name).page(runs, runs.scale.iloc[0])
    assert (evidence.RESULTS / f"reproduce_{name}.md").read_text() == text.rstrip() + "\n"


def test_pages_of_imbalance_and_molecules_are_what_their_runs_make(evidence):
    runs = evidence.table_of("imbalance")
    text = evidence.imbalance.page(runs, runs.scale.iloc[0])
    assert (evidence.RESULTS / "imbalance.md").read_text() == text + "\n"
    text = evidence.molecules.page(evidence.table_of("molecules"))
    assert (evidence.RESULTS / "molecules.md").read_text() == text + "\n"


def test_another_figure_in_a_file_is_another_figure_on_the_page(evidence, tmp_path, monkeypatch):
    for path in evidence.RESULTS.glob("*.csv"):
        shutil.copy(path, tmp_path)
    monkeypatch.setattr(evidence, "RESULTS", tmp_path)
    before = evidence.page()
    runs = pd.read_csv(tmp_path / "imbalance.csv")
    where = (runs.data == "spambase") & (runs.kept == "all") & (runs.method == "F-score")
    runs.loc[where, ["valid F1", "test F1"]] = [[0.999, 0.999]] * where.sum()
    runs.to_csv(tmp_path / "imbalance.csv", index=False)
    after = evidence.page()
    row = "| F-score |"
    assert _line(after, row) != _line(before, row)
    assert _line(after, "| AUC, hinge |") == _line(before, "| AUC, hinge |")


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
    assert (found.n, found.mean, found.verdict) == (1, 3.0, "one run")
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
