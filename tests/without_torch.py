"""Metrics and decisions at work; run by test_package.py, which asks what that loaded.

python -m tests.without_torch
"""

import json
import sys

import matplotlib as mpl
import numpy as np
from joblib import Parallel, delayed
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.preprocessing import StandardScaler

from sktopk import BudgetClassifier, SetClassifier, make_pipeline, metrics

mpl.use("Agg")
rng = np.random.default_rng(0)
Y = rng.random(600) < 0.3
X = rng.normal(size=(600, 3)) + Y[:, None]
SCORES = X.sum(axis=1)
SPECIES = np.array(["ash", "birch", "oak", "pine"])[np.digitize(X[:, 0], [-1, 0, 1])]


def decisions():
    """Fit and predict with classifiers, pipelines, frozen classifiers and bare scores."""
    frozen = FrozenEstimator(LogisticRegression().fit(X[:200], Y[:200]))
    pipe = make_pipeline(StandardScaler(), LogisticRegression())
    for constraint in ("count", "fpr", "precision", "recall", "fdr"):
        budget = 0.6 if constraint == "precision" else 0.3
        for estimator in (GaussianNB(), frozen, pipe):
            desk = BudgetClassifier(estimator, budget=budget, constraint=constraint, random_state=0)
            desk.fit(X, Y).predict(X)
            desk.predict_top(X, 5)
    for method in ("topk", "average_k", "lac", "aps", "raps", "pas"):
        clf = SetClassifier(GaussianNB(), method=method, k=2).fit(X, SPECIES)
        metrics.set_coverage_score(SPECIES, clf.predict_set(X), labels=clf.classes_)


def scores():
    """Scores, scorers, tables and displays."""
    clf = GaussianNB().fit(X, Y)
    metrics.make_top_scorer("precision_at_k", k=10)(clf, X, Y)
    metrics.make_topk_scorer(2)(GaussianNB().fit(X, SPECIES), X, SPECIES)
    metrics.bedroc_score(Y, SCORES)
    metrics.budget_table(Y, SCORES, budgets=[10, 20])
    for display in (metrics.BudgetCurveDisplay, metrics.EnrichmentDisplay):
        display.from_estimator(clf, X, Y)


def loaded():
    """Return the packages of networks that are in this process."""
    return sorted({name.split(".")[0] for name in sys.modules} & {"torch", "skorch"})


if __name__ == "__main__":
    decisions()
    scores()
    elsewhere = Parallel(n_jobs=2)(delayed(loaded)() for _ in range(2))
    json.dump([loaded(), *elsewhere], sys.stdout)
