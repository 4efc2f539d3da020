"""
The temperature of the smooth loss
==================================

``tau`` controls how many classes get a gradient. With a small ``tau`` the smooth top-k loss is
close to a hinge loss, whose gradient reaches two classes. With a large ``tau`` all classes have a
gradient.

Result: with ``tau`` of 1 or less, the top-k loss has a higher top-3 accuracy than cross-entropy and
a far lower top-1 accuracy. The default mixture of both losses keeps the top-1 accuracy.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from sktopk import TopKClassifier, make_pipeline
from sktopk.metrics import TopKCurveDisplay, topk_accuracy_score

# %%
# A model that is too small
# -------------------------
# A linear model gets only five principal components of the images.

X, y = load_digits(return_X_y=True)
X, X_test, y, y_test = train_test_split(X, y, test_size=0.5, stratify=y, random_state=0)
prepare = make_pipeline(StandardScaler(), PCA(5, random_state=0))
X = prepare.fit_transform(X).astype("float32")
X_test = prepare.transform(X_test).astype("float32")

# %%
# Three temperatures
# ------------------
# ``log_loss_share=0`` trains with the top-k loss only, without cross-entropy.

shared = dict(k=3, hidden_layer_sizes=(), learning_rate=0.1, n_estimators=1, random_state=0)
models = {
    "tau = 0.1": TopKClassifier(tau=0.1, log_loss_share=0, **shared),
    "tau = 1": TopKClassifier(tau=1.0, log_loss_share=0, **shared),
    "tau = 10": TopKClassifier(tau=10.0, log_loss_share=0, **shared),
    "default mixture": TopKClassifier(**shared),
    "cross_entropy": TopKClassifier("cross_entropy", **shared),
}
print(f"{'':16s}   top-1   top-3   top-5")
figure, ax = plt.subplots(figsize=(6.5, 4), layout="constrained")
for name, clf in models.items():
    y_score = clf.fit(X, y).decision_function(X_test)
    scores = [topk_accuracy_score(y_test, y_score, k=k) for k in (1, 3, 5)]
    print(f"{name:16s}" + "".join(f"{score:8.3f}" for score in scores))
    TopKCurveDisplay.from_predictions(
        y_test, y_score, name=name, max_k=6, ax=ax, plot_chance_level=False
    )
ax.set_title("Accuracy of the top-k predictions")
plt.show()
