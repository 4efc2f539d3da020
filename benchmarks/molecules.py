"""Molecules worth a test (paper 000, section 4.6): DeepTopPush against what one would use anyway.

CYP 3A4 of Merck, active above 5.5: log counts, 100 components, standardised, then a classifier.
Everything is selected by cross-validation of the 4 652 training molecules; on the 1 542 test
molecules only what was selected is scored. The components and the network depend on the seed.
The last part asks which defaults of the top classifiers to change, on two more imbalanced tables.

    python benchmarks/molecules.py > benchmarks/results/molecules.md
    python benchmarks/molecules.py --parts defaults
"""

import argparse
import tempfile
import warnings

import numpy as np
import torch
from real_data import campaign, coil2000, molecules
from sklearn.base import clone
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, StratifiedKFold, train_test_split
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler, scale
from torch import nn

from sktopk import DeepTopPushClassifier, PatMatNPClassifier, TopKClassifier
from sktopk.metrics import (
    enrichment_factor_score,
    make_top_scorer,
    mean_value_at_k_score,
    partial_auc_log_score,
    positives_at_top_score,
)

ACTIVE = 5.5
SEEDS = range(5)
FOLDS = StratifiedKFold(5, shuffle=True, random_state=0)
N_RESAMPLES = 300
HIDDEN = (50, 25)
BATCH_NORM = {"module__batch_norm": True}
# The first one selects. The share above every negative hangs on one molecule of a fold; the
# partial area averages over how many negatives may come before.
SCORING = {
    "partial AUC, log": make_top_scorer("partial_auc_log"),
    "above every negative": make_top_scorer("positives_at_top"),
    "EF 5 %": make_top_scorer("enrichment_factor", fraction=0.05),
}
# Of labels, activities and scores.
SCORES = {
    "above every negative": lambda y, a, s: positives_at_top_score(y, s),
    "above all but one": lambda y, a, s: positives_at_top_score(y, s, k=2),
    "EF 1 %": lambda y, a, s: enrichment_factor_score(y, s, fraction=0.01),
    "EF 5 %": lambda y, a, s: enrichment_factor_score(y, s, fraction=0.05),
    "mean activity of 1 %": lambda y, a, s: mean_value_at_k_score(a, s, k=0.01),
    "5 %": lambda y, a, s: mean_value_at_k_score(a, s, k=0.05),
    "20 %": lambda y, a, s: mean_value_at_k_score(a, s, k=0.2),
}


class SigmoidNetwork(nn.Sequential):
    """The network of the published code: a sigmoid before and after each batch normalisation."""

    def __init__(self, n_features, n_outputs):
        layers = []
        for n_in, n_out in zip((n_features, *HIDDEN[:-1]), HIDDEN, strict=True):
            layers += [nn.Linear(n_in, n_out), nn.Sigmoid(), nn.BatchNorm1d(n_out), nn.Sigmoid()]
        super().__init__(*layers, nn.Linear(HIDDEN[-1], n_outputs))


def cross_entropy(class_weight):
    return TopKClassifier(
        "cross_entropy",
        k=1,
        class_weight=class_weight,
        hidden_layer_sizes=HIDDEN,
        net_params=BATCH_NORM,
    )


