"""
One problem, five thresholds
============================

Five rankers are trained on the same problem, each for another threshold: the highest negative,
the fiftieth sample, a false positive rate, a recall, and none (area under the ROC curve). Logistic
regression is the baseline.
"""

import warnings

import matplotlib.pyplot as plt
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from sktopk import (
    AUCClassifier,
    DeepTopPushClassifier,
    PatMatNPClassifier,
    PrecisionAtRecallClassifier,
    RecallAtKClassifier,
    make_pipeline,
)
from sktopk.metrics import (
    BudgetCurveDisplay,
    EnrichmentDisplay,
    precision_at_k_score,
    precision_at_recall_score,
    true_positive_rate_at_fpr_score,
)
from sktopk.modules import MLP

warnings.simplefilter("ignore", ConvergenceWarning)

# %%
# 3 % of the samples are positive, and 2 % of the labels are wrong:

X, y = make_classification(
    8000, n_informative=8, weights=[0.97], flip_y=0.02, class_sep=1.2, random_state=1
)
X = X.astype("float32")
X, X_test, y, y_test = X[:4000], X[4000:], y[:4000], y[4000:]

# %%
# Linear models
# -------------

shared = dict(
    pretrain=0, n_iter_no_change=None, module=MLP, hidden_layer_sizes=(), n_estimators=1,
    weight_decay=0.01, random_state=0,
)  # fmt: skip
models = {
    "DeepTopPush": DeepTopPushClassifier(**shared),
    "RecallAtK": RecallAtKClassifier(k=50, **shared),
    "PatMatNP": PatMatNPClassifier(tau=0.03, **shared),
    "PrecisionAtRecall": PrecisionAtRecallClassifier(recall=0.5, **shared),
    "AUC": AUCClassifier(**shared),
    "logistic regression": LogisticRegression(),
}
print(f"{'':20s}{'P at 50':>10s}{'P at R=.5':>12s}{'TPR at .03':>12s}")
scores = {}
for name, model in models.items():
    scores[name] = make_pipeline(StandardScaler(), model).fit(X, y).decision_function(X_test)
    print(
        f"{name:20s}{precision_at_k_score(y_test, scores[name], k=50):10.3f}"
        f"{precision_at_recall_score(y_test, scores[name], recall=0.5):12.3f}"
        f"{true_positive_rate_at_fpr_score(y_test, scores[name], fpr=0.03):12.3f}"
    )

# %%
# The left end of the curves
# --------------------------
# Compare the curves at your number of reviews. PatMatNP, whose threshold allows a share of the
# negatives above it, has the best first samples here. With wrong labels the highest negative is an
# outlier, so DeepTopPush learns from an error.

figure, axes = plt.subplots(1, 2, figsize=(12, 4.2), layout="constrained")
for name in ("DeepTopPush", "PatMatNP", "AUC", "logistic regression"):
    EnrichmentDisplay.from_predictions(y_test, scores[name], name=name, ax=axes[0])
    BudgetCurveDisplay.from_predictions(
        y_test, scores[name], budget=50, max_k=200, name=name, ax=axes[1]
    )
plt.show()
