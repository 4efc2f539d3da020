"""Sets for a long tail of classes: whom each way covers, and what it costs."""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.naive_bayes import GaussianNB

from sktopk import SetClassifier

N_CLASSES = 100
WAYS = {
    "lac": {"method": "lac"},
    "pas": {"method": "pas"},
    "class": {"method": "lac", "conditional": "class"},
}
rng = np.random.default_rng(0)
share = 1 / np.arange(1, N_CLASSES + 1) ** 0.7
share /= share.sum()
centers = rng.normal(scale=1.3, size=(N_CLASSES, 8))


def draw(n):
    y = rng.choice(N_CLASSES, size=n, p=share)
    return centers[y] + rng.normal(size=(n, 8)), y


clf = FrozenEstimator(GaussianNB(var_smoothing=0.1).fit(*draw(20_000)))
X, y = draw(40_000)
figure, (coverage_ax, size_ax) = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
third = np.digitize(np.arange(N_CLASSES), [N_CLASSES / 3, 2 * N_CLASSES / 3])
for i, (name, params) in enumerate(WAYS.items()):
    # Coverage of each class, over calibrations with some 25 samples of a rare one.
    covered, sizes = [], []
    for seed in range(10):
        sets = SetClassifier(clf, coverage=0.9, random_state=seed, **params)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of classes with fewer than nine samples
            sets.fit(*draw(8000))
        y_set = sets.predict_set(X)
        inside = y_set[np.arange(len(y)), y]
        covered.append(np.bincount(y, weights=inside) / np.bincount(y))
        sizes.append(y_set.sum(axis=1).mean())
    of_class = np.mean(covered, axis=0)
    place = np.arange(3) + 0.2 * (i - 1)
    coverage_ax.bar(place, [of_class[third == j].min() for j in range(3)], 0.2, label=name)
    size_ax.bar(i, np.mean(sizes), 0.6)
coverage_ax.axhline(0.9, color="k", linestyle="--", linewidth=1)
coverage_ax.set_xticks(range(3), ["frequent", "between", "rare classes"])
coverage_ax.set(ylabel="Coverage of the worst class", ylim=(0.2, 1.01))
figure.legend(*coverage_ax.get_legend_handles_labels(), loc="outside upper center", ncols=4)
size_ax.set_xticks(range(len(WAYS)), WAYS)
size_ax.set_ylabel("Mean size of sets")
