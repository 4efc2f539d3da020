"""
The noise of the noised loss
============================

The calibrated hinge loss compares the score of the label with the (k+1)-th largest score. For each
sample, only one class besides the label therefore has a gradient. The noised loss averages over
random changes of the scores, so all classes near rank k+1 have a gradient. The standard deviation
of these changes is ``sigma``.

Result: the top-3 accuracy of a linear model depends little on the noise, and is about as high as
with cross-entropy, or higher. The top-1 accuracy is much lower, because this example trains the
top-k loss without cross-entropy (``log_loss_share=0``).
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from sktopk import TopKClassifier, make_pipeline
from sktopk.metrics import topk_accuracy_score

warnings.simplefilter("ignore", ConvergenceWarning)

X, y = load_digits(return_X_y=True)
X, X_test, y, y_test = train_test_split(X, y, test_size=0.5, stratify=y, random_state=0)
prepare = make_pipeline(StandardScaler(), PCA(5, random_state=0))
X = prepare.fit_transform(X).astype("float32")
X_test = prepare.transform(X_test).astype("float32")

# %%
# How much noise?
# ---------------
# Each level of noise is trained with three seeds. ``sigma=0`` is the hinge loss without noise.

SIGMAS = (0.0, 0.03, 0.1, 0.3, 1.0, 3.0)
SEEDS = range(3)


def accuracies(**params):
    """Return the top-1 and top-3 accuracy of a linear model: one row per seed."""
    rows = []
    for seed in SEEDS:
        clf = TopKClassifier(
            k=3,
            log_loss_share=0,
            hidden_layer_sizes=(),
            learning_rate=0.1,
            n_estimators=1,
            random_state=seed,
            **params,
        ).fit(X, y)
        y_score = clf.decision_function(X_test)
        rows.append([topk_accuracy_score(y_test, y_score, k=k) for k in (1, 3)])
    return np.array(rows)


by_sigma = np.array([accuracies(loss="noised_topk", sigma=sigma) for sigma in SIGMAS])
for sigma, scores in zip(SIGMAS, by_sigma.mean(1), strict=True):
    print(f"sigma = {sigma:<5g} top-1 {scores[0]:.3f}   top-3 {scores[1]:.3f}")

# %%
# How many draws?
# ---------------
# ``n_noise`` is the number of draws per training step. The number has little effect, because each
# step draws new noise.

by_draws = {
    n: accuracies(loss="noised_topk", sigma=0.3, loss_params={"n_noise": n})[:, 1]
    for n in (1, 5, 20)
}
for n_noise, scores in by_draws.items():
    print(f"n_noise = {n_noise:<3d} top-3 {scores.mean():.3f} ± {scores.std(ddof=1):.3f}")

# %%
# Dotted lines show the accuracy with cross-entropy.

baseline = accuracies(loss="cross_entropy").mean(0)
print(f"cross-entropy top-1 {baseline[0]:.3f}   top-3 {baseline[1]:.3f}")
figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
place = np.arange(len(SIGMAS))
for i, (k, color) in enumerate(((1, "#0072b2"), (3, "#d55e00"))):
    mean, spread = by_sigma[:, :, i].mean(1), by_sigma[:, :, i].std(1, ddof=1)
    ax.errorbar(place, mean, spread, fmt="o-", color=color, capsize=3, label=f"top-{k}")
    ax.axhline(baseline[i], color=color, linestyle=":", label=f"top-{k}, cross-entropy")
ax.set_xticks(place, SIGMAS)
ax.set(xlabel="sigma", ylabel="Accuracy on the held-out half")
ax.legend()
plt.show()
