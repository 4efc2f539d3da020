"""How long does a default fit of 10 000 rows take, beside LightGBM and a plain network?

Every table of `top_of_the_table.py` that has as many rows, of both halves, as nothing is chosen
here; one thread, seconds of the processor, one fit of each.

    SKTOPK_DATA=... python benchmarks/ten_thousand_rows.py

Runs that are in the CSV are not done again: delete their lines to repeat them.
"""

import pandas as pd
from reproduce._protocol import arguments, markdown, run_missing, seeds_of, write_page
from tables._data import TABLES, n_train_of, split_of
from tables._jobs import fit_and_score
from tables._methods import METHODS, last_step
from tables._products import of_training

N_ROWS = 10_000
PEERS = ("LightGBM", "plain MLP")
OWN = {"binary": "TopVotingClassifier", "multiclass": "TopKClassifier"}


def run(table, split, method):
    """Seconds of one fit, of its network's products of matrices alone, and of the predictions."""
    of = TABLES[table]
    rows = split_of(table, split, N_ROWS)
    estimator = METHODS[method].make(of.n_classes, split)
    fit_s, predict_s, _ = fit_and_score(estimator, rows, of.kind)
    products_s = float("nan")
    if method not in PEERS:
        last = last_step(estimator)
        products_s = of_training(getattr(last, "estimator_", last), N_ROWS)
    return {
        "n_columns": rows.X.shape[1],
        "fit_s": fit_s,
        "products_s": products_s,
        "predict_s": predict_s,
    }


def settings(args):
    tables = [table for table in TABLES.values() if n_train_of(table.name, N_ROWS) == N_ROWS]
    return [
        {"table": table.name, "split": split, "method": method}
        for split in seeds_of(args)
        for table in tables
        for method in (*PEERS, OWN[table.kind])
        if METHODS[method].splits(table)  # of many classes LightGBM takes minutes
    ]


def page(runs):
    """The seconds of each table, their ratios and the medians of these."""
    runs = runs.pivot_table(["fit_s", "products_s"], "table", "method", aggfunc="median")
    header = ["table", *(f"{name}, s" for name in PEERS), "ours, s", *(f"x {p}" for p in PEERS)]
    header.append("its products alone, x plain MLP")

    def text_of(values):
        return [f"{value:.1f}" if value == value else "" for value in values]

    text = [
        "# A default fit of 10 000 rows",
        "",
        "`benchmarks/ten_thousand_rows.py`: the tables of both halves that have so many rows to "
        "train with; one thread; seconds of the processor. LightGBM was not run "
        "beyond 50 classes.",
    ]
    for kind, name in OWN.items():
        own = runs[[TABLES[table].kind == kind for table in runs.index]].dropna(how="all")
        if own.empty:
            continue
        seconds = own["fit_s"].reindex(columns=[*PEERS, name])
        ratios = [seconds[name] / seconds[peer] for peer in PEERS]
        ratios.append(own["products_s"][name] / seconds[PEERS[1]])
        found = pd.concat([seconds, *ratios], axis=1)
        lines = [
            [table, *text_of(values)]
            for table, values in zip(found.index, found.values, strict=True)
        ]
        lines.append(["median", *text_of(found.median())])
        text += ["", f"## {name}", "", markdown(header, lines)]
    return "\n".join(text)


def main():
    parser = arguments(__doc__, "ten_thousand_rows", seeds={"full": 1}, prefix="")
    parser.set_defaults(n_jobs=1)
    args = parser.parse_args()
    write_page(args, page(run_missing(run, settings(args), args, seconds=25)))


if __name__ == "__main__":
    main()
