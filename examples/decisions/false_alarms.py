"""
A guaranteed false positive rate
================================

A screening programme may call back at most one healthy woman in twenty. A plain threshold flags
exactly one in twenty of the healthy calibration samples. On new samples, about half of these
thresholds exceed the limit. `BudgetClassifier` adds the margin that a guarantee needs.

Result: the plain threshold exceeds the limit in about half of the calibrations. The threshold with
a guarantee exceeds the limit in at most 5 % of them.
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
# ``rates_`` contains rates of the calibration samples, with exact confidence intervals.

selection = BudgetClassifier(frozen, budget=0.05, constraint="fpr", delta=0.05).fit(
    X[:2000], y[:2000]
)
for name, rate in selection.rates_.items():
    print(f"{name:10s} {rate.value:.3f} in [{rate.low:.3f}, {rate.high:.3f}]")

# %%
# Sixty calibrations
# ------------------
# ``delta`` is the probability that the guarantee fails because of the calibration samples. More
# calibration samples make the margin smaller.

rng = np.random.default_rng(0)
SIZES = (250, 500, 1000, 2000, 4000)
healthy = y_new == 0
scores = frozen.decision_function(X_new)
false_alarms, found = {}, {}
for n in SIZES:
    rates, plain = [], []
    for _ in range(60):
        rows = rng.choice(len(X), n, replace=False)
        flagged = scores > selection.fit(X[rows], y[rows]).threshold_
        rates.append((flagged[healthy].mean(), flagged[~healthy].mean()))
        negatives = frozen.decision_function(X[rows][y[rows] == 0])
        plain.append(np.mean(scores[healthy] > np.quantile(negatives, 0.95)))
    false_alarms[n], found[n] = np.transpose(rates)
    print(
        f"{n:5d} samples: BudgetClassifier exceeds the limit in "
        f"{np.mean(false_alarms[n] > 0.05):.0%} of the calibrations (plain threshold: "
        f"{np.mean(np.array(plain) > 0.05):.0%}) and finds {found[n].mean():.0%} of the positives"
    )

# %%

figure, ax = plt.subplots(figsize=(6.5, 3.8), layout="constrained")
ax.boxplot(list(false_alarms.values()), tick_labels=list(false_alarms))
ax.axhline(0.05, color="k", linestyle="--", label="limit")
ax.set(xlabel="Calibration samples", ylabel="False positive rate on new samples")
ax.legend()
plt.show()
