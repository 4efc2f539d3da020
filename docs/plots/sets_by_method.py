"""Sets of each method on the same calibration samples."""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.frozen import FrozenEstimator
from small_digits import data, fit

from sktopk import SetClassifier

X, X_test, y, y_test = data(0)
X_test = X_test.astype("f4")
clf = FrozenEstimator(fit(0, loss="cross_entropy", calibration="temperature"))
half = len(X_test) // 2
figure, (size_ax, coverage_ax) = plt.subplots(1, 2, figsize=(10, 3.6), layout="constrained")
# How hard a sample is: the entropy of its probabilities.
proba = clf.predict_proba(X_test[half:])
entropy = -(proba * np.log(proba + 1e-12)).sum(1)
hard = np.digitize(entropy, np.quantile(entropy, [1 / 3, 2 / 3]))
for i, method in enumerate(("lac", "aps", "raps", "pas")):
    ranks = {"k": 2} if method == "raps" else {}
    sets = SetClassifier(clf, method=method, coverage=0.9, random_state=0, **ranks)
    sets.fit(X_test[:half], y_test[:half])
    y_set = sets.predict_set(X_test[half:])
    covered = y_set[np.arange(len(y_set)), y_test[half:]]
    place = np.arange(3) + 0.2 * (i - 1.5)
    size_ax.bar(place, [y_set[hard == j].sum(1).mean() for j in range(3)], 0.2, label=method)
    coverage_ax.bar(place, [covered[hard == j].mean() for j in range(3)], 0.2, label=method)
coverage_ax.axhline(0.9, color="k", linestyle="--", linewidth=1)
for ax, label in ((size_ax, "Mean size of sets"), (coverage_ax, "Coverage")):
    ax.set_xticks(range(3), ["clear samples", "between", "hard samples"])
    ax.set_ylabel(label)
coverage_ax.set_ylim(0.6, 1.01)
size_ax.legend()
