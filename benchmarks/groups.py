"""What a loss for the top of each group gains over the same loss on one long list.

A stream of days that drift (`drifting_days`: the level of the features moves from day to day, and
with it the base rate, while what tells the rows of a day apart is the same every day), trained on
the first days and judged on later ones; and clinc150, short texts in ten domains, where one intent
of each domain is looked for, judged on other texts of the same domains. Precision at k of each
group, the mean over groups.

    python benchmarks/groups.py

Runs that are in the CSV are not done again: delete their lines to repeat them. `--speed` measures
what groups cost instead: value and gradient of the losses with 1 000 groups in a batch.
"""

import statistics
import sys
import time
import warnings
from functools import cache
from itertools import product

import numpy as np
import torch
from _datasets import load_clinc150
from reproduce._protocol import (
    RESULTS,
    arguments,
    markdown,
    mean_and_half,
    run_missing,
    seeds_of,
    write_page,
)
from scipy.special import expit
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.preprocessing import StandardScaler

from sktopk import RecallAtKClassifier, TopKClassifier, TopPushKClassifier
from sktopk.losses import (
    SurrogateQuantile,
    TopMean,
    accuracy_at_top_loss,
    fbeta_loss,
    pairwise_auc_loss,
    pat_mat_np_loss,
    precision_at_k_loss,
    precision_at_recall_program_loss,
    recall_at_fpr_loss,
    recall_at_k_loss,
    recall_at_precision_loss,
    top_push_k_loss,
    top_push_loss,
)
from sktopk.metrics import precision_at_k_score

N_DAYS, N_TRAINED = 40, 25
# How many rows of a group are looked at.
K = {"drifting days": 5, "clinc150": 30}


def drifting_days(seed):
    """40 days of 100 to 300 rows, some 4 % of them positive: X, y, day."""
    rng = np.random.default_rng(seed)
    day = np.repeat(np.arange(N_DAYS), rng.integers(100, 301, N_DAYS))
    # What tells rows of a day apart: ten columns, of which pairs matter together.
    Z = rng.standard_normal((len(day), 10))
    signal = 1.5 * Z[:, 0] + Z[:, 1] * Z[:, 2] + np.abs(Z[:, 3]) - Z[:, 4]
    # A season that moves the level of the columns, and the base rate.
    season = np.cumsum(0.6 * rng.standard_normal((N_DAYS, 3)), axis=0)
    level = season @ rng.standard_normal((3, 10))
    rate = -5.5 + 1.5 * np.tanh(season[:, 0])
    X = np.column_stack(
        [Z + 0.5 * level[day], season[day] + 0.3 * rng.standard_normal((len(day), 3))]
    )
    y = rng.random(len(day)) < expit(rate[day] + signal)
    return X.astype(np.float32), y.astype(int), day


@cache
def texts():
    parts = [load_clinc150(subset) for subset in ("train", "test")]
    domain_of = parts[0].groups
    vectors = TfidfVectorizer(sublinear_tf=True, min_df=2)
    X = vectors.fit_transform(parts[0].data)
    reduce = TruncatedSVD(50, random_state=0).fit(X)
    X = reduce.transform(X), reduce.transform(vectors.transform(parts[1].data))
    return [
        (
            x.astype(np.float32),
            np.asarray(part.target),
            np.array([domain_of[t] for t in part.target]),
        )
        for x, part in zip(X, parts, strict=True)
    ]


def clinc150(seed):
    """Rows to train on and to judge: one intent of each domain is positive."""
    rng = np.random.default_rng(seed)
    train, test = texts()
    wanted = [rng.choice(np.unique(train[1][train[2] == domain])) for domain in np.unique(train[2])]
    # Half of the texts to train on, which come intent by intent.
    train = [each[::2] for each in train]
    return [(X, np.isin(intent, wanted) + 0, domain) for X, intent, domain in (train, test)]


def table(data, seed):
    """Rows to train on and to judge on, standardised: X, y, group."""
    if data == "clinc150":
        train, test = clinc150(seed)
    else:
        X, y, day = drifting_days(seed)
        first = day < N_TRAINED
        train, test = (X[first], y[first], day[first]), (X[~first], y[~first], day[~first])
    scale = StandardScaler().fit(train[0]).transform
    return [(scale(X), y, group) for X, y, group in (train, test)]


