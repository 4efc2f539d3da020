"""Make docs/evidence.md, and the marked regions of the other pages, from the results files.

For each loss: where it won against cross-entropy, was as good, lost, or the runs cannot tell; then
what every paper found beside what we find. Nothing is trained and nothing typed by hand:

    python benchmarks/evidence.py            # write
    python benchmarks/evidence.py --check    # say which pages are not up to date
"""

import argparse
import sys
from itertools import chain
from pathlib import Path

import pandas as pd

BENCHMARKS = Path(__file__).parent
# Where the scripts that are run from there find each other.
sys.path[:0] = [str(BENCHMARKS), str(BENCHMARKS / "reproduce")]

import circle_modes  # noqa: E402
import evidence_regions  # noqa: E402
import imbalance  # noqa: E402
import label_noise  # noqa: E402
import map_of_wins  # noqa: E402
import molecules  # noqa: E402
import noise_level  # noqa: E402
import top_one  # noqa: E402
from _paired import MARGIN, VERDICTS, Finding, Gain, gain  # noqa: E402
from _protocol import RESULTS, markdown  # noqa: E402

DOCS = BENCHMARKS.parent / "docs"
# Names of losses that circle_modes.py shortens.
LONG_NAMES = {
    "smooth": "smooth_topk",
    "grouping": "topk_grouping",
    "transition": "topk_transition",
}
PAIRED_BY_SEED = {"baselines": ["cross_entropy"], "pair": ["seed"]}


def of_imbalance(runs):
    """Each method on the metric it is trained for, learning rates chosen on validation rows."""
    values = list(imbalance.arrays(runs).values())[1]
    mean, half, _ = imbalance.compare(values)
    names, n = list(imbalance.METHODS), values.shape[3]
    found = []
    for i, j in imbalance.OWN:
        for c, case in enumerate(imbalance.CASES):
            for k, kept in enumerate(imbalance.KEPT):
                numbers = (values[c, k, 0, :, j], values[c, k, i, :, j], mean[c, k, i, j])
                points = [100 * float(x.mean()) for x in numbers]
                won = Gain(names[0], *points, 100 * float(half[c, k, i, j]), n)
                setting = f"{case}, training on {kept}" if kept != "all" else case
                found.append(Finding.of_gain(names[i], setting, imbalance.METRICS[j], won))
    return found


def of_molecules(cells):
    """DeepTopPush against cross-entropy networks; won in 97.5 % of the bootstrap samples."""
    found = []
    differences = cells[(cells.table == molecules.DIFFERENCE)]
    for other in ("weighted cross-entropy", "cross-entropy"):
        for metric in ("above every negative", "EF 5 %"):
            here = differences[(differences.row == other) & (differences.column == metric)]
            difference, share = here.cell.item().rstrip(")").split(" (")
            # A share has no interval that could lie within a margin.
            share = float(share)
            verdict = "won" if share >= 0.975 else "lost" if share <= 0.025 else "cannot tell"
            setting = f"CYP 3A4 molecules, {other}"
            found.append(Finding("DeepTopPush", setting, metric, difference, verdict))
    return found


def of_circle_modes(runs):
    """The losses of paper 002, and the smooth one, by top-2 accuracy."""
    found = []
    for (experiment, value), here in runs.groupby(["experiment", "value"], sort=False):
        setting = f"experiment {experiment}, {circle_modes.EXPERIMENTS[experiment][0]} = {value}"
        here = here.assign(points=100 * here.top2)
        for loss, name in LONG_NAMES.items():
            won = gain(here, loss, "points", column="loss", **PAIRED_BY_SEED)
            if won is not None:
                found.append(Finding.of_gain(name, setting, "top-2", won))
    return found


def of_label_noise(runs):
    """The smooth loss against the better cross-entropy; the paper's numbers are of CIFAR-100."""
    baselines = [name for name in label_noise.METHODS if name.startswith("cross_entropy")]
    found = []
    for (case, noise), here in runs.groupby(["case", "noise"], sort=False):
        for k in (5, 15):
            here = here.assign(points=100 * pd.to_numeric(here[f"top{k}"]))
            pairing = PAIRED_BY_SEED | {"baselines": baselines}
            won = gain(here, f"smooth, k={k}", "points", column="method", **pairing)
            if won is not None:
                paper = None
                if k == 5 and case == label_noise.COARSE:
                    cross_entropy, smooth = label_noise.PAPER[noise][1]
                    paper = round(smooth - cross_entropy, 2)
                setting = f"{case}, p = {noise:g}"
                found.append(Finding.of_gain("smooth_topk", setting, f"top-{k}", won, paper))
    return found


def of_map(runs):
    """Losses on generated and real tables; folds of the latter share rows."""
    middle = map_of_wins.MIDDLE
    found = []
    for values, here in runs.groupby(["table", *middle, "hidden"], dropna=False, sort=False):
        name, *levels, hidden = values
        is_real = (here.part == "real").all()
        changed = [f"{c} {v:g}" for (c, m), v in zip(middle.items(), levels, strict=True) if v != m]
        generated = ", ".join([*changed, f"{hidden:g} hidden units"])
        setting = name if is_real else f"generated, {generated}"
        overlap = (here.n_test / here.n_train).mean() if is_real else 0.0
        here = here.assign(points=100 * here.score)
        for loss in here.loss.unique():
            pairing = PAIRED_BY_SEED | {"pair": ["split"], "overlap": overlap}
            won = gain(here, loss, "points", column="loss", **pairing)
            if won is not None:
                found.append(Finding.of_gain(loss, setting, "top-k accuracy", won))
    return found


