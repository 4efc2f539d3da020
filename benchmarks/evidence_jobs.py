"""What each loss is for: the findings by job, as a table and as a figure."""

import hashlib
import json
import re
from statistics import median

from _paired import VERDICTS
from _protocol import markdown
from scipy.stats import binom

# They are what a loss is held against.
RIVALS = {"weighted_cross_entropy", "hist_gradient_boosting"}
# That an interval of level 95 % lies above 0, or below it, without any difference.
CHANCE = 0.025
COLOURS = dict(zip(VERDICTS, ("#00589c", "#9cc3e0", "#e4e4e4", "#d9722b"), strict=True))
_LINEAR = re.compile(r"(?<!\d)0 hidden units|linear$")


def _of_map(linear):
    return lambda f: bool(_LINEAR.search(f.setting)) == linear


# What one wants, and the findings that are about it: by results file, a test of a finding.
JOBS = {
    "k labels, a linear model": {"map_of_wins": _of_map(True)},
    "k labels, hidden units": {"map_of_wins": _of_map(False)},
    "k labels, classes with several faces": {"reproduce_circle_modes": bool},
    "k labels, labels wrong within groups": {
        "reproduce_label_noise": bool,
    },
    "k labels, fewer and fewer rows": {"reproduce_training_size": bool},
    "k labels, images mixed or cut": {"reproduce_top_curve": bool},
    "k labels, rare classes count as much": {"reproduce_long_tails": bool},
    "images of one class above the others": {"reproduce_top_one": bool},
    "active molecules above the others": {"reproduce_activity": bool},
    "rows by an area, F1, precision or recall": {"imbalance": bool, "reproduce_halves": bool},
}


def counted(findings):
    """How many of each verdict, in their order."""
    verdicts = [f.verdict for f in findings]
    return [verdicts.count(verdict) for verdict in VERDICTS]


def by_job(found):
    """The findings of each loss for each job, the best loss first: by the share won minus lost.

    Losses that were tried in less than half as many settings as another come last.

    Parameters
    ----------
    found : dict of str to list of Finding
        By results file.

    Returns
    -------
    jobs : dict of str to dict of str to list of Finding
        Jobs without a finding are left out.
    """
    jobs = {}
    for job, parts in JOBS.items():
        losses = {}
        for name, belongs in parts.items():
            for f in found.get(name, ()):
                if f.loss not in RIVALS and belongs(f):
                    losses.setdefault(f.loss, []).append(f)
        if losses:
            most = max(map(len, losses.values()))
            jobs[job] = dict(sorted(losses.items(), key=lambda item: _place(item[1], most)))
    return jobs


def _place(findings, most):
    won, as_good, _, lost = counted(findings)
    n = len(findings)
    return 2 * n < most, (lost - won) / n, -as_good / n


def beyond_chance(count, n):
    """Whether so many of n settings are more than intervals give where there is no difference."""
    return binom.sf(count - 1, n, CHANCE) < 0.05


def answer(findings):
    """Whether to use the loss, in words."""
    won, as_good, _, lost = counted(findings)
    n = len(findings)
    if beyond_chance(won, n):
        return "**yes**" if 2 * won >= n and won > lost else "**compare**: it may pay"
    if beyond_chance(lost, n):
        return "no"
    return "no need: as good" if 2 * as_good >= n else "nothing was found for it"


def table(found, pages):
    """A row per job: the best loss, what was found for it, and where to read on."""
    rows = []
    for job, losses in by_job(found).items():
        loss, findings = next(iter(losses.items()))
        middle = f"{median(float(f.difference.split()[0]) for f in findings):+.1f}"
        linked = ", ".join(pages[name] for name in JOBS[job] if name in found)
        won = " / ".join(map(str, counted(findings)))
        rows.append([job, answer(findings), f"`{loss}`", len(losses), won, middle, linked])
    header = ["you want", "a loss for it?", "the best", "losses tried", " / ".join(VERDICTS)]
    return markdown([*header, "middle difference, points", "more"], rows)


def digest(found):
    """What tells the data of a figure from others."""
    counts = {
        job: {k: counted(v) for k, v in losses.items()} for job, losses in by_job(found).items()
    }
    return hashlib.sha256(json.dumps(counts).encode()).hexdigest()


def draw(found, file):
    """Draw a bar per loss, of the shares of its verdicts, in a group per job; return the figure.

    A picture in PNG says as "Comment" which findings it has, by their `digest`.
    """
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    jobs = by_job(found)
    sizes = [len(losses) for losses in jobs.values()]
    figure, axes = plt.subplots(
        len(jobs),
        figsize=(8.5, 0.24 * sum(sizes) + 0.5 * len(jobs) + 0.5),
        height_ratios=[size + 0.3 for size in sizes],
        layout="constrained",
        sharex=True,
    )
    for ax, (job, losses) in zip(axes, jobs.items(), strict=True):
        for place, findings in enumerate(losses.values()):
            left = 0.0
            for verdict, count in zip(VERDICTS, counted(findings), strict=True):
                width = count / len(findings)
                ax.barh(place, width, left=left, color=COLOURS[verdict], height=0.8, label=verdict)
                if count:
                    colour = "w" if verdict in ("won", "lost") else "0.25"
                    middle = left + width / 2
                    ax.text(middle, place, count, ha="center", va="center", color=colour, size=8)
                left += width
        ax.set_yticks(range(len(losses)), list(losses), fontsize=8)
        ax.invert_yaxis()
        ax.set_title(job, loc="left", fontsize=9, weight="bold", pad=3)
        ax.set(xlim=(0, 1), xticks=[])
        ax.spines[:].set_visible(False)
        ax.tick_params(length=0)
    handles, labels = axes[0].get_legend_handles_labels()
    unique = dict(zip(labels, handles, strict=True))
    figure.legend(unique.values(), unique, loc="outside upper center", ncols=4, frameon=False)
    figure.savefig(file, dpi=110, format="png", metadata={"Comment": digest(found)})
    plt.close(figure)
    return figure
