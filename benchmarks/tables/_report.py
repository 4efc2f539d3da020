"""The page and the figure of a results file."""

import itertools
import json
import textwrap
from dataclasses import dataclass, replace

import matplotlib as mpl
import numpy as np
import pandas as pd
from reproduce._protocol import markdown

from ._data import HALF, HALVES, MAX_TEST, MAX_TRAIN, TABLES, TRIED
from ._differences import by_job, by_table, lost
from ._jobs import JOBS, MULTICLASS
from ._methods import DEFAULTS, FEW_ROWS, FEW_SPLITS, METHODS, OURS, OWN, SHOWN

# Of a name beside a dot: points below it, and whether on its right; the nearest first.
PLACES = [*itertools.product((0, 14, -14, 28, -28, 42, -42, 56, -56), (1, -1))]
# Beside whom the site lists every table that is lost.
RIVALS = ("LightGBM", "LightGBM, tuned", "RealMLP-TD")
LOST_IN_WORDS = (
    "Scores in percent; the difference in points with the 95 % interval of the corrected "
    "resampled t-test over the splits that both have, in bold where it does not hold 0. Below, "
    "what is known of the reason, and what a row is worth."
)
EACH_ITS_SPLITS = (
    "Each is the mean over the splits that the method has here: ten (of four tables 40), five or "
    "three, or of TabM and several classes one. So the best, in bold, may be so for its splits; "
    "the comparisons above are on the same."
)
OWN_CROSS_ENTROPY = "TopKClassifier, cross-entropy"
KEYS = ["table", "method", "split"]
TITLES = {
    "binary": "Two classes: the rows at the top",
    "multiclass": "Several classes: the labels at the top",
}


def read(path):
    """The lines of a results file; one that a kill broke off is left out."""
    lines = path.read_text().splitlines() if path.is_file() else []
    found = []
    for line in lines:
        try:
            found.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    frame = pd.DataFrame(found)
    frame = frame.reindex(columns=list(dict.fromkeys([*KEYS, "error", *frame])))
    # Of two processes that made the same line, the first one's.
    return frame.drop_duplicates(KEYS)


def job_scores(lines):
    """A row per job and fit: of this package the estimator of the job, under its one name.

    A fit that failed has the score minus infinity: no other is worse.
    """
    others = {name: name for name in METHODS if name not in OWN}
    rows = []
    for kind, jobs in JOBS.items():
        of_kind = lines[[TABLES[table].kind == kind for table in lines.table]]
        for job in jobs:
            names = dict(others)
            names |= {of_job[job]: name for name, of_job in SHOWN.items() if job in of_job}
            here = of_kind[of_kind.method.isin(names)]
            rows.append(
                here[[*KEYS, "n_train", "n_test", "fit_s", "predict_s"]].assign(
                    kind=kind,
                    job=job,
                    half=here.table.map(HALF),
                    score=here[job].mask(here.error.notna(), -np.inf),
                    method=here.method.map(names),
                )
            )
    return pd.concat(rows, ignore_index=True)


@dataclass
class Ranking:
    """Mean ranks on some tables of one kind, over the splits that all the methods have.

    Parameters
    ----------
    rank : DataFrame of shape (n_methods, n_jobs)
        1 is the best; the best method first.
    seconds : DataFrame of shape (n_methods, 2)
        Of a fit and of the prediction of the test rows: median over tables.
    n_tables : Series of shape (n_methods,)
    n_splits : tuple
        Smallest and largest number of splits that a table gave.
    unfinished : dict
        Number of tables done, and to do, of methods that are not ranked.
    places : DataFrame
        Mean score and rank of each method by table and job, of which the mean ranks are.
    """

    rank: pd.DataFrame
    seconds: pd.DataFrame
    n_tables: pd.Series
    n_splits: tuple
    unfinished: dict
    places: pd.DataFrame


