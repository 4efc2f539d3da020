"""Digits with the three labels that the example of the front page predicts for them."""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from sktopk import TopKClassifier

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.5, random_state=0)
clf = TopKClassifier(k=3, random_state=0).fit(X_train, y_train)
labels = clf.predict_topk(X_test)
proba = clf.predict_proba(X_test)
# The digits whose first label is least certain.
unsure = np.argsort(proba.max(axis=1), kind="stable")[:8]

figure, axes = plt.subplots(2, 8, figsize=(10.5, 3), height_ratios=(3, 2), layout="constrained")
for image_ax, bar_ax, i in zip(*axes, unsure, strict=True):
    image_ax.imshow(X_test[i].reshape(8, 8), cmap="gray_r")
    image_ax.set_title(f"true: {y_test[i]}", fontsize=10)
    image_ax.axis("off")
    colors = ["#b34700" if label == y_test[i] else "#00589c" for label in labels[i]]
    bar_ax.bar(range(3), proba[i, np.searchsorted(clf.classes_, labels[i])], color=colors)
    bar_ax.set(xticks=range(3), xticklabels=labels[i], ylim=(0, 1), yticks=(0, 1))
    bar_ax.label_outer(remove_inner_ticks=True)
    bar_ax.tick_params(labelbottom=True)
axes[1, 0].set_ylabel("probability")
