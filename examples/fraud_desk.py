"""
A fraud desk with ten reviews a day
===================================

Every day brings some hundred payments and a few frauds, and a desk that can look at ten. A
model is good if many frauds are among its ten, however it ranks the rest: that is recall at
ten of a day, here the score of the search, the choice of the queue and the curve at the end.

The payments are generated, sixty days of them. On weekends everything looks a little more like
fraud: more of it is abroad, at night, in new shops.
"""

import sys

import matplotlib.pyplot as plt
import numpy as np
import sklearn
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV, TimeSeriesSplit

from sktopk import BudgetClassifier, PatMatClassifier, TopVotingClassifier
from sktopk.metrics import (
    BudgetCurveDisplay,
    make_top_scorer,
    precision_at_k_score,
    recall_at_k_score,
)

N_DAYS, PER_DAY, REVIEWS = 60, 300, 10

# %%
# Payments
# --------
# Rows are in the order of time; `day` says which ten reviews a payment competes for. Half of
# the frauds stand out, the others look like an odd honest payment.

rng = np.random.default_rng(0)
day = np.repeat(np.arange(N_DAYS), PER_DAY)
fraud = rng.random(len(day)) < 0.02
X = rng.standard_t(4, size=(len(day), 10))
X[:, :4] += fraud[:, None] * rng.choice([1.0, 3.0], size=(len(day), 1))
X[:, 4] += 1.5 * fraud * X[:, 5]
weekend = day % 7 >= 5
X[weekend, :4] += 0.7
amount = np.exp(rng.normal(4 + 0.5 * fraud, 1))

past, calibration, test = day < 36, (day >= 36) & (day < 46), day >= 46
print(f"{past.sum()} payments to learn from, {fraud[past].mean():.1%} of them fraud")

# %%
# A search by the ten best of each day
# ------------------------------------
# The scorer gets the days as `groups`, by scikit-learn's metadata routing. Each split trains on
# earlier days and scores later ones. Two kinds of model compete: boosted trees alone, and a vote of
# trees and a network that is trained for the top of the ranking, where `tau` is the share of the
# payments that ten a day are. Neither needs columns that are scaled.

scorer = make_top_scorer("recall_at_k", k=REVIEWS)
network = PatMatClassifier(tau=REVIEWS / PER_DAY, n_members=4, max_epochs=30)
vote = TopVotingClassifier(network, random_state=0)
with sklearn.config_context(enable_metadata_routing=True):
    # One long list to train on; `True` would keep the payments of a day together in a fold.
    vote.set_fit_request(groups=False)
trees = HistGradientBoostingClassifier(max_iter=50, random_state=0)
candidates = {
    "vote": (vote, {}),
    "boosted trees": (trees, {"max_leaf_nodes": [4, 16]}),
}
models = {}
with sklearn.config_context(enable_metadata_routing=True):
    for name, (model, grid) in candidates.items():
        search = GridSearchCV(
            model, grid, scoring=scorer.set_score_request(groups=True), cv=TimeSeriesSplit(3)
        ).fit(X[past], fraud[past], groups=day[past])
        models[name] = search.best_estimator_
        print(
            f"{name:14s} recall at {REVIEWS} a day {search.best_score_:.3f}   {search.best_params_}"
        )

# %%
# Both on days that neither has seen, beside what ten random reviews find. Which of the two is
# ahead changes from days to days: in the search it was the vote, here it is the trees.

for name, model in models.items():
    y_score = model.decision_function(X[test])
    options = {"k": REVIEWS, "groups": day[test]}
    found = recall_at_k_score(fraud[test], y_score, **options)
    hits = precision_at_k_score(fraud[test], y_score, **options)
    print(f"{name:14s} finds {found:.0%} of the frauds; {hits:.0%} of the reviews are hits")
print(f"{'any order':14s} finds {REVIEWS / PER_DAY:.0%}")

# %%
# The queue
# ---------
# ``per="batch"`` takes what it is given for one day, ``per="group"`` sorts out many:

best = FrozenEstimator(models["vote"])
desk = BudgetClassifier(best, budget=REVIEWS, per="batch").fit(X[calibration], fraud[calibration])
today = np.flatnonzero(day == day[-1])
queue = today[desk.predict_top(X[today])]
print(f"Today's queue: {queue.tolist()}, {amount[queue].sum():.0f} at stake")

desk = BudgetClassifier(best, budget=REVIEWS, per="group").fit(X[calibration], fraud[calibration])
by_day = desk.predict(X[test], groups=day[test])

# %%
# A fixed threshold treats payments one by one, as they come in. It is found on ten days, flags
# as many in the mean, and does not know about weekends:

stream = BudgetClassifier(best, budget=REVIEWS / PER_DAY).fit(X[calibration], fraud[calibration])
one_by_one = stream.predict(X[test])
days = np.unique(day[test])
flagged = {
    "per day": np.array([by_day[day[test] == each].sum() for each in days]),
    "fixed threshold": np.array([one_by_one[day[test] == each].sum() for each in days]),
}
for name, counts in flagged.items():
    print(f"{name:16s} {counts.min()} to {counts.max()} reviews a day, mean {counts.mean():.1f}")

# %%
# What more reviews would bring
# -----------------------------
# The curve counts money, with the payments of all test days in one queue; the star is the
# budget of these days.

figure, (days_ax, curve_ax) = plt.subplots(1, 2, figsize=(11, 4), layout="constrained")
for (name, counts), marker in zip(flagged.items(), "os", strict=True):
    days_ax.plot(days, counts, marker=marker, label=name)
for first in days[days % 7 == 5]:
    days_ax.axvspan(first - 0.4, min(first + 1, N_DAYS - 1) + 0.4, color="0.9")
days_ax.set(xlabel="Day (weekends grey)", ylabel="Payments flagged", ylim=(0, None))
days_ax.legend()
for name, model in models.items():
    BudgetCurveDisplay.from_estimator(
        model,
        X[test],
        fraud[test],
        value=amount[test],
        budget=REVIEWS * len(days),
        max_k=5 * REVIEWS * len(days),
        name=name,
        ax=curve_ax,
    )
if __name__ == "__main__" and len(sys.argv) > 1:
    figure.savefig(sys.argv[1], dpi=120)
plt.show()
