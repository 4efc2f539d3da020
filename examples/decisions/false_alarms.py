"""
A guaranteed false positive rate
================================

A screening programme may call back at most one healthy woman in twenty. A threshold that flags
exactly one in twenty of a few hundred calibration samples exceeds this rate on new samples in half
of the cases. `BudgetClassifier` adds the margin that a guarantee needs.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_classification
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression

from sktopk import BudgetClassifier

X, y = make_classification(24_000, weights=[0.9], class_sep=0.8, random_state=0)
frozen = FrozenEstimator(LogisticRegression().fit(X[:2000], y[:2000]))
X, X_new, y, y_new = X[2000:12_000], X[12_000:], y[2000:12_000], y[12_000:]

# %%
# One calibration
# ---------------
# ``rates_`` has the rates of the calibration samples with exact intervals.

desk = BudgetClassifier(frozen, budget=0.05, constraint="fpr", delta=0.05).fit(X[:2000], y[:2000])
for name, rate in desk.rates_.items():
    print(f"{name:10s} {rate.value:.3f} in [{rate.low:.3f}, {rate.high:.3f}]")

# %%
# A hundred calibrations
# ----------------------
# ``delta`` is the probability that the guarantee fails because of the calibration samples. More
# calibration samples make the margin smaller.

rng = np.random.default_rng(0)
SIZES = (250, 500, 1000, 2000, 4000)
healthy = y_new == 0
scores = frozen.decision_function(X_new)
false_alarms, found = {}, {}
for n in SIZES:
    rates = []
    for _ in range(60):
        rows = rng.choice(len(X), n, replace=False)
        flagged = scores > desk.fit(X[rows], y[rows]).threshold_
        rates.append((flagged[healthy].mean(), flagged[~healthy].mean()))
    false_alarms[n], found[n] = np.transpose(rates)
    broken = np.mean(false_alarms[n] > 0.05)
    print(
        f"{n:5d} samples: false alarms {false_alarms[n].mean():.3f}, above the budget in "
        f"{broken:.0%} of calibrations; {found[n].mean():.0%} of the positives found"
    )

# %%

figure, axes = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
for ax, rates, label in zip(
    axes, (false_alarms, found), ("False-positive rate on new samples", "Recall"), strict=True
):
    ax.boxplot(list(rates.values()), tick_labels=list(rates))
    ax.set(xlabel="Calibration samples", ylabel=label)
axes[0].axhline(0.05, color="k", linestyle="--", label="budget")
axes[0].legend()
plt.show()
