"""
Digits with confusable labels
=============================

Wrong labels are often similar to the right ones: an annotator takes a 3 for an 8, never for a 1.
Here each label is replaced with probability p by a random digit of its group. Training can recover
the group of a digit even at p = 1, but not the digit. The score is therefore top-5 accuracy, with
groups of five digits.

The protocol is that of section 5.1 of *Smooth Loss Functions for Deep Top-k Classification*
(Berrada, Zisserman, Kumar, 2018) on small data.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from sktopk import TopKClassifier
from sktopk.datasets import inject_label_noise
from sktopk.metrics import topk_accuracy_score
from sktopk.modules import MLP

warnings.simplefilter("ignore", ConvergenceWarning)

# %%
# Two groups of five
# ------------------
# The test labels are not changed.

X, y = load_digits(return_X_y=True)
X = StandardScaler().fit_transform(X).astype("float32")
X, X_test, y, y_test = train_test_split(X, y, test_size=0.5, stratify=y, random_state=0)
group = {digit: digit // 5 for digit in range(10)}
for p in (0.0, 0.4, 0.8, 1.0):
    noisy = inject_label_noise(y, group, p, random_state=0)
    print(f"p = {p:.1f}: {np.mean(noisy == y):.0%} of the labels are right")

# %%
# Two losses
# ----------
# The same plain network (``module=MLP``) is trained with cross-entropy and with the smooth loss at
# k = 5, the size of a group.

NOISE = (0.0, 0.4, 0.8, 1.0)
LOSSES = {
    "cross_entropy": {"loss": "cross_entropy"},
    "smooth_topk, k = 5": {"loss": "smooth_topk", "k": 5},
}
accuracy = {name: [] for name in LOSSES}
for name, params in LOSSES.items():
    for p in NOISE:
        noisy = inject_label_noise(y, group, p, random_state=0)
        clf = TopKClassifier(module=MLP, n_estimators=1, **params, random_state=0).fit(X, noisy)
        y_score = clf.decision_function(X_test)
        accuracy[name].append([topk_accuracy_score(y_test, y_score, k=k) for k in (1, 5)])
    for p, (first, fifth) in zip(NOISE, accuracy[name], strict=True):
        print(f"{name:20s} p = {p:.1f}   top-1 {first:.3f}   top-5 {fifth:.3f}")

# %%
# Results
# -------
# A network that learns the redrawn labels digit by digit overfits. The smooth loss needs the
# group only, and has the better top-5 accuracy if labels are redrawn. With all labels right it
# gains nothing. Top-1 predictions come from a second head, which is trained with cross-entropy.

figure, axes = plt.subplots(1, 2, figsize=(9.5, 3.6), layout="constrained")
for i, (ax, k) in enumerate(zip(axes, (1, 5), strict=True)):
    for (name, rows), style in zip(accuracy.items(), ("s--", "o-"), strict=True):
        ax.plot(NOISE, np.array(rows)[:, i], style, label=name)
    ax.set(xlabel="Probability that a label is redrawn", ylabel=f"Top-{k} accuracy, clean labels")
axes[0].legend()
plt.show()
