"""Paper 000, section 4.6: high scores are active molecules.

Adam, Mácha and Šmídl train DeepTopPush with molecules that are active or inactive. A figure shows
that the scores order the test molecules by their activity, which the network has never seen. This
script repeats the figure with two datasets of Merck: CYP 3A4 (active above 5.5) and METAB (active
from 90 on). The features are 100 components of the logarithms of substructure counts. There are the
published split and ten random splits with a quarter of the molecules for testing. The published
file of CYP 3A4 has every eighth molecule of the paper's 3A4.

DeepTopPush has its defaults (an ensemble of networks, trained with a mixture of its loss and
cross-entropy). It is compared with an ensemble of the same networks with cross-entropy only, and
with logistic regression and boosting, which are tuned by cross-validation of the training
molecules. The metrics are the mean activity of the 1 and 5 % of molecules with the highest scores,
the rank correlation of score and activity, and the share of active molecules among these 5 %.

    python benchmarks/reproduce/activity.py
    python benchmarks/reproduce/activity.py --small        # a minute, as a test
"""

import csv
import functools
import io
import sys
import zipfile
from pathlib import Path

import numpy as np
from _paired import RULE, gain
from _protocol import (
    arguments,
    markdown,
    mean_and_half,
    plus_minus,
    run_missing,
    seeds_of,
    write_page,
)
from matplotlib.figure import Figure
from scipy.sparse import csr_matrix, vstack
from scipy.stats import spearmanr
from sklearn.decomposition import TruncatedSVD
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, ShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from sktopk import DeepTopPushClassifier, TopKClassifier
from sktopk.metrics import precision_at_k_score

sys.path.append(str(Path(__file__).parents[1]))
from _datasets import data_file, load_merck_cyp3a4

PUBLISHED = -1
TEST_SHARE = 0.25
DEEP_TOP_PUSH = "DeepTopPush"
METHODS = {
    DEEP_TOP_PUSH: lambda seed: DeepTopPushClassifier(random_state=seed),
    "cross-entropy, same network": lambda seed: TopKClassifier(
        "cross_entropy", k=1, random_state=seed
    ),
    "logistic regression, tuned": lambda seed: GridSearchCV(
        LogisticRegression(max_iter=2000),
        {"C": [1e-4, 1e-3, 1e-2, 1e-1], "class_weight": [None, "balanced"]},
        scoring="average_precision",
    ),
    "boosting, tuned": lambda seed: GridSearchCV(
        HistGradientBoostingClassifier(random_state=seed),
        {"learning_rate": [0.03, 0.1], "max_leaf_nodes": [8, 31]},
        scoring="average_precision",
        cv=3,
    ),
}
BASELINES = tuple(METHODS)[1:]
CROSS_ENTROPY = BASELINES[0]
PICTURE = "reproduce_activity.png"


def cyp3a4():
    """Counts, activities and which are active, and how many of the rows are the published ones."""
    parts = [load_merck_cyp3a4(subset, return_X_y=True) for subset in ("train", "test")]
    return vstack([X for X, _ in parts]), np.concatenate([a for _, a in parts]), len(parts[0][1])


def metab():
    path = data_file(None, "merck_metab", "data_sparse_single.zip")
    tables, activities = [], []
    with zipfile.ZipFile(path) as archive:
        for subset in ("training", "test"):
            with archive.open(f"METAB_{subset}.csv") as file:
                names, *rows = csv.reader(io.TextIOWrapper(file))
            activities.append(np.array([float(row[1]) for row in rows]))
            values = np.array([row[2:] for row in rows], dtype=np.float32)
            tables.append((names[2:], values))
    # A substructure that one of the files lacks is in none of its molecules.
    columns = sorted(set(tables[0][0]) | set(tables[1][0]))
    place = {name: i for i, name in enumerate(columns)}
    X = []
    for names, values in tables:
        whole = np.zeros((len(values), len(columns)), np.float32)
        whole[:, [place[name] for name in names]] = values
        X.append(csr_matrix(whole))
    return vstack(X), np.concatenate(activities), len(activities[0])


