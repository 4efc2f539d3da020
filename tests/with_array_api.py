"""Arrays of other libraries are answered as NumPy's are, with scikit-learn's dispatch on.

Tensors of torch, and arrays that have nothing but what the array API standard says. Run by
test_array_api.py:

SCIPY_ARRAY_API=1 python -m tests.with_array_api
"""

import array_api_strict
import numpy as np
import sklearn
import torch

from sktopk import BudgetClassifier, DeepTopPushClassifier, SetClassifier, TopKClassifier, metrics

rng = np.random.default_rng(0)
POSITIVE = (rng.random(60) < 0.3).astype(int)
SCORES = rng.normal(size=60) + POSITIVE
LABELS = rng.integers(0, 3, 60)
PROBA = rng.dirichlet(np.ones(3), 60)
X = rng.normal(size=(60, 4)).astype(np.float32) + LABELS[:, None]
SMALL = {"max_epochs": 2, "hidden_layer_sizes": (), "early_stopping": False, "random_state": 0}


def score(estimator, X, y):
    return estimator.fit(X, y).score(X, y)


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
    "labels": (lambda X, y: score(TopKClassifier(k=2, **SMALL), X, y), (X, LABELS), {}),
    "rows": (lambda X, y: score(DeepTopPushClassifier(**SMALL), X, y), (X, POSITIVE), {}),
    "budget": (
        lambda X, y: score(BudgetClassifier(DeepTopPushClassifier(**SMALL), random_state=0), X, y),
        (X, POSITIVE),
        {},
    ),
    "sets": (
        lambda p, y: SetClassifier.from_scores(p, y, method="lac").predict_set(p).sum(),
        (PROBA, LABELS),
        {},
    ),
}


def main():
    for name, (function, arrays, params) in QUESTIONS.items():
        expected = function(*arrays, **params)
        for convert in (torch.from_numpy, array_api_strict.asarray):
            others = [convert(each) for each in arrays]
            for dispatch in (False, True):
                with sklearn.config_context(array_api_dispatch=dispatch):
                    found = function(*others, **params)
                np.testing.assert_allclose(float(found), float(expected), rtol=1e-6, err_msg=name)
    print(len(QUESTIONS))


if __name__ == "__main__":
    main()
