"""The page and the figure of a results file."""

import json
from dataclasses import dataclass

import matplotlib as mpl
import numpy as np
import pandas as pd
from reproduce._protocol import markdown

from ._data import HALF, MAX_TEST, MAX_TRAIN, TABLES, chose_defaults
from ._differences import by_job, by_table, clearly_lost
from ._jobs import JOBS
from ._methods import DEFAULTS, FEW_SPLITS, METHODS, OURS, RANKERS, shown

KEYS = ["table", "method", "split"]
KIND = {table.name: table.kind for table in TABLES.values()}
TITLES = {
    "binary": "Two classes",
    "multiclass": "Several classes",
    "wrong labels": "Wrong labels",
    "long tail": "Long tail",
}


def read(path):
    """Return the lines of a results file, without an incomplete last line."""
    found = []
    for line in path.read_text().splitlines() if path.is_file() else []:
        try:
            found.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    frame = pd.DataFrame(found)
    frame = frame.reindex(columns=list(dict.fromkeys([*KEYS, "error", *frame])))
    # Two processes may have written the same line.
    return frame.drop_duplicates(KEYS)


def job_scores(lines):
    """Return a row per metric and fit. From sktopk, only the estimator of the comparison is used.

    A failed fit has the score minus infinity.
    """
    rows = []
    for kind, jobs in JOBS.items():
        of_kind, names = lines[lines.table.map(KIND) == kind], shown(kind)
        here = of_kind[of_kind.method.isin(names)]
        for job in jobs:
            rows.append(
                here[[*KEYS, "n_train", "n_test", "fit_s", "predict_s"]].assign(
                    kind=kind,
                    job=job,
                    score=here[job].mask(here.error.notna(), -np.inf),
                    method=here.method.map(names),
                )
            )
    return pd.concat(rows, ignore_index=True)


# Methods that are compared with the rankers of sktopk.
RIVALS = "RecallAtFPRClassifier", "TopBoostClassifier", "vote of three", "extra trees"


@dataclass
class Ranking:
    """Mean ranks on the datasets of one kind, over the splits that all methods have.

    Rank 1 is the best, and the best method comes first. Seconds are medians over datasets.
    `unfinished` has the numbers of datasets done, and to do, of methods that are not ranked.
    """

    rank: pd.DataFrame
    seconds: pd.DataFrame
    n_tables: pd.Series
    n_splits: tuple
    unfinished: dict


def reporting(kind):
    """Return the datasets of a kind that the ranks are computed on."""
    return [t for t in TABLES.values() if t.kind == kind and HALF[t.name] == "reporting"]


def ranked():
    """Yield for each rank table: the kind of datasets, the datasets, and words for its title."""
    for kind in JOBS:
        yield kind, reporting(kind), ""
    unused = [t for t in reporting("multiclass") if not chose_defaults(t)]
    yield "multiclass", unused, " that did not choose the defaults"
    for kind in ("wrong labels", "long tail"):
        used = [t for t in TABLES.values() if t.kind == kind and chose_defaults(t)]
        yield kind, used, " that chose the defaults"


def ranking(scores, kind, tables, least=1):
    """Rank the methods that have at least `least` splits of each of their datasets."""
    here = scores[(scores.kind == kind) & scores.table.isin([t.name for t in tables])]
    n_splits = here.groupby(["method", "table"]).split.nunique().groupby("method").min()
    here = here[here.method.map(n_splits) >= least]
    unfinished = {}
    for name, method in shown(kind).items():
        wanted = {t.name for t in tables if len(METHODS[name].splits(t))}
        of_method = here[here.method == method]
        jobs_done = of_method.groupby("table").job.nunique() == len(JOBS[kind])
        done = set(jobs_done.index[jobs_done])
        if wanted - done:
            unfinished[method] = len(done), len(wanted)
    here = here[~here.method.isin(unfinished)]
    ranks, n_splits = [], []
    for (table, job), cells in here.groupby(["table", "job"], sort=False):
        # Only splits that all methods of the dataset have.
        by_split = cells.pivot(index="split", columns="method", values="score").dropna()
        n_splits.append(len(by_split))
        if len(by_split):
            # Scores have six digits, so smaller differences are ties.
            place = by_split.mean().round(5).rank(ascending=False)
            ranks.append(pd.DataFrame({"table": table, "job": job, "rank": place}).reset_index())
    if not ranks:
        empty = pd.DataFrame(columns=list(JOBS[kind]), dtype=float)
        return Ranking(empty, empty, empty, (0, 0), unfinished)
    ranks = pd.concat(ranks)
    rank = ranks.pivot_table(index="method", columns="job", values="rank")[list(JOBS[kind])]
    rank = rank.loc[rank.mean(axis=1).sort_values().index]
    seconds = here.groupby(["method", "table"])[["fit_s", "predict_s"]].mean()
    return Ranking(
        rank,
        seconds.groupby("method").median().loc[rank.index],
        ranks.groupby("method").table.nunique().loc[rank.index],
        (min(n_splits), max(n_splits)),
        unfinished,
    )