# The molecules, and from where on one is active.
DATA = {"CYP 3A4": (cyp3a4, lambda a: a > 5.5), "METAB": (metab, lambda a: a >= 90)}


@functools.cache
def molecules(data):
    load, is_active = DATA[data]
    X, activity, n_published = load()
    return X.tocsr(), activity, is_active(activity), n_published


@functools.cache
def split(data, number):
    """Components, activity and label of the molecules to train on, and of those to test."""
    X, activity, active, n_published = molecules(data)
    if number == PUBLISHED:
        train, test = np.split(np.arange(len(activity)), [n_published])
    else:
        train, test = next(
            ShuffleSplit(1, test_size=TEST_SHARE, random_state=number).split(activity)
        )
    prepare = make_pipeline(
        FunctionTransformer(np.log1p, accept_sparse=True),
        TruncatedSVD(100, random_state=0),
        StandardScaler(),
    ).fit(X[train])
    return [
        (prepare.transform(X[rows]).astype(np.float32), activity[rows], active[rows])
        for rows in (train, test)
    ]


@functools.lru_cache(maxsize=8)
def scores(data, method, number):
    """Scores of the test molecules."""
    (X, _, active), (X_test, *_) = split(data, number)
    model = METHODS[method](max(number, 0)).fit(X, active)
    if hasattr(model, "decision_function"):
        return model.decision_function(X_test)
    return model.predict_proba(X_test)[:, 1]


def mean_of_best(activity, y_score, share):
    """Return the mean activity of the share of samples with the highest scores."""
    n = int(np.ceil(share * len(activity)))
    return activity[np.argsort(-y_score, kind="stable")[:n]].mean()


def run(data, method, number):
    found = scores(data, method, number)
    _, (_, activity, active) = split(data, number)
    spread = activity.std(ddof=1)
    return {
        **{
            f"activity of {share:.0%}": float(
                (mean_of_best(activity, found, share) - activity.mean()) / spread
            )
            for share in (0.01, 0.05)
        },
        "rank correlation": float(spearmanr(found, activity).statistic),
        "active of 5 %": 100 * float(precision_at_k_score(active, found, k=0.05)),
        "active of all": 100 * float(active.mean()),
    }


METRICS = ("activity of 1%", "activity of 5%", "rank correlation", "active of 5 %")


def settings(args):
    small = args.scale == "small"
    data = ["METAB"] if small else list(DATA)
    methods = list(METHODS)[2:3] if small else list(METHODS)
    return [
        {"data": each, "method": method, "number": number}
        for number in (PUBLISHED, *seeds_of(args))
        for each in data
        for method in methods
    ]


def against(runs, baseline, metric):
    """Compare DeepTopPush with a baseline on the random splits, which share molecules."""
    return gain(
        runs, DEEP_TOP_PUSH, metric, baselines=[baseline], column="method", pair=["number"],
        overlap=TEST_SHARE / (1 - TEST_SHARE),
    )  # fmt: skip


def ordered(runs):
    """Return how well scores order molecules by activity, for DeepTopPush and other methods.

    Returns
    -------
    found : dict of str to tuple
        For each dataset two tuples, for the activity of the first 5 % and the rank correlation:
        mean, half of the interval, and largest distance of the mean of another method.
    """
    found = {}
    random = runs[runs.number != PUBLISHED]
    for data, here in random.groupby("data", sort=False):
        own = here[here.method == DEEP_TOP_PUSH]
        means = here.groupby("method")[list(METRICS[1:3])].mean()
        away = (means - means.loc[DEEP_TOP_PUSH]).abs().max()
        found[data] = tuple((*mean_and_half(own[name]), float(away[name])) for name in METRICS[1:3])
    return found


