"""
A guarantee about the plate that is ordered
===========================================

A chemist has 3,000 molecules with scores, and money to test some. *At most a fifth of the plate
inactive* is a guarantee about the selected samples, not about a threshold. *At least so many hits
among the best 100* is a guarantee about a number. Both hold for any classifier, after some hundred
molecules were tested. The first also holds for a different library, if the difference can be
learned.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from sktopk import BudgetClassifier, SetClassifier

rng = np.random.default_rng(0)


def molecules(n, weight=0.0):
    """Return descriptors, the first of them the weight, and whether a molecule is active."""
    X = rng.normal(size=(n, 6))
    X[:, 0] += weight
    logit = 2 * X[:, 1] - 2 + X[:, 2] * X[:, 3] - 1.5 * X[:, 0]
    return X, (rng.random(n) < expit(logit)).astype(int)


def without_weight(X):
    """Return what the model is shown."""
    return X[:, 1:]


boosting = HistGradientBoostingClassifier(max_depth=3, random_state=0)
model = make_pipeline(FunctionTransformer(without_weight), boosting).fit(*molecules(2000))
model = FrozenEstimator(model)
X_tested, active = molecules(600)
X_library, hit = molecules(3000)

# %%
# A share that is false at most
# -----------------------------
# Conformal selection flags as many of the best samples as the guarantee allows.

plate = BudgetClassifier(model, constraint="fdr", budget=0.2).fit(X_tested, active)
chosen = plate.predict_top(X_library)
print(f"{len(chosen)} molecules on the plate, {1 - hit[chosen].mean():.1%} of them inactive")

# %%
# Hits among a number of samples
# ------------------------------
# A plate has 96 wells. The bounds are known before the test, and hold for several plates at once.

sizes = np.arange(96, 10 * 96, 96)
low, high = plate.hits_interval(X_library, sizes)
hits = np.cumsum(hit[plate.predict_top(X_library, sizes[-1])])[sizes - 1]
for n_plates, bounds in enumerate(zip(low, high, hits, strict=True), start=1):
    print("{} plates: {} to {} hits guaranteed, {} found".format(n_plates, *bounds))

# %%
# Another library
# ---------------
# Heavier molecules are more often inactive, which the model does not know. A library of heavy
# molecules breaks the guarantee. Weights of the calibration samples restore it: a classifier that
# separates the two libraries estimates how likely each sample is in the new one.

shares = {"same library": [], "other library": [], "other library, weighted": []}
for _ in range(40):
    X_cal, y_cal = molecules(600)
    learner = LogisticRegression()
    X_other, y_other = molecules(500, weight=1.0)
    X_same, y_same = molecules(500)
    plain = BudgetClassifier(model, constraint="fdr", budget=0.2)
    plain.fit(X_cal, y_cal)
    weighted = BudgetClassifier(
        model, constraint="fdr", budget=0.2, likelihood_ratio=learner, random_state=0
    )
    weighted.fit(X_cal, y_cal, X_new=X_other)
    for name, desk, rows, labels in [
        ("same library", plain, X_same, y_same),
        ("other library", plain, X_other, y_other),
        ("other library, weighted", weighted, X_other, y_other),
    ]:
        flagged = desk.predict(rows) == 1
        shares[name].append(np.mean(labels[flagged] == 0) if flagged.any() else 0.0)
for name, values in shares.items():
    error = np.std(values, ddof=1) / len(values) ** 0.5
    print(f"{name:28s} {np.mean(values):.3f} inactive on average, +- {error:.3f}")

# %%
# The guarantee is about the mean of many plates: a single plate may have more inactive molecules.
# With weights fewer calibration samples count: plates are smaller, and some are empty.

figure, axes = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
axes[0].fill_between(sizes, low, high, alpha=0.25, label="guaranteed, 95 %")
axes[0].plot(sizes, hits, "o-", label="found")
axes[0].axvline(len(chosen), color="0.4", linestyle=":", label="at most 20 % inactive")
axes[0].set(xlabel="Molecules tested, best first", ylabel="Hits", ylim=0)
axes[0].legend(loc="lower right")
axes[1].boxplot(list(shares.values()))
axes[1].set_xticks([1, 2, 3], ["same\nlibrary", "other\nlibrary", "other library,\nweighted"])
means = [np.mean(values) for values in shares.values()]
axes[1].plot([1, 2, 3], means, "D", label="mean of 40 plates")
axes[1].axhline(0.2, color="k", linestyle="--", label="budget of the mean")
axes[1].set(ylabel="Inactive share of the plate", ylim=0)
axes[1].legend()

# %%
# One of two, both or none
# ------------------------
# Sets decide each molecule on its own: inactive, active, both or none. With
# ``conditional="class"`` the set contains the label of nine in ten actives *and* of nine in ten
# inactives. Without it the rare actives are covered less.

for conditional in (None, "class"):
    sets = SetClassifier(model, method="lac", coverage=0.9, conditional=conditional)
    y_set = sets.fit(X_tested, active).predict_set(X_library).toarray()
    covered = y_set[np.arange(len(hit)), hit]
    print(
        f"conditional={conditional!r}: covered {covered[hit == 1].mean():.0%} of the actives and "
        f"{covered[hit == 0].mean():.0%} of the inactives; both labels in "
        f"{np.mean(y_set.all(axis=1)):.0%} of the sets"
    )
plt.show()
