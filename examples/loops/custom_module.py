"""
Your own network on images
==========================

``module`` is a torch module class, or a function that returns a module. The estimator passes the
number of channels and of classes. It takes care of minibatches, device, early stopping and
prediction.
"""

# sphinx_gallery_thumbnail_number = 2

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from torch import nn

from sktopk import TopKClassifier
from sktopk.metrics import TopKCurveDisplay, make_topk_scorer

warnings.simplefilter("ignore", ConvergenceWarning)

# %%
# Images
# ------
# Images have the shape (n_samples, n_channels, height, width). Noise makes the problem hard enough
# to show a difference.

X, y = load_digits(return_X_y=True)
rng = np.random.default_rng(0)
X = (X.reshape(-1, 1, 8, 8) / 16 + rng.normal(scale=0.6, size=(len(X), 1, 8, 8))).astype("float32")
X, X_test, y, y_test = train_test_split(X, y, test_size=0.4, stratify=y, random_state=0)

# %%
# A network
# ---------


class SmallConvNet(nn.Sequential):
    """Two convolutions and a linear layer."""

    def __init__(self, n_channels, n_outputs, width=12):
        super().__init__(
            nn.Conv2d(n_channels, width, 3, padding=1),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(width, 2 * width, 3, padding=1),
            nn.BatchNorm2d(2 * width),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(2),
            nn.Flatten(),
            nn.Linear(8 * width, n_outputs),
        )


# %%
# Arguments of the module are parameters of the estimator, such as ``module__width``. A search can
# include them.

models = {}
for loss in ("smooth_topk", "cross_entropy"):
    clf = TopKClassifier(
        loss,
        k=3,
        module=SmallConvNet,
        net_params={"module__width": 8},
        n_estimators=1,
        n_iter_no_change=8,
        max_epochs=25,
        random_state=0,
    ).fit(X, y)
    models[loss] = clf
    accuracy = make_topk_scorer(3)(clf, X_test, y_test)
    print(f"{loss:14s} {clf.n_iter_} epochs, top-3 accuracy {accuracy:.3f}")
n_weights = sum(p.numel() for p in clf.net_.module_.parameters())
print(f"{n_weights} weights")

# %%

figure, ax = plt.subplots(figsize=(6.5, 4), layout="constrained")
for name, clf in models.items():
    y_score = clf.decision_function(X_test)
    TopKCurveDisplay.from_predictions(y_test, y_score, name=name, max_k=6, ax=ax)
plt.show()

# %%
# Three labels for each image
# ---------------------------

clf = models["smooth_topk"]
guesses = clf.predict_topk(X_test[:8])
figure, axes = plt.subplots(1, 8, figsize=(11, 1.9), layout="constrained")
for ax, image, guess, label in zip(axes, X_test, guesses, y_test, strict=False):
    ax.imshow(image[0], cmap="gray_r")
    found = label in guess
    ax.set_title(f"{label}: {' '.join(map(str, guess))}", color="C0" if found else "C3", fontsize=9)
    ax.axis("off")
plt.show()
