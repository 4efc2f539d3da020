"""Frames with categories and missing values, as they are: the default ranker beside LightGBM.

Three tables have columns of categories (kddcup: protocol, service and flag of a connection, where
the classes of fewer than 1 % of the rows are positive; churn: state and area; coil2000: type of
customer), two lose a fifth of their values at random. 2 000 rows train, at most 4 000 others test,
three splits. "Numbers" is what the ranker was given before it took such frames: numbers of
categories as if they had an order, and medians. "Vote" is that of the ranker and trees. Seconds of
a fit are those of one processor.

    OMP_NUM_THREADS=1 python benchmarks/frames.py

Runs that are in the CSV are not done again: delete their lines to repeat them.
"""

import time
from itertools import product

import numpy as np
import pandas as pd
from lightgbm import LGBMClassifier
from reproduce._protocol import arguments, markdown, run_missing, seeds_of, write_page
from sklearn.base import clone
from sklearn.metrics import average_precision_score
from sklearn.model_selection import train_test_split

from sktopk import PatMatClassifier, TopVotingClassifier
from sktopk.datasets import load_pmlb
from sktopk.metrics import precision_at_k_score

N_TRAIN, N_TEST, N_SPLITS, MISSING = 2000, 4000, 3, 0.2
METRICS = ["average precision", "precision at 100", "fit_s"]


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


# Each with how it is given the tables.
METHODS = {
    "LightGBM": (LGBMClassifier(n_jobs=1, verbose=-1), as_lightgbm),
    "sktopk": (PatMatClassifier(tau=0.01, device="cpu"), lambda *tables: tables),
    "sktopk, numbers": (PatMatClassifier(tau=0.01, device="cpu"), as_numbers),
    "sktopk, vote": (TopVotingClassifier(), lambda *tables: tables),
}


def run(table, split, method):
    """Average precision, precision at 100 and seconds of a fit."""
    X, y = TABLES[table]()
    X_train, X_test, y_train, y_test = train_test_split(
        X, y.to_numpy().astype(int), train_size=N_TRAIN, random_state=split, stratify=y
    )
    X_test, y_test = X_test[:N_TEST], y_test[:N_TEST]
    model, given = METHODS[method]
    model = clone(model).set_params(random_state=split)
    tables, started = given(X_train, X_test), time.process_time()
    model.fit(tables[0], y_train)
    seconds = time.process_time() - started
    if hasattr(model, "decision_function"):
        scores = model.decision_function(tables[1])
    else:
        scores = model.predict_proba(tables[1])[:, 1]
    at_100 = precision_at_k_score(y_test, scores, k=100)
    found = average_precision_score(y_test, scores), at_100, seconds
    return dict(zip(METRICS, map(float, found), strict=True))


def settings(args):
    names = ("split", "table", "method")
    every = product(seeds_of(args), TABLES, METHODS)
    return [dict(zip(names, each, strict=True)) for each in every]


def page(runs):
    """Means over the splits of a table, and how many there were."""
    rows = []
    for (table, method), own in runs.groupby(["table", "method"], sort=False):
        precision, at_100, seconds = own[METRICS].mean()
        cells = [f"{precision:.3f}", f"{at_100:.3f}", f"{seconds:.2g}"]
        rows.append([table, method, len(own), *cells])
    return "\n".join(
        [
            "# Frames as they are",
            "",
            f"Means over splits, at most {N_SPLITS}; {N_TRAIN} rows train. Made by "
            "`benchmarks/frames.py`, whose first lines say what is what.",
            "",
            markdown(["table", "method", "splits", *METRICS[:2], "fit, s"], rows),
        ]
    )


def main():
    parser = arguments(__doc__, "frames", seeds={"full": N_SPLITS}, prefix="")
    parser.set_defaults(n_jobs=1)
    args = parser.parse_args()
    write_page(args, page(run_missing(run, settings(args), args, seconds=6)))


if __name__ == "__main__":
    main()
