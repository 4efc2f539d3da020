"""
Classes with two modes
======================

Six classes lie on a circle. A third of each class forms a second mode behind the neighbouring
class. A linear model cannot place a class in two directions, so it loses accuracy. Some losses lose
top-1 accuracy, others top-2 accuracy.

Result: if the modes are 90 degrees apart, the three top-2 losses have a higher top-2 accuracy than
cross-entropy, and a lower top-1 accuracy. This example has one draw of the data. In ten draws, the
mean top-2 accuracy is 0.89 to 0.91 with the top-2 losses and 0.79 with cross-entropy. The mean
top-1 accuracy is 0.29 to 0.31 with the top-2 losses and 0.43 with cross-entropy.

The data are from experiment 2 in *Trade-offs in Top-k Classification Accuracies on Losses for Deep
Learning* (Sawada, Kaneko, Sagi, 2020).
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sktopk import TopKClassifier
from sktopk.metrics import topk_accuracy_score
from sktopk.modules import MLP

warnings.simplefilter("ignore", ConvergenceWarning)

# %%
# The data
# --------

DISTANCES = (30, 45, 60, 75, 90)


def circle_modes(n, distance, seed):
    """Return n points and their classes. Angles have a standard deviation of 10 degrees."""
    rng = np.random.RandomState(seed)
    y = np.repeat(np.arange(6), n // 6)
    angle = 60 * y + distance * (rng.random_sample(n) < 1 / 3) + 10 * rng.standard_normal(n)
    X = np.column_stack([np.cos(np.radians(angle)), np.sin(np.radians(angle))])
    order = rng.permutation(n)
    return X[order], y[order]


data = {d: circle_modes(900, d, seed=6) for d in DISTANCES}
test = {d: circle_modes(3000, d, seed=7) for d in DISTANCES}

# %%
# Four losses, five distances
# ---------------------------
# A linear model fits both modes of a class less well if their distance is larger.

LOSSES = {
    "cross_entropy": {"loss": "cross_entropy"},
    "topk_grouping": {"loss": "topk_grouping"},
    "topk_transition": {"loss": "topk_transition"},
    "smooth_topk": {"loss": "smooth_topk"},
}
shared = dict(
    k=2, log_loss_share=0, hidden_layer_sizes=(), module=MLP, n_estimators=1, random_state=3
)
accuracy = {name: [] for name in LOSSES}
at_90 = {}
for name, params in LOSSES.items():
    for d in DISTANCES:
        clf = TopKClassifier(**shared, **params).fit(*data[d])
        X_test, y_test = test[d]
        y_score = clf.decision_function(X_test)
        accuracy[name].append([topk_accuracy_score(y_test, y_score, k=k) for k in (1, 2)])
    at_90[name] = clf
    first, second = accuracy[name][-1]
    print(f"{name:16s} at 90 degrees: top-1 {first:.3f}   top-2 {second:.3f}")

figure, ax = plt.subplots(figsize=(6.5, 4), layout="constrained")
for (name, rows), style in zip(accuracy.items(), ("s--", "o-", "D-", "^-"), strict=True):
    ax.plot(DISTANCES, np.array(rows)[:, 1], style, label=name)
ax.set(xlabel="Distance between the two modes in degrees", ylabel="Top-2 accuracy")
ax.legend(loc="lower left")
plt.show()

# %%
# Predictions around the circle
# -----------------------------
# The grey histogram shows the angles of one class. Each coloured line shows a model: the class is
# the first prediction where the line is thick, and the second one where it is thin. With the
# grouping loss, the line covers both modes of the class.

CLASS = 2
angle = np.linspace(0, 360, 721)
X_all = np.column_stack([np.cos(np.radians(angle)), np.sin(np.radians(angle))])
X_test, y_test = test[90]
theta = np.degrees(np.arctan2(X_test[:, 1], X_test[:, 0])) % 360

figure, ax = plt.subplots(figsize=(9, 3.4), layout="constrained")
ax.hist(theta[y_test == CLASS], bins=90, range=(0, 360), color="0.8", density=True)
top = ax.get_ylim()[1]
for row, (name, clf) in enumerate(at_90.items()):
    height = top * (1.05 + 0.13 * row)
    guesses = clf.predict_topk(X_all, k=2)
    for shown, width in ((guesses[:, 0] == CLASS, 7), ((guesses == CLASS).any(1), 2)):
        line = np.where(shown, height, np.nan)
        ax.plot(angle, line, color=f"C{row}", linewidth=width, solid_capstyle="butt")
    ax.text(362, height, name, va="center", color=f"C{row}")
ax.set(xlim=(0, 360), xlabel="Angle in degrees", yticks=[], ylabel=f"Frequency of class {CLASS}")
plt.show()
