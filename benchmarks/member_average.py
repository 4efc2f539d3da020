"""How many members, and the mean of what: of their scores, their probabilities or their ranks.

The tables of the choosing half of `top_of_the_table.py`, first split, one thread. Each default
estimator is fitted with eight members, whose scores of the test rows are then put together in
several ways. For fewer members another fit is made, as each then leaves out more rows; so is one
of eight that train on all rows, without the folds (a tenth of the rows stops the training). These
fits are of two classes alone.

    SKTOPK_DATA=... python benchmarks/member_average.py

A fit that is in the CSV is not made again: delete its lines to repeat it.
"""

import csv
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from scipy.stats import rankdata
from sklearn.preprocessing import StandardScaler
from tables._data import HALF, TABLES, split_of
from tables._jobs import JOBS, scores_of

from sktopk import PatMatClassifier, TopKClassifier

RESULTS = Path(__file__).parent / "results"
FITS = {
    "8 members": {},
    "1 member": {"n_members": 1},
    "2 members": {"n_members": 2},
    "4 members": {"n_members": 4},
    "8 members, a tenth of the rows held out": {"cross_fit": False},
}
MEANS = {
    "scores": lambda each: each,
    "probabilities": lambda each: softmax(each) if each.shape[2] > 1 else 1 / (1 + np.exp(-each)),
    "ranks": lambda each: rankdata(each, axis=2 if each.shape[2] > 1 else 1),
}
BINARY = ["precision at 1 %", "precision at 100", "recall at 1 % false positives"]
SHOWN = {
    "binary": [*BINARY, "positives above every negative", "average precision"],
    "multiclass": list(JOBS["multiclass"]),
}


def softmax(scores):
    scores = np.exp(scores - scores.max(axis=2, keepdims=True))
    return scores / scores.sum(axis=2, keepdims=True)


def members(clf, X):
    """Scores of each member, (n_members, n_samples, n_scores)."""
    net = clf.net_
    each = torch.cat([scores for _, scores in net.score_members(net.rows(X))])
    each = each if each.ndim == 3 else each.unsqueeze(1)
    return each.double().numpy().swapaxes(0, 1)


def run(table, fit):
    """Lines of one fit: its scores by how the members are put together."""
    rows = split_of(table.name, 0)
    scale = StandardScaler().fit(rows.X)
    X, X_test = scale.transform(rows.X), scale.transform(rows.X_test)
    if table.kind == "binary":
        clf = PatMatClassifier(tau=0.01)
    else:
        clf = TopKClassifier(k=min(5, table.n_classes - 1))
    begin = time.process_time()
    clf.set_params(random_state=0, device="cpu", **FITS[fit]).fit(X, rows.y)
    seconds = time.process_time() - begin
    each = members(clf, X_test)
    for name, of in MEANS.items() if len(each) == 8 and "tenth" not in fit else [("scores", None)]:
        y_score = (each if of is None else of(each)).mean(axis=0)
        y_score = y_score[:, 0] if table.kind == "binary" else y_score
        scores = scores_of(table.kind, rows.y_test, y_score, clf.classes_)
        line = {"table": table.name, "kind": table.kind, "fit": fit, "mean of": name}
        yield line | {"fit_s": round(seconds, 2)} | {k: round(v, 6) for k, v in scores.items()}


def report(path):
    """The page: differences to the mean of the scores of eight members."""
    data = pd.read_csv(path)
    text = [f"# {__doc__.splitlines()[0]}\n", "\n".join(__doc__.split("\n\n")[1:2]) + "\n"]
    text.append(
        "Differences in points to the mean of the scores of eight members, the mean over tables "
        "± its standard error; seconds of a fit, the median of the ratios.\n"
    )
    for kind, jobs in SHOWN.items():
        of_kind = data[data.kind == kind]
        table = of_kind.set_index(["fit", "mean of", "table"])
        base = table.loc[("8 members", "scores")]
        title = "Two classes" if kind == "binary" else "Several classes"
        text += [f"## {title}: {len(base)} tables\n", f"| | {' | '.join(jobs)} | time |"]
        text.append("| --- |" + " --- |" * (len(jobs) + 1))
        for fit, of in dict.fromkeys(zip(of_kind.fit, of_kind["mean of"], strict=True)):
            found = table.loc[(fit, of)]
            both = found.index.intersection(base.index)
            ratio = (found.fit_s[both] / base.fit_s[both]).median()
            cells = []
            for job in jobs:
                change = 100 * (found[job][both] - base[job][both])
                error = change.std(ddof=1) / len(both) ** 0.5
                cells.append(f"{change.mean():+.2f} ± {error:.2f}")
            if (fit, of) == ("8 members", "scores"):
                cells = [f"{100 * found[job].mean():.2f}" for job in jobs]
            name = fit if "8" not in fit or "tenth" in fit else f"{fit}, mean of {of}"
            text.append(f"| {name} | {' | '.join(cells)} | {ratio:.2f} |")
        text.append("")
    path.with_suffix(".md").write_text("\n".join(text))


def main():
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    path = RESULTS / "member_average.csv"
    done = pd.read_csv(path) if path.is_file() else pd.DataFrame(columns=["table", "fit"])
    done = set(zip(done.table, done.fit, strict=True))
    tables = [table for table in TABLES.values() if HALF[table.name] == "choosing"]
    for fit in FITS:
        for table in tables:
            if (table.name, fit) in done or (table.kind == "multiclass" and fit != "8 members"):
                continue
            lines = list(run(table, fit))
            with path.open("a", newline="") as file:
                columns = ["table", "kind", "fit", "mean of", "fit_s"]
                for kind in SHOWN.values():
                    columns += kind
                writer = csv.DictWriter(file, columns)
                if file.tell() == 0:
                    writer.writeheader()
                writer.writerows(lines)
            print(table.name, fit, lines[0]["fit_s"], file=sys.stderr, flush=True)
    report(path)


if __name__ == "__main__":
    main()
