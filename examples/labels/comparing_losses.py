"""
Comparing losses
================

A top-k loss may look better only because more settings of its parameters were tried.
``compare_losses`` gives every loss the same folds, seeds and number of settings, and always trains
baselines. The intervals of the differences account for training samples that folds share.

Result: with five principal components of digits, the top-3 accuracy of the linear models is 2 to 3
points lower than with extra trees. With all pixels, the difference is not significant.
"""

import warnings

import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler

from sktopk import TopKClassifier, make_pipeline
from sktopk.metrics import make_topk_scorer
from sktopk.model_selection import compare_losses

warnings.simplefilter("ignore", ConvergenceWarning)
warnings.simplefilter("ignore", UserWarning)

# %%
# A model that is too small
# -------------------------
# A linear model on five principal components predicts three labels for each image. Each loss has
# four settings. The best setting is selected on a part of the training samples.

X, y = load_digits(return_X_y=True)
X, y = X[:500], y[:500]
clf = TopKClassifier(k=3, hidden_layer_sizes=(), n_estimators=1, max_epochs=12)
pipe = make_pipeline(StandardScaler(), PCA(5, random_state=0), clf)
linear = compare_losses(
    pipe,
    ["smooth_topk", "noised_topk"],
    X,
    y,
    scoring=make_topk_scorer(3),
    cv=3,
    n_seeds=1,
    progress=False,
)
print(linear)

# %%
# Each difference is the score minus the score of the best baseline. The verdict is about the better
# of the two losses. The interval of the verdict is wider than in the table, because the better of
# two losses is more often better by chance.
#
# The figure shows the intervals and the shaded margin. If an interval contains zero and is not
# within the margin, the difference is inconclusive.

figure, ax = plt.subplots(figsize=(8, 3.6), layout="constrained")
linear.plot(ax=ax)
plt.show()

# %%
# A model that is large enough
# ----------------------------
# This model uses all pixels and two hidden layers. The verdict is "equivalent" only if the whole
# interval lies within the margin, by default one point. 500 samples may be too few for that.

ample = compare_losses(
    make_pipeline(StandardScaler(), TopKClassifier(k=3, n_estimators=2, max_epochs=12)),
    ["smooth_topk", "noised_topk"],
    X,
    y,
    scoring=make_topk_scorer(3),
    cv=3,
    n_seeds=1,
    grid=None,
    progress=False,
)
print(ample.verdict)
