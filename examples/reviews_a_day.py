"""
Ten reviews a day against fraud
===============================

Each day has 300 payments, a few of them frauds, and ten payments can be reviewed. A good model has
many frauds among the ten payments with the highest scores. The order of all other payments does not
matter. The metric is therefore the share of the frauds that are among the ten best payments of
their day. The metric is used to choose a model and to test it.

Result: the network, boosted trees and the ensemble of both find similar numbers of frauds, clearly
more than logistic regression. `predict_top` with `groups` selects exactly ten payments of each day.

The payments of sixty days are generated. All payments look a little more like fraud on weekends.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.ensemble import VotingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import TimeSeriesSplit

from sktopk import BudgetClassifier, RecallAtFPRClassifier, TopBoostClassifier
from sktopk.metrics import recall_at_k_score

N_DAYS, PER_DAY, REVIEWS = 60, 300, 10

# %%
# Payments
# --------
# Payments are in the order of time. Half of the frauds stand out. The other half look like unusual
# honest payments.

rng = np.random.default_rng(0)
day = np.repeat(np.arange(N_DAYS), PER_DAY)
fraud = rng.random(len(day)) < 0.02
X = rng.standard_t(4, size=(len(day), 10))
X[:, :4] += fraud[:, None] * rng.choice([1.0, 3.0], size=(len(day), 1))
X[:, 4] += 1.5 * fraud * X[:, 5]
weekend = day % 7 >= 5
X[weekend, :4] += 0.7

past, calibration, test = day < 36, (day >= 36) & (day < 46), day >= 46
print(f"{past.sum()} training payments, {fraud[past].mean():.1%} of them frauds")

# %%
# Which model?
# ------------
# Each split trains on earlier days and scores later days. The metric gets the days as `groups`.

members = [
    ("network", RecallAtFPRClassifier(random_state=0)),
    ("boosted trees", TopBoostClassifier(random_state=0)),
]


def fit_models(rows):
    """Return fitted models. The members of the ensemble are also models."""
    vote = VotingClassifier(members, voting="soft").fit(X[rows], fraud[rows])
    logistic = LogisticRegression().fit(X[rows], fraud[rows])
    return {"logistic regression": logistic, **vote.named_estimators_, "soft voting": vote}


def recall_of_days(model, rows):
    """Return the share of the frauds that are among the ten best payments of their day."""
    y_score = model.predict_proba(X[rows])[:, 1]
    return recall_at_k_score(fraud[rows], y_score, k=REVIEWS, groups=day[rows])


found = []
for earlier, later in TimeSeriesSplit(3).split(X[past]):
    models = fit_models(earlier)
    found.append([recall_of_days(model, later) for model in models.values()])
recalls = dict(zip(models, np.mean(found, axis=0), strict=True))
for name, recall in recalls.items():
    print(f"{name:20s} recall on later days {recall:.3f}")

# %%
# The model with the highest recall is trained on all past days and scored on new days.

chosen = max(recalls, key=recalls.get)
best = fit_models(np.flatnonzero(past))[chosen]
print(f"{chosen} finds {recall_of_days(best, test):.0%} of the frauds on new days")
print(f"Ten random reviews a day find {REVIEWS / PER_DAY:.0%} of the frauds")

# %%
# Exactly ten, or a threshold
# ---------------------------
# `predict_top` returns exactly n payments of each day. `predict` compares the score of each payment
# with a threshold from ten calibration days. The number of payments that `predict` flags therefore
# varies, and is higher on weekends.

selection = BudgetClassifier(FrozenEstimator(best), budget=REVIEWS / PER_DAY, constraint="count")
selection.fit(X[calibration], fraud[calibration])
selected = selection.predict_top(X[test], REVIEWS, groups=day[test])
days = np.unique(day[test])
flagged = {
    "predict_top": np.array([np.sum(day[test][selected] == each) for each in days]),
    "predict": np.array([selection.predict(X[day == each]).sum() for each in days]),
}
for name, counts in flagged.items():
    print(f"{name:12s} {counts.min()} to {counts.max()} reviews a day, mean {counts.mean():.1f}")

figure, ax = plt.subplots(figsize=(7, 3.8), layout="constrained")
for (name, counts), marker in zip(flagged.items(), "os", strict=True):
    ax.plot(days, counts, marker=marker, label=name)
for first in days[days % 7 == 5]:
    ax.axvspan(first - 0.4, min(first + 1, N_DAYS - 1) + 0.4, color="0.9")
ax.set(xlabel="Day (weekends grey)", ylabel="Payments flagged", ylim=(0, None))
ax.legend()
plt.show()
