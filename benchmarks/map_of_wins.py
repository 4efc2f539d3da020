"""Where do top-k losses win? Model size, classes, samples, noise, k and modes; then real tables.

Generated: every class is a mixture of Gaussians in four dimensions. One property at a time moves
away from the middle (20 classes of 3 modes, 50 rows of each, no wrong labels, k = 3), for a
linear model and one of 100 hidden units. Each loss gets the same three learning rates, chosen on
rows held out of training, and is judged on fresh rows with right labels; each seed is new data.
Wrong labels are drawn within groups of five classes.

Real: five tables, 5-fold cross-validation by `compare_losses` beside its baselines, with one
learning rate for all losses (0.03 for linear models, else 0.01), which suits cross-entropy: a
top-k loss with a rate of its own may do better. "auto" is `TopKClassifier(loss="auto")`, which
chooses inside each fold, at the same rate.

    python benchmarks/map_of_wins.py             # everything, about twelve minutes
    python benchmarks/map_of_wins.py --page-only # the page and the figure from the CSV

Runs that are in the CSV are not done again: delete the file to repeat them. The page and the
figure are made from it.
"""

import argparse
import sys
import time
import warnings
from functools import partial
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
from real_data import clinc150, digits, leaves100, letter, trec
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sktopk import TopKClassifier
from sktopk.metrics import topk_accuracy_score
from sktopk.metrics._statistics import intervals_in_words
from sktopk.model_selection import LossComparison, compare_losses
from sktopk.modules import MLP

# Where the scripts of the papers have what they share.
sys.path.append(str(Path(__file__).parent / "reproduce"))

from _paired import RULE, VERDICTS, verdict

RESULTS = Path(__file__).parent / "results"
LOSSES = ("cross_entropy", "smooth_topk", "topk_hinge_convex", "noised_topk")
RATES = (0.003, 0.01, 0.03)
EPOCHS = 30
SEEDS = 4
MIDDLE = {"classes": 20, "modes": 3, "rows": 50, "noise": 0.0, "k": 3}
LEVELS = {
    "classes": (5, 20, 60),
    "modes": (1, 3, 6),
    "rows": (12, 50, 150),
    "noise": (0.0, 0.2, 0.4),
    "k": (1, 3, 5),
}
MODELS = ("linear", "100 hidden")
SIZES = {"linear": 0, "10 hidden": 10, "30 hidden": 30, "100 hidden": 100, "400 hidden": 400}
TITLES = {
    "classes": "number of classes",
    "modes": "modes of a class",
    "rows": "rows per class",
    "noise": "share of wrong labels",
    "k": "k",
    "size": "hidden units (0: linear)",
}
# Data, most rows, steps before the classifier, hidden layers.
TABLES = {
    "digits, 5 components, linear": (digits, None, lambda: PCA(5), ()),
    "letter, 2 000 rows, linear": (letter, 2000, None, ()),
    "leaves100, 100 hidden": (leaves100, None, None, (100,)),
    "trec, 2 500 rows, 100 components, 100 hidden": (trec, 2500, lambda: TruncatedSVD(100), (100,)),
    "clinc150, 2 500 rows, 100 components, linear": (
        clinc150,
        2500,
        lambda: TruncatedSVD(100),
        (),
    ),
}


