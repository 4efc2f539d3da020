"""
A soft-voting ensemble of a network and trees
=============================================

scikit-learn's :class:`~sklearn.ensemble.VotingClassifier` averages the probabilities of several
classifiers. This example combines extremely randomized trees with a network and boosted trees that
are trained to rank positives at the top.

Result: the ensemble has a higher mean average precision than each of the three classifiers.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_classification
from sklearn.ensemble import ExtraTreesClassifier, VotingClassifier
from sklearn.metrics import average_precision_score
from sklearn.model_selection import StratifiedShuffleSplit, train_test_split

from sktopk import BudgetClassifier, RecallAtFPRClassifier, TopBoostClassifier

X, y = make_classification(
    4000, 20, n_informative=8, n_clusters_per_class=4, weights=[0.9], flip_y=0.03, random_state=0
)

# %%
# The ensemble
# ------------
# Soft voting needs `predict_proba`, which all three classifiers have by default.


def make_vote(seed):
    """Return a soft-voting ensemble that is not fitted."""
    members = [
        ("network", RecallAtFPRClassifier(random_state=seed)),
        ("boosted trees", TopBoostClassifier(random_state=seed)),
        ("extra trees", ExtraTreesClassifier(300, random_state=seed)),
    ]
    return VotingClassifier(members, voting="soft")


# %%
# Four splits
# -----------
# The differences between models vary from split to split, so the scores are means of four splits.

scores = {}
splits = StratifiedShuffleSplit(4, test_size=0.5, random_state=0).split(X, y)
for seed, (train, test) in enumerate(splits):
    vote = make_vote(seed).fit(X[train], y[train])
    for name, model in {**vote.named_estimators_, "soft voting": vote}.items():
        score = average_precision_score(y[test], model.predict_proba(X[test])[:, 1])
        scores.setdefault(name, []).append(score)
for name, each in scores.items():
    line = f"{name:14s} average precision {np.mean(each):.3f}"
    if name != "soft voting":
        gain = np.subtract(scores["soft voting"], each)
        line += f"; the ensemble is better in {np.sum(gain > 0)} of 4 splits, by {gain.mean():.3f}"
    print(line)

figure, ax = plt.subplots(figsize=(6.5, 3.6), layout="constrained")
ax.boxplot(list(scores.values()), tick_labels=list(scores))
ax.set_ylabel("Average precision on test samples")
plt.show()

# %%
# A guarantee around the ensemble
# -------------------------------
# :class:`~sktopk.BudgetClassifier` fits the ensemble and holds out samples for the threshold. With
# probability 95 %, the threshold flags at most 2 % of the negatives.

X_train, X_test, y_train, y_test = train_test_split(X, y, stratify=y, random_state=0)
selection = BudgetClassifier(make_vote(0), budget=0.02, constraint="fpr", random_state=0)
flagged = selection.fit(X_train, y_train).predict(X_test) == 1
print(
    f"{flagged[y_test == 0].mean():.1%} of the negatives and "
    f"{flagged[y_test == 1].mean():.0%} of the positives are flagged"
)