# By results file without its ending: what it is called, and how its runs are compared.
SOURCES = {
    "map_of_wins": ("map of wins", of_map),
    "reproduce_circle_modes": ("synthetic data of paper 002", of_circle_modes),
    "reproduce_label_noise": ("label noise of paper 001", of_label_noise),
    "reproduce_noise_level": ("paper 003", noise_level.findings),
    "reproduce_top_one": ("paper 000", top_one.findings),
    "molecules": ("molecules of paper 000", of_molecules),
    "imbalance": ("protocol of paper 004", of_imbalance),
}


def table_of(name):
    """The runs of a results file, of its larger scale."""
    runs = pd.read_csv(RESULTS / f"{name}.csv", keep_default_na=name != "molecules")
    if "scale" in runs:
        runs = runs[runs.scale == ("full" if (runs.scale == "full").any() else "small")]
    return runs


def all_findings():
    """Findings of every results file that is there, by its name."""
    return {
        name: findings(table_of(name))
        for name, (_, findings) in SOURCES.items()
        if (RESULTS / f"{name}.csv").is_file()
    }


def counts(found):
    """Won / as good / cannot tell / lost."""
    verdicts = [finding.verdict for finding in found]
    return " / ".join(str(verdicts.count(verdict)) for verdict in VERDICTS)


def overview(found):
    """A row per loss, a column per source."""
    losses = dict.fromkeys(f.loss for f in chain(*found.values()))
    rows = []
    for loss in losses:
        of_loss = [[f for f in findings if f.loss == loss] for findings in found.values()]
        cells = [counts(each) if each else "" for each in of_loss]
        rows.append([loss, f"**{counts(chain(*of_loss))}**", *cells])
    return markdown(["loss", "in all", *(SOURCES[name][0] for name in found)], rows)


def places(loss, found):
    """Where a loss won, was as good, lost and cannot tell, as a list."""
    lines = []
    for verdict in VERDICTS:
        parts = []
        for name, findings in found.items():
            here = [f for f in findings if f.loss == loss and f.verdict == verdict]
            by_metric = {}
            for f in here:
                by_metric.setdefault(f.metric, []).append(f"{f.setting} ({f.difference})")
            parts += [
                f"{SOURCES[name][0]}, {metric}: {'; '.join(each)}"
                for metric, each in by_metric.items()
            ]
        lines.append(f"- {verdict}: {'. '.join(parts) or 'nowhere'}.")
    return "\n".join(lines)


def beside_papers(found):
    """Differences to cross-entropy for which a paper has a number."""
    rows = []
    for f in chain(*found.values()):
        if f.paper is not None:
            numbers = f"{f.paper:+.2f}", f.difference, f.verdict, f"{f.deviation:+.2f}"
            rows.append([f.loss, f.setting, f.metric, *numbers])
    header = ["loss", "setting", "metric", "paper", "ours", "we find", "deviation"]
    return markdown(header, rows)


def embedded(path):
    """A page of the results, its headings one level down and its pictures found from docs."""
    text = path.read_text().rstrip()
    lines = [f"#{line}" if line.startswith("#") else line for line in text.splitlines()]
    return "\n".join(lines).replace("](reproduce_", "](../benchmarks/results/reproduce_")


def page():
    found = all_findings()
    losses = dict.fromkeys(f.loss for f in chain(*found.values()))
    text = [
        "# Evidence: where each loss won, was as good, and lost",
        "",
        "This page is made by `benchmarks/evidence.py` from the files in `benchmarks/results`, "
        "whose scripts train everything anew. A loss wins where the 95 % confidence interval of "
        "its difference to cross-entropy, paired over runs, lies above 0, and loses where it lies "
        "below. Where it holds 0, the loss is as good if the whole interval lies within "
        f"{MARGIN:g} point; else the runs cannot tell, which is no proof that there is no "
        "difference: with few runs intervals are wide. Without any difference 1 in 40 would be won "
        "by chance, and as many lost; comparisons within a source share data and networks. Where "
        "cross-entropy was trained in two ways, the better one is the one to beat.",
        "",
        "## Won / as good / cannot tell / lost",
        "",
        overview(found),
        "",
        "Differences are in points (accuracies, precisions and areas times 100; for the molecules "
        "as their page has them).",
    ]
    for loss in losses:
        count = counts(f for f in chain(*found.values()) if f.loss == loss)
        text += ["", f"### {loss}: {count}", "", places(loss, found)]
    text += ["", "## Differences that a paper has a number for", "", beside_papers(found)]
    text += [
        "",
        "## Papers and what we find",
        "",
        "Long pages stand by themselves: "
        + ", ".join(
            f"[{name}.md](../benchmarks/results/{name}.md)"
            for name in SOURCES
            if not name.startswith("reproduce_") and (RESULTS / f"{name}.md").is_file()
        )
        + ".",
    ]
    for path in sorted(RESULTS.glob("reproduce_*.md")):
        text += ["", embedded(path)]
    return "\n".join(text) + "\n"


def pages():
    """The text that every generated page should have, by its path."""
    made = {DOCS / "evidence.md": page()}
    for name in ("top.md", "losses.md", "scale.md", "tables.md", "boosting.md"):
        text = (DOCS / name).read_text()
        made[DOCS / name] = evidence_regions.filled(text)
    return made


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only say what is not up to date")
    check = parser.parse_args().check
    stale = [
        path for path, text in pages().items() if not path.is_file() or path.read_text() != text
    ]
    if check:
        sys.exit(f"not up to date: {', '.join(map(str, stale))}" if stale else 0)
    for path, text in pages().items():
        path.write_text(text)


if __name__ == "__main__":
    main()
