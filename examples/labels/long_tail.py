"""
A long tail
===========

The most frequent class has many more samples than the rarest one, but all classes are equally
important. Cross-entropy favours frequent classes. Losses for a long tail correct this by the class
frequencies or by larger margins for rare classes.

Result: the accuracy of the two losses that use the class frequencies is six to nine points higher
than with cross-entropy, because they recognize rare digits more often. Balanced logistic regression
is more accurate than cross-entropy, but less accurate than these two losses.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from sktopk import TopKClassifier
from sktopk.datasets import make_long_tail
from sktopk.metrics import ShotAccuracyDisplay, topk_accuracy_score

# %%
# Digits with a long tail
# -----------------------
# The test samples are balanced, so that the accuracy is the mean over classes.

X, y = load_digits(return_X_y=True)
X, X_test, y, y_test = train_test_split(X, y, test_size=0.3, stratify=y, random_state=0)
X, y = make_long_tail(X, y, factor=60, random_state=0)
print(f"Samples of each digit: {np.bincount(y).tolist()}")

# %%
# Losses and baselines
# --------------------
# `"ldam"` and `"noised_topk_imbalanced"` use margins. With these losses, the scores of the default
# network are cosines.

shared = dict(k=2, random_state=0)
models = {
    "cross_entropy": TopKClassifier("cross_entropy", **shared),
    "cross_entropy, balanced": TopKClassifier("cross_entropy", class_weight="balanced", **shared),
    "logit_adjusted": TopKClassifier("logit_adjusted", **shared),
    "smooth_topk_adjusted": TopKClassifier("smooth_topk_adjusted", **shared),
    "ldam": TopKClassifier("ldam", **shared),
    "noised_topk_imbalanced": TopKClassifier("noised_topk_imbalanced", **shared),
    "logistic regression, balanced": make_pipeline(
        StandardScaler(), LogisticRegression(class_weight="balanced", max_iter=2000)
    ),
    "SVC, balanced": make_pipeline(StandardScaler(), SVC(class_weight="balanced")),
}
for name, model in models.items():
    y_score = model.fit(X, y).decision_function(X_test)
    first, second = (topk_accuracy_score(y_test, y_score, k=k) for k in (1, 2))
    print(f"{name:30s} top-1 {first:.3f}   top-2 {second:.3f}")

# %%
# Frequent and rare digits
# ------------------------
# In this figure, frequent digits have more than 40 training samples, rare digits fewer than 10.

figure, ax = plt.subplots(figsize=(6.5, 4), layout="constrained")
for name in ("cross_entropy", "logit_adjusted", "smooth_topk_adjusted"):
    ShotAccuracyDisplay.from_estimator(
        models[name], X_test, y_test, k=1, few=10, many=40, name=name, ax=ax
    )
plt.show()
