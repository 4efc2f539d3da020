"""The set of labels by the top-k loss, their order by cross-entropy: is it better than either?

`TopKClassifier(order="cross_entropy")` has two heads on one trunk. Here it is beside cross-entropy
alone, the smooth loss alone, and two separate fits put together, whose trunks are not shared: a
linear model, a small hidden layer and the default network, on tables of the choosing half of
`top_of_the_table.py`, one thread.

    SKTOPK_DATA=... python benchmarks/two_heads.py

Runs that are in the CSV are not done again: delete their lines to repeat them.
"""

import warnings
from functools import lru_cache

import torch
from reproduce._protocol import (
    arguments,
    markdown,
    mean_and_half,
    plus_minus,
    run_missing,
    seeds_of,
    write_page,
)
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler
from tables._data import split_of

from sktopk import TopKClassifier
from sktopk.metrics import topk_accuracy_score
from sktopk.modules import MLP
from sktopk.modules._members import ordered_sets

# So many components; None: the columns as they are.
TABLES = {
    "MNIST": 16,
    "Fashion-MNIST": 16,
    "leaves100, margin": None,
    "leaves100, shape": None,
    "trec": 50,
    "banking77": 50,
}
# Small steps would leave cross-entropy unconverged, which flatters what is beside it.
PLAIN = {"module": MLP, "learning_rate": 1e-2, "batch_size": 256, "max_epochs": 150}
NETWORKS = {
    "linear": (2000, PLAIN | {"hidden_layer_sizes": ()}),
    "16 hidden units": (2000, PLAIN | {"hidden_layer_sizes": (16,)}),
    "linear, many rows": (8000, PLAIN | {"hidden_layer_sizes": ()}),
    "default network": (1000, {}),
}
FEW_ROWS = {"leaves100, margin", "leaves100, shape"}
MAX_TEST = 4000
KS, TOPS = (3, 5), (1, 3, 5)
METHODS = {
    "smooth": "the smooth loss alone",
    "one trunk": 'order="cross_entropy"',
    "two trunks": "two fits put together",
}


@lru_cache(maxsize=1)
def rows_of(table, split, n_train):
    """Training and test rows of a split, the features in columns of mean 0 and variance 1."""
    rows, components = split_of(table, split), TABLES[table]
    X, X_test = rows.X[:n_train], rows.X_test[:MAX_TEST]
    if components is not None:
        pca = PCA(components, random_state=0).fit(X)
        X, X_test = pca.transform(X), pca.transform(X_test)
    scale = StandardScaler().fit(X).transform
    return scale(X), rows.y[:n_train], scale(X_test), rows.y_test[:MAX_TEST]


def run(network, table, split):
    """Accuracies in percent of one network with each loss, on one split."""
    n_train, params = NETWORKS[network]
    X, y, X_test, y_test = rows_of(table, split, n_train)
    accuracies = {}

    def fitted(loss, **more):
        clf = TopKClassifier(loss, random_state=split, **params, **more).fit(X, y)
        return clf.decision_function(X_test), clf.classes_

    def judge(name, y_score, labels):
        for top in TOPS:
            accuracy = topk_accuracy_score(y_test, y_score, k=top, labels=labels)
            accuracies[f"{name} top-{top}"] = 100 * float(accuracy)

    with warnings.catch_warnings():
        # A class of few rows may have none among these.
        warnings.simplefilter("ignore")
        by_cross_entropy, labels = fitted("cross_entropy")
        judge("cross-entropy", by_cross_entropy, labels)
        for k in KS:
            by_smooth, _ = fitted("smooth_topk", k=k)
            judge(f"smooth, k={k}", by_smooth, labels)
            judge(f"one trunk, k={k}", *fitted("smooth_topk", k=k, order="cross_entropy"))
            pair = torch.from_numpy(by_smooth), torch.from_numpy(by_cross_entropy)
            judge(f"two trunks, k={k}", ordered_sets(*pair, k).numpy(), labels)
    return {"rows": len(y), "classes": len(labels)} | accuracies


