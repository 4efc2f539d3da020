"""The margin of a guarantee: false-positive rates of thresholds from many calibration sets."""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_classification
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression

from sktopk import BudgetClassifier

X, y = make_classification(30_000, weights=[0.9], random_state=0)
clf = FrozenEstimator(LogisticRegression().fit(X[:2000], y[:2000]))
X_cal, y_cal, X_new, y_new = X[2000:17_000], y[2000:17_000], X[17_000:], y[17_000:]
rng = np.random.default_rng(0)
BUDGET = 0.05
rates = {"guaranteed": [], "empirical quantile": []}
negative = X_new[y_new == 0]
scores = clf.decision_function(negative)
for _ in range(100):
    rows = rng.choice(len(X_cal), 1000, replace=False)
    desk = BudgetClassifier(clf, budget=BUDGET, constraint="fpr", delta=0.05)
    desk.fit(X_cal[rows], y_cal[rows])
    rates["guaranteed"].append((scores > desk.threshold_).mean())
    of_rows = clf.decision_function(X_cal[rows][y_cal[rows] == 0])
    rates["empirical quantile"].append((scores > np.quantile(of_rows, 1 - BUDGET)).mean())

figure, ax = plt.subplots(figsize=(7, 3.4), layout="constrained")
bins = np.linspace(0.01, 0.08, 36)
for (name, values), color in zip(rates.items(), ("#d55e00", "#8a9ba8"), strict=True):
    above = np.mean(np.array(values) > BUDGET)
    ax.hist(values, bins, alpha=0.7, color=color, label=f"{name}: {above:.0%} above the budget")
ax.axvline(BUDGET, color="k", linestyle="--", label="budget")
ax.set(xlabel="False positive rate on new samples", ylabel="Calibrations of 100")
ax.legend()
