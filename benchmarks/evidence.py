"""Make docs/evidence.md and what is below it, and marked regions of other pages, from the results.

For what you want: whether a loss for it won against cross-entropy; then, on a page for each paper,
where it did, was as good, lost, or the runs cannot tell, beside what the paper found. Nothing is
trained and nothing typed by hand:

    python benchmarks/evidence.py            # write
    python benchmarks/evidence.py --check    # say which pages are not up to date
"""

import argparse
import re
import sys
from itertools import chain
from pathlib import Path

import pandas as pd
from PIL import Image

BENCHMARKS = Path(__file__).parent
# Where the scripts that are run from there find each other.
sys.path[:0] = [str(BENCHMARKS), str(BENCHMARKS / "reproduce")]

import activity  # noqa: E402
import circle_modes  # noqa: E402
import evidence_jobs  # noqa: E402
import evidence_papers  # noqa: E402
import evidence_regions  # noqa: E402
import halves  # noqa: E402
import imbalance  # noqa: E402
import label_noise  # noqa: E402
import long_tails  # noqa: E402
import map_of_wins  # noqa: E402
import top_curve  # noqa: E402
import top_one  # noqa: E402
import training_size  # noqa: E402
from _paired import LEAST, MARGIN, VERDICTS, Finding, Gain, gain  # noqa: E402
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
    """The top-k losses against cross-entropy, all tuned; the paper's numbers are of CIFAR-100."""
    runs = runs[runs.seed != label_noise.TUNING]
    found = []
    for (case, noise), here in runs.groupby(["case", "noise"], sort=False):
        here = here.assign(points=100 * pd.to_numeric(here["top5"]))
        for method, (loss, *_) in label_noise.METHODS.items():
            won = gain(here, method, "points", column="method", **PAIRED_BY_SEED)
            if won is None:
                continue
            paper, setting = None, f"{case}, p = {noise:g}"
            if loss != "smooth_topk":
                setting += method.removeprefix("noised")
            elif case != label_noise.TEXTS:
                cross_entropy, smooth = label_noise.PAPER[noise][1]
                paper = round(smooth - cross_entropy, 2)
            found.append(Finding.of_gain(loss, setting, "top-5", won, paper))
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
    "reproduce_label_noise": ("label noise of papers 001, 003", of_label_noise),
    "reproduce_training_size": ("fewer rows of paper 001", training_size.findings),
    "reproduce_top_curve": ("CIFAR-100 of paper 002", top_curve.findings),
    "reproduce_long_tails": ("long tails of paper 003", long_tails.findings),
    "reproduce_top_one": ("paper 000", top_one.findings),
    "reproduce_activity": ("molecules of paper 000", activity.findings),
    "imbalance": ("thinned tables for paper 004", of_imbalance),
    "reproduce_halves": ("halves for paper 004", halves.findings),
}


# A page for each paper, by its name: title, results files, pages of its reproductions.
PAGES = {
    "smooth_topk": (
        "Smooth top-k loss: Berrada, Zisserman, Kumar 2018 (paper 001)",
        ["reproduce_label_noise", "reproduce_training_size"],
        ["label_noise", "training_size", "margin", "crops", "temperature"],
    ),
    "grouping_transition": (
        "Grouping and transition losses: Sawada, Kaneko, Sagi 2020 (paper 002)",
        ["reproduce_circle_modes", "reproduce_top_curve"],
        ["circle_modes", "top_curve"],
    ),
    "noised_topk": (
        "Noised top-k losses: Garcin, Servajean, Joly, Salmon 2022 (paper 003)",
        ["reproduce_long_tails", "reproduce_label_noise"],
        ["long_tails", "noise_level", "epochs"],
    ),
    "deep_top_push": (
        "DeepTopPush: Adam, Mácha, Šmídl 2020 (paper 000)",
        ["reproduce_top_one", "reproduce_activity"],
        ["top_one", "top_objective", "activity"],
    ),
    "linear_programs": (
        "Linear programs: Meng et al. 2021 (paper 004)",
        ["imbalance", "reproduce_halves"],
        ["halves"],
    ),
    "map_of_wins": (
        "The map of wins: generated and real tables",
        ["map_of_wins"],
        [],
    ),
}
FIGURE = "evidence.png"
FIGURE_TEXT = "For each job and loss: in how many settings it won, was as good, lost"


def table_of(name):
    """The runs of a results file, of its larger scale."""
    runs = pd.read_csv(RESULTS / f"{name}.csv")
    if "scale" in runs:
        runs = runs[runs.scale == ("full" if (runs.scale == "full").any() else "small")]
    return runs


