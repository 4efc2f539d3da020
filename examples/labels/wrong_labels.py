"""
Wrong labels
============

Wrong labels are often similar to the right labels: an annotator takes a 3 for an 8, never for a 1.
Here 60 % of the training labels are replaced by a random digit of the same group of similar digits,
which can be the right digit. A network that trains for a long time memorizes the wrong labels.

Result: `TopKClassifier` keeps the weights of an early epoch, which are far more accurate than the
weights of the last epoch. On these data, `SVC` has an even higher top-1 accuracy.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.ensemble import ExtraTreesClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from sktopk import TopKClassifier
from sktopk.datasets import inject_label_noise
from sktopk.metrics import topk_accuracy_score

# %%
# Groups of similar digits
# ------------------------
# Training labels are replaced within three groups. The test labels are not changed.

X, y = load_digits(return_X_y=True)
X, X_test, y, y_test = train_test_split(X, y, test_size=0.5, stratify=y, random_state=0)
similar = {0: 0, 6: 0, 9: 0, 1: 1, 4: 1, 7: 1, 2: 2, 3: 2, 5: 2, 8: 2}
noisy = inject_label_noise(y, similar, 0.6, random_state=0)
print(f"{np.mean(noisy == y):.0%} of the training labels are right")

# %%
# The epoch that is kept
# ----------------------
# Each network holds out an eighth of the samples. `history_` has their score after each epoch: the
# mean of top-1 and top-3 accuracy. `fit` keeps the best epoch if it is clearly better than the last
# one. With ``calibration=None``, `fit` holds out no samples and keeps the last epoch.

clf = TopKClassifier(k=3, random_state=0).fit(X, noisy)
models = {
    "TopKClassifier": clf,
    "TopKClassifier, last epoch": TopKClassifier(k=3, calibration=None, random_state=0),
    "SVC": make_pipeline(StandardScaler(), SVC()),
    "logistic regression": make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000)),
    "extra trees": ExtraTreesClassifier(300, random_state=0),
}
print(f"Epoch {clf.kept_epoch_} of {clf.n_iter_} is kept")
for name, model in models.items():
    model.fit(X, noisy)
    scores = getattr(model, "decision_function", None) or model.predict_proba
    first, third = (topk_accuracy_score(y_test, scores(X_test), k=k) for k in (1, 3))
    print(f"{name:28s} top-1 {first:.3f}   top-3 {third:.3f}")

# %%
# The held-out samples have wrong labels, too, so their score is low. The score still shows when the
# networks begin to memorize wrong labels.

figure, ax = plt.subplots(figsize=(6.5, 3.8), layout="constrained")
epochs = np.arange(1, clf.n_iter_ + 1)
ax.plot(epochs, [row["valid_score"] for row in clf.history_], "o-", markersize=3)
ax.axvline(clf.kept_epoch_, color="C1", linestyle="--", label="kept epoch")
ax.set(xlabel="Epoch", ylabel="Score of held-out samples, wrong labels")
ax.legend()
plt.show()