def ranking(scores, kind, half, least=1, without=()):
    """The ranks of the methods that have at least so many splits of each of their tables.

    Families of tables in `without` are left out.
    """
    tables = [t for t in TABLES.values() if t.kind == kind and HALF[t.name] == half]
    tables = [table for table in tables if table.family not in without]
    here = scores[(scores.kind == kind) & scores.table.isin([table.name for table in tables])]
    n_splits = here.groupby(["method", "table"]).split.nunique().groupby("method").min()
    here = here[here.method.map(n_splits) >= least]
    unfinished = {}
    shown = [name for name, of_job in SHOWN.items() if set(JOBS[kind]) <= set(of_job)]
    for method in [*shown, *(m for m in METHODS if m not in OWN)]:
        wanted = {t.name for t in tables if method in SHOWN or len(METHODS[method].splits(t))}
        of_method = here[here.method == method]
        jobs_done = of_method.groupby("table").job.nunique() == len(JOBS[kind])
        done = set(jobs_done.index[jobs_done])
        if wanted - done:
            unfinished[method] = len(done), len(wanted)
    here = here[~here.method.isin(unfinished)]
    ranks, n_splits = [], []
    for (table, job), cells in here.groupby(["table", "job"], sort=False):
        # Rows of splits, columns of methods; only splits that all methods of the table have.
        by_split = cells.pivot(index="split", columns="method", values="score").dropna()
        n_splits.append(len(by_split))
        if len(by_split):
            # Scores are kept to six digits: a smaller difference is none.
            mean = by_split.mean().round(5)
            place = mean.rank(ascending=False)
            cells = {"table": table, "job": job, "score": mean, "rank": place}
            ranks.append(pd.DataFrame(cells).reset_index())
    if not ranks:
        empty = pd.DataFrame(columns=list(JOBS[kind]), dtype=float)
        return Ranking(empty, empty, empty, (0, 0), unfinished, empty)
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
        ranks,
    )


def usual(scores, kind, half, without=()):
    """The ranks of the methods that have as many splits as slow ones are given, if ours does."""
    found = ranking(scores, kind, half, FEW_SPLITS, without)
    return found if OURS in found.rank.index else ranking(scores, kind, half, without=without)


def rank_table(found):
    """Mean ranks by job, seconds and number of tables, as Markdown."""
    jobs = list(found.rank)
    best = found.rank.round(2).min()
    rows = []
    for method, rank in found.rank.iterrows():
        cells = [
            f"**{r:.2f}**" if round(r, 2) == best[job] else f"{r:.2f}" for job, r in rank.items()
        ]
        fit, predict = found.seconds.loc[method]
        name = f"**{method}**" if method == OURS else method
        mean = f"{rank.mean():.2f}"
        rows.append([name, mean, *cells, f"{fit:.2g}", f"{predict:.2g}", found.n_tables[method]])
    return markdown(["method", "mean", *jobs, "fit, s", "predict, s", "tables"], rows)


def scores_by_table(scores, kind):
    """A table per job: the mean score in percent of each method on each table, both halves."""
    text = []
    for job in JOBS[kind]:
        here = scores[(scores.job == job)]
        mean = here.pivot_table(index="table", columns="method", values="score", aggfunc="mean")
        methods = [m for m in [*SHOWN, *METHODS] if m in mean]
        rows = []
        for name, table in TABLES.items():
            if name not in mean.index or table.kind != kind:
                continue
            values = mean.loc[name, methods]
            best = values.round(4).max()
            cells = [
                ""
                if np.isnan(v)
                else f"**{100 * v:.1f}**"
                if round(v, 4) == best
                else f"{100 * v:.1f}"
                for v in values
            ]
            rows.append([name, HALF[name], *cells])
        text += ["", f"### {job}", "", markdown(["table", "half", *methods], rows)]
    return text


def listed(parts):
    """Words with commas, and "and" before the last."""
    return ", ".join(parts[:-1]) + " and " * (len(parts) > 1) + parts[-1]


def firsts(found):
    """Which methods are first, at which jobs; of methods that share a place, all."""
    rank = found.rank.round(2)
    jobs = {}
    for job in rank:
        first = listed(list(rank.index[rank[job] == rank[job].min()]))
        jobs[first] = [*jobs.get(first, ()), job]
    if len(jobs) == 1:
        return f"First at every job: {next(iter(jobs))}."
    return f"First: {'; '.join(f'at {listed(at)} {method}' for method, at in jobs.items())}."


def lasts(found):
    """On which tables an estimator of this package is behind all others, and by how much."""
    parts = []
    for method in [name for name in SHOWN if name in found.rank.index]:
        where = []
        for (table, job), cells in found.places.groupby(["table", "job"], sort=False):
            score = cells.set_index("method").score
            others = score.drop(method, errors="ignore")
            if method in score and (others > score[method]).all() and len(others):
                points = f"{100 * score[method]:.2f}, next {100 * others.min():.2f}"
                where.append(f"{table} ({job}: {points}, of {len(score)})")
        parts.append(f"{method} on {listed(where) if where else 'no table'}")
    return f"Last: {'; '.join(parts)}." if parts else ""