# By name: the classifier, and what is searched.
CROSS_ENTROPY_GRID = {
    "learning_rate": [1e-3, 3e-3],
    "max_epochs": [12, 25, 50],
    "module__dropout": [0.0, 0.3],
}
MODELS = {
    "DeepTopPush": (
        DeepTopPushClassifier(hidden_layer_sizes=HIDDEN, net_params=BATCH_NORM, max_epochs=50),
        {
            "learning_rate": [3e-4, 1e-3, 3e-3],
            "surrogate": ["quadratic", "hinge", "logistic"],
            "buffer_size": [0, 1, 8],
        },
    ),
    "weighted cross-entropy": (cross_entropy("balanced"), CROSS_ENTROPY_GRID),
    "cross-entropy": (cross_entropy(None), CROSS_ENTROPY_GRID),
    "logistic regression": (
        LogisticRegression(max_iter=2000),
        {"C": [1e-3, 1e-2, 0.1, 1.0], "class_weight": [None, "balanced"]},
    ),
    "random forest": (RandomForestClassifier(300), {"min_samples_leaf": [1, 3]}),
    "gradient boosting": (HistGradientBoostingClassifier(), {"learning_rate": [0.03, 0.1]}),
}
DEFAULTS = {
    "DeepTopPush, defaults": DeepTopPushClassifier(),
    "cross-entropy, defaults": TopKClassifier("cross_entropy", k=1),
    "logistic regression, defaults": LogisticRegression(max_iter=2000),
}
# One change at a time of what the search selected: of the classifier, of the steps before it.
CHANGES = {
    "none": ({}, {}),
    "batch_size=32, max_epochs=25": ({"batch_size": 32, "max_epochs": 25}, {}),
    "batch_size=512, max_epochs=100": ({"batch_size": 512, "max_epochs": 100}, {}),
    "max_epochs=20": ({"max_epochs": 20}, {}),
    "max_epochs=100": ({"max_epochs": 100}, {}),
    "weight_decay=0.01": ({"weight_decay": 0.01}, {}),
    "weight_decay=0.1": ({"weight_decay": 0.1}, {}),
    "score_scale=0.1": ({"score_scale": 0.1}, {}),
    "score_scale=10": ({"score_scale": 10.0}, {}),
    "min_positives=64": ({"min_positives": 64}, {}),
    "dropout=0.3": ({"module__dropout": 0.3}, {}),
    "no batch normalisation": ({"module__batch_norm": False}, {}),
    "sigmoids, as published": ({"module": SigmoidNetwork, "net_params": None}, {}),
    "linear": ({"hidden_layer_sizes": (), "net_params": None}, {}),
    "early_stopping=True": (
        {
            "early_stopping": True,
            "scoring": SCORING["partial AUC, log"],
            "n_iter_no_change": 30,
            "max_epochs": 100,
        },
        {},
    ),
    "components not standardised": ({}, {"standardise": False}),
    "counts without logarithm": ({}, {"log": False}),
    "PCA": ({}, {"reduction": PCA}),
}
# Changes that let the network fit less.
HELD_BACK = ("dropout=0.3", "linear")
# One change at a time of the defaults.
DEFAULT_CHANGES = {
    "defaults": {},
    "learning_rate=3e-4": {"learning_rate": 3e-4},
    "learning_rate=3e-3": {"learning_rate": 3e-3},
    "learning_rate=1e-2": {"learning_rate": 1e-2},
    "score_scale=0.1": {"score_scale": 0.1},
    "score_scale=10": {"score_scale": 10.0},
    "batch_size=32": {"batch_size": 32},
    "batch_size=512": {"batch_size": 512},
    "max_epochs=50": {"max_epochs": 50},
    "buffer_size=0": {"buffer_size": 0},
    'surrogate="hinge"': {"surrogate": "hinge"},
}


def to_dense(X):
    return X.toarray()


def pipeline(clf, *, seed=0, memory=None, reduction=TruncatedSVD, standardise=True, log=True):
    """Counts to components to scores."""
    steps = [("log", FunctionTransformer(np.log1p, accept_sparse=True))] if log else []
    if reduction is PCA:
        steps.append(("dense", FunctionTransformer(to_dense, accept_sparse=True)))
    steps.append(("components", reduction(100, random_state=seed)))
    if standardise:
        steps.append(("scale", StandardScaler()))
    return Pipeline([*steps, ("clf", clone(clf).set_params(random_state=seed))], memory=memory)


def row(*cells):
    print("|", " | ".join(str(cell) for cell in cells), "|", flush=True)


def header(title, *cells):
    print(f"\n{title}\n")
    row(*cells)
    row(*("---" for _ in cells))


def plus_minus(mean, error, sign=""):
    return f"{mean:{sign}.3f} ± {error:.3f}" if error is not None else f"{mean:{sign}.3f}"


def cross_validate(pipe, grid, X, active):
    """Return parameters, mean and standard error of each score, and seconds; best first."""
    grid = {f"clf__{name}": values for name, values in grid.items()}
    search = GridSearchCV(pipe, grid, scoring=SCORING, refit=False, cv=FOLDS).fit(X, active)
    results = search.cv_results_
    candidates = []
    for i, params in enumerate(results["params"]):
        means = [results[f"mean_test_{s}"][i] for s in SCORING]
        errors = [results[f"std_test_{s}"][i] / np.sqrt(FOLDS.get_n_splits() - 1) for s in SCORING]
        params = {name.removeprefix("clf__"): value for name, value in params.items()}
        candidates.append((params, means, errors, f"{results['mean_fit_time'][i]:.1f}"))
    return sorted(candidates, key=lambda candidate: -candidate[1][0])