def network(seed, epochs):
    return {
        "hidden_layer_sizes": (50,),
        "max_epochs": epochs,
        "random_state": seed,
    }


def trained(method, train, k, seed, epochs):
    """Return a function that scores rows."""
    X, y, group = train
    params, n_groups = network(seed, epochs), len(np.unique(group))
    losses = {
        "recall at k": (RecallAtKClassifier, {"k": k}, {"k": k * n_groups}),
        "top push, k = 5": (TopPushKClassifier, {"k": 5}, {"k": 5 * n_groups}),
    }
    if method == "cross-entropy":
        clf = TopKClassifier(loss="cross_entropy", k=1, **params).fit(X, y)
        return clf.decision_function
    if method.startswith("LightGBM"):
        from lightgbm import LGBMClassifier, LGBMRanker

        trees = {"n_estimators": 100, "random_state": seed, "n_jobs": 1, "verbose": -1}
        if method == "LightGBM":
            clf = LGBMClassifier(**trees).fit(X, y)
            return lambda X: clf.predict_proba(X)[:, 1]
        order = np.argsort(group, kind="stable")
        clf = LGBMRanker(lambdarank_truncation_level=k + 10, **trees)
        sizes = np.unique(group, return_counts=True)[1]
        return clf.fit(X[order], y[order], group=sizes).predict
    name, _, which = method.partition(", by ")
    cls, by_group, of_all = losses[name]
    clf = cls(**(by_group if which == "group" else of_all), **params)
    clf.fit(X, y, **({"groups": group} if which == "group" else {}))
    return clf.decision_function


LOSSES = ["recall at k", "top push, k = 5"]
OTHERS = ["cross-entropy", "LightGBM", "LightGBM lambdarank, by group"]
METHODS = [f"{loss}{which}" for loss in LOSSES for which in ("", ", by group")] + OTHERS


def run(data, method, seed, epochs):
    """Train once and score the test rows."""
    torch.set_num_threads(1)
    train, (X, y, group) = table(data, seed)
    begin = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        score = trained(method, train, K[data], seed, epochs)
        seconds = time.process_time() - begin
        y_score = score(X)
    each = [
        precision_at_k_score(y[group == g], y_score[group == g], k=K[data])
        for g in np.unique(group)
        if y[group == g].any()
    ]
    of_all = precision_at_k_score(y, y_score, k=K[data] * len(each))
    return {"precision": np.mean(each), "on one list": of_all, "fit": seconds}


def settings(args):
    axes = product(range(seeds_of(args).stop), K, METHODS)
    return [
        {"data": data, "method": method, "seed": seed, "epochs": 20} for seed, data, method in axes
    ]


# Losses by group and on one list, and what they cost.


def cells(runs, data, method):
    """Precision, what it is on one list, and seconds; and the gain over the same loss."""
    here = runs[runs.data == data].set_index("seed")
    own = here[here.method == method]
    text = [f"{own[name].mean():.3f}" for name in ("precision", "on one list")]
    gains = []
    for other in (method.removesuffix(", by group"), "cross-entropy", LAMBDARANK):
        if other == method or (other == "LightGBM lambdarank" and "LightGBM" in method):
            gains.append("")
            continue
        mean, half = mean_and_half(own.precision - here[here.method == other].precision)
        gain = f"{mean:+.3f} ± {half:.3f}"
        gains.append(f"**{gain}**" if abs(mean) > half else gain)
    return [method, *text, *gains, f"{own.fit.mean():.1f}"]


def values(runs, data):
    header = ["trained for", "precision at k of each group", "of all rows as one list"]
    header += ["less the same on one list", "less cross-entropy", "less lambdarank", "fit, CPU s"]
    return markdown(header, [cells(runs, data, method) for method in METHODS])


def page(runs):
    lines = [
        "# Losses for the top of each group",
        "",
        "`benchmarks/groups.py`: the same network (one hidden layer of 50, defaults of the "
        "estimators otherwise), trained for the top of each group and for that of all rows, beside "
        "cross-entropy and LightGBM (100 trees, defaults). ± is half of a 95 % confidence "
        f"interval of Student's t of the mean of paired differences over {runs.seed.nunique()} "
        "seeds; bold where it leaves out 0. On one list a number k is that of all groups together.",
    ]
    for data, k in K.items():
        if (runs.data == data).any():
            lines += ["", f"## {data}, k = {k}", "", ABOUT[data], "", values(runs, data)]
    return "\n".join(lines)


