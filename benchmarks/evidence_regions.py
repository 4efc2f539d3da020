"""The parts of hand-written pages that come from results files, between marks.

    <!-- from benchmarks/results/imbalance.csv: begin -->
    ...
    <!-- end -->

`filled` puts what the files say between the marks.
"""

import re
import textwrap
from itertools import dropwhile
from pathlib import Path

import groups
import imbalance
import molecules
import pandas as pd
import scaling
import top_boost
from reproduce._protocol import RESULTS, markdown
from tables import _report as top_of_the_table

PAPERS = Path(__file__).parent / "papers.csv"
MARKS = re.compile(r"(<!-- from ([^>]+?): begin -->\n).*?(<!-- end -->)", re.DOTALL)
CLASSES = ("100", "1,000", "10,000")
# Of which k = 50 is shown as well.
LARGE_K = "1,000"
# What the jobs of two classes are called by those who have them, and whom they would ask else.
JOBS_IN_WORDS = {
    "precision at 100": "100 a day",
    "recall at 1 % false positives": "at most 1 % false alarms",
    "precision at 1 %": "the first few, 1 %",
    "positives above every negative": "until the first false alarm",
    "average precision": "no cut, the whole order",
}
OTHERS = (
    "logistic regression",
    "LightGBM",
    "histogram boosting",
    "random forest",
    "sktopk, network alone",
)


def table_below(name, start):
    """Return the first table at or below the line of a page that begins with `start`."""
    lines = (RESULTS / name).read_text().splitlines()
    lines = dropwhile(lambda line: not line.startswith(start), lines)
    rows = []
    for line in lines:
        if line.startswith("|"):
            rows.append([cell.strip() for cell in line.removeprefix("|").split("|")[:-1]])
        elif rows:
            break
    return pd.DataFrame(rows[2:], columns=rows[0])


def whole(table):
    return markdown(list(table), table.to_numpy().tolist())


def of_imbalance():
    runs = pd.read_csv(RESULTS / "imbalance.csv")
    runs = runs[runs.scale == "small"]
    text = []
    for name, values in imbalance.arrays(runs).items():
        won = imbalance.own(imbalance.compare(values)[2])
        text.append(f"with the {name}, of {won.size} comparisons {imbalance.in_words(won)}")
    return wrapped(
        f"On {len(imbalance.CASES)} tables with thinned classes, the classifiers trained for a "
        "metric, beside cross-entropy with a tuned threshold on this metric: "
        f"{text[0]}; {text[1]} (`benchmarks/results/imbalance.md`)."
    )


def of_molecules():
    cells = pd.read_csv(RESULTS / "molecules.csv", keep_default_na=False)
    first = "above every negative"

    def share(table, row, column=first):
        found = cells[(cells.table == table) & (cells.row == row) & (cells.column == column)]
        return found.cell.item()

    trained = share(molecules.TRAINED, "DeepTopPush", "training molecules")
    return wrapped(
        "Of the active test molecules of CYP 3A4, above every inactive one: "
        f"DeepTopPush {share(molecules.TESTED, 'DeepTopPush')} (of the training molecules "
        f"{trained}: it learns them by heart), logistic regression "
        f"{share(molecules.TESTED, 'logistic regression')}, weighted cross-entropy with the same "
        f"network {share(molecules.TESTED, 'weighted cross-entropy')} (mean ± standard deviation "
        "over seeds, each with settings that cross-validation selected; "
        "`benchmarks/results/molecules.md`)."
    )


def wrapped(text):
    return textwrap.fill(text, 95, break_on_hyphens=False)


def costs():
    """Times cross-entropy of each loss at k = 5 or without k, at k = 50, and its memory."""
    times = {n: table_below("loss_speed.md", f"n_classes = {n}:") for n in CLASSES}
    times = {n: table.set_index("loss") for n, table in times.items()}
    memory = table_below("loss_speed.md", "Peak extra memory")
    memory = memory[(memory.n_classes == "10000") & memory.k.isin(["", "5"])].set_index("loss")
    rows = [
        [
            f"`{loss}`",
            *(table["k = 5"][loss] or table["without k"][loss] for table in times.values()),
            times[LARGE_K]["k = 50"][loss],
            memory["times the scores"][loss],
        ]
        for loss in times["100"].index
    ]
    header = ["loss", f"{CLASSES[0]} classes", *CLASSES[1:], f"{LARGE_K}, k = 50"]
    return markdown([*header, "memory at 10,000, times the scores"], rows)


