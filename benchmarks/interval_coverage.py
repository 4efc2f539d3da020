"""Do the intervals of compare_losses contain the true difference as often as their level says?

Two quick classifiers are compared on many datasets from one population, with repeated stratified
folds. The true difference is the mean over all datasets. The script prints the coverage and the
mean width of two kinds of intervals of level 0.95. The first kind has the correction of Nadeau and
Bengio (2003), as in `compare_losses`. The second kind has the share of test samples that two splits
have in common.

    python benchmarks/interval_coverage.py
"""

import numpy as np
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.model_selection import RepeatedStratifiedKFold, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

from sktopk.metrics._statistics import PairedDifference

N_DATASETS, N_FOLDS, REPEATS = 1000, 5, (1, 2)
LINEAR, BAYES = LinearDiscriminantAnalysis(), GaussianNB()
STUMP, TREE, DEEP = (DecisionTreeClassifier(max_depth=depth, random_state=0) for depth in (1, 4, 8))
# Two classifiers, the metric, the number of samples, the shares of the classes, and in two cases
# the number of noise columns.
CASES = {
    "linear, bayes: accuracy, n=300": (LINEAR, BAYES, "accuracy", 300, [1 / 3] * 3),
    "bayes, tree: accuracy, n=300": (BAYES, TREE, "accuracy", 300, [1 / 3] * 3),
    "tree, deep tree: accuracy, n=300": (TREE, DEEP, "accuracy", 300, [1 / 3] * 3),
    "linear, bayes: AUC, n=400, 15 %": (LINEAR, BAYES, "roc_auc", 400, [0.85, 0.15]),
    "bayes, tree: AUC, n=400, 15 %": (BAYES, TREE, "roc_auc", 400, [0.85, 0.15]),
    "linear, bayes: accuracy, n=1500": (LINEAR, BAYES, "accuracy", 1500, [1 / 3] * 3),
    "linear, bayes: 36 columns, n=120": (LINEAR, BAYES, "accuracy", 120, [1 / 3] * 3, 30),
    "linear, stump: 36 columns, n=120": (LINEAR, STUMP, "accuracy", 120, [1 / 2] * 2, 30),
}


def draw(rng, n_samples, shares, n_noise=0):
    """Return samples of classes with different means and variances."""
    y = rng.choice(len(shares), n_samples, p=shares)
    X = rng.normal(size=(n_samples, 6 + n_noise))
    X[:, 0] += 1.2 * y
    X[:, 1] *= 1 + 0.7 * y
    X[:, 2] += 0.5 * X[:, 0]
    return X, y


def differences(rng, first, second, scoring, *of_data):
    """Return the differences of the scores, one row per dataset and one column per split."""
    rows = []
    for seed in range(N_DATASETS):
        X, y = draw(rng, *of_data)
        cv = RepeatedStratifiedKFold(n_splits=N_FOLDS, n_repeats=max(REPEATS), random_state=seed)
        one, two = (cross_val_score(each, X, y, cv=cv, scoring=scoring) for each in (first, second))
        rows.append(one - two)
    return np.array(rows)


def main():
    """Print one line per case and number of repetitions."""
    rng = np.random.default_rng(0)
    print(f"{'case':34s} repeats  corrected: coverage width  common samples: coverage width")
    for name, case in CASES.items():
        of_all = differences(rng, *case)
        truth = of_all.mean()
        for n_repeats in REPEATS:
            runs = of_all[:, : N_FOLDS * n_repeats]
            line = f"{name:34s} {n_repeats:7d}"
            for overlap in (1 / N_FOLDS, (n_repeats - 1) / (n_repeats * N_FOLDS - 1)):
                found = [PairedDifference.of(each, 0 * each, overlap) for each in runs]
                half = np.array([each.half_width(0.95) for each in found])
                held = np.abs([each.mean - truth for each in found]) <= half
                line += f"{held.mean():20.3f} {2 * half.mean():5.3f}  "
            print(line, flush=True)


if __name__ == "__main__":
    main()
