"""
Guarantees for a selected batch
===============================

A chemist has scores of 3,000 molecules and can test some of them. The first guarantee limits the
share of inactive molecules among the selected molecules to a fifth. The second guarantee bounds the
number of hits (active molecules) on each plate. Both hold for any classifier and need a few hundred
tested molecules.

Result: on average over 40 batches, 19 % of the selected molecules are inactive, below the limit of
20 %. The number of hits lies within its bounds for one to nine plates.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.frozen import FrozenEstimator

from sktopk import BudgetClassifier, SetClassifier

rng = np.random.default_rng(0)


def molecules(n):
    """Return descriptors and whether a molecule is active."""
    X = rng.normal(size=(n, 6))
    logit = 2 * X[:, 1] - 2 + X[:, 2] * X[:, 3] - 1.5 * X[:, 0]
    return X, (rng.random(n) < expit(logit)).astype(int)


boosting = HistGradientBoostingClassifier(max_depth=3, random_state=0).fit(*molecules(2000))
model = FrozenEstimator(boosting)
X_tested, active = molecules(600)
X_library, hit = molecules(3000)

# %%
# A bound on the share of inactive molecules
# ------------------------------------------
# `predict_top` uses conformal selection, which chooses samples from one batch. `predict` keeps the
# same limit with one threshold for all batches.

plate = BudgetClassifier(model, constraint="fdr", budget=0.2).fit(X_tested, active)
chosen = plate.predict_top(X_library)
print(f"{len(chosen)} molecules selected, {1 - hit[chosen].mean():.1%} of them inactive")
print(f"{plate.predict(X_library).sum()} molecules are above the threshold of predict")

# %%
# A bound on the number of hits
# -----------------------------
# A plate has 96 wells, one per molecule. The bounds are known before the test, and hold for all
# numbers of plates simultaneously.

sizes = np.arange(96, 10 * 96, 96)
low, high = plate.hits_interval(X_library, sizes)
hits = np.cumsum(hit[plate.predict_top(X_library, sizes[-1])])[sizes - 1]
for n_plates, bounds in enumerate(zip(low, high, hits, strict=True), start=1):
    print("{} plates: {} to {} hits guaranteed, {} found".format(n_plates, *bounds))

figure, ax = plt.subplots(figsize=(6.5, 4), layout="constrained")
ax.fill_between(sizes, low, high, alpha=0.25, label="guaranteed, 95 %")
ax.plot(sizes, hits, "o-", label="found")
ax.axvline(len(chosen), color="0.4", linestyle=":", label="at most 20 % inactive")
ax.set(xlabel="Molecules tested, best first", ylabel="Hits", ylim=0)
ax.legend(loc="lower right")
plt.show()

# %%
# Many batches
# ------------
# The limit of 20 % holds for the mean over many batches, each with its own calibration samples. A
# single batch may have more inactive molecules.

shares = []
for _ in range(40):
    plate.fit(*molecules(600))
    X_new, hit_new = molecules(500)
    chosen_new = plate.predict_top(X_new)
    shares.append(1 - hit_new[chosen_new].mean() if len(chosen_new) else 0.0)
error = np.std(shares, ddof=1) / len(shares) ** 0.5
print(f"Mean share of inactive molecules: {np.mean(shares):.3f}, standard error {error:.3f}")

figure, ax = plt.subplots(figsize=(6.5, 4), layout="constrained")
ax.hist(shares, bins=12)
ax.axvline(np.mean(shares), color="C1", label="mean of 40 batches")
ax.axvline(0.2, color="k", linestyle="--", label="limit of the mean")
ax.set(xlabel="Share of inactive molecules in the selection", ylabel="Batches")
ax.legend()
plt.show()

# %%
# Sets of two classes
# -------------------
# `SetClassifier` decides each molecule separately: inactive, active, both or none. With
# ``conditional="class"``, the sets contain the true label of nine in ten active molecules *and* of
# nine in ten inactive molecules. Without this option, fewer of the rare active ones are covered.

for conditional in (None, "class"):
    sets = SetClassifier(model, method="lac", coverage=0.9, conditional=conditional)
    y_set = sets.fit(X_tested, active).predict_set(X_library)
    covered = y_set[np.arange(len(hit)), hit]
    print(
        f"conditional={conditional!r}: sets contain the true label of "
        f"{covered[hit == 1].mean():.0%} of the active molecules and "
        f"{covered[hit == 0].mean():.0%} of the inactive ones; "
        f"{np.mean(y_set.all(axis=1)):.0%} of the sets contain both labels"
    )
