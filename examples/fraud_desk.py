"""
Ten reviews a day against fraud
===============================

Each day has 300 payments and a few frauds, and ten payments can be reviewed. A good model has many
frauds among its first ten; the order of all other payments does not matter. The metric is recall
at ten of each day. It scores the search and the test.

The payments of sixty days are generated. All payments look a little more like fraud on weekends.
"""

import sys

import matplotlib.pyplot as plt
import numpy as np
import sklearn
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV, TimeSeriesSplit

from sktopk import BudgetClassifier, RecallAtKClassifier
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
# Payments are in the order of time. Half of the frauds stand out, the others look like an unusual
# honest payment.

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
# Scikit-learn's metadata routing passes the days as `groups` to the scorer and to `fit`, which
# trains for the first ten payments of each day. Each split trains on earlier days and scores later
# days. Boosted trees are the baseline. Neither model needs scaled columns.

scorer = make_top_scorer("recall_at_k", k=REVIEWS)
network = RecallAtKClassifier(k=REVIEWS, n_estimators=2, max_epochs=8, random_state=0)
with sklearn.config_context(enable_metadata_routing=True):
    network.set_fit_request(groups=True)
trees = HistGradientBoostingClassifier(max_iter=50, random_state=0)
candidates = {
    "network": (network, {}),
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
# Both models are scored on new days and compared with ten random reviews a day. A small difference
# in the search can have the other sign on new days.

for name, model in models.items():
    y_score = model.decision_function(X[test])
    options = {"k": REVIEWS, "groups": day[test]}
    found = recall_at_k_score(fraud[test], y_score, **options)
    hits = precision_at_k_score(fraud[test], y_score, **options)
    print(f"{name:14s} finds {found:.0%} of the frauds; {hits:.0%} of the reviews are hits")
print(f"{'random order':14s} finds {REVIEWS / PER_DAY:.0%}")

# %%
# Exactly ten, or a threshold
# ---------------------------
# `predict_top` returns exactly n payments, of one day or of each of several days:

best = FrozenEstimator(models["network"])
selection = BudgetClassifier(best, budget=REVIEWS / PER_DAY)
selection.fit(X[calibration], fraud[calibration])
today = np.flatnonzero(day == day[-1])
selected = today[selection.predict_top(X[today], REVIEWS)]
print(f"Selected today: {selected.tolist()}, {amount[selected].sum():.0f} at stake")
by_day = np.zeros(test.sum(), int)
by_day[selection.predict_top(X[test], REVIEWS, groups=day[test])] = 1

# %%
# `predict` compares each payment with a threshold from ten calibration days. The number of flagged
# payments varies, and is higher on weekends:

one_by_one = selection.predict(X[test])
days = np.unique(day[test])
flagged = {
    "per day": np.array([by_day[day[test] == each].sum() for each in days]),
    "fixed threshold": np.array([one_by_one[day[test] == each].sum() for each in days]),
}
for name, counts in flagged.items():
    print(f"{name:16s} {counts.min()} to {counts.max()} reviews a day, mean {counts.mean():.1f}")

# %%
# The value of more reviews
# -------------------------
# The curve shows the money that the reviews find. All test days are one ranking. The star marks the
# review budget of these days.

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