def defaults():
    """Top-3 accuracy: a row per loss, a column per data set and model."""
    table = table_below("defaults_all_losses.md", "")
    table["top-3"] = table["top-3"].astype(float)
    return table.pivot_table(index="loss", columns="data, model", values="top-3", sort=False)


def defaults_table():
    wide = defaults()
    rows = [
        [
            f"`{loss}`",
            *(f"**{v:.3f}**" if v == wide[c].max() else f"{v:.3f}" for c, v in row.items()),
        ]
        for loss, row in wide.iterrows()
    ]
    return markdown(["loss", *wide.columns], rows)


def defaults_gains():
    """What the top-k losses gain and lose, a line per data set and model."""
    wide = defaults()
    topk = wide[["topk" in loss for loss in wide.index]]
    rows = []
    for case in wide.columns:
        cells = [case]
        for baseline in ("cross_entropy", "cross_entropy, score_scale=10"):
            gain = (topk[case] - wide[case][baseline]).sort_values()
            cells += [f"`{gain.index[i]}` {gain.iloc[i]:+.3f}" for i in (-1, 0)]
        rows.append(cells)
    header = ["data, model", "most over cross-entropy", "least"]
    return markdown([*header, "most over it with score_scale=10", "least"], rows)


def sparse():
    memory = table_below("large_data.md", "| fit")
    epochs = table_below("large_data.md", "| batch | sparse").set_index("batch").loc["512"]
    dense = epochs["dense batches"].split()[0]
    return wrapped(
        "Of 37 241 x 9 491 numbers, 4 % of them stored, a fit takes at most "
        f"{memory['multiple'].astype(float).max():.2f} times the matrix, beside the network. An "
        f"epoch with batches of 512 takes {epochs['sparse batches']} CPU seconds with sparse "
        f"batches, {dense} with dense ones (`benchmarks/results/large_data.md`)."
    )


def stream():
    row = table_below("large_data.md", "| before, MB").iloc[0]
    more = int(row["peak, MB"]) - int(row["before, MB"])
    rate = int(row["rows per CPU second"].replace(",", "")) / 1e6
    return wrapped(
        f"Only the best scores are kept: ten million rows took {more} MB more at the peak than "
        f"before, at {rate:.1f} million rows per CPU second."
    )


def steps_of_many_classes():
    return whole(table_below("many_classes.md", "| loss | classes | all: ms"))


def members_of_many_classes():
    return whole(table_below("many_classes.md", "| loss | members | all: ms"))


def quality_of_many_classes():
    return whole(table_below("many_classes.md", "| loss | classes of a step"))


def best_of_many_classes():
    table = table_below("many_classes.md", "| classes | scores").set_index("classes")
    whole, blocks = table.loc["1,000,000"]
    return wrapped(
        f"At a million classes `predict_topk` takes {float(blocks):.1f} ms a row; to score all "
        f"classes of 32 rows at a time takes {float(whole):.1f}."
    )


def growth():
    """Exponents against rows, features, classes and k, and where an epoch takes 36 seconds."""
    runs = pd.read_csv(RESULTS / "scaling.csv")
    rows = []
    for name in dict.fromkeys(runs["estimator"]):
        cells = [name]
        for axis in ("rows", "features", "classes", "k"):
            here = runs[(runs["estimator"] == name) & (runs["axis"] == axis)]
            if len(here) == 0:
                cells.append("")
                continue
            measured = here["size"].to_numpy(), here["seconds"].to_numpy()
            size = scaling.sensible_size(*measured)
            cells.append(f"{scaling.exponent(*measured)[0]:.1f}" + f" ({size})" * bool(size))
        rows.append(cells)
    header = ["estimator", *(f"power of {axis}" for axis in ("rows", "features", "classes", "k"))]
    return markdown(header, rows)


def ranks_at_the_top():
    """Mean ranks on the reporting half, and the tables won against each method."""
    lines = top_of_the_table.read(RESULTS / "top_of_the_table.jsonl")
    return top_of_the_table.summary(lines)


def first_at_the_top():
    """Who comes first at which job on the reporting half, and by how much."""
    return top_of_the_table.in_words(top_of_the_table.read(RESULTS / "top_of_the_table.jsonl"))