def with_one_row(found):
    """Who is first where this package has one method, like the others; nothing if it has one."""
    places = found.places[~found.places.method.isin(set(SHOWN) - {OURS})]
    if len(places) == len(found.places) or OURS not in set(places.method):
        return ""
    place = places.groupby(["table", "job"]).score.rank(ascending=False)
    rank = places.assign(place=place).pivot_table(index="method", columns="job", values="place")
    rank = rank[list(found.rank)]
    ours = listed([f"{r:.2f}" for r in rank.loc[OURS]])
    text = firsts(replace(found, rank=rank))
    return f"With one row of this package, whose ranks are then {ours}: {text[0].lower()}{text[1:]}"


def firsts_and_lasts(found):
    return " ".join(filter(None, (firsts(found), with_one_row(found), lasts(found))))


def in_range(found):
    """How many splits the ranks are of, in words."""
    low, high = found.n_splits
    splits = f"{low}" if low == high else f"{low} to {high}"
    return f"{splits} split{'s' * (high > 1)}"


def mean_ranks(scores, half):
    """The ranks on half of the tables, a section for each kind."""
    text = []
    for kind in JOBS:
        found, every = usual(scores, kind, half), ranking(scores, kind, half)
        low = found.n_splits[0]
        text += ["", f"### {TITLES[kind]}, {in_range(found)}", "", rank_table(found)]
        text += ["", firsts_and_lasts(found)]
        if every.unfinished:
            parts = [f"{m} ({done} of {n} tables)" for m, (done, n) in every.unfinished.items()]
            text += ["", f"Not finished, not ranked: {', '.join(parts)}."]
        quick = ranking(scores, kind, half, least=low + 1)
        if OURS in quick.rank.index:
            title = f"### The same, {in_range(quick)}, without the methods that have fewer"
            text += ["", title, "", rank_table(quick), "", firsts_and_lasts(quick)]
        if len(every.rank) > len(found.rank):
            title = f"### The same, {in_range(every)}, with the methods that have no more"
            text += ["", title, "", rank_table(every), "", firsts_and_lasts(every)]
    return text[1:]


def without_tried(scores):
    """The ranks on the reporting half where nothing of the defaults was tried on."""
    tried = [t for t in TABLES.values() if t.family in TRIED and HALF[t.name] == "reporting"]
    text = [
        "",
        "### Without the tables that networks were tried on",
        "",
        "The network of the defaults, its bins, layers, decay and batches, is the first of those "
        "that [tabular_network.py](tabular_network.md) compares on six tables, on one to three "
        "splits of at most 5 000 rows, and was not changed after. Of the reporting half these and "
        f"their relatives are {listed([table.name for table in tried])}. Mean ranks without them:",
    ]
    for kind in JOBS:
        found = usual(scores, kind, "reporting", TRIED)
        if OURS in found.rank.index:
            text += ["", rank_table(found), "", firsts_and_lasts(found)]
    return text


def beside_cross_entropy(lines):
    """What the loss of `TopKClassifier` changes: the same network with cross-entropy alone.

    That is of lines made with ``--methods TopKClassifier --set loss=cross_entropy --label
    cross-entropy``; no lines, no text.
    """
    lines = lines.set_index(["method", "table", "split"])
    if OWN_CROSS_ENTROPY not in lines.index.unique("method"):
        return []
    alone, both = lines.loc[OWN_CROSS_ENTROPY], lines.loc["TopKClassifier"]
    both = both.loc[both.index.isin(alone.index)]
    jobs = list(MULTICLASS)
    change = 100 * (both[jobs] - alone.loc[both.index, jobs]).groupby("table").mean()
    time = (both.fit_s / alone.fit_s.loc[both.index]).groupby("table").median()
    rows = [
        [table, *(f"{value:+.2f}" for value in change.loc[table]), f"{time[table]:.1f}"]
        for table in change.index
    ]
    return [
        "",
        "### Several classes: beside the same network with cross-entropy alone",
        "",
        f'`TopKClassifier()` less `TopKClassifier(loss="cross_entropy")`, in points, the mean of '
        f"{both.groupby('table').size().min()} splits, and how many times as long a fit takes.",
        "",
        markdown(["table", *MULTICLASS, "times as long"], rows),
    ]


