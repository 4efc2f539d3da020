"""Frames with categories and missing values, as they are: the default ranker beside LightGBM.

Three tables have columns of categories (kddcup: protocol, service and flag of a connection, where
the classes of fewer than 1 % of the rows are positive; churn: state and area; coil2000: type of
customer), two lose a fifth of their values at random. 2 000 rows train, at most 4 000 others test,
three splits. "Numbers" is what the ranker was given before it took such frames: numbers of
categories as if they had an order, and medians. Seconds are those of one processor.

    OMP_NUM_THREADS=1 python benchmarks/frames.py

Runs that are in the CSV are not done again: delete the file to repeat them.
"""

import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from lightgbm import LGBMClassifier
from sklearn.metrics import average_precision_score
from sklearn.model_selection import train_test_split

from sktopk import PatMatClassifier
from sktopk.datasets import load_pmlb
from sktopk.metrics import precision_at_k_score

N_TRAIN, N_TEST, N_SPLITS, MISSING = 2000, 4000, 3, 0.2
RESULTS = Path(__file__).parent / "results"
METRICS = ["average precision", "precision at 100", "seconds"]


def kddcup():
    """Connections; rare kinds of attacks are positive."""
    X, y = load_pmlb("kddcup", return_X_y=True, as_frame=True)
    return with_categories(X, ["Atr-1", "Atr-2", "Atr-3"]), y.map(
        y.value_counts(normalize=True)
    ) < 0.01


def churn():
    """Customers of a telephone company; the telephone number is a name."""
    X, y = load_pmlb("churn", return_X_y=True, as_frame=True)
    return with_categories(X.drop(columns="phone number"), ["state", "area code"]), y == 1


def coil2000():
    """Households; the columns of their type and of their main type."""
    X, y = load_pmlb("coil2000", return_X_y=True, as_frame=True)
    return with_categories(X, [X.columns[0], X.columns[4]]), y == 1


def with_categories(X, names):
    """The frame with columns of texts."""
    return X.assign(**{name: ("c" + X[name].astype(int).astype(str)) for name in names})


def masked(name):
    """A table that has lost values at random."""
    X, y = load_pmlb(name, return_X_y=True, as_frame=True)
    if name == "churn":
        X = X.drop(columns=["phone number", "state", "area code"])
    lost = np.random.default_rng(0).random(X.shape) < MISSING
    return X.mask(lost), y == 1


TABLES = {
    "churn, categories": churn,
    "spambase, a fifth missing": lambda: masked("spambase"),
    "kddcup, categories": kddcup,
    "coil2000, categories": coil2000,
    "churn, a fifth missing": lambda: masked("churn"),
}


def as_numbers(X_train, X_test):
    """Both tables with numbers of categories and medians."""
    tables = [X_train.copy(), X_test.copy()]
    for name in X_train:
        if X_train[name].dtype.kind not in "fiub":
            known = sorted(X_train[name].unique())
            for table in tables:
                table[name] = pd.Index(known).get_indexer(table[name]).astype(float)
        median = tables[0][name].median()
        for table in tables:
            table[name] = table[name].fillna(median)
    return tables


def as_lightgbm(X_train, X_test):
    """Both tables with the dtype that LightGBM asks for."""
    tables = [X_train.copy(), X_test.copy()]
    for name in X_train:
        if X_train[name].dtype.kind not in "fiub":
            dtype = pd.CategoricalDtype(sorted(X_train[name].unique()))
            for table in tables:
                # Unseen ones are missing, as LightGBM has it.
                table[name] = table[name].where(table[name].isin(dtype.categories)).astype(dtype)
    return tables


def methods(seed):
    """Each with how it is given the tables."""
    return {
        "LightGBM": (LGBMClassifier(n_jobs=1, verbose=-1, random_state=seed), as_lightgbm),
        "sktopk": (PatMatClassifier(tau=0.01, random_state=seed), lambda *tables: tables),
        "sktopk, numbers": (PatMatClassifier(tau=0.01, random_state=seed), as_numbers),
    }


def run(load, seed):
    """Average precision, precision at 100 and seconds of each method."""
    X, y = load()
    X_train, X_test, y_train, y_test = train_test_split(
        X, y.to_numpy().astype(int), train_size=N_TRAIN, random_state=seed, stratify=y
    )
    X_test, y_test = X_test[:N_TEST], y_test[:N_TEST]
    found = {}
    for name, (model, given) in methods(seed).items():
        tables, started = given(X_train, X_test), time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(tables[0], y_train)
            seconds = time.process_time() - started
            if name == "LightGBM":
                scores = model.predict_proba(tables[1])[:, 1]
            else:
                scores = model.decision_function(tables[1])
        found[name] = (
            average_precision_score(y_test, scores),
            precision_at_k_score(y_test, scores, k=100),
            seconds,
        )
    return found


def page(runs):
    """The results as Markdown: means over the splits of a table, and how many there were."""
    lines = [
        "# Frames as they are",
        "",
        f"Means over splits, at most {N_SPLITS}; {N_TRAIN} rows train. Made by "
        "`benchmarks/frames.py`, whose first lines say what is what.",
        "",
        "| table | method | splits | average precision | precision at 100 | fit, s |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for (table, method), own in runs.groupby(["table", "method"], sort=False):
        precision, at_100, seconds = own[METRICS].mean()
        lines.append(
            f"| {table} | {method} | {len(own)} | {precision:.3f} | {at_100:.3f} | {seconds:.2g} |"
        )
    return "\n".join([*lines, ""])


def main():
    """Run what is missing; write each run at once, and the page of all."""
    path = RESULTS / "frames.csv"
    for seed in range(N_SPLITS):
        for table, load in TABLES.items():
            runs = pd.read_csv(path) if path.exists() else pd.DataFrame({"table": [], "split": []})
            if ((runs["table"] == table) & (runs["split"] == seed)).any():
                continue
            rows = [
                {
                    "table": table,
                    "split": seed,
                    "method": method,
                    **dict(zip(METRICS, found, strict=True)),
                }
                for method, found in run(load, seed).items()
            ]
            pd.DataFrame(rows).round(5).to_csv(
                path, mode="a", header=not path.exists(), index=False
            )
            (RESULTS / "frames.md").write_text(page(pd.read_csv(path)))


if __name__ == "__main__":
    main()