def rankers_by_job():
    """`TopVotingClassifier` against what else one would use, on the reporting half."""
    lines = top_of_the_table.read(RESULTS / "top_of_the_table.jsonl")
    scores = top_of_the_table.job_scores(lines)
    found = top_of_the_table.by_job(top_of_the_table.by_table(scores, "binary", "reporting"))
    by_job = {(job, method): difference for job, method, difference, *_ in found}
    rows = []
    for job, words in JOBS_IN_WORDS.items():
        rows.append([words, job, *(by_job.get((job, other), "") for other in OTHERS)])
    header = ["job", "judged by", *(f"beside {other}" for other in OTHERS)]
    return markdown([cell.replace("sktopk, network", "its network") for cell in header], rows)


def promised_by_thresholds():
    """Of each promise the share of draws that kept it, and what was left, by method."""
    table = table_below("promises.md", "### Thresholds")
    flags_more = table["promise"].str.startswith("recall")
    left = table["recall"].where(~flags_more, table["flagged"])
    table["cell"] = table["kept"] + ", " + left
    return by_column(table, ["table", "promise"], "method")


def promised_by_sets():
    """Coverage and size by package."""
    table = table_below("promises.md", "### Sets")
    table["cell"] = table["mean coverage"] + ", " + table["mean size"]
    return by_column(table, ["table", "method"], "package")


def by_column(table, index, column):
    """Return a table with a column for each value of one, in the order in which they come."""
    names = list(dict.fromkeys(table[column]))
    wide = table.pivot_table("cell", index, column, aggfunc="first", sort=False)
    return whole(wide[names].reset_index())


def boosted_for_the_top():
    """Trees with a loss of the top beside the log loss, on the reporting half."""
    return top_boost.summary(top_of_the_table.read(RESULTS / "top_boost.jsonl"))


def boosted_for_labels():
    """Trees with a top-k loss beside the log loss, tables of several classes."""
    return top_boost.summary_of_classes(top_of_the_table.read(RESULTS / "top_boost_classes.jsonl"))


def of_groups(data):
    """Losses for the top of each group beside those of one list."""
    return groups.values(pd.read_csv(RESULTS / "groups.csv"), data)


def papers():
    return whole(pd.read_csv(PAPERS))


REGIONS = {
    "benchmarks/results/imbalance.csv": of_imbalance,
    "benchmarks/results/molecules.csv": of_molecules,
    "benchmarks/results/loss_speed.md": costs,
    "benchmarks/results/defaults_all_losses.md, accuracies": defaults_table,
    "benchmarks/results/defaults_all_losses.md, gains": defaults_gains,
    "benchmarks/results/large_data.md, sparse rows": sparse,
    "benchmarks/results/large_data.md, streams": stream,
    "benchmarks/results/many_classes.md, steps": steps_of_many_classes,
    "benchmarks/results/many_classes.md, members": members_of_many_classes,
    "benchmarks/results/many_classes.md, quality": quality_of_many_classes,
    "benchmarks/results/many_classes.md, predictions": best_of_many_classes,
    "benchmarks/results/scaling.csv": growth,
    "benchmarks/results/top_of_the_table.jsonl": ranks_at_the_top,
    "benchmarks/results/top_of_the_table.jsonl, in words": first_at_the_top,
    "benchmarks/results/top_of_the_table.jsonl, by job": rankers_by_job,
    "benchmarks/results/promises.md, thresholds": promised_by_thresholds,
    "benchmarks/results/promises.md, chosen": lambda: whole(
        table_below("promises.md", "### Rows chosen")
    ),
    "benchmarks/results/promises.md, sets": promised_by_sets,
    "benchmarks/results/monitoring.md, delays": lambda: whole(
        table_below("monitoring.md", "### Days until")
    ),
    "benchmarks/results/monitoring.md, false alarms": lambda: whole(
        table_below("monitoring.md", "### False alarms")
    ),
    "benchmarks/results/top_boost.jsonl": boosted_for_the_top,
    "benchmarks/results/top_boost_classes.jsonl": boosted_for_labels,
    "benchmarks/results/groups.csv, drifting days": lambda: of_groups("drifting days"),
    "benchmarks/results/groups.csv, clinc150": lambda: of_groups("clinc150"),
    "benchmarks/papers.csv": papers,
}


def filled(text):
    """Return a page with its regions as the files have them; others stay as they are."""

    def fill(found):
        if found[2] not in REGIONS:
            raise ValueError(f"no region is made from {found[2]!r}; known: {sorted(REGIONS)}")
        return f"{found[1]}\n{REGIONS[found[2]]()}\n\n{found[3]}"

    return MARKS.sub(fill, text)