def usual(scores, kind, tables):
    """Rank methods with at least FEW_SPLITS splits. If sktopk has fewer, rank all methods."""
    found = ranking(scores, kind, tables, FEW_SPLITS)
    return found if OURS in found.rank.index else ranking(scores, kind, tables)


def rank_table(found):
    """Return mean ranks by metric, seconds and number of datasets as Markdown."""
    best = found.rank.round(2).min()
    rows = []
    for method, rank in found.rank.iterrows():
        cells = [f"**{r:.2f}**" if round(r, 2) == best[j] else f"{r:.2f}" for j, r in rank.items()]
        fit, predict = found.seconds.loc[method]
        name = f"**{method}**" if method == OURS else method
        times = f"{fit:.2g}", f"{predict:.2g}"
        rows.append([name, f"{rank.mean():.2f}", *cells, *times, found.n_tables[method]])
    header = ["method", "mean", *found.rank, "fit, s", "predict, s", "datasets"]
    return markdown(header, rows)


def mean_ranks(scores):
    """Return the ranks, a section for each kind."""
    text = []
    for kind, tables, which in ranked():
        found = usual(scores, kind, tables)
        if found.rank.empty:
            continue
        least, most = found.n_splits
        title = (
            f"### {TITLES[kind]}, {found.n_tables.max()} datasets{which}, {least} to {most} splits"
        )
        text += ["", title, "", rank_table(found)]
        if found.unfinished:
            parts = [f"{m} ({done} of {n} datasets)" for m, (done, n) in found.unfinished.items()]
            text += ["", f"Not finished, not ranked: {', '.join(parts)}."]
    return text


def scores_by_table(scores, kind):
    """Return a table per metric: the mean score in percent of each method on each dataset."""
    text = []
    for job in JOBS[kind]:
        here = scores[(scores.kind == kind) & (scores.job == job)]
        mean = 100 * here.pivot_table(index="table", columns="method", values="score")
        mean = mean[[m for m in [OURS, *METHODS] if m in mean]].round(1)
        rows = []
        for name, values in mean.iterrows():
            cells = [f"**{v:.1f}**" if v == values.max() else f"{v:.1f}" for v in values]
            mark = "*" if chose_defaults(TABLES[name]) else ""
            rows.append([name + mark, *(c.replace("nan", "") for c in cells)])
        text += ["", f"### {job}", "", markdown(["dataset", *mean], rows)]
    return text


def rankers(lines):
    """Return mean scores in percent over the splits that all of these methods have.

    Methods that lack datasets are left out.
    """
    here = lines[lines.table.map(KIND) == "binary"]
    n_tables = here.groupby("method").table.nunique()
    names = [*(type(ranker).__name__ for ranker in RANKERS.values()), *RIVALS]
    names = [name for name in names if n_tables.get(name, 0) == here.table.nunique()]
    here = here[here.method.isin(names)]
    here = here[here.groupby(["table", "split"]).method.transform("nunique") == len(names)]
    mean = 100 * here.groupby(["method", "table"])[[*JOBS["binary"]]].mean()
    mean = mean.groupby("method").mean().reindex(names)
    best = mean.round(1).max()
    rows = [
        [
            name,
            *(f"**{v:.1f}**" if round(v, 1) == best[job] else f"{v:.1f}" for job, v in row.items()),
        ]
        for name, row in mean.iterrows()
    ]
    n_splits = here.groupby("table").split.nunique().max()
    first = f"mean over {here.table.nunique()} datasets, splits: {n_splits}"
    return markdown([first, *mean], rows)


