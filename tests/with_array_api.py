"""Arrays of other libraries are answered as NumPy's are, with scikit-learn's dispatch on.

Tensors of torch, and arrays that have nothing but what the array API standard says; also tensors
with a gradient, arrays on another device, and a stand-in for CuPy's. Run by test_array_api.py:

SCIPY_ARRAY_API=1 python -m tests.with_array_api
"""

import array_api_strict
import numpy as np
import pytest
import sklearn
import torch
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.frozen import FrozenEstimator
from sklearn.tree import DecisionTreeClassifier

from sktopk import (
    BudgetClassifier,
    DeepTopPushClassifier,
    ExpectedCostClassifier,
    SetClassifier,
    TopKClassifier,
    TopVotingClassifier,
    metrics,
)

rng = np.random.default_rng(0)
POSITIVE = (rng.random(60) < 0.3).astype(int)
SCORES = rng.normal(size=60) + POSITIVE
LABELS = rng.integers(0, 3, 60)
PROBA = rng.dirichlet(np.ones(3), 60)
WEIGHT = rng.random(60)
GROUPS = np.arange(60) % 4
PROPENSITY = np.where(np.arange(60) % 3, 0.5, np.nan)
X = rng.normal(size=(60, 4)).astype(np.float32) + LABELS[:, None]
X_AND_POSITIVE = X, POSITIVE
SMALL = {"max_epochs": 2, "hidden_layer_sizes": (), "early_stopping": False, "random_state": 0}


class OnGPU:
    """What of CuPy's arrays counts here: no NumPy array without `get`, and no namespace."""

    def __init__(self, values):
        self.values = np.asarray(values)
        self.shape, self.ndim, self.dtype = self.values.shape, self.values.ndim, self.values.dtype
        self.device = "<CUDA Device 0>"

    def __array__(self, *args, **kwargs):
        raise TypeError("Implicit conversion to a NumPy array is not allowed.")

    def __dlpack__(self, stream=None):
        raise BufferError("not in the CPU's memory")

    def __len__(self):
        return len(self.values)

    def __getitem__(self, index):
        return OnGPU(self.values[index])

    def get(self):
        return self.values


def with_gradient(values):
    """A tensor with a gradient, of numbers that can have one."""
    values = torch.tensor(values)
    return values.requires_grad_() if values.is_floating_point() else values


def elsewhere(values):
    return array_api_strict.asarray(values, device=array_api_strict.Device("device1"))


def score(estimator, X, y, *more):
    return estimator.fit(X, y).score(X, y, *more)


def of_groups(X, y, groups):
    ranker = DeepTopPushClassifier(**SMALL).fit(X, y, groups=groups)
    return ranker.score(X, y, groups=groups)


def of_others(X, y):
    """Of a classifier whose answers lie where its rows do."""
    if isinstance(X, OnGPU) or getattr(X, "requires_grad", False):
        X, y = X_AND_POSITIVE  # which scikit-learn's own refuse
    clf = FrozenEstimator(LinearDiscriminantAnalysis().fit(X, y))
    return score(BudgetClassifier(clf), X, y)


def of_log(X, y, propensity, weight):
    ranker = DeepTopPushClassifier(**SMALL)
    return ranker.fit(X, y, sample_weight=weight, propensity=propensity).score(X, y)


QUESTIONS = {
    "precision at k": (metrics.precision_at_k_score, (POSITIVE, SCORES), {"k": 5}),
    "bedroc": (metrics.bedroc_score, (POSITIVE, SCORES), {}),
    "positives at top": (metrics.positives_at_top_score, (POSITIVE, SCORES), {}),
    "quantile": (metrics.auc_at_quantile_score, (POSITIVE, SCORES), {"quantile": 0.1}),
    "value": (metrics.mean_value_at_k_score, (SCORES, SCORES), {"k": 5}),
    "top-k": (metrics.topk_accuracy_score, (LABELS, PROBA), {"k": 2}),
    "area": (metrics.topk_auc_log_score, (LABELS, PROBA), {}),
    "coverage": (metrics.set_coverage_score, (LABELS, PROBA > 0.3), {"labels": [0, 1, 2]}),
    "size": (metrics.set_size_score, (PROBA > 0.3,), {}),
    "weights": (
        lambda y, s, w, g: metrics.precision_at_k_score(y, s, k=2, sample_weight=w, groups=g),
        (POSITIVE, SCORES, WEIGHT, GROUPS),
        {},
    ),
    "log": (
        lambda y, s, p: metrics.recall_at_k_score(y, s, k=5, propensity=p),
        (POSITIVE, SCORES, PROPENSITY),
        {},
    ),
    "labels": (lambda X, y: score(TopKClassifier(k=2, **SMALL), X, y), (X, LABELS), {}),
    "top labels": (
        lambda X, y: TopKClassifier(k=2, **SMALL).fit(X, y).predict_topk(X).sum(),
        (X, LABELS),
        {},
    ),
    "rows": (
        lambda X, y, w: score(DeepTopPushClassifier(**SMALL), X, y, w),
        (X, POSITIVE, WEIGHT),
        {},
    ),
    "groups": (of_groups, (X, POSITIVE, GROUPS), {}),
    "log of rows": (of_log, (X, POSITIVE, PROPENSITY, WEIGHT), {}),
    "budget": (
        lambda X, y: score(BudgetClassifier(DeepTopPushClassifier(**SMALL), random_state=0), X, y),
        (X, POSITIVE),
        {},
    ),
    "other people's classifier": (of_others, (X, POSITIVE), {}),
    "vote": (
        lambda X, y: score(
            TopVotingClassifier(
                DeepTopPushClassifier(**SMALL),
                [DecisionTreeClassifier(max_depth=2, random_state=0)],
                n_folds=2,
                random_state=0,
            ),
            X,
            y,
        ),
        (X, POSITIVE),
        {},
    ),
    "cost": (
        lambda p, y: ExpectedCostClassifier.from_scores(p, y).predict(p).sum(),
        (PROBA, LABELS),
        {},
    ),
    "sets": (
        lambda p, y: SetClassifier.from_scores(p, y, method="lac").predict_set(p).sum(),
        (PROBA, LABELS),
        {},
    ),
}


READABLE = (torch.from_numpy, array_api_strict.asarray)
COPIED = (with_gradient, elsewhere, OnGPU)


def main():
    for name, (function, arrays, params) in QUESTIONS.items():
        expected = function(*arrays, **params)
        for convert in READABLE + COPIED:
            others = [convert(each) for each in arrays]
            for dispatch in (False, True) if convert in READABLE else (True,):
                with sklearn.config_context(array_api_dispatch=dispatch):
                    found = function(*others, **params)
                np.testing.assert_allclose(float(found), float(expected), rtol=1e-6, err_msg=name)
    unreadable = torch.tensor(SCORES, dtype=torch.bfloat16)
    with (
        sklearn.config_context(array_api_dispatch=True),
        pytest.raises(TypeError, match=r"^y_score must .*bfloat16"),
    ):
        metrics.precision_at_k_score(POSITIVE, unreadable, k=5)
    print(len(QUESTIONS))


if __name__ == "__main__":
    main()