def select(X, active, memory):
    """Return the classifier, and options of its pipeline, that cross-validation prefers."""
    selected = {}
    header(
        "Selected by the first score: cross-validation of the training molecules, 5 folds, mean ± "
        "standard error",
        *("model", "candidates", "best", *SCORING, "fit, s"),
    )
    for name, (clf, grid) in MODELS.items():
        found = cross_validate(pipeline(clf, memory=memory), grid, X, active)
        params, means, errors, seconds = found[0]
        selected[name] = clone(clf).set_params(**params), {}
        best = ", ".join(f"{key.removeprefix('module__')}={v}" for key, v in params.items())
        row(name, len(found), best, *map(plus_minus, means, errors), seconds)
        if name == "DeepTopPush":
            candidates = found
    header("DeepTopPush: means over the other parameters of the grid", "", *SCORING)
    for name, values in MODELS["DeepTopPush"][1].items():
        for value in values:
            chosen = [means for params, means, *_ in candidates if params[name] == value]
            row(f"{name}={value}", *(f"{mean:.3f}" for mean in np.mean(chosen, axis=0)))
    header("DeepTopPush: one change of the best candidate", "change", *SCORING, "fit, s")
    first, best = selected["DeepTopPush"][0], -np.inf
    for name, (params, steps) in CHANGES.items():
        clf = clone(first).set_params(**params)
        found = cross_validate(pipeline(clf, memory=memory, **steps), {}, X, active)
        _, means, errors, seconds = found[0]
        row(name, *map(plus_minus, means, errors), seconds)
        if means[0] > best:
            best, change = means[0], name
            selected["DeepTopPush"] = clf, steps
    print(f"\nChange that is kept: {change}.")
    return selected


def scores_of(pipe, X):
    if hasattr(pipe, "decision_function"):
        return pipe.decision_function(X)
    return pipe.predict_proba(X)[:, 1]


def measure(active, activity, y_scores):
    """Each score of each row of scores."""
    return np.array([[f(active, activity, s) for f in SCORES.values()] for s in y_scores])


def resample(activity, y_scores):
    """Means over the rows of scores, of molecules drawn anew: (n_resamples, n_scores)."""
    rng, n = np.random.default_rng(0), len(activity)
    draws = [rng.integers(n, size=n) for _ in range(N_RESAMPLES)]
    return np.array(
        [measure(activity[i] > ACTIVE, activity[i], y_scores[:, i]).mean(0) for i in draws]
    )


def test(X, active, X_test, activity_test, selected):
    """Score what was selected, and defaults, on the test molecules."""
    y_scores = {}
    for name, (clf, steps) in {**selected, **{n: (c, {}) for n, c in DEFAULTS.items()}}.items():
        pipes = [pipeline(clf, seed=seed, **steps).fit(X, active) for seed in SEEDS]
        y_scores[name] = np.array([scores_of(pipe, X_test) for pipe in pipes])
    for name in ("DeepTopPush", "weighted cross-entropy", "cross-entropy"):
        y_scores[f"{name}, sum of the 5 scores"] = scale(y_scores[name], axis=1).sum(0)[None]
    header(
        f"{len(activity_test)} test molecules, {np.sum(activity_test > ACTIVE)} of them active: "
        f"mean over {len(SEEDS)} seeds ± standard deviation",
        *("model", *SCORES),
    )
    means, draws = {}, {}
    for name, each in y_scores.items():
        values = measure(activity_test > ACTIVE, activity_test, each)
        means[name], draws[name] = values.mean(0), resample(activity_test, each)
        spread = values.std(0) if len(values) > 1 else [None] * len(SCORES)
        row(name, *map(plus_minus, means[name], spread))
    header(
        f"The same with {N_RESAMPLES} bootstrap samples of the test molecules: 5 % to 95 %",
        *("model", *SCORES),
    )
    for name, each in draws.items():
        low, high = np.quantile(each, (0.05, 0.95), axis=0)
        row(name, *(f"{a:.3f} to {b:.3f}" for a, b in zip(low, high, strict=True)))
    header(
        "DeepTopPush minus the other model: difference (share of the bootstrap samples in which it "
        "is above 0)",
        *("other model", *SCORES),
    )
    for name in selected:
        if name != "DeepTopPush":
            difference = means["DeepTopPush"] - means[name]
            above = np.mean(draws["DeepTopPush"] > draws[name], axis=0)
            row(name, *(f"{d:+.3f} ({a:.2f})" for d, a in zip(difference, above, strict=True)))


