"""
A search over loss, tau, sigma and k
====================================

The parameters of the losses are parameters of the estimator. One search can therefore cover them,
the loss itself and the steps of a pipeline. The score of all candidates is the top-3 accuracy. The
search over ``loss__k`` changes only the k of the loss. To save time, each candidate is one small
network. The final model is an ensemble.

Result: on digits, the best candidate is cross-entropy. The final ensemble is at least as accurate
as the best small network.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.preprocessing import StandardScaler

from sktopk import Pipeline, TopKClassifier

warnings.simplefilter("ignore", ConvergenceWarning)

X, y = load_digits(return_X_y=True)
X, X_test, y, y_test = train_test_split(X, y, test_size=0.5, stratify=y, random_state=0)

# %%
# The grid
# --------
# Each loss has its own grid. Cross-entropy is one of the candidates.

clf = TopKClassifier(k=3, n_estimators=1, max_epochs=15, random_state=0)
pipe = Pipeline([("scale", StandardScaler()), ("pca", PCA(20, random_state=0)), ("clf", clf)])
TAUS, SIGMAS, KS = [0.1, 0.3, 1.0], [0.1, 0.3, 1.0], [2, 3, 4]
grid = [
    {"clf__loss": ["smooth_topk"], "clf__tau": TAUS, "clf__loss__k": KS},
    {"clf__loss": ["noised_topk"], "clf__sigma": SIGMAS, "clf__loss__k": KS},
    {"clf__loss": ["cross_entropy"], "clf__learning_rate": [0.01, 0.03, 0.1]},
]
search = GridSearchCV(pipe, grid, cv=3).fit(X, y)
print(f"Best: {search.best_params_}")
print(f"Cross-validated top-3 accuracy of the best candidate: {search.best_score_:.3f}")

# %%
# The final model
# ---------------
# The final model has the best parameters of the search, and the default number of networks and
# epochs.

full = {"clf__n_estimators": 8, "clf__max_epochs": "auto"}
model = clone(pipe).set_params(**search.best_params_, **full).fit(X, y)
print(f"Top-3 accuracy of the small network on test samples: {search.score(X_test, y_test):.3f}")
print(f"Top-3 accuracy of the final model on test samples:   {model.score(X_test, y_test):.3f}")

# %%
# The true label of two images, and the three predicted labels, best first:

guesses = model.predict_topk(X_test)
for label, guess in zip(y_test[:2], guesses[:2], strict=True):
    print(f"{label}: {guess.tolist()}")

# %%
# All results
# -----------
# The figure shows the results of smooth_topk. If neighbouring settings have similar scores, the
# choice does not depend on one fold.

results = pd.DataFrame(search.cv_results_)
loss = results["param_clf__loss"]
baseline = results["mean_test_score"][loss == "cross_entropy"].max()
table = results[loss == "smooth_topk"].pivot(
    index="param_clf__loss__k", columns="param_clf__tau", values="mean_test_score"
)
values = 100 * (table.to_numpy(float) - baseline)
figure, ax = plt.subplots(figsize=(5.5, 4), layout="constrained")
image = ax.imshow(values, cmap="RdBu", vmin=-2, vmax=2)
for (i, j), value in np.ndenumerate(values):
    ax.text(j, i, f"{value:+.1f}", ha="center", va="center")
ax.set_xticks(range(len(table.columns)), table.columns)
ax.set_yticks(range(len(table.index)), table.index.astype(int))
ax.set(title="smooth_topk", xlabel="tau", ylabel="loss__k")
figure.colorbar(image, ax=ax, label="Points more than the best cross-entropy")
plt.show()
