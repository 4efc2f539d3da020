"""Searches over the parameters of a loss, and the order of the labels that it selects."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV
from torch import nn

from sktopk import TopKClassifier
from sktopk.metrics import make_topk_scorer


def noisy(n_samples, seed):
    """Twenty overlapping classes; 70 % of the labels are drawn from the group of five."""
    centers = np.random.default_rng(100).standard_normal((20, 8)) * 1.2
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 20, n_samples)
    X = centers[y] + 1.2 * rng.standard_normal((n_samples, 8))
    redrawn = rng.random(n_samples) < 0.7
    y[redrawn] = y[redrawn] // 5 * 5 + rng.integers(0, 5, redrawn.sum())
    return X.astype(np.float32), y


def test_a_search_over_tau_finds_the_value_inside_its_range_that_is_best_on_fresh_samples():
    X, y = noisy(1500, seed=0)
    # With the default share of cross-entropy, all of these values are about equally good.
    params = {"n_estimators": 2, "max_epochs": 15, "calibration": None, "random_state": 0}
    clf = TopKClassifier(k=5, log_loss_share=0, **params)
    taus = [0.01, 10.0, 1000.0]
    search = GridSearchCV(clf, {"tau": taus}, scoring=make_topk_scorer(5), cv=2).fit(X, y)
    fresh = noisy(8000, seed=1000)
    scores = [clone(clf).set_params(tau=tau).fit(X, y).score(*fresh) for tau in taus]
    assert search.best_params_ == {"tau": 10.0}
    assert taus[np.argmax(scores)] == 10.0


class Convolution(nn.Sequential):
    def __init__(self, n_channels, n_outputs):
        super().__init__(
            nn.Conv2d(n_channels, 16, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(16, 32, 3, padding=1),
            nn.ReLU(),
            nn.Flatten(),
            nn.Linear(512, n_outputs),
        )


# Without cross-entropy, the loss is zero once the label is among the best three by a margin.
@pytest.mark.parametrize("log_loss_share", [0, 0.6])
def test_cross_entropy_orders_the_labels_that_a_top_k_loss_only_selects(log_loss_share):
    X, y = load_digits(return_X_y=True)
    X = (X / 16).reshape(-1, 1, 8, 8).astype(np.float32)
    clf = TopKClassifier(
        "noised_topk",
        k=3,
        log_loss_share=log_loss_share,
        module=Convolution,
        n_estimators=1,
        batch_size=67,
        max_epochs=20,
        learning_rate=0.003,
        random_state=0,
    )
    clf.fit(X[:1200], y[:1200])
    assert clf.score(X[1200:], y[1200:]) > 0.9
    assert (np.mean(clf.predict(X[1200:]) == y[1200:]) > 0.85) == (log_loss_share > 0)