def mixture(seed, classes, modes, rows, noise, **_):
    """Training and test rows of a mixture of Gaussians; wrong labels only in training."""
    random = np.random.default_rng(seed)
    centres = 2.5 * random.normal(size=(classes, modes, 4))

    def draw(n):
        y = np.repeat(np.arange(classes), n)
        mode = random.integers(modes, size=len(y))
        return (centres[y, mode] + random.normal(size=(len(y), 4))).astype(np.float32), y

    X, y = draw(rows)
    X_test, y_test = draw(max(50, 2000 // classes))
    # Another class of the same group of five, so that `noise` of the labels are wrong.
    wrong = random.random(len(y)) < noise
    moved = y // 5 * 5 + (y + random.integers(1, 5, size=len(y))) % 5
    return X, np.where(wrong, moved, y), X_test, y_test


def cells():
    """Every setting to try on generated data: (property, level, model, problem)."""
    for name, units in SIZES.items():
        yield "size", units, name, MIDDLE | {"hidden": units}
    for factor, levels in LEVELS.items():
        for level in levels:
            for model in MODELS:
                yield factor, level, model, MIDDLE | {"hidden": SIZES[model], factor: level}


def generated_run(problem, seed):
    """Rows of the CSV: every loss, at the learning rate that held-out rows chose."""
    X, y, X_test, y_test = mixture(seed, **problem)
    scaler = StandardScaler().fit(X)
    X, X_test = scaler.transform(X), scaler.transform(X_test)
    fit, held = train_test_split(np.arange(len(y)), test_size=0.25, random_state=seed, stratify=y)
    k = problem["k"]

    def score(clf, X, y):
        return topk_accuracy_score(y, clf.decision_function(X), k=k, labels=clf.classes_)

    for loss in LOSSES:
        tried = []
        for rate in RATES:
            clf = TopKClassifier(
                loss,
                k=k,
                module=MLP,
                hidden_layer_sizes=(problem["hidden"],) if problem["hidden"] else (),
                learning_rate=rate,
                max_epochs=EPOCHS,
                random_state=seed,
            ).fit(X[fit], y[fit])
            tried.append((score(clf, X[held], y[held]), clf))
        best = int(np.argmax([each for each, _ in tried]))
        yield {
            "part": "generated",
            **problem,
            "loss": loss,
            "split": seed,
            # Of the model of the tuning rows itself: one fit less, for every loss alike.
            "score": score(tried[best][1], X_test, y_test),
            "learning_rate": RATES[best],
            "n_train": len(fit),
            "n_test": len(y_test),
        }


def real_runs(name):
    """Rows of the CSV: one of the tables."""
    load, most, reduce, hidden = TABLES[name]
    X, y = load()
    if most is not None:
        keep = np.sort(np.random.RandomState(0).permutation(len(y))[:most])
        X, y = X[keep], y[keep]
    # Rates that cross-entropy chose more often than others on generated data, or next to it.
    rate = 0.01 if hidden else 0.03
    clf = TopKClassifier(
        k=3, module=MLP, hidden_layer_sizes=hidden, learning_rate=rate, max_epochs=EPOCHS
    )
    # Sparse text is reduced first and then scaled; a dense table is scaled first.
    scaler = StandardScaler()
    steps = [scaler] if reduce is None else [scaler, reduce()]
    steps = steps[::-1] if isinstance(steps[-1], TruncatedSVD) else steps
    comparison = compare_losses(
        make_pipeline(*steps, clf), ["auto", *LOSSES[1:]], X, y, grid=None, progress=False
    )
    print(f"{name}\n{comparison}\n", flush=True)
    columns = ["loss", "split", "score", "n_train", "n_test"]
    return comparison.frame[columns].assign(part="real", table=name).to_dict("records")


def missing(table):
    """What the CSV lacks, as functions that return its rows."""
    problems = list({tuple(p.items()): p for *_, p in cells()}.values())
    # Seed by seed, so that a killed run has seen every cell.
    for seed in range(SEEDS):
        for problem in problems:
            if not len(chosen(table, problem | {"split": seed})):
                yield partial(generated_run, problem, seed)
    for name in TABLES:
        if not len(chosen(table, {"table": name})):
            yield partial(real_runs, name)


def chosen(table, values):
    """Rows that have these values."""
    keep = np.ones(len(table), dtype=bool)
    for column, value in values.items():
        keep &= table[column].eq(value).to_numpy()
    return table[keep]


def comparisons(table):
    """LossComparison of each cell; generated runs share no rows, so nothing to correct for."""
    for factor, level, model, problem in cells():
        rows = chosen(table, problem).assign(n_test=0)
        yield "generated", factor, level, model, LossComparison(rows)
    for name in TABLES:
        yield "real", "table", name, "", LossComparison(chosen(table, {"table": name}))


def differences(table):
    """Long table of the differences from cross-entropy, with their 95 % intervals."""
    rows = []
    for part, factor, level, model, comparison in comparisons(table):
        summary = comparison.summary()
        for loss, each in summary.iterrows():
            rows.append(
                {"part": part, "factor": factor, "level": level, "model": model, "loss": loss}
                | each[["mean", "difference", "low", "high"]].to_dict()
            )
    return pd.DataFrame(rows)


def outcome(row):
    """What the interval says of a loss."""
    return verdict(100 * row["difference"], 50 * (row["high"] - row["low"]))


def page(table, path):
    """Write the numbers as a page."""
    found = differences(table)
    found["outcome"] = found.apply(outcome, axis=1)
    judged = found[found["loss"] != "cross_entropy"]
    lines = [f"# Where top-k losses win\n\n{__doc__.split('    python')[0].partition(chr(10))[2]}"]
    lines.append("Differences from cross-entropy in points of top-k accuracy, with 95 % intervals.")
    lines.append(f"![map of wins]({path.stem}.png)\n\n## Count of verdicts\n\nIn points, {RULE}.\n")
    distinct = judged.drop_duplicates(["part", "model", "loss", "mean", "difference"])
    for part, rows in distinct.groupby("part", sort=False):
        counts = rows.groupby(["loss", "outcome"], sort=False).size().unstack(fill_value=0)
        counts = counts.reindex(columns=list(VERDICTS), fill_value=0)
        lines += [f"| {part} | {' | '.join(VERDICTS)} |", "|---" * (1 + len(VERDICTS)) + "|"]
        lines += [f"| {loss} | " + " | ".join(map(str, row)) + " |" for loss, row in
                  zip(counts.index, counts.to_numpy().tolist(), strict=True)]  # fmt: skip
        lines.append("")
    auto = judged[judged["loss"] == "auto"]
    worst = auto.loc[auto["difference"].idxmin()]
    lines.append(
        f"auto beside cross-entropy on {len(auto)} real tables: "
        + ", ".join(f"{(auto['outcome'] == word).sum()} {word}" for word in VERDICTS)
        + f"; worst {100 * worst['difference']:+.1f} points ({worst['level']}).\n"
    )
    for (part, factor), rows in found.groupby(["part", "factor"], sort=False):
        lines.append(f"## {'Real tables' if part == 'real' else TITLES[factor]}\n")
        names = [name for name in rows["loss"].unique() if name != "cross_entropy"]
        lines.append(f"| {factor} | model | cross_entropy | " + " | ".join(names) + " |")
        lines.append("|---" * (3 + len(names)) + "|")
        for (level, model), cell in rows.groupby(["level", "model"], sort=False):
            cell = cell.set_index("loss")
            texts = []
            for name in names:
                if name not in cell.index:
                    texts.append("left out")
                    continue
                row = 100 * cell.loc[name, ["difference", "low", "high"]].astype(float)
                (text,) = intervals_in_words([row["difference"]], [(row["high"] - row["low"]) / 2])
                clear = cell.loc[name, "outcome"] in ("won", "lost")
                texts.append(f"**{text}**" if clear else text)
            base = f"{100 * cell.loc['cross_entropy', 'mean']:.1f}"
            lines.append(f"| {level} | {model} | {base} | " + " | ".join(texts) + " |")
        lines.append("")
    path.write_text("\n".join(lines), encoding="utf-8")


def figure(table, path):
    """Draw a panel per property, and one for the real tables."""
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    found = differences(table)
    found = found[found["loss"] != "cross_entropy"]
    fig, axes = plt.subplots(3, 4, figsize=(14, 10), layout="constrained")
    colours = dict(zip([*LOSSES[1:], "auto"], ["C0", "C1", "C2", "k"], strict=True))
    panels = [("size", None)] + [(f, m) for f in LEVELS for m in MODELS]
    for ax, (factor, model) in zip(axes.flat, panels, strict=False):
        rows = found[(found["factor"] == factor) & ((found["model"] == model) | (model is None))]
        levels = list(dict.fromkeys(rows["level"]))
        for i, loss in enumerate(LOSSES[1:]):
            each = rows[rows["loss"] == loss]
            x = np.array([levels.index(level) for level in each["level"]]) + 0.08 * (i - 1)
            half = 50 * (each["high"] - each["low"])
            ax.errorbar(x, 100 * each["difference"], yerr=half, color=colours[loss], marker="o",
                        markersize=4, capsize=2, linewidth=1.2, label=loss)  # fmt: skip
        ax.set_xticks(range(len(levels)), [f"{float(level):g}" for level in levels])
        ax.set_xlabel(TITLES[factor])
        ax.set_title("generated" if model is None else f"generated, {model}", fontsize="medium")
        ax.axhline(0, color="0.5", linestyle="--", linewidth=1)
    ax, rows = axes[2, 3], found[found["part"] == "real"]
    tables = list(dict.fromkeys(rows["level"]))
    for i, loss in enumerate(colours):
        each = rows[rows["loss"] == loss]
        y = np.array([tables.index(level) for level in each["level"]]) + 0.15 * (i - 1.5)
        ax.errorbar(100 * each["difference"], y, xerr=50 * (each["high"] - each["low"]),
                    color=colours[loss], marker="o", markersize=4, linestyle="", capsize=2,
                    label=loss)  # fmt: skip
    ax.set_yticks(range(len(tables)), [name.split(",")[0] for name in tables])
    ax.invert_yaxis()
    ax.axvline(0, color="0.5", linestyle="--", linewidth=1)
    ax.set_title("real tables, k = 3", fontsize="medium")
    ax.set_xlabel("gain over cross-entropy, points")
    fig.legend(*ax.get_legend_handles_labels(), loc="outside upper center", ncols=4)
    fig.supylabel("gain in top-k accuracy over cross-entropy, points (95 % intervals)")
    fig.savefig(path, dpi=90)


def announce(todo):
    """Say what it will cost, from the time of one fit of each loss."""
    started = time.perf_counter()
    list(generated_run(MIDDLE | {"hidden": 100}, 0))
    run = time.perf_counter() - started
    n_real = sum(each.func is real_runs for each in todo)
    n_generated = len(todo) - n_real
    # Five folds of a table: three losses, two networks among the baselines, and the 21 fits of
    # "auto", on about two and a half times as many rows.
    fits = n_generated * len(LOSSES) * len(RATES) + n_real * 5 * 27 * 2.5
    seconds = fits * run / (len(LOSSES) * len(RATES))
    print(
        f"{n_generated} generated runs of {len(LOSSES) * len(RATES)} fits, {n_real} tables of 135: "
        f"about {seconds / 60:.0f} minutes in one process, at this moment's speed",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--page-only", action="store_true", help="read the CSV, train nothing")
    args = parser.parse_args()
    path = RESULTS / "map_of_wins.csv"
    columns = ["part", "table", *MIDDLE, "hidden", "loss", "split", "score", "learning_rate"]
    columns += ["n_train", "n_test"]
    table = pd.read_csv(path) if path.exists() else pd.DataFrame(columns=columns)
    if not args.page_only:
        warnings.simplefilter("ignore")
        todo = list(missing(table))
        announce(todo)
        started = time.perf_counter()
        for work in todo:
            rows = pd.DataFrame(list(work())).reindex(columns=columns)
            table = rows if table.empty else pd.concat([table, rows], ignore_index=True)
            table.to_csv(path, index=False, float_format="%.6g")
        print(f"{(time.perf_counter() - started) / 60:.1f} minutes")
    page(table, path.with_suffix(".md"))
    figure(table, path.with_suffix(".png"))


if __name__ == "__main__":
    main()