def all_findings():
    """Findings of every results file that is there, by its name."""
    # Of fewer runs than `_paired.LEAST` nothing is found.
    return {
        name: [f for f in findings(table_of(name)) if f.verdict in VERDICTS]
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


def places(findings):
    """The settings of some findings, by metric."""
    by_metric = {}
    for f in findings:
        by_metric.setdefault(f.metric, []).append(f"{f.setting} ({f.difference})")
    parts = [f"{metric}: {'; '.join(each)}" for metric, each in by_metric.items()]
    return ". ".join(parts) or "nowhere"


def folded(title, lines):
    """Lines behind a title that is clicked, on the site and where Markdown is shown."""
    return ["<details>", f"<summary>{title}</summary>", "", *lines, "", "</details>"]


def of_losses(findings):
    """Where each loss won, was as good, lost or the runs cannot tell: a fold per loss."""
    text = []
    for loss in dict.fromkeys(f.loss for f in findings):
        own = [f for f in findings if f.loss == loss]
        lines = [f"- {v}: {places([f for f in own if f.verdict == v])}." for v in VERDICTS]
        text += ["", *folded(f"{loss}: {counts(own)}", lines)]
    return text


def by_loss(findings):
    """A row per loss: how many of each verdict."""
    losses = dict.fromkeys(f.loss for f in findings)
    rows = [
        [loss, *evidence_jobs.counted([f for f in findings if f.loss == loss])] for loss in losses
    ]
    return markdown(["loss", *VERDICTS], rows)


def beside_paper(findings):
    """Differences to cross-entropy for which a paper has a number."""
    rows = []
    for f in findings:
        if f.paper is not None:
            numbers = f"{f.paper:+.2f}", f.difference, f.verdict, f"{f.deviation:+.2f}"
            rows.append([f.loss, f.setting, f.metric, *numbers])
    header = ["loss", "setting", "metric", "paper", "ours", "we find", "deviation"]
    return markdown(header, rows) if rows else None


def embedded(path, shown):
    """A page of the results, folded by section, without the picture that is shown already.

    Headings within the folds become bold: a section of the site cannot begin in one.
    """
    text = path.read_text().rstrip()
    text = re.sub(rf"^!\[.*\]\({re.escape(shown)}\)$", "", text, flags=re.MULTILINE)
    text = text.replace("](reproduce_", "](../../benchmarks/results/reproduce_")
    first, *others = re.split(r"^## ", text, flags=re.MULTILINE)
    title, _, body = first.removeprefix("# ").partition("\n")
    lines = [f"## {title}"]
    for section in (f"What was run\n{body}", *others):
        title, _, body = section.partition("\n")
        body = re.sub(r"^#+ (.*)$", r"**\1**", body.strip(), flags=re.MULTILINE)
        lines += ["", *folded(title, [re.sub(r"\n{3,}", "\n\n", body)])]
    return "\n".join(lines)


def page(found=None):
    """The page of all jobs: whether to use a loss, for what."""
    found = all_findings() if found is None else found
    # On the first page that has it.
    pages_of = dict((name, stem) for stem, name in reversed(_pages_of()))
    linked = {name: f"[{SOURCES[name][0]}](evidence/{stem}.md)" for name, stem in pages_of.items()}
    titles = {stem: title for stem, (title, *_) in PAGES.items()}
    text = [
        "# Evidence: should I use it, and for what?",
        "",
        "What was measured in this project against cross-entropy with the same network and "
        "budget, by what you want. Begin with cross-entropy; where the table says yes or compare, "
        "let [compare_losses](compare.md) say what holds on your rows.",
        "",
        evidence_jobs.table(found, linked),
        "",
        "## The papers in a minute",
        "",
        "Claim by claim; a range is that of the differences over the settings, and counts are of "
        f"settings. {evidence_papers.RULE}.",
        "",
        evidence_papers.table(found, titles, table_of),
        "",
        evidence_papers.conditions(titles),
        "",
        f"![{FIGURE_TEXT}](../benchmarks/results/{FIGURE})",
        "",
        "- A setting is won where the 95 % confidence interval of the difference to cross-entropy, "
        "paired over runs, lies above 0, lost where it lies below. Where it holds 0, the loss is "
        f"as good if the whole interval lies within {MARGIN:g} point; else the runs cannot tell, "
        "which is no proof that there is no difference: with few runs intervals are wide. Settings "
        f"of fewer than {LEAST} runs are left out.",
        "- Without any difference 1 in 40 settings is won by chance, and as many lost. *Compare*: "
        "won in more settings than that (binomial test at .05), *yes*: in half of them at least, "
        "and oftener than lost; *no*: not won, and lost in more settings than by chance.",
        "- The best is the loss of the largest share won less the share lost, of those tried in "
        "half of the settings at least; it was found afterwards, which flatters it. Settings of a "
        "source share data and networks, which such a test does not know. Where cross-entropy was "
        "trained in two ways, the better one is the one to beat.",
        *beside_boosting(),
        "",
        "## Every loss",
        "",
        *folded(" / ".join(VERDICTS).capitalize() + ", by source", [overview(found)]),
        "",
        "## One by one",
        "",
        *(f"- [{title}](evidence/{stem}.md)" for stem, (title, *_) in PAGES.items()),
        "",
        "This page and those are made by `benchmarks/evidence.py` from the files in "
        "`benchmarks/results`, whose scripts train everything anew.",
        "",
        "```{toctree}",
        ":hidden:",
        "",
        *(f"evidence/{stem}" for stem in PAGES),
        "```",
    ]
    return "\n".join(text) + "\n"


def beside_boosting():
    """Mean ranks among what one would use on a table anyway, a line."""
    path = RESULTS / "top_of_the_table.jsonl"
    if not path.is_file():
        return []
    report = evidence_regions.top_of_the_table
    scores = report.job_scores(report.read(path))
    parts = []
    for kind, what in (("binary", "rows at the top"), ("multiclass", "labels at the top")):
        rank = report.usual(scores, kind, "reporting").rank
        if report.OURS in rank.index:
            mean = rank.mean(axis=1)
            parts.append(
                f"{mean[report.OURS]:.2f} of {len(rank)} for {what} (best: {mean.index[0]})"
            )
    return [f"- [Beside boosting and forests](tables.md), mean ranks: {'; '.join(parts)}."]


def _pages_of():
    """The pages that sources are on, as pairs."""
    return [(stem, name) for stem, (_, names, _) in PAGES.items() for name in names]


def page_of(stem, found):
    """The page of a paper: what it claims and what we find, in short; folded, all figures."""
    title, names, reproductions = PAGES[stem]
    findings = [f for name in names for f in found.get(name, ())]
    text = [f"# {title}", ""]
    if stem in evidence_papers.OF_PAPERS:
        text += evidence_papers.head(stem, found, table_of)
    else:
        text += [
            "In how many settings each loss won against cross-entropy; its figure and what it "
            "says are in [Compare losses](../compare.md).",
            "",
            by_loss(findings),
        ]
    text += [
        "",
        "## Beside cross-entropy",
        "",
        *folded(
            "How to read it",
            [
                "Where each loss won and lost against cross-entropy, by [the rules]"
                "(../evidence.md); after its name " + " / ".join(VERDICTS) + ". Differences are in "
                "points (accuracies, precisions, areas and correlations times 100)."
            ],
        ),
        *of_losses(findings),
    ]
    if (table := beside_paper(findings)) is not None:
        text += ["", *folded("Differences that the paper has a number for", [table])]
    whole = [name for name in names if not name.startswith("reproduce_")]
    links = [
        f"[{name}.md](../../benchmarks/results/{name}.md)"
        for name in whole
        if (RESULTS / f"{name}.md").is_file()
    ]
    if links:
        text += ["", *folded("All numbers", [f"{', '.join(links)}."])]
    shown, _ = evidence_papers.FIGURES.get(stem, ("", ""))
    for name in reproductions:
        if (path := RESULTS / f"reproduce_{name}.md").is_file():
            text += ["", embedded(path, shown)]
    return "\n".join(text) + "\n"


def pages(found=None):
    """The text that every generated page should have, by its path."""
    found = all_findings() if found is None else found
    made = {DOCS / "evidence.md": page(found)}
    for stem in PAGES:
        made[DOCS / "evidence" / f"{stem}.md"] = page_of(stem, found)
    for name in ("top.md", "losses.md", "scale.md", "tables.md", "promises.md", "boosting.md"):
        text = (DOCS / name).read_text()
        made[DOCS / name] = evidence_regions.filled(text)
    return made


def figure_is_stale(found):
    """Whether the figure was drawn of other findings."""
    path = RESULTS / FIGURE
    if not path.is_file():
        return True
    with Image.open(path) as picture:
        return picture.text.get("Comment") != evidence_jobs.digest(found)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only say what is not up to date")
    check = parser.parse_args().check
    found = all_findings()
    made = pages(found)
    stale = [path for path, text in made.items() if not path.is_file() or path.read_text() != text]
    draws = figure_is_stale(found)
    if check:
        stale += [RESULTS / FIGURE] if draws else []
        sys.exit(f"not up to date: {', '.join(map(str, stale))}" if stale else 0)
    for path in stale:
        path.parent.mkdir(exist_ok=True)
        path.write_text(made[path])
    if draws:
        evidence_jobs.draw(found, RESULTS / FIGURE)


if __name__ == "__main__":
    main()
