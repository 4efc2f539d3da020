"""The value of more reviews, in money and by fold."""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import make_classification
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_validate

from sktopk.metrics import BudgetCurveDisplay

X, y = make_classification(
    6000, n_informative=6, weights=[0.97], flip_y=0.01, class_sep=0.7, random_state=0
)
amount = np.exp(np.random.default_rng(0).normal(4, 1, len(y)))
models = {
    "boosted trees": HistGradientBoostingClassifier(max_iter=50, random_state=0),
    "logistic regression": LogisticRegression(),
}
figure, (money_ax, folds_ax) = plt.subplots(1, 2, figsize=(10.5, 3.8), layout="constrained")
for name, model in models.items():
    model.fit(X[:3000], y[:3000])
    BudgetCurveDisplay.from_estimator(
        model,
        X[3000:],
        y[3000:],
        value=amount[3000:],
        budget=100,
        max_k=400,
        name=name,
        ax=money_ax,
    )
money_ax.set_title("Money found, one split")
for name, model in models.items():
    folds = cross_validate(model, X, y, cv=4, return_estimator=True, return_indices=True)
    BudgetCurveDisplay.from_cv_results(folds, X, y, max_k=400, name=name, ax=folds_ax)
folds_ax.set_title("Positives found, four folds")
for ax in (money_ax, folds_ax):
    ax.legend(loc="lower right", fontsize="small")
