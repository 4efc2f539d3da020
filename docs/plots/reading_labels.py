"""Two displays for labels, two models in each."""

import matplotlib.pyplot as plt
from small_digits import data, fit

from sktopk.datasets import make_long_tail
from sktopk.metrics import ShotAccuracyDisplay, TopKCurveDisplay

X, X_test, y, y_test = data(0)
X_tail, y_tail = make_long_tail(X, y, factor=20, random_state=0)
figure, (curve_ax, shot_ax) = plt.subplots(1, 2, figsize=(10.5, 3.8), layout="constrained")
for name, params in {
    "smooth_topk": {"loss": "smooth_topk"},
    "cross_entropy": {"loss": "cross_entropy"},
}.items():
    TopKCurveDisplay.from_estimator(
        fit(0, **params), X_test.astype("f4"), y_test, name=name, max_k=7, ax=curve_ax
    )
curve_ax.set_ylim(0.5, 1.01)
for name, loss in {"cross_entropy": "cross_entropy", "logit_adjusted": "logit_adjusted"}.items():
    clf = fit(0, loss=loss).fit(X_tail, y_tail)
    ShotAccuracyDisplay.from_estimator(
        clf, X_test.astype("f4"), y_test, k=1, few=15, many=50, name=name, ax=shot_ax
    )
