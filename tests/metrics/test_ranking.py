"""Blocks of tied rows against other libraries."""

import numpy as np
import pytest
from sklearn.metrics import average_precision_score

from sktopk.metrics._ranking import Ranking


@pytest.mark.parametrize("n_samples", [3, 10, 200])
@pytest.mark.parametrize("weighted", [False, True])
def test_average_precision_is_that_of_scikit_learn(n_samples, weighted):
    rng = np.random.default_rng(n_samples)
    for _ in range(20):
        positive = rng.random(n_samples) < 0.3
        positive[:2] = True, False
        y_score = rng.normal(size=n_samples).round(1)
        weight = rng.integers(0, 3, n_samples) * rng.random(n_samples) if weighted else None
        if weighted:
            weight[:2] = 1e-3, 2.0
        ranking = Ranking.from_values(positive, y_score, weight)
        expected = average_precision_score(positive, y_score, sample_weight=weight)
        assert ranking.average_precision == pytest.approx(expected)
