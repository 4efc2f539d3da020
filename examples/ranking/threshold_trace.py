"""
The threshold during training
=============================

DeepTopPush moves positives above a threshold: the highest score of all negatives. A minibatch has a
few dozen negatives, whose highest score is far lower. One hard example that is kept from earlier
minibatches is enough to follow the true threshold. It is the "delayed sample" in figure 3 of
*DeepTopPush: Simple and Scalable Method for Accuracy at the Top* (Adam, Mácha, Šmídl, 2020).

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
# ``buffer_size`` is the number of hard examples. The callback ``TrueThreshold`` scores all samples
# before each step, which is slow and only meant for such figures. As in the paper, the model is one
# network that is trained without cross-entropy.

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
        f"buffer_size={buffer_size}: mean error of the threshold in the last epoch {error:.2f}; "
        f"{found:.0%} of the new positives are above the third negative"
    )

# %%
# Two epochs
# ----------
# The dashed line is the true threshold, the solid line the estimate in a minibatch. Without hard
# examples the estimate varies and is far too low. With one hard example, the estimate follows the
# true threshold.

for buffer_size in (0, 1):
    epochs = models[buffer_size].history_[-2:]
    figure, ax = plt.subplots(figsize=(7, 3.2), layout="constrained")
    ax.plot(np.concatenate([row["threshold"] for row in epochs]), label="minibatch")
    ax.plot(np.concatenate([row["true_threshold"] for row in epochs]), "k--", label="true")
    ax.set(xlabel="Training step", ylabel="Threshold", title=f"buffer_size={buffer_size}")
    ax.legend()
plt.show()