def page(runs):
    shown = "; ".join(
        f"{data}: mean activity of the first 5 % {activity:.2f} ± {half:.2f}, rank correlation "
        f"{rank:.2f}; other methods differ by at most {away:.2f} and {rank_away:.2f}"
        for data, ((activity, half, away), (rank, _, rank_away)) in ordered(runs).items()
    )
    text = [
        "# Paper 000, section 4.6: high scores are active molecules",
        "",
        "`benchmarks/reproduce/activity.py`. The paper shows in a figure that the scores of a "
        "network, trained on the labels *active* and *inactive*, order the test molecules by their "
        f"activity. In our experiment, this holds for all methods. {shown}.",
        "",
        "The paper's 3A4 has 37 241 training molecules and 12 338 test molecules. CYP 3A4 has 4 "
        "652 and 1 542: Merck published every eighth molecule. *Published split* is the split of "
        "the published files. The test molecules of CYP 3A4 have higher numbers than the training "
        "molecules. The files do not say whether the split is by time. There are also "
        f"{runs[runs.number != PUBLISHED].number.nunique()} random splits with a quarter of the "
        "molecules for testing.",
        "",
        "Activities are in standard deviations of the test molecules from their mean. *Activity of "
        "1 %* and *of 5 %* are means over the molecules with the highest scores. *Active of 5 %* "
        "is the percentage of active molecules among these 5 %. ± is half of a 95 % interval over "
        "random splits. Intervals of differences are corrected for splits that share molecules "
        f"(Nadeau and Bengio). For differences of *active of 5 %*: {RULE}",
        "",
        "DeepTopPush and cross-entropy have the defaults of this package. Logistic regression and "
        "boosting are tuned by cross-validation of the training molecules. "
        "`benchmarks/results/molecules.md` has the share of active molecules that score above "
        "every inactive molecule. This share depends on a single molecule.",
        "",
        f"![Activity against the rank of the score]({PICTURE})",
    ]
    for data, here in runs.groupby("data", sort=False):
        random = here[here.number != PUBLISHED]
        text += ["", f"## {data}: {here['active of all'].mean():.0f} % active", ""]
        for title, part in (
            ("Published split:", here[here.number == PUBLISHED]),
            ("Random splits:", random),
        ):
            rows = [
                [method, *(plus_minus(own[name]) for name in METRICS)]
                for method in METHODS
                if len(own := part[part.method == method])
            ]
            if rows:
                text += [title, "", markdown(["method", *METRICS], rows), ""]
        rows = []
        for baseline in BASELINES:
            won = against(random, baseline, "active of 5 %")
            if won is not None:
                others = [against(random, baseline, name).difference for name in METRICS[:3]]
                rows.append([baseline, *others, str(won)])
        if rows:
            text += ["DeepTopPush minus each other method, random splits:", ""]
            text += [markdown(["other method", *METRICS], rows)]
    return "\n".join(text)


def draw(path):
    """Draw the figure of the paper: activity of test molecules by the rank of their score."""
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    for ax, data in zip(figure.subplots(1, len(DATA)), DATA, strict=True):
        _, (_, activity, active) = split(data, PUBLISHED)
        order = np.argsort(-scores(data, DEEP_TOP_PUSH, PUBLISHED), kind="stable")
        place = np.arange(1, len(order) + 1)
        ax.scatter(place, activity[order], s=4, c=np.where(active[order], "#d9722b", "#9cc3e0"))
        width = len(order) // 20
        middles = place[: 20 * width].reshape(20, width).mean(1)
        means = activity[order][: 20 * width].reshape(20, width).mean(1)
        ax.plot(middles, means, color="k", lw=1.5, label="mean of a twentieth")
        ax.set(xlabel="rank of the score", ylabel="activity", title=f"{data}, published split")
        ax.legend(fontsize=8)
    figure.savefig(path, dpi=100)


def main():
    args = arguments(__doc__, "activity", seeds={"full": 10, "small": 2}).parse_args()
    cost = 15.0 if args.scale == "full" else 3.0
    runs = run_missing(run, settings(args), args, seconds=cost)
    runs = runs[runs.scale == args.scale]
    if len(runs) and args.scale == "full":
        if not args.report:
            draw(args.csv.with_name(PICTURE))
        write_page(args, page(runs))


if __name__ == "__main__":
    main()
