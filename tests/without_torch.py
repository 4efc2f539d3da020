"""Run metrics and decisions; test_package.py checks which packages are imported."""

import json
import sys

import matplotlib as mpl
import numpy as np
from joblib import Parallel, delayed
from sklearn.frozen import FrozenEstimator
from sklearn.naive_bayes import GaussianNB
from sklearn.preprocessing import StandardScaler

from sktopk import BudgetClassifier, SetClassifier, make_pipeline, metrics

mpl.use("Agg")
Y = np.random.default_rng(0).random(600) < 0.3
X = np.random.default_rng(1).normal(size=(600, 3)) + Y[:, None]
CLF = GaussianNB().fit(X, Y)


def loaded():
    return sorted({name.split(".")[0] for name in sys.modules} & {"torch", "skorch"})


if __name__ == "__main__":
    for constraint in ("count", "fpr", "precision", "recall", "fdr"):
        budget = 0.6 if constraint == "precision" else 0.3
        for inner in (GaussianNB(), FrozenEstimator(CLF), make_pipeline(StandardScaler(), CLF)):
            clf = BudgetClassifier(inner, budget=budget, constraint=constraint, random_state=0)
            clf.fit(X, Y).predict(X)
            clf.predict_top(X, 5)
        clf.hits_interval(X, 5)
        BudgetClassifier.from_scores(X[:, 0], Y, budget=budget, constraint=constraint)
    for method in ("topk", "average_k", "lac", "aps", "raps", "pas"):
        sets = SetClassifier(GaussianNB(), method=method, k=1).fit(X, Y).predict_set(X)
        metrics.set_coverage_score(Y, sets, labels=CLF.classes_)
    metrics.make_top_scorer("precision_at_k", k=10)(CLF, X, Y)
    metrics.make_topk_scorer(1)(CLF, X, Y)
    metrics.budget_table(Y, X[:, 0], budgets=[10, 20])
    for display in (metrics.BudgetCurveDisplay, metrics.EnrichmentDisplay):
        display.from_estimator(CLF, X, Y)
    json.dump([loaded(), *Parallel(n_jobs=2)(delayed(loaded)() for _ in range(2))], sys.stdout)