def page(lines, figure="top_of_the_table.png"):
    """Return the page: ranks, differences, then all scores."""
    scores = job_scores(lines)
    text = [
        "# Comparison with baselines on the held-out datasets",
        "",
        f"`benchmarks/top_of_the_table.py`: {lines.table.nunique()} datasets, at most {MAX_TRAIN} "
        f"training and {MAX_TEST} test samples, drawn for each split, the same for all methods. "
        "One thread, CPU seconds. All methods have their defaults, except "
        '"LightGBM, tuned" (20 tries). sktopk is '
        + ", ".join(f"{name} for {TITLES[kind].lower()}" for kind, name in DEFAULTS.items())
        + ".",
        "",
        "Datasets with * chose defaults of TopKClassifier. For wrong labels and the long tail, the "
        "differences exclude them.",
        "",
        "Rank 1 is the best method, by the mean over the splits that all methods have. "
        f"{len(lines)} fits, {lines.error.notna().sum()} of them failed (ranked last).",
        "",
        f"![Mean rank against seconds of a fit]({figure})",
    ]
    text += ["", "## Mean ranks", *mean_ranks(scores)]
    text += [
        "",
        "## sktopk compared with each method",
        "",
        "Differences in points: mean over datasets with its 95 % confidence interval (Student's "
        "t, datasets as the sample). Datasets won / equal / lost by the mean of the splits; "
        "clearly won / lost by the corrected resampled t-test over the splits.",
    ]
    header = ["metric", "against", "difference", "won / equal / lost", "clearly won / lost"]
    for kind in JOBS:
        found = by_table(scores[scores.table.map(HALF) == "reporting"], kind)
        text += ["", f"### {TITLES[kind]}", "", markdown(header, by_job(found))]
        text += ["", f"### {TITLES[kind]}, clearly lost", "", clearly_lost(found)]
    text += ["", "## Rankers of sktopk", "", rankers(lines)]
    for kind in JOBS:
        text += ["", f"## Scores in percent, {TITLES[kind].lower()}"]
        text += scores_by_table(scores, kind)
    return "\n".join(text) + "\n"


def draw(lines, path):
    """Draw the mean rank against seconds of a fit, a panel per kind."""
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    scores = job_scores(lines)
    figure, axes = plt.subplots(2, 2, figsize=(11, 9.2), layout="constrained")
    for ax, kind in zip(axes.flat, JOBS, strict=True):
        found = usual(scores, kind, reporting(kind))
        if found.rank.empty:
            continue
        ax.set(title=TITLES[kind], xlabel="seconds of a fit (median, one thread)", xscale="log")
        ax.set_ylabel("mean rank (1 is best)")
        ranks, decades = found.rank.mean(axis=1), np.log10(found.seconds.fit_s)
        for method, rank in ranks.items():
            color = "C3" if method == OURS else "0.3"
            right = decades - decades[method]
            # The label is on the left if another point is close on the right.
            near, width = (ranks - rank).abs(), 0.11 * len(method)
            left = ((0 < right) & (right < np.where(near < 0.2, width, 0.6)) & (near < 0.35)).any()
            offset, ha = ((-6, -3), "right") if left else ((6, -3), "left")
            if left and ((-2 < right) & (right < 0) & (near < 0.15)).any():
                offset, ha = (0, 7), "center"  # with neighbours on both sides, the label moves up
            place = found.seconds.fit_s[method], rank
            ax.plot(*place, "o", color=color)
            options = {"textcoords": "offset points", "color": color, "fontsize": 8, "ha": ha}
            ax.annotate(method, place, offset, **options)
        ax.margins(x=0.35)
        ax.invert_yaxis()
    figure.savefig(path, dpi=110)
    plt.close(figure)


def write_report(path):
    """Write page and figure of the reporting half next to a results file, and return the page."""
    lines = read(path)
    wanted = lines.table.map(HALF) == "reporting"
    lines = lines[wanted | lines.table.map(KIND).isin(["wrong labels", "long tail"])]
    text = page(lines, path.with_suffix(".png").name)
    path.with_suffix(".md").write_text(text)
    draw(lines, path.with_suffix(".png"))
    return text