def settings(args):
    return [
        {"network": network, "table": table, "split": split}
        for split in seeds_of(args)
        for network in NETWORKS
        for table in TABLES
        # What a table lacks in rows is "linear" once more.
        if network != "linear, many rows" or table not in FEW_ROWS
    ]


def changes(runs, name, top):
    """Mean over splits of the difference to cross-entropy, by table."""
    change = runs[f"{name} top-{top}"] - runs[f"cross-entropy top-{top}"]
    return change.groupby(runs.table).mean()


def verdict(runs, network, k):
    """Whether the two heads are better than cross-entropy alone and lose nothing at 1."""
    here = runs[runs.network == network]
    said = []
    for top in dict.fromkeys((k, 1)):
        mean, half = mean_and_half(changes(here, f"one trunk, k={k}", top))
        word = "cannot tell" if abs(mean) <= half else "better" if mean > 0 else "worse"
        if word == "cannot tell" and half <= 0.5:
            word = "as good"
        said.append(f"{word} at {top}")
    gains = changes(here, f"one trunk, k={k}", k)
    return f"- {network}, k = {k}: {', '.join(said)}; ahead at {k} on {(gains > 0).sum()} of " + (
        f"{len(gains)} tables."
    )


def line(runs, network, k, method):
    here, name = runs[runs.network == network], f"{method}, k={k}"
    cells = []
    for top in TOPS:
        each = changes(here, name, top)
        mean, half = mean_and_half(each)
        text = plus_minus(each, sign="+")
        cells.append(f"**{text}**" if abs(mean) > half else text)
    return [network, k, METHODS[method], *cells]


def page(runs):
    n_tables = runs.groupby("network").table.nunique()
    # An interval over two or three tables says nothing.
    names = [name for name in NETWORKS if n_tables.get(name, 0) > 3]
    runs = runs[runs.network.isin(names)]
    splits = {name: runs[runs.network == name].split.nunique() for name in names}
    first = runs[runs.split == 0]
    tables = [
        [network, table, *(f"{each.mean():.1f}" for each in columns)]
        for (network, table), part in runs.groupby(["network", "table"], sort=False)
        for columns in [
            [
                part["cross-entropy top-1"],
                part["cross-entropy top-5"],
                *(part[f"{method}, k=5 top-{top}"] for method in METHODS for top in (1, 5)),
            ]
        ]
    ]
    sizes = "; ".join(
        f"{table}, {part.classes.iloc[0]} classes" for table, part in first.groupby("table")
    )
    trained = ", ".join(
        f"{name}: at most {NETWORKS[name][0]} rows to train on, "
        f"{splits[name]} {'split' if splits[name] == 1 else 'splits'}"
        for name in names
    )
    return "\n".join(
        [
            "# Two heads: the set by the smooth loss, its order by cross-entropy",
            "",
            f"`benchmarks/two_heads.py`: {runs.table.nunique()} tables of the choosing half "
            f"({sizes}), images and texts as components; {trained}; at most {MAX_TEST} "
            "to test on; one thread. Linear models and 16 hidden units are trained with Adam "
            "at 1e-2 and batches of 256 for 150 epochs. Accuracy in points less that of "
            "cross-entropy, the mean over tables ± half its 95 % confidence interval (Student's t "
            "over tables); bold where it leaves out 0.",
            "",
            "## Against cross-entropy",
            "",
            *(verdict(runs, network, k) for network in names for k in KS),
            "",
            markdown(
                ["network", "k", "method", *(f"top-{top}" for top in TOPS)],
                [line(runs, n, k, m) for n in names for k in KS for m in METHODS],
            ),
            "",
            "## Table by table, k = 5",
            "",
            markdown(
                [
                    "network",
                    "table",
                    *(f"{m} top-{top}" for m in ("cross-entropy", *METHODS) for top in (1, 5)),
                ],
                tables,
            ),
        ]
    )


def main():
    parser = arguments(__doc__, "two_heads", seeds={"full": 3}, prefix="")
    parser.set_defaults(n_jobs=1)
    args = parser.parse_args()
    runs = run_missing(run, settings(args), args, seconds=15)
    write_page(args, page(runs))


if __name__ == "__main__":
    main()
