"""
Your own network on images
==========================

`module` is a torch module class, or a function that returns a module. The estimator takes care of
minibatches, device and prediction. Two estimators train the same small convolutional network on
digits of 8 x 8 pixels: one predicts three labels for each image, the other ranks the images of an
eight above all others.

Result: the first label is right for more than 99 % of the images. Most eights rank above every
other digit.
"""

import warnings

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from skorch.callbacks import LRScheduler
from torch import nn
from torch.optim.lr_scheduler import OneCycleLR

from sktopk import DeepTopPushClassifier, TopKClassifier
from sktopk.metrics import positives_at_top_score, topk_accuracy_score

warnings.simplefilter("ignore", ConvergenceWarning)
X, y = load_digits(return_X_y=True)
X = (X.reshape(-1, 1, 8, 8) / 16).astype("float32")
X, X_test, y, y_test = train_test_split(X, y, test_size=0.4, stratify=y, random_state=0)


# %%
# The network
# -----------
# Images have the shape (n_samples, n_channels, height, width). The estimator passes the number of
# channels and the number of scores to the module. All other arguments of the module are parameters
# of the estimator, such as ``module__width``. A search can include these parameters.


class SmallConvNet(nn.Sequential):
    """Two convolutions and a linear layer."""

    def __init__(self, n_channels, n_outputs, width=16):
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
# Learning-rate schedule and precision
# ------------------------------------
# A scheduler of skorch replaces the learning-rate schedule of the estimator. The precision "bf16"
# computes the network in 16 bits, which saves time on a GPU. Loss and weights keep 32 bits.

EPOCHS, BATCH = 12, 64
schedule = LRScheduler(
    OneCycleLR, max_lr=0.01, total_steps=EPOCHS * -(-len(X) // BATCH), step_every="batch"
)
shared = dict(
    module=SmallConvNet, n_estimators=1, calibration=None, learning_rate=0.01, batch_size=BATCH,
    max_epochs=EPOCHS, callbacks=[schedule], net_params={"precision": "bf16"}, random_state=0,
)  # fmt: skip
models = {loss: TopKClassifier(loss, k=3, **shared) for loss in ("smooth_topk", "noised_topk")}
for name, clf in models.items():
    scores = clf.fit(X, y).decision_function(X_test)
    first, third = (topk_accuracy_score(y_test, scores, k=k) for k in (1, 3))
    print(f"{name}: top-1 {first:.3f}, top-3 {third:.3f}")

# Rank eights above all other digits, without cross-entropy, as in the paper on DeepTopPush.
ranker = DeepTopPushClassifier(log_loss_share=0, **shared).fit(X, y == 8)
found = positives_at_top_score(y_test == 8, ranker.decision_function(X_test))
print(f"DeepTopPush: {found:.0%} of the eights are above every other digit")

# %%
# The training
# ------------
# `history_` has the training loss of each epoch. The losses have different scales.

figure, ax = plt.subplots(figsize=(6.5, 3.8), layout="constrained")
for name, clf in {**models, "DeepTopPush": ranker}.items():
    ax.plot([row["train_loss"] for row in clf.history_], "o-", label=name)
ax.set(xlabel="Epoch", ylabel="Training loss", yscale="log")
ax.legend()
plt.show()

# %%
# Three labels for each image
# ---------------------------

guesses = models["smooth_topk"].predict_topk(X_test[:5])
for label, guess in zip(y_test[:5], guesses, strict=True):
    print(f"{label}: {guess.tolist()}")