LAMBDARANK = "LightGBM lambdarank, by group"
ABOUT = {
    "drifting days": "40 days of 100 to 300 rows, 13 columns, about 4 % positive; 25 days train, "
    "the 15 after them are judged. The level of the columns and the base rate move from day to "
    "day; what tells the rows of a day apart does not.",
    "clinc150": "7 500 texts in 10 domains train, 4 500 of the same domains are judged; 50 "
    "components of tf-idf. One intent of the 15 of each domain is positive, drawn by the seed. "
    "A domain is larger than a batch, which has parts of up to ten of them; with a part of one "
    "domain in each batch recall at k by group was .107 ± .031 below that on one list.",
}


def speed():
    """Value and gradient of 100 000 rows in 1 000 groups, over that of one group."""
    torch.set_num_threads(1)
    generator = torch.Generator().manual_seed(0)
    scores = torch.randn(100_000, generator=generator)
    target = (torch.rand(100_000, generator=generator) < 0.1).long()
    groups = torch.randint(1000, (100_000,), generator=generator)
    negatives = {"of": "negatives"}
    cases = {
        "`top_push_loss`": (top_push_loss, {}),
        "`top_push_k_loss`, k = 5": (top_push_k_loss, {"k": 5}),
        "`recall_at_k_loss`, k = 100": (recall_at_k_loss, {"k": 100}),
        "`pat_mat_np_loss`, 1 %": (pat_mat_np_loss, {"tau": 0.01}),
        "`TopMean`, k = 5": (accuracy_at_top_loss, {"threshold": TopMean(**negatives, k=5)}),
    }
    for surrogate in ("hinge", "quadratic", "logistic"):
        threshold = SurrogateQuantile(**negatives, tau=0.01, surrogate=surrogate)
        cases[f"`SurrogateQuantile`, 1 %, {surrogate}"] = (
            accuracy_at_top_loss,
            {"threshold": threshold},
        )

    cases |= {
        "`recall_at_precision_loss`, .5": (recall_at_precision_loss, {"precision": 0.5}),
        "`precision_at_recall_program_loss`, .8": (
            precision_at_recall_program_loss,
            {"recall": 0.8},
        ),
        "`recall_at_fpr_loss`, 1 %": (recall_at_fpr_loss, {"fpr": 0.01}),
        "`fbeta_loss`": (fbeta_loss, {}),
        "`precision_at_k_loss`, k = 5": (precision_at_k_loss, {"k": 5}),
    }
    # The logistic surrogate has a look at every pair, of which one group has a thousand times more.
    for surrogate in ("hinge", "quadratic", "ramp"):
        cases[f"`pairwise_auc_loss`, {surrogate}"] = (pairwise_auc_loss, {"surrogate": surrogate})

    def seconds(loss, params):
        leaf = scores.clone().requires_grad_()
        begin = time.process_time()
        loss(leaf, target, **params).backward()
        return time.process_time() - begin

    rows = []
    for name, (loss, params) in cases.items():
        pairs = [
            (seconds(loss, params), seconds(loss, params | {"groups": groups})) for _ in range(43)
        ]
        ratios = [by_group / of_one for of_one, by_group in pairs[3:]]
        one, many = (1e3 * statistics.median(each) for each in zip(*pairs[3:], strict=True))
        rows.append([name, f"{one:.1f}", f"{many:.1f}", f"{statistics.median(ratios):.2f}"])
    header = ["loss", "one group, CPU ms", "1 000 groups", "ratio"]
    text = "\n".join(
        [
            "# What groups cost in a loss",
            "",
            "`benchmarks/groups.py --speed`: value and gradient of 100 000 scores (float32), a "
            "tenth positive, in one group and in 1 000, one thread of a busy machine; medians of "
            "40 alternating pairs in CPU time.",
            "",
            markdown(header, rows),
        ]
    )
    (RESULTS / "groups_speed.md").write_text(text + "\n")
    print(text)


def main():
    if "--speed" in sys.argv:
        speed()
        return
    parser = arguments(__doc__, "groups", seeds={"small": 10}, prefix="")
    args = parser.parse_args()
    runs = run_missing(run, settings(args), args, seconds=5)
    if len(runs) == len(settings(args)):
        write_page(args, page(runs))


if __name__ == "__main__":
    main()
