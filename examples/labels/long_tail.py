"""
A long tail
===========

The most frequent class has many more samples than the rarest one, and all classes count the
same. Cross-entropy favours frequent classes. Losses for imbalance correct this by weights, by the
class frequencies or by larger margins for rare classes.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from sktopk import TopKClassifier
from sktopk.datasets import make_long_tail
from sktopk.metrics import ShotAccuracyDisplay, topk_accuracy_score
from sktopk.modules import MLP

warnings.simplefilter("ignore", ConvergenceWarning)

# %%
# Digits with a long tail
# -----------------------
# The test samples are balanced, so micro and macro averages are equal.

X, y = load_digits(return_X_y=True)
X = StandardScaler().fit_transform(X).astype("float32")
X, X_test, y, y_test = train_test_split(X, y, test_size=0.3, stratify=y, random_state=0)
X, y = make_long_tail(X, y, factor=60, random_state=0)
counts = np.bincount(y)
print(f"Samples of each digit: {counts.tolist()}")

# %%
# Five losses
# -----------
# All losses train one plain network (``module=MLP``) from the start. The last two losses are made
# for cosines as scores: ``module__normalize=True``.

shared = dict(k=2, pretrain=0, order=None, module=MLP, n_estimators=1, random_state=0)
cosines = shared | {"net_params": {"module__normalize": True}}
models = {
    "cross_entropy": TopKClassifier("cross_entropy", **shared),
    "with weights": TopKClassifier("cross_entropy", class_weight="balanced", **shared),
    "logit_adjusted": TopKClassifier("logit_adjusted", **shared),
    "ldam": TopKClassifier("ldam", **cosines),
    "noised_topk_imbalanced": TopKClassifier("noised_topk_imbalanced", sigma=0.1, **cosines),
}
macro = {}
for name, clf in models.items():
    y_score = clf.fit(X, y).decision_function(X_test)
    macro[name] = [topk_accuracy_score(y_test, y_score, k=k, average="macro") for k in (1, 2)]
    print(f"{name:24s} macro top-1 {macro[name][0]:.3f}   top-2 {macro[name][1]:.3f}")

# %%
# Frequent and rare digits
# ------------------------
# Frequent digits have more than 40 training samples here, rare ones fewer than 10. The class
# frequencies in the loss have the best top-1 accuracy on these data, LDAM the best top-2 accuracy.
# Weights improve neither. Try the simplest loss first.

figure, (shot_ax, gain_ax) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
for name in ("cross_entropy", "logit_adjusted", "noised_topk_imbalanced"):
    ShotAccuracyDisplay.from_estimator(
        models[name], X_test, y_test, k=1, few=10, many=40, name=name, ax=shot_ax
    )
names = list(models)[1:]
for offset, (i, k) in zip((-0.2, 0.2), enumerate((1, 2)), strict=True):
    gain = [100 * (macro[name][i] - macro["cross_entropy"][i]) for name in names]
    gain_ax.barh(np.arange(len(names)) + offset, gain, height=0.35, label=f"top-{k}")
gain_ax.set_yticks(range(len(names)), names)
gain_ax.axvline(0, color="0.4", linewidth=1)
gain_ax.set_xlabel("Points of macro accuracy more than cross_entropy")
gain_ax.legend()
plt.show()
