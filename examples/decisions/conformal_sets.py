"""
Label sets with a coverage guarantee
====================================

Three labels are too many for a clear digit and too few for an unclear one. Conformal
sets are large enough to contain the true label of 90 % of the samples, for any classifier. The
methods differ in which samples get more labels.

Result: the sets of the method "lac" contain the true label of more than 90 % of the samples, with
1.4 labels on average.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from sktopk import SetClassifier, TopKClassifier, make_pipeline
from sktopk.metrics import SetSizeDisplay, set_coverage_score, set_size_score

warnings.simplefilter("ignore", ConvergenceWarning)

# %%
# Train, calibrate, test
# ----------------------
# Calibration samples must be new to the classifier. ``FrozenEstimator`` keeps the fitted
# classifier.

digits = load_digits()
X, X_rest, y, y_rest, _, images = train_test_split(
    digits.data, digits.target, digits.images, test_size=0.6, stratify=digits.target, random_state=0
)
half = len(X_rest) // 2
X_cal, y_cal, X_test, y_test, images = (
    X_rest[:half],
    y_rest[:half],
    X_rest[half:],
    y_rest[half:],
    images[half:],
)
clf = TopKClassifier("cross_entropy", k=3, hidden_layer_sizes=(), n_estimators=1, random_state=0)
model = make_pipeline(StandardScaler(), PCA(5, random_state=0), clf).fit(X, y)

# %%
# Five kinds of sets
# ------------------
# "topk" predicts three labels for each sample. The other four methods guarantee a coverage of at
# least 90 %.

methods = {
    "topk": {"method": "topk", "k": 3},
    "lac": {"method": "lac"},
    "aps": {"method": "aps"},
    "raps": {"method": "raps", "k": 2},
    "pas": {"method": "pas"},
}
sets = {}
for name, params in methods.items():
    sets[name] = SetClassifier(FrozenEstimator(model), coverage=0.9, random_state=0, **params)
    y_set = sets[name].fit(X_cal, y_cal).predict_set(X_test)
    coverage = set_coverage_score(y_test, y_set, labels=model.classes_)
    worst = min(
        set_coverage_score(y_test[y_test == c], y_set[y_test == c], labels=model.classes_)
        for c in model.classes_
    )
    print(
        f"{name:5s} coverage {coverage:.3f}   coverage of the worst digit {worst:.3f}   "
        f"labels per set {set_size_score(y_set):.2f}"
    )

# %%
# Sizes
# -----
# A bar is the share of samples whose set has this size, and a dot is the coverage of these sets.
# "lac" has the smallest sets on average. "aps" gives hard samples more labels, and covers more than
# 90 %. With ``randomized=True``, it drops some labels at random and covers about 90 %.

for name in ("lac", "aps"):
    figure, ax = plt.subplots(figsize=(6, 3.8), layout="constrained")
    SetSizeDisplay.from_estimator(sets[name], X_test, y_test, name=name, ax=ax)
plt.show()

# %%
# Some digits and their sets
# --------------------------

labels = sets["lac"].predict_set(X_test, output="labels")
sizes = np.array([len(each) for each in labels])
shown = [np.flatnonzero(sizes == size)[i] for size in (1, 2, 3) for i in range(3)]
figure, axes = plt.subplots(1, 9, figsize=(11, 1.8), layout="constrained")
for ax, row in zip(axes, shown, strict=True):
    ax.imshow(images[row], cmap="gray_r")
    ax.set_title(", ".join(map(str, labels[row])), fontsize=10)
    ax.axis("off")
plt.show()
