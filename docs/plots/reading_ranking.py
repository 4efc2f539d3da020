"""Two displays for rankings, two models in each."""

import warnings

import matplotlib.pyplot as plt
from sklearn.datasets import make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from sktopk import PatMatNPClassifier
from sktopk.metrics import BudgetCurveDisplay, EnrichmentDisplay

warnings.simplefilter("ignore", ConvergenceWarning)
X, y = make_classification(
    6000, n_informative=6, weights=[0.97], flip_y=0.01, class_sep=0.7, random_state=0
)
X = X.astype("f4")
models = {
    "PatMatNP": PatMatNPClassifier(tau=0.05, hidden_layer_sizes=(), max_epochs=30, random_state=0),
    "logistic regression": LogisticRegression(),
}
figure, (enrichment_ax, budget_ax) = plt.subplots(1, 2, figsize=(10.5, 3.8), layout="constrained")
for name, model in models.items():
    model.fit(X[:3000], y[:3000])
    EnrichmentDisplay.from_estimator(model, X[3000:], y[3000:], name=name, ax=enrichment_ax)
    BudgetCurveDisplay.from_estimator(
        model, X[3000:], y[3000:], budget=100, max_k=400, name=name, ax=budget_ax
    )
