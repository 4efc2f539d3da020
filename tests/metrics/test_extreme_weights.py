"""Very different weights: scores compared with sums of fractions, which are exact."""

import math
from fractions import Fraction

import numpy as np
import pytest

from sktopk import metrics
from tests.metrics import top_cases

pytestmark = pytest.mark.filterwarnings("ignore:.*(exceeds|is NaN)")
WEIGHTS = [0.0, 1e-30, 1e-30, 1e-15, 1.0, 1.0, 3.0, 1e15, 1e30]


def cases(n_cases=300):
    rng = np.random.default_rng(0)
    while n_cases:
        n = rng.integers(2, 9)
        y, weight = rng.integers(0, 2, n), rng.choice(WEIGHTS, n)
        if (weight * y).any():
            n_cases -= 1
            yield y, rng.integers(0, 6, n).astype(float), weight, rng.integers(0, 3, n)


def blocks(y, y_score, weight):
    """Yield the weights of positives and of all samples with a score, from the highest score."""
    rows = zip(y_score, map(Fraction, weight), y, strict=True)
    rows = [(score, w, w * int(positive)) for score, w, positive in rows if w]
    for score in sorted({s for s, *_ in rows}, reverse=True):
        yield sum(p for s, _, p in rows if s == score), sum(w for s, w, _ in rows if s == score)


def best(y, y_score, weight, groups, k):
    """Expected numbers of positives and of samples at the top, over all orders of ties."""
    found = places = Fraction(0)
    for group in set(groups[weight > 0].tolist()):
        left, rows = Fraction(k), groups == group
        places += k
        for positive, total in blocks(y[rows], y_score[rows], weight[rows]):
            share = max(Fraction(0), min(Fraction(1), left / total))
            found += share * positive
            left -= total
    return found, places


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("k", [1, 2, 6])
def test_precision_and_recall_at_k_equal_values_computed_with_exact_fractions(k, grouped):
    for y, y_score, weight, groups in cases():
        groups = groups if grouped else np.zeros(len(y), dtype=int)
        found, places = best(y, y_score, weight, groups, k)
        positives = sum(Fraction(w) for w in weight[y == 1])
        params = {"k": k, "groups": groups if grouped else None, "sample_weight": weight}
        for score, expected in [
            (metrics.precision_at_k_score, found / places),
            (metrics.recall_at_k_score, found / positives),
        ]:
            assert score(y, y_score, **params) == pytest.approx(float(expected), rel=1e-12, abs=0)


def test_scores_at_thresholds_equal_values_computed_with_exact_fractions():
    for y, y_score, weight, _ in cases():
        kept = weight > 0
        present = y[kept].tolist(), y_score[kept].tolist(), [*map(Fraction, weight[kept])]
        score = metrics.positives_at_top_score(y, y_score, k=2, sample_weight=weight)
        expected = top_cases.positives_at_top(*present, 2)
        assert score == pytest.approx(float(expected), rel=1e-12, abs=0)
        score = metrics.true_positive_rate_at_fpr_score(y, y_score, fpr=0.3, sample_weight=weight)
        if has_negatives := 0 in present[0]:
            expected = top_cases.true_positive_rate_at_fpr(*present, 0.3)
            assert score == pytest.approx(float(expected), rel=1e-12, abs=0)
        else:
            assert math.isnan(score)
        score = metrics.bedroc_score(y, y_score, sample_weight=weight)
        assert math.isnan(score) != has_negatives
        score = metrics.enrichment_factor_score(y, y_score, fraction=0.3, sample_weight=weight)
        assert score >= 0


@pytest.mark.parametrize("light", [1e-3, 1e-8, 1e-20, 1e-30])
@pytest.mark.parametrize("rare", [0, 1])
def test_bedroc_of_one_sample_of_tiny_weight_depends_on_its_rank(light, rare):
    # Only the rank of the light sample matters: it is below 1/4 of the weight of the others.
    y = np.array([1 - rare, rare, 1 - rare])
    score = metrics.bedroc_score(y, [3, 2, 1], alpha=2.0, sample_weight=[1.0, light, 3.0])
    height = (math.exp(-0.5) - math.exp(-2.0)) / (1 - math.exp(-2.0))
    assert score == pytest.approx(height if rare else 1 - height, rel=2 * light + 1e-12)


WITHOUT_K = [("bedroc_score", {}), ("recall_at_precision_score", {"precision": 0.5})]
WITHOUT_K += [("auc_at_quantile_score", {"quantile": 0.5}), ("positives_at_top_score", {})]


@pytest.mark.parametrize(("name", "params"), WITHOUT_K)
@pytest.mark.parametrize("weight", [1e-320, 1e-308, 1e300])
def test_equal_weights_of_any_size_change_nothing(name, params, weight):
    y, scores = [0, 1, 1, 0], [0.9, 0.8, 0.7, 0.6]
    value = top_cases.function_called(name)(y, scores, sample_weight=[weight] * 4, **params)
    assert value == pytest.approx(top_cases.function_called(name)(y, scores, **params), rel=1e-3)


def test_rounding_errors_of_many_weights_change_no_recall():
    y = np.arange(100_000) >= 50_000
    params = {"precision": 0.5, "sample_weight": np.full(100_000, 0.1)}
    assert metrics.recall_at_precision_score(y, -np.arange(100_000), **params) == 1
