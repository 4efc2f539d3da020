"""
A search over tau, sigma and k
==============================

The parameters of the losses are parameters of the estimator. One search can therefore cover them,
the loss itself and the steps of a pipeline. Its score is the top-3 accuracy.
"""

import warnings

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.preprocessing import StandardScaler

from sktopk import Pipeline, TopKClassifier
from sktopk.metrics import make_topk_scorer

warnings.simplefilter("ignore", ConvergenceWarning)

X, y = load_digits(return_X_y=True)
X, X_test, y, y_test = train_test_split(X, y, test_size=0.5, stratify=y, random_state=0)

# %%
# The grid
# --------
# Each loss has its own grid. Cross-entropy is one of the candidates.

clf = TopKClassifier(
    hidden_layer_sizes=(),
    weight_decay=0,
    learning_rate=0.1,
    n_estimators=1,
    max_epochs=15,
    random_state=0,
)
pipe = Pipeline([("scale", StandardScaler()), ("pca", PCA(5, random_state=0)), ("clf", clf)])
TAUS, SIGMAS, KS = [0.3, 1.0, 3.0], [0.1, 0.3, 1.0], [2, 3, 4]
grid = [
    {"clf__loss": ["smooth_topk"], "clf__tau": TAUS, "clf__k": KS},
    {"clf__loss": ["noised_topk"], "clf__sigma": SIGMAS, "clf__k": KS},
    {"clf__loss": ["cross_entropy"], "clf__learning_rate": [0.03, 0.1, 0.3]},
]
scorer = make_topk_scorer(3)
search = GridSearchCV(pipe, grid, scoring=scorer, cv=3).fit(X, y)
print(f"Best: {search.best_params_}")
print(f"Top-3 accuracy, cross-validated {search.best_score_:.3f}")
print(f"Top-3 accuracy, held-out half   {scorer(search.best_estimator_, X_test, y_test):.3f}")

# %%
# Three labels for two digits, best first:

guesses = search.best_estimator_.predict_topk(X_test)
for label, guess in zip(y_test[:2], guesses[:2], strict=True):
    print(f"{label}: {guess[:3].tolist()}")

# %%
# All results
# -----------
# If neighbouring settings have similar scores, the choice does not depend on one fold.

results = pd.DataFrame(search.cv_results_)
loss = results["param_clf__loss"]
baseline = results["mean_test_score"][loss == "cross_entropy"].max()
figure, axes = plt.subplots(1, 2, figsize=(10, 3.8), layout="constrained")
for ax, (name, parameter) in zip(
    axes, (("smooth_topk", "tau"), ("noised_topk", "sigma")), strict=True
):
    table = results[loss == name].pivot(
        index="param_clf__k", columns=f"param_clf__{parameter}", values="mean_test_score"
    )
    values = 100 * (table.to_numpy(float) - baseline)
    image = ax.imshow(values, cmap="RdBu", vmin=-5, vmax=5)
    for (i, j), value in np.ndenumerate(values):
        ax.text(j, i, f"{value:+.1f}", ha="center", va="center")
    ax.set_xticks(range(len(table.columns)), table.columns)
    ax.set_yticks(range(len(table.index)), table.index.astype(int))
    ax.set(title=name, xlabel=parameter, ylabel="k")
figure.colorbar(image, ax=axes, label="Points more than the best cross-entropy")
plt.show()
