"""
Five species for a leaf
=======================

An app shows five species for the photo of a leaf, and the user picks one. Many species have only
three photos, and all species count the same. The score is therefore macro top-5 accuracy: the mean
over species of the share of photos whose species is among the five.

The example uses the 100-species leaves data if it finds ``leaves100/data_Sha_64.txt`` in the folder
that SKTOPK_DATA names. Otherwise it generates leaves.
"""

# sphinx_gallery_thumbnail_number = 2

import os
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV, RepeatedStratifiedKFold
from sklearn.preprocessing import StandardScaler

from sktopk import Pipeline, SetClassifier, TopKClassifier
from sktopk.metrics import (
    LossComparisonDisplay,
    SetSizeDisplay,
    ShotAccuracyDisplay,
    TopKCurveDisplay,
    make_topk_scorer,
    set_coverage_score,
    set_size_score,
)
from sktopk.modules import MLP

warnings.simplefilter("ignore", ConvergenceWarning)

# %%
# Leaves
# ------
# The data have a long tail: the k-th species has fewer training photos than the one before.


def load():
    """Return features and species, 16 rows or more of each species."""
    path = Path(os.environ.get("SKTOPK_DATA", "")) / "leaves100" / "data_Sha_64.txt"
    if path.is_file():
        rows = [line.split(",") for line in path.read_text().splitlines()]
        return np.array([row[1:] for row in rows], float), np.array([row[0] for row in rows])
    # Species of a genus look alike.
    rng = np.random.default_rng(0)
    genus = rng.normal(size=(12, 20))
    names = np.array([f"Genus{i % 12} species{i // 12}" for i in range(60)])
    typical = genus[np.arange(60) % 12] + 0.6 * rng.normal(size=(60, 20))
    species = np.repeat(np.arange(60), 60)
    return typical[species] + 1.5 * rng.normal(size=(len(species), 20)), names[species]


X, species = load()
names = np.unique(species)
rng = np.random.default_rng(1)
train, calibration, test = [], [], []
rare = np.linspace(0, 1, len(names))
for name, share in zip(rng.permutation(names), rare, strict=True):
    rows = rng.permutation(np.flatnonzero(species == name))
    test += list(rows[: len(rows) // 4])
    calibration += list(rows[len(rows) // 4 : 3 * len(rows) // 8])
    rest = rows[3 * len(rows) // 8 :]
    # From all of them down to three.
    train += list(rest[: round(len(rest) ** (1 - share) * 3**share)])
print(f"{len(names)} species, {len(train)} photos to learn from")

# %%
# Which loss?
# -----------
# Four losses train the same linear model. They correct for rare species by sample weights, by the
# class priors or by larger margins. Differences are computed fold by fold. If the interval of a
# difference contains zero, take the simplest loss.

METRIC = "macro top-5 accuracy"
shared = dict(k=5, hidden_layer_sizes=(), module=MLP, n_estimators=1, random_state=0)
grid = [
    {"clf__loss": ["cross_entropy", "smooth_topk"], "clf__class_weight": ["balanced"]},
    {"clf__loss": ["logit_adjusted"]},
    {"clf__loss": ["noised_topk_imbalanced"], "clf__net_params": [{"module__normalize": True}]},
]
search = GridSearchCV(
    Pipeline([("scale", StandardScaler()), ("clf", TopKClassifier(**shared))]),
    grid,
    scoring={METRIC: make_topk_scorer(5, average="macro")},
    refit=METRIC,
    cv=RepeatedStratifiedKFold(n_splits=3, n_repeats=2, random_state=0),
).fit(X[train], species[train])

figure, ax = plt.subplots(figsize=(8, 2.6), layout="constrained")
comparison = LossComparisonDisplay.from_cv_results(
    search.cv_results_,
    param="param_clf__loss",
    metric=METRIC,
    overlap=1 / 5,  # of two repetitions of three folds
    ax=ax,
)
for loss, text in zip(comparison.names, comparison.texts_, strict=True):
    print(f"{loss:24s}{text.get_text()}")
best = search.best_estimator_
print(f"Taken: {search.best_params_['clf__loss']}")
plt.show()

# %%
# Five names for each of three leaves, best first:

some = test[:: len(test) // 3][:3]
guesses = best.predict_topk(X[some])
for guess, truth in zip(guesses, species[some], strict=True):
    print(f"{truth}: {', '.join(guess)}")

# %%
# The accuracy of rare and frequent species, compared with cross-entropy:

plain = Pipeline([("scale", StandardScaler()), ("clf", TopKClassifier("cross_entropy", **shared))])
plain.fit(X[train], species[train])
counts = plain["clf"].class_count_
few, many = np.quantile(counts, [1 / 3, 2 / 3]).round()
models = {"plain cross_entropy": plain, "best of the search": best}
figure, (curve_ax, shot_ax) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
for name, model in models.items():
    options = {"k": 5, "few": few, "many": many, "class_counts": counts, "name": name}
    ShotAccuracyDisplay.from_estimator(model, X[test], species[test], ax=shot_ax, **options)
    TopKCurveDisplay.from_estimator(
        model, X[test], species[test], average="macro", name=name, ax=curve_ax
    )
curve_ax.set_ylabel("Macro top-k accuracy")
plt.show()

# %%
# Sets of variable size
# ---------------------
# A set has one species for a clear leaf and several for an unclear one. The sets are calibrated on
# photos that did not train the model, so that nine in ten sets contain the right species.

sets = SetClassifier(FrozenEstimator(best), method="pas", coverage=0.9, prevalence=counts)
sets.fit(X[calibration], species[calibration])
y_set = sets.predict_set(X[test])
coverage = set_coverage_score(species[test], y_set, labels=sets.classes_)
size = set_size_score(y_set)
print(f"Sets of {size:.1f} names on average hold the species of {coverage:.0%} of the leaves")
SetSizeDisplay.from_estimator(sets, X[test], species[test])
plt.show()
