"""
A soft-voting ensemble of a ranker and trees
============================================

scikit-learn's :class:`~sklearn.ensemble.VotingClassifier` averages the probabilities of several
classifiers. This example combines a network that is trained for the top, gradient boosting and
extremely randomized trees, and selects samples within a review budget.
"""

import warnings

import matplotlib.pyplot as plt
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import make_classification
from sklearn.ensemble import (
    ExtraTreesClassifier,
    HistGradientBoostingClassifier,
    VotingClassifier,
)
from sklearn.metrics import average_precision_score
from sklearn.model_selection import train_test_split

from sktopk import BudgetClassifier, PatMatClassifier

warnings.filterwarnings("ignore", message=".*training could go on")
X, y = make_classification(
    2400, 20, n_informative=8, n_clusters_per_class=4, weights=[0.9], flip_y=0.03, random_state=0
)
X_train, X_test, y_train, y_test = train_test_split(X, y, stratify=y, random_state=0)

# %%
# The estimators
# --------------
# Soft voting averages probabilities, so the scores of the ranker are calibrated first.

vote = VotingClassifier(
    [
        (
            "ranker",
            CalibratedClassifierCV(PatMatClassifier(tau=0.05, random_state=0), cv=3),
        ),
        ("boosting", HistGradientBoostingClassifier(random_state=0)),
        ("extra trees", ExtraTreesClassifier(150, min_samples_leaf=2, random_state=0)),
    ],
    voting="soft",
)

# %%
# Soft voting within a budget
# ---------------------------
# :class:`~sktopk.BudgetClassifier` fits the ensemble and chooses its threshold: 5 % of the samples
# can be reviewed.

selection = BudgetClassifier(vote, budget=0.05, random_state=0).fit(X_train, y_train)
fitted = selection.estimator_
proba = {name: part.predict_proba(X_test)[:, 1] for name, part in fitted.named_estimators_.items()}
proba["vote"] = fitted.predict_proba(X_test)[:, 1]
scores = {name: average_precision_score(y_test, each) for name, each in proba.items()}
for name, score in scores.items():
    print(f"{name:12s} average precision {score:.3f}")
selected = selection.predict(X_test) == 1
print(f"{selected.sum()} of {len(y_test)} samples selected, {y_test[selected].mean():.0%} positive")

# %%
# One split does not show which model is better. Compare the ensemble with each part on several
# splits before you use it.

figure, ax = plt.subplots(layout="constrained")
ax.barh(list(scores), list(scores.values()))
ax.set(xlabel="Average precision on test samples")
ax.invert_yaxis()
plt.show()
