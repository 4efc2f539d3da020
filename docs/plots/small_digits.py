"""A linear model on five components of digits: the figures of the guide train it."""

import warnings
from functools import cache

import numpy as np
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sktopk import TopKClassifier
from sktopk.metrics import topk_accuracy_score

SEEDS = range(2)


@cache
def data(seed):
    X, y = load_digits(return_X_y=True)
    X, X_test, y, y_test = train_test_split(X, y, test_size=0.5, stratify=y, random_state=seed)
    prepare = make_pipeline(StandardScaler(), PCA(5, random_state=0)).fit(X)
    return prepare.transform(X).astype(np.float32), prepare.transform(X_test), y, y_test


def fit(seed, **params):
    X, _, y, _ = data(seed)
    defaults = {"learning_rate": 0.1, "log_loss_share": 0}
    defaults |= {"k": 3, "hidden_layer_sizes": (), "n_estimators": 1, "calibration": None}
    if params.get("loss") == "cross_entropy":
        defaults.pop("log_loss_share")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return TopKClassifier(**defaults | params, random_state=seed).fit(X, y)


def accuracies(ks, **params):
    """Return the mean top-k accuracy over seeds, one for each of `ks`."""
    rows = []
    for seed in SEEDS:
        _, X_test, _, y_test = data(seed)
        y_score = fit(seed, **params).decision_function(X_test.astype(np.float32))
        rows.append([topk_accuracy_score(y_test, y_score, k=k) for k in ks])
    return np.mean(rows, axis=0)
