"""Are promises kept whose thresholds come from rows that members of the classifier left out?

python benchmarks/cross_fit.py > benchmarks/results/cross_fit.md

A population of rows, from which each draw takes `N_ROWS` to fit; all others judge. Beside it the
promise with a fifth of these rows held out, which trains on fewer and calibrates on fewer.
"""

import functools
import warnings

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import train_test_split

from sktopk import BudgetClassifier, PatMatClassifier, SetClassifier, TopKClassifier

N_ROWS, N_OTHERS = 1000, 8000
N_NETWORKS, N_FORESTS = 40, 80
SMALL = {"n_members": 4, "max_epochs": 10, "hidden_layer_sizes": (32,)}
BUDGETS = {"fpr": 0.05, "recall": 0.7, "precision": 0.6}
METHODS = ["lac", "aps", "pas"]
COVERAGE, DELTA = 0.9, 0.05


class Fitted(ClassifierMixin, BaseEstimator):
    """A fitted classifier that `fit` leaves as it is, so that many decisions cost one training."""

    def __init__(self, frozen):
        self.frozen = frozen

    def fit(self, X, y):
        """Take over what the classifier has found."""
        self.classes_ = self.frozen.classes_
        self.oob_decision_function_ = self.frozen.oob_decision_function_
        return self

    def __getattr__(self, name):
        if name in ("decision_function", "predict_proba", "predict", "_proba_of"):
            return getattr(self.frozen.estimator, name)
        raise AttributeError(name)


def main():
    warnings.simplefilter("ignore")
    print("# Thresholds from rows that members left out (`benchmarks/cross_fit.py`)\n")
    print(
        f"Draws of {N_ROWS} rows to fit, of a generated population; {N_OTHERS} other rows judge. "
        "Cross-fitted: all rows train, and those that members left out calibrate. Held out: 80 % "
        "train, 20 % calibrate.\n"
    )
    networks = PatMatClassifier(tau=0.05, **SMALL), TopKClassifier(k=3, **SMALL)
    forest = RandomForestClassifier(100, oob_score=True, min_samples_leaf=3)
    cases = [
        ("four members", *networks, N_NETWORKS),
        ("forest", forest, forest, N_FORESTS),
    ]
    report_rates(cases)
    report_sets(cases)


def report_rates(cases):
    """Print how often rates were kept, and what was found."""
    print(f"## Rates, promised with a probability of {1 - DELTA:g}\n")
    print(
        "| classifier | promise | draws | kept, cross-fitted | kept, held out "
        "| rows found, cross-fitted | rows found, held out |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name, ranker, _, n_draws in cases:
        found = np.array([one_draw(ranker, 2, seed) for seed in range(n_draws)])
        for i, (constraint, budget) in enumerate(BUDGETS.items()):
            kept, true = found[:, :, i, 0].mean(axis=0), found[:, :, i, 1].mean(axis=0)
            sign = "<=" if constraint == "fpr" else ">="
            print(
                f"| {name} | {constraint} {sign} {budget:g} | {n_draws} | {kept[0]:.3f} "
                f"| {kept[1]:.3f} | {true[0]:.3f} | {true[1]:.3f} |",
                flush=True,
            )


def report_sets(cases):
    """Print coverage and size of sets, from half of the draws: a mean needs fewer."""
    print(f"\n## Sets, of a coverage of {COVERAGE:g} on average over draws\n")
    print(
        "| classifier | method | draws | coverage, cross-fitted | coverage, held out "
        "| labels per set, cross-fitted | labels per set, held out |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- |")
    for name, _, chooser, n_draws in cases:
        n_draws //= 2
        found = np.array([one_draw(chooser, 8, seed) for seed in range(n_draws)])
        error = found.std(axis=0, ddof=1) / n_draws**0.5
        for i, method in enumerate(METHODS):
            (mean, size), (split, split_size) = found.mean(axis=0)[:, i]
            print(
                f"| {name} | {method} | {n_draws} | {mean:.3f} ± {error[0, i, 0]:.3f} "
                f"| {split:.3f} ± {error[1, i, 0]:.3f} | {size:.2f} | {split_size:.2f} |",
                flush=True,
            )
    print("\n± a standard error.")


def one_draw(classifier, n_classes, seed):
    """What one draw gives, cross-fitted and held out, for each promise: two numbers."""
    X, y = population(n_classes)
    random = np.random.default_rng(seed)
    index = random.permutation(len(y))[: N_ROWS + N_OTHERS]
    train, judge = index[:N_ROWS], index[N_ROWS:]
    classifier = classifier.set_params(random_state=seed)
    whole = Fitted(FrozenEstimator(classifier.fit(X[train], y[train])))
    judge_both = rates if n_classes == 2 else sets
    crossed = judge_both(whole, True, X[train], y[train], X[judge], y[judge])
    fit, held_out = train_test_split(train, test_size=0.2, stratify=y[train], random_state=seed)
    part = FrozenEstimator(classifier.fit(X[fit], y[fit]))
    return crossed, judge_both(part, False, X[held_out], y[held_out], X[judge], y[judge])


@functools.cache
def population(n_classes):
    """Rows of which draws are made."""
    shape = {"n_samples": 40_000, "n_features": 15, "n_informative": 8, "random_state": 0}
    weights = [0.85] if n_classes == 2 else None
    return make_classification(
        **shape, n_classes=n_classes, weights=weights, flip_y=0.1, class_sep=0.8
    )


def rates(classifier, cross_fit, X, y, X_new, y_new):
    """For each constraint, whether new rows keep it, and the share of positives that are found."""
    out = []
    for constraint, budget in BUDGETS.items():
        desk = BudgetClassifier(
            classifier, constraint=constraint, budget=budget, delta=DELTA, cross_fit=cross_fit
        )
        flagged = desk.set_params(pos_label=1, random_state=0).fit(X, y).predict(X_new) == 1
        found = flagged[y_new == 1].mean()
        if constraint == "fpr":
            is_kept = flagged[y_new == 0].mean() <= budget
        elif constraint == "recall":
            is_kept = found >= budget
        else:
            is_kept = not flagged.any() or y_new[flagged].mean() >= budget
        out.append((is_kept, found))
    return out


def sets(classifier, cross_fit, X, y, X_new, y_new):
    """For each method the coverage of new rows and the labels per set."""
    out = []
    for method in METHODS:
        params = {"method": method, "coverage": COVERAGE, "cross_fit": cross_fit}
        clf = SetClassifier(classifier, randomized=True, random_state=0, **params).fit(X, y)
        y_set = clf.predict_set(X_new).toarray()
        out.append((y_set[np.arange(len(y_new)), y_new].mean(), y_set.sum(axis=1).mean()))
    return out


if __name__ == "__main__":
    main()