def show_training(X, active, X_test, active_test, selected):
    """How much of what is above every negative in training is so on the test molecules."""
    top_push = selected["DeepTopPush"][0]
    classifiers = {
        **{name: selected[name][0] for name in ("DeepTopPush", "logistic regression")},
        "DeepTopPush, defaults": DeepTopPushClassifier(),
        **{f"DeepTopPush, {n}": clone(top_push).set_params(**CHANGES[n][0]) for n in HELD_BACK},
    }
    header(
        "Share of the positives above every negative, seed 0; constant scores have loss 1",
        *("model", "training molecules", "test molecules", "last training loss"),
    )
    for name, clf in classifiers.items():
        pipe = pipeline(clf).fit(X, active)
        shares = (
            positives_at_top_score(labels, scores_of(pipe, rows))
            for rows, labels in ((X, active), (X_test, active_test))
        )
        loss = f"{pipe[-1].history_[-1]['train_loss']:.3f}" if "Push" in name else ""
        row(name, *(f"{share:.3f}" for share in shares), loss)


def tables():
    """Halves of three imbalanced tables, by name; of the campaign, 12 000 rows."""
    X, activity, *_ = molecules()
    components = pipeline(LogisticRegression())[:-1].fit_transform(X).astype(np.float32)
    rows = np.random.default_rng(0).permutation(41_188)[:12_000]
    calls, success = campaign()
    return {
        "molecules": (components, activity > ACTIVE),
        "campaign": (calls[rows].astype(np.float32), success[rows]),
        "coil2000": tuple(a.astype(np.float32) for a in coil2000()),
    }


def partial_areas(clf, X, y):
    """Score of a classifier on the half of the rows that did not train it, for every seed."""
    areas = []
    for seed in SEEDS:
        halves = train_test_split(X, y, test_size=0.5, stratify=y, random_state=seed)
        X_train, X_test, y_train, y_test = halves
        scaler = StandardScaler().fit(X_train)
        fitted = clone(clf).set_params(random_state=seed)
        fitted.fit(scaler.transform(X_train), y_train)
        y_score = fitted.decision_function(scaler.transform(X_test))
        areas.append(partial_auc_log_score(y_test, y_score))
    return np.array(areas)


def defaults():
    """Each default of the top classifiers, changed alone; half of the rows train, half judge."""
    data = tables()
    header(
        f"Partial AUC, log, with defaults, and what one change adds: means of {len(SEEDS)} random "
        "halves ± standard error",
        *("classifier", "change", *(f"{t}, {len(y) // 2} rows" for t, (_, y) in data.items())),
    )
    logistic = [partial_areas(LogisticRegression(max_iter=2000), *table) for table in data.values()]
    row("LogisticRegression", "defaults", *(show(areas) for areas in logistic))
    for clf in (DeepTopPushClassifier(), PatMatNPClassifier()):
        base = np.zeros((len(data), len(SEEDS)))
        for change, params in DEFAULT_CHANGES.items():
            changed = clone(clf).set_params(**params)
            areas = np.array([partial_areas(changed, *table) for table in data.values()])
            added = (show(each, sign="+" if params else "") for each in areas - base)
            row(type(clf).__name__, change, *added)
            if not params:
                base = areas


def show(values, sign=""):
    return plus_minus(values.mean(), values.std(ddof=1) / np.sqrt(len(values)), sign)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", nargs="+", default=["molecules", "defaults"])
    parts = parser.parse_args().parts
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    if "molecules" in parts:
        X, activity, X_test, activity_test = molecules()
        with tempfile.TemporaryDirectory() as memory:
            selected = select(X, activity > ACTIVE, memory)
        test(X, activity > ACTIVE, X_test, activity_test, selected)
        show_training(X, activity > ACTIVE, X_test, activity_test > ACTIVE, selected)
    if "defaults" in parts:
        defaults()


if __name__ == "__main__":
    main()