def summary(lines):
    """What the site shows: the ranks on the reporting half, and where it is lost to whom."""
    scores = job_scores(lines)
    text = [*mean_ranks(scores, "reporting"), *without_tried(scores), *beside_cross_entropy(lines)]
    text += ["", "### Beside boosting and RealMLP, and where it is lost", "", LOST_IN_WORDS]
    for kind in JOBS:
        found = by_table(scores, kind, "reporting")
        methods = [method for method in RIVALS if method in set(found.method)]
        text += ["", f"**{TITLES[kind]}**", *beside_rivals(scores, kind), ""]
        text += lost(found, methods)
    # As seen from the folder of the site's pages.
    return "\n".join(text).replace("](", "](../benchmarks/results/")


def in_words(lines):
    """What stands beside the figure, an item for each kind: who is first, and at what."""
    scores = job_scores(lines)
    return "\n".join(kind_in_words(scores, kind) for kind in JOBS)


def kind_in_words(scores, kind):
    first, _, what = TITLES[kind].partition(": ")
    text = f"- **{first}**, {what}: sktopk is {estimators_in_words(kind)}. "
    found = usual(scores, kind, "reporting")
    n_splits, n_tables = found.n_splits[0], found.n_tables.max()
    text += f"Mean ranks over the jobs, as the figure has them, on {n_splits} splits of {n_tables} "
    text += f"tables: {ranks_in_words(found)}"
    quick = ranking(scores, kind, "reporting", least=n_splits + 1)
    if OURS in quick.rank.index:
        text += f" On {in_range(quick)}, without the methods that have fewer: "
        text += ranks_in_words(quick)
    return wrapped(text)


def estimators_in_words(kind):
    """What sktopk is, and for which jobs if it is not one estimator for all of them."""
    jobs = {}
    for job in JOBS[kind]:
        jobs.setdefault(DEFAULTS[job], []).append(job)
    if len(jobs) == 1:
        return f"`{next(iter(jobs))}`"
    return listed([f"`{name}` at {listed(at)}" for name, at in jobs.items()])


def ranks_in_words(found):
    """The best mean ranks over jobs, and what they hide."""
    mean = found.rank.mean(axis=1)
    shown = list(dict.fromkeys([*mean.index[:2], *(m for m in SHOWN if m in mean)]))
    places = [f"{m} {mean[m]:.2f}" for m in mean.index if m in shown]
    return f"{', '.join(places)}, of {len(mean)} methods. {firsts_and_lasts(found)}"


def beside_rivals(scores, kind):
    """Ours less each rival at every job, in points, and the tables won, equal and lost."""
    rows = by_job(by_table(scores, kind, "reporting"))
    cells = {(method, job): f"{points} ({counts})" for job, method, points, counts, _ in rows}
    methods = [method for method in RIVALS if (method, next(iter(JOBS[kind]))) in cells]
    return [
        "",
        "sktopk less each in points, the mean over tables with its 95 % interval, and the tables "
        "won / equal / lost:",
        "",
        markdown(
            ["beside", *JOBS[kind]],
            [[method, *(cells[method, job] for job in JOBS[kind])] for method in methods],
        ),
    ]


def wrapped(text):
    """An item of a list, in lines as those around it."""
    return textwrap.fill(text, 95, break_on_hyphens=False, subsequent_indent="  ")


