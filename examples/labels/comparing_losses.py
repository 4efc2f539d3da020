"""
Comparing losses honestly
=========================

Is the top-k loss better, or were its parameters searched longer? ``compare_losses`` gives every
loss the same folds, the same seeds and as many settings to choose from, and always trains
baselines beside it. The differences get intervals that allow for folds sharing training rows.
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
# Three guesses for a digit, from five principal components, by a linear model. Each loss has four
# settings, chosen on a part of the training rows.

X, y = load_digits(return_X_y=True)
X, y = X[:500], y[:500]
clf = TopKClassifier(k=3, hidden_layer_sizes=(), n_estimators=1, max_epochs=12)
pipe = make_pipeline(StandardScaler(), PCA(5, random_state=0), clf)
small = compare_losses(
    pipe,
    ["smooth_topk", "noised_topk"],
    X,
    y,
    scoring=make_topk_scorer(3),
    cv=3,
    progress=False,
)
print(small.summary().round(3).to_string())
print(small.verdict)

# %%
# The last line is about the better of two losses. One of two is ahead by chance more often than one
# is, so that its interval is wider than that of its row in the table.
#
# And one that is not
# -------------------
# All pixels and two hidden layers. There is little left to win here. The verdict calls
# cross-entropy equivalent only if the whole interval lies within the margin, by default one point.
# 500 digits may be too few for that.

ample = compare_losses(
    make_pipeline(StandardScaler(), TopKClassifier(k=3, n_estimators=2, max_epochs=12)),
    ["smooth_topk", "noised_topk"],
    X,
    y,
    scoring=make_topk_scorer(3),
    cv=3,
    grid=None,
    progress=False,
)
print(ample.verdict)

# %%
# The margin is shaded. An interval that holds zero and leaves it can tell neither way; the verdict
# above says about how many folds or rows would:

figure, axes = plt.subplots(2, 1, figsize=(9, 6.5), layout="constrained")
small.plot(ax=axes[0])
axes[0].set_title("Linear, 5 components")
ample.plot(ax=axes[1])
axes[1].set_title("Hidden layer, all pixels")
plt.show()
