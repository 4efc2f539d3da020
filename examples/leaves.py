"""
Five species for a leaf
=======================

An app shows five species for the photo of a leaf, and the user picks one of them. Many species have
only a few photos, but all species are equally important. The score is therefore macro top-5
accuracy: the share of photos whose species is among the five, averaged over species.

Result: the two losses that use the class frequencies have the highest macro top-5 accuracy. Sets
with fewer than four species on average contain the right species of nine in ten leaves.

The leaves are generated: 60 species in 12 genera. Species of a genus look alike, and each species
has leaves of two shapes.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sktopk import SetClassifier, TopKClassifier
from sktopk.datasets import make_long_tail
from sktopk.metrics import (
    SetSizeDisplay,
    TopKCurveDisplay,
    set_coverage_score,
    set_size_score,
    topk_accuracy_score,
)

# %%
# Leaves
# ------
# Each species has 3 to 70 photos for training.

rng = np.random.default_rng(0)
genus = rng.normal(size=(12, 20))
# The names are in random order, so that the rare species are not the last ones of the alphabet.
names = np.array([f"Genus{i % 12} species{i // 12}" for i in rng.permutation(60)])
shapes = genus[np.arange(60) % 12] + 1.2 * rng.normal(size=(2, 60, 20))
species = np.repeat(np.arange(60), 100)
X = shapes[rng.integers(2, size=len(species)), species] + 1.5 * rng.normal(size=(len(species), 20))
part = np.tile(np.repeat(["train", "calibration", "test"], [70, 10, 20]), 60)
X_train, y_train = make_long_tail(
    X[part == "train"], species[part == "train"], factor=23, random_state=0
)
y_train, species = names[y_train], names[species]
X_test, y_test = X[part == "test"], species[part == "test"]
counts = np.unique(y_train, return_counts=True)[1]
print(f"{len(y_train)} training photos, {counts.min()} to {counts.max()} of each species")

# %%
# Which model?
# ------------
# The first two losses correct for the frequencies of the species. For the other models, divide the
# probability of a species by its number of training photos. For extra trees, divide by the square
# root of this number.

models = {
    "smooth_topk_adjusted": (TopKClassifier("smooth_topk_adjusted", random_state=0), 0),
    "logit_adjusted": (TopKClassifier("logit_adjusted", random_state=0), 0),
    "cross_entropy, divided": (TopKClassifier("cross_entropy", random_state=0), 1),
    "logistic regression, divided": (
        make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000)),
        1,
    ),
    "extra trees, divided": (ExtraTreesClassifier(300, random_state=0), 0.5),
}
figure, ax = plt.subplots(figsize=(6.5, 4), layout="constrained")
for name, (model, power) in models.items():
    y_score = model.fit(X_train, y_train).predict_proba(X_test) / counts**power
    options = {"labels": model.classes_, "average": "macro"}
    first, fifth = (topk_accuracy_score(y_test, y_score, k=k, **options) for k in (1, 5))
    print(f"{name:30s} macro top-1 {first:.3f}   macro top-5 {fifth:.3f}")
    TopKCurveDisplay.from_predictions(
        y_test, y_score, **options, name=name, max_k=8, plot_chance_level=False, ax=ax
    )
plt.show()

# %%
# The true species of three leaves, and the five predicted species, best first:

chosen, _ = models["smooth_topk_adjusted"]
for truth, guess in zip(y_test[::400], chosen.predict_topk(X_test[::400]), strict=True):
    print(f"{truth}: {', '.join(guess)}")

# %%
# Sets of variable size
# ---------------------
# A set has one species for a clear leaf and several species for an unclear leaf. The sets are
# calibrated on photos that were not used for training, so that nine in ten sets contain the right
# species.

sets = SetClassifier(FrozenEstimator(chosen), method="lac", coverage=0.9)
sets.fit(X[part == "calibration"], species[part == "calibration"])
y_set = sets.predict_set(X_test)
coverage = set_coverage_score(y_test, y_set, labels=sets.classes_)
print(
    f"Sets with {set_size_score(y_set):.1f} species on average contain the right species of "
    f"{coverage:.0%} of the leaves"
)
figure, ax = plt.subplots(figsize=(6.5, 4), layout="constrained")
SetSizeDisplay.from_estimator(sets, X_test, y_test, ax=ax)
plt.show()