def page(lines, figure="top_of_the_table.png"):
    """The page: ranks and differences on the reporting half, then everything."""
    scores = job_scores(lines)
    n_failed = lines.error.notna().sum()
    text = [
        "# Who is best at the top?",
        "",
        f"`benchmarks/top_of_the_table.py`: {len(TABLES)} tables, at most {MAX_TRAIN} rows to "
        f"train and {MAX_TEST} to test, drawn anew for each split, the same for all methods; one "
        'thread, seconds of the processor. Methods have their defaults, but for "LightGBM, tuned": '
        "20 tries, as many as 300 s allow, on a fifth of the training rows. Slow methods have at "
        "most three splits, but RealMLP-TD ten of digits, letters and shuttle and five of "
        "kddcup, others ten, and 40 of the four tables of two classes of the reporting "
        f"half with less than 1 000 rows to test, {listed(FEW_ROWS)}: five to seven of these are "
        "1 %, and after ten splits the vote was last on one of them at one job, and behind "
        "LightGBM at another, by less than half a row. Histogram boosting and tuned LightGBM are "
        "left out where there are more than 50 classes. sktopk is "
        + ", ".join(f"{name} for {job}" for job, name in DEFAULTS.items())
        + '; chosen on the choosing half. "sktopk, network alone" is its best network for each '
        'job, without the trees that vote with it; "sktopk, second choice" is, for several '
        "classes, the other of the two, which came second there.",
        "",
        "Ranks: 1 is the best of the methods, by the mean over the splits that all of them have; "
        f"the mean over tables. {len(lines)} fits, {n_failed} of them failed (ranked last). "
        "The rows of this package are methods like others, and push the ranks of these down: two "
        "of them alone are compared below, table by table.",
        "",
        f"![Mean rank against seconds of a fit]({figure})",
    ]
    for half in HALVES[::-1]:
        text += ["", f"## The {half} half: mean ranks", "", *mean_ranks(scores, half)]
        if half == "reporting":
            text += [*without_tried(scores), *beside_cross_entropy(lines)]
    text += [
        "",
        "## The reporting half: sktopk against each",
        "",
        "Difference of the scores in points, the mean over tables with its 95 % confidence "
        "interval (Student's t, tables as the sample); tables won / equal / lost by the mean of "
        "the splits; tables clearly won / clearly lost, by the corrected resampled t-test over the "
        "splits.",
    ]
    header = ["job", "against", "difference", "won / equal / lost", "clearly won / lost"]
    for kind in JOBS:
        rows = by_job(by_table(scores, kind, "reporting"))
        text += ["", f"### {TITLES[kind]}", "", markdown(header, rows)]
    text += ["", "## The reporting half: where sktopk loses", "", LOST_IN_WORDS]
    for kind in JOBS:
        found = by_table(scores, kind, "reporting")
        text += ["", f"### {TITLES[kind]}", "", *lost(found, sorted(set(found.method)))]
    for kind in JOBS:
        text += ["", f"## Scores in percent. {TITLES[kind]}", "", EACH_ITS_SPLITS]
        text += scores_by_table(scores, kind)
    return "\n".join(text) + "\n"


def draw(lines, path):
    """Mean rank on the reporting half against seconds of a fit, a panel for each kind."""
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    scores = job_scores(lines)
    figure, axes = plt.subplots(1, 2, figsize=(11, 4.6), layout="constrained")
    for ax, kind in zip(axes, JOBS, strict=True):
        found = usual(scores, kind, "reporting")
        rank, fit_s = found.rank.mean(axis=1), found.seconds.fit_s
        # The mean over jobs hides who is first at which.
        ax.set_title(f"{TITLES[kind]}\n{textwrap.fill(firsts(found), 60)}", fontsize=10)
        ax.set_xlabel("seconds of a fit (median of the tables, one thread): left is quicker")
        ax.set_xscale("log")
        if len(rank):
            ax.set_xlim(fit_s.min() / 2, fit_s.max() * (fit_s.max() / fit_s.min()) ** 0.4)
            ax.set_ylim(rank.max() + 0.7, 0.5)
        ax.grid(alpha=0.3)
        for method in rank.index:
            style = {"color": "C3", "ms": 12} if method == OURS else {"color": "0.3", "ms": 7}
            ax.plot(fit_s[method], rank[method], "o", label=method, **style)
    axes[0].set_ylabel("mean rank (1 is best): up is better")
    # Where things are in pixels is known once the layout is.
    figure.draw_without_rendering()
    for ax in axes:
        name_dots(ax)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def name_dots(ax):
    """Write the name of each dot of `ax` beside it, and return the names.

    From the best dot to the worst, each at the first place that covers no dot and no other name. A
    line leads to one that had to give way.
    """
    names, dots = [], ax.get_lines()
    taken = [dot.get_window_extent() for dot in dots]
    for dot in dots:
        method, place, color = dot.get_label(), dot.get_xydata()[0], dot.get_color()
        for down, side in PLACES:
            aside = (side * (dot.get_markersize() / 2 + 7), -down)
            name = ax.annotate(
                method,
                place,
                aside,
                textcoords="offset points",
                ha="left" if side > 0 else "right",
                va="center",
                color=color,
                weight="bold" if method == OURS else "normal",
                zorder=1,
            )
            box = name.get_window_extent()
            inside = ax.bbox.x0 < box.x0 and box.x1 < ax.bbox.x1
            if (inside and not box.count_overlaps(taken)) or (down, side) == PLACES[-1]:
                break
            name.remove()
        taken.append(box)
        names.append(name)
        if down:
            line = {"arrowstyle": "-", "color": "0.7", "shrinkA": 0, "shrinkB": 5}
            ax.annotate("", place, aside, textcoords="offset points", arrowprops=line, zorder=1)
    return names


def write_report(path):
    """Write the page and the figure beside a results file, and return the page."""
    lines = read(path)
    text = page(lines, path.with_suffix(".png").name)
    path.with_suffix(".md").write_text(text)
    draw(lines, path.with_suffix(".png"))
    return text
