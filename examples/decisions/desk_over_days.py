"""
A desk over days: labels of reviewed rows, and an alarm
=======================================================

A fraud desk reviews 30 of 600 payments a day. Whatever it does not review stays without a label, so
that its own log says: nearly all fraud is found. Ten reviews a day, drawn by lot, tell what the
other 570 payments hold. And when the payments change, a monitor says so, once, with a known
probability of a false alarm over all the years that it watches.
"""

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import expit
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression

from sktopk import BudgetClassifier
from sktopk.metrics import BudgetCurveDisplay, budget_table, recall_at_k_score

rng = np.random.default_rng(0)
N_DAYS, N_ROWS = 90, 600


def payments(n, new_shop=0.0):
    """Return what is known of payments, and which are fraud: some of it looks like all others."""
    X = rng.normal(size=(n, 4))
    fraud = rng.random(n) < expit(1.5 * X[:, 0] + 2 * X[:, 1] - 6)
    fraud |= rng.random(n) < 0.005
    # Of a new shop come payments that look suspicious and are not.
    X[:, 0] += new_shop * (rng.random(n) < 0.2) * ~fraud
    return X, fraud.astype(int)


model = FrozenEstimator(LogisticRegression().fit(*payments(20_000)))
X_tested, y_tested = payments(10_000)

# %%
# Ten reviews by lot
# ------------------
# `predict_queue` returns the rows and the probability with which each came to be reviewed. The log
# has NaN where there was no review.

desk = BudgetClassifier(model, budget=30, per="group", explore=10, random_state=0)
desk.fit(X_tested, y_tested)
X, fraud = payments(N_DAYS * N_ROWS)
day = np.repeat(np.arange(N_DAYS), N_ROWS)
rows, chance = desk.predict_queue(X, groups=day)
y, propensity = np.full((2, len(day)), np.nan)
y[rows], propensity[rows] = fraud[rows], chance

y_score = desk.decision_function(X)
reviewed = ~np.isnan(y)
options = {"k": 20, "groups": day}
naive = recall_at_k_score(y[reviewed], y_score[reviewed], k=20, groups=day[reviewed])
estimate = recall_at_k_score(y, y_score, propensity=propensity, **options)
print(f"share of all fraud among the 20 best of a day, in truth {fraud.sum()} frauds:")
print(f"  counted among the reviewed rows  {naive:.2f}")
print(f"  by propensity                    {estimate:.2f}")
print(f"  if all labels were known         {recall_at_k_score(fraud, y_score, **options):.2f}")

# %%
# The curve of the reviewed rows alone rises to 1; that by propensity follows the curve of all
# labels, which nobody has. Few rows stand for many: the interval says how well it is known.

table = budget_table(y, y_score, budgets=[20], n_rows=N_ROWS, propensity=propensity)
print(f"recall from {table['recall_low'][0]:.2f} to {table['recall_high'][0]:.2f}")

_, ax = plt.subplots()
lines = {"plot_chance_level": False, "plot_ideal": False, "ax": ax}
unreviewed = np.where(reviewed, y, 0)
BudgetCurveDisplay.from_predictions(fraud, y_score, name="All labels", **lines)
BudgetCurveDisplay.from_predictions(
    y, y_score, propensity=propensity, name="Reviewed, by propensity", **lines
)
BudgetCurveDisplay.from_predictions(unreviewed, y_score, name="Reviewed alone", **lines)

# %%
# The promise of a precision, watched
# -----------------------------------
# Another desk flags what it can promise to be fraud in three of ten cases. On day 60 a new shop
# joins. The monitor sees all scores, and the labels of flagged payments three days later.

desk = BudgetClassifier(model, constraint="precision", budget=0.3, random_state=0)
desk.fit(X_tested, y_tested)
monitor, waiting, share = desk.monitor(random_state=0), [], []
for number in range(120):
    X_day, fraud_day = payments(N_ROWS, new_shop=1.5 if number >= 60 else 0.0)
    monitor.update(X_day)
    queue = desk.predict_top(X_day)
    waiting.append((X_day[queue], fraud_day[queue]))
    share.append(fraud_day[queue].mean())
    if number >= 3 and len(waiting[number - 3][1]):
        late = np.full(len(waiting[number - 3][1]), number)
        report = monitor.update_labels(*waiting[number - 3], groups=late)
for each in report.values():
    print(f"{each.promise}: alarm on day {each.alarm}, p = {each.p_value:.1g}")

# %%
# Capital that bets against a promise hardly ever grows while the promise holds, however long one
# watches: it has reached the line by chance with a probability of at most 0.05 in all.

_, ax = plt.subplots()
for name, log_e in monitor.history_.items():
    days = np.arange(120 - len(log_e), 120)
    ax.plot(
        days, log_e, label={"rows": "rows are alike", "promise": report["promise"].promise}[name]
    )
ax.axhline(np.log10(2 / 0.05), color="black", linestyle=":", label="alarm")
ax.axvline(60, color="grey", linewidth=0.8)
ax.annotate("new shop", (60, 11), xytext=(-4, 0), textcoords="offset points", ha="right")
ax.set(xlabel="day", ylabel="capital of the bets (decimal logarithm)", ylim=(-2, 12))
ax.legend(loc="center left")

# %%
# What has come in since calibrates the desk anew.

again = monitor.recalibrate(since=report["promise"].alarm, random_state=0)
X_new, fraud_new = payments(200_000, new_shop=1.5)
for name, each in {"before": desk, "recalibrated": again}.items():
    flagged = each.decision_function(X_new) > 0
    print(f"{name}: {flagged.mean():.2%} flagged, precision {fraud_new[flagged].mean():.3f}")
plt.show()
