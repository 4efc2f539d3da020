"""Metrics, decisions and pipelines at work; run by test_package.py, which asks what that loaded.

python -m tests.without_torch
"""

import json
import pickle
import sys

import matplotlib as mpl
import numpy as np
import pandas as pd
from joblib import Parallel, delayed
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.preprocessing import StandardScaler

from sktopk import (
    BudgetClassifier,
    ExpectedCostClassifier,
    Monitor,
    Pipeline,
    SetClassifier,
    make_pipeline,
    metrics,
)

mpl.use("Agg")
rng = np.random.default_rng(0)
N = 600
Y = rng.random(N) < 0.3
X = rng.normal(size=(N, 3)) + Y[:, None]
FRAME = pd.DataFrame(X, columns=["a", "b", "c"])
DAYS = np.repeat(["mon", "tue", "wed"], N // 3)
SCORES = X.sum(axis=1)
SPECIES = np.array(["ash", "birch", "oak", "pine"])[np.digitize(X[:, 0], [-1, 0, 1])]


def desks():
    """Fit, predict, watch and calibrate anew, with classifiers, frozen ones and bare scores."""
    prefit = FrozenEstimator(LogisticRegression().fit(X[:200], Y[:200]))
    for constraint in ("count", "fpr", "precision", "recall", "fdr", "cost"):
        # The precision is not reached on every draw.
        params = {"constraint": constraint, "random_state": 0}
        params["budget"] = 0.6 if constraint == "precision" else 0.3
        spent = {"cost": np.ones(N), "value": np.ones(N)} if constraint == "cost" else {}
        for desk in (
            BudgetClassifier(GaussianNB(), **params),
            BudgetClassifier(prefit, **params),
            BudgetClassifier(make_pipeline(StandardScaler(), LogisticRegression()), **params),
        ):
            clone(desk).fit(FRAME, Y).predict(FRAME, **spent)
            desk.fit(X, Y).predict(X, **spent)
            desk.score(X, Y, **spent)
            desk.predict_top(X, 5)
            desk.decision_function(X)
            pickle.loads(pickle.dumps(desk)).hits_interval(X, 10)
        desk = BudgetClassifier.from_scores(SCORES, Y, **params)
        if constraint == "cost":
            desk.expected_value(SCORES, value=np.ones(N))
            continue
        rows = desk.predict_top(SCORES)
        monitor = Monitor(desk) if constraint == "fpr" else desk.monitor()
        monitor.update(SCORES, groups=DAYS)
        if constraint == "precision":
            monitor.update_labels(SCORES[rows], Y[rows], groups=DAYS[rows])
            pickle.loads(pickle.dumps(monitor)).recalibrate().predict(SCORES)
    queue = BudgetClassifier(GaussianNB(), budget=20, explore=5).fit(X, Y).predict_queue(X)
    known, propensity = Y[queue.rows].astype(float), queue.propensity
    metrics.precision_at_k_score(known, SCORES[queue.rows], k=5, propensity=propensity)
    ratio = LogisticRegression()
    shifted = BudgetClassifier(
        GaussianNB(), constraint="fdr", budget=0.3, likelihood_ratio=ratio, randomized=True
    )
    shifted.fit(X, Y, X_new=X + 0.1).predict(X + 0.1)


def sets():
    """Sets of labels and nodes, for classes and groups, of arrays, sparse rows and scores."""
    above = {"ash": "broad", "birch": "broad", "oak": "broad", "pine": "tree", "broad": "tree"}
    for method in ("topk", "average_k", "lac", "aps", "raps", "pas"):
        SetClassifier(GaussianNB(), method=method, k=2).fit(X, SPECIES).predict_set(X)
    for params in (
        {"conditional": "class"},
        {"conditional": "cluster"},
        {"hierarchy": above, "max_size": 1},
        {"randomized": True, "method": "aps"},
    ):
        clf = SetClassifier(LogisticRegression(), **{"method": "lac", **params})
        clf.fit(csr_array(X), SPECIES).predict_set(csr_array(X))
        if "conditional" not in params:
            clf.monitor().update_labels(X, SPECIES)
    grouped = SetClassifier(GaussianNB(), method="lac", conditional="group")
    grouped.fit(X, SPECIES, groups=DAYS).predict_set(X, groups=DAYS)
    proba = GaussianNB().fit(X, SPECIES).predict_proba(X)
    found = SetClassifier.from_scores(proba, SPECIES, method="lac").predict_set(proba)
    metrics.set_coverage_score(SPECIES, found, labels=np.unique(SPECIES))


def costs():
    """The label of least expected cost, in a search and in other processes."""
    clf = ExpectedCostClassifier(GaussianNB(), cost_matrix=[[0, 1], [5, 0]])
    search = GridSearchCV(clf, {"estimator__var_smoothing": [1e-9, 1e-3]}, n_jobs=2).fit(FRAME, Y)
    search.predict(FRAME)
    Pipeline([("scale", StandardScaler()), ("costs", clf)]).fit(X, Y).score(X, Y)


def scores():
    """Scores, scorers, tables and pictures."""
    clf = GaussianNB().fit(X, Y)
    for name in ("precision_at_k", "recall_at_k", "enrichment_factor"):
        k = {"fraction": 0.1} if name == "enrichment_factor" else {"k": 10}
        metrics.make_top_scorer(name, **k)(clf, X, Y)
    metrics.make_topk_scorer(2)(GaussianNB().fit(X, SPECIES), X, SPECIES)
    metrics.positives_at_top_score(Y, SCORES)
    metrics.bedroc_score(Y, SCORES)
    metrics.budget_table(Y, SCORES, budgets=[10, 20])
    for display in (metrics.BudgetCurveDisplay, metrics.PrecisionQuantileDisplay):
        display.from_predictions(Y, SCORES)
        display.from_estimator(clf, X, Y)


def loaded():
    """The packages of nets that are in this process."""
    return sorted({name.split(".")[0] for name in sys.modules} & {"torch", "skorch"})


def main():
    for part in (desks, sets, costs, scores):
        part()
    elsewhere = Parallel(n_jobs=2)(delayed(loaded)() for _ in range(2))
    json.dump([loaded(), *elsewhere], sys.stdout)


if __name__ == "__main__":
    main()
