"""
The threshold during training
=============================

DeepTopPush moves positives above the highest of all negatives. A minibatch has a few dozen
negatives, whose highest score is far lower. One hard example kept from earlier minibatches is
enough to follow the true threshold. It is the delayed sample of *DeepTopPush: Simple and Scalable
Method for Accuracy at the Top* (Adam, Mácha, Šmídl, 2020), figure 3.

Result: one hard example reduces the error of the threshold by a factor of about twenty. The ranking
of new samples does not become better.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning

from sktopk import DeepTopPushClassifier
from sktopk.callbacks import TrueThreshold
from sktopk.metrics import positives_at_top_score
from sktopk.modules import MLP

warnings.simplefilter("ignore", ConvergenceWarning)

X, y = make_classification(
    6000, n_features=20, n_informative=8, weights=[0.95], class_sep=1.5, random_state=0
)
X = X.astype("float32")
X, X_test, y, y_test = X[:3000], X[3000:], y[:3000], y[3000:]

# %%
# Without and with hard examples
# ------------------------------
# ``TrueThreshold`` scores all samples before each step. This is slow and only meant for such
# figures. One plain network is trained with this loss only, as in the paper.

models = {}
for buffer_size in (0, 1, 8):
    clf = DeepTopPushClassifier(
        buffer_size=buffer_size,
        log_loss_share=0,
        n_estimators=1,
        module=MLP,
        hidden_layer_sizes=(20,),
        batch_size=32,
        max_epochs=8,
        callbacks=[TrueThreshold()],
        random_state=0,
    ).fit(X, y)
    models[buffer_size] = clf
    last = clf.history_[-1]
    error = np.abs(last["threshold"] - last["true_threshold"]).mean()
    found = positives_at_top_score(y_test, clf.decision_function(X_test), k=3)
    print(
        f"buffer_size={buffer_size}: off by {error:.2f} in the last epoch; "
        f"{found:.0%} of new positives above the third negative"
    )

# %%
# Two epochs
# ----------
# The dashed line is the true threshold. Without hard examples the estimate varies and is far too
# low. With one example from earlier minibatches, it follows the true threshold.

for buffer_size in (0, 1):
    epochs = models[buffer_size].history_[-2:]
    figure, ax = plt.subplots(figsize=(7, 3.2), layout="constrained")
    ax.plot(np.concatenate([row["threshold"] for row in epochs]), label="minibatch")
    ax.plot(np.concatenate([row["true_threshold"] for row in epochs]), "k--", label="true")
    ax.set(xlabel="Training step", ylabel="Threshold", title=f"buffer_size={buffer_size}")
    ax.legend()
plt.show()
