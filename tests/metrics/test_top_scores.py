"""The scores of rankings compared with their definitions, written as loops."""

import math

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score

from sktopk import metrics
from sktopk.metrics import precision_at_k_score, recall_at_k_score
from tests.metrics import top_cases
from tests.metrics.top_cases import by_order, by_threshold, function_called, large_case, tied_case

at_k = pytest.mark.parametrize("score", [precision_at_k_score, recall_at_k_score])


@by_order
@pytest.mark.parametrize("seed", range(2))
def test_scores_of_ties_are_mean_best_and_worst_over_all_orders(score, reference, params, seed):
    y_true, y_score = tied_case(seed)
    values = [reference(y_true[order].tolist(), **params) for order in top_cases.orders(y_score)]
    assert len(values) > 1
    expected = {"expected": np.mean(values), "optimistic": max(values), "pessimistic": min(values)}
    for ties, value in expected.items():
        result = score(y_true, y_score, ties=ties, **params)
        assert isinstance(result, float)
        assert result == pytest.approx(value, abs=1e-12)
    assert score(y_true, y_score, **params) == score(y_true, y_score, ties="expected", **params)


@by_threshold
@pytest.mark.parametrize("seed", range(2))
def test_metrics_at_a_threshold_equal_their_definition(score, reference, params, seed):
    y_true, y_score, weight = large_case(seed)
    weight[::7] += 0.3
    for w in (np.ones(len(weight)), weight):
        present = w > 0
        expected = reference(*(each[present].tolist() for each in (y_true, y_score, w)), **params)
        assert score(y_true, y_score, sample_weight=w, **params) == pytest.approx(expected)


def test_partial_auc_is_the_mean_tpr_over_the_logarithm_of_the_fpr():
    y_true, y_score, weight = large_case(0)
    options = {"y_true": y_true, "y_score": y_score, "sample_weight": weight}
    rate = np.exp(np.linspace(math.log(0.01), math.log(0.3), 2001))
    rate = np.sqrt(rate[1:] * rate[:-1])
    at = [metrics.true_positive_rate_at_fpr_score(**options, fpr=each) for each in rate]
    score = function_called("partial_auc_log_score")(**options, min_fpr=0.01, max_fpr=0.3)
    assert score == pytest.approx(np.mean(at), abs=1e-3)


@at_k
@pytest.mark.parametrize("k", [5, 0.15])
@pytest.mark.parametrize("ties", ["expected", "optimistic", "pessimistic"])
def test_weight_2_equals_a_repeated_sample_in_scores_with_groups(score, k, ties):
    y_true, y_score, weight = large_case(0)
    group = np.random.default_rng(0).integers(0, 9, len(y_true))
    *rows, of_rows = (each.repeat(weight.astype(int)) for each in (y_true, y_score, group))
    weighted = score(y_true, y_score, k=k, groups=group, ties=ties, sample_weight=weight)
    assert weighted == pytest.approx(score(*rows, k=k, groups=of_rows, ties=ties))


@at_k
@pytest.mark.parametrize("k", [2, 0.3])
def test_k_samples_of_each_group_are_selected(score, k):
    y_true, y_score, _ = large_case(0)
    day = np.random.default_rng(0).choice(["Mon", "Tue", "Wed", "a quiet day"], len(y_true))
    day[:3] = "Sun"
    found = selected = 0.0
    for each in np.unique(day):
        rows = day == each
        n = top_cases.n_selected(k, int(rows.sum()))
        found += n * precision_at_k_score(y_true[rows], y_score[rows], k=n, pos_label=1)
        selected += n
    expected = found / (y_true.sum() if score is recall_at_k_score else selected)
    codes = np.unique(day, return_inverse=True)[1]
    for groups in (day, day.astype(object), pd.Categorical(day), codes):
        assert score(y_true, y_score, k=k, groups=groups) == pytest.approx(expected)


def test_precision_divides_by_k_with_a_warning_if_there_are_fewer_samples():
    y_true, y_score = [1, 0, 1], [3, 2, 1]
    with pytest.warns(UserWarning, match=r"k=8 .* The score divides by 8, but only 3 samples"):
        assert precision_at_k_score(y_true, y_score, k=8) == 2 / 8
    with pytest.warns(UserWarning, match=r"divides by 4, but only 3 samples \(by weight\) count"):
        assert precision_at_k_score(y_true, y_score, k=2, groups=[0, 0, 1]) == 2 / 4


@pytest.mark.filterwarnings("error")
def test_a_fractional_k_rounded_up_selects_at_most_the_total_weight():
    rows = dict(y_true=[0, 1, 0], y_score=[3, 2, 1], sample_weight=[0.3, 0.6, 0.6])
    assert precision_at_k_score(**rows, k=0.9) == pytest.approx(0.4)
    assert metrics.enrichment_factor_score(**rows, fraction=0.9) == pytest.approx(1.0)


@at_k
@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize(("n", "k"), [(60, 0.05), (60, 0.3), (1000, 0.12)])
def test_equal_weights_have_no_effect_on_a_share_of_the_samples(score, grouped, n, k, rng):
    y_true = rng.random(n) < 0.2
    y_score = rng.normal(size=n) + y_true
    options = {"k": k, "groups": rng.integers(3, size=n) if grouped else None}
    expected = score(y_true, y_score, **options)
    # Weights with a sum of at most one, and weights around the inverse of k * n.
    for weight in (1e-9, 1 / n, 8e-3, 9e-3, 0.01, 1.0):
        found = score(y_true, y_score, sample_weight=np.full(n, weight), **options)
        assert found == pytest.approx(expected), weight


def test_a_fraction_of_the_samples_is_rounded_up_except_for_rounding_errors():
    y_score = -np.arange(100.0)
    seventh, eighth = (np.arange(100) == i for i in (6, 7))
    assert 0.07 * 100 > 7
    for score in (recall_at_k_score, precision_at_k_score):
        assert score(seventh, y_score, k=0.07) > 0
        assert score(eighth, y_score, k=0.07) == 0
        assert score(eighth, y_score, k=0.0701) > 0
    found = metrics.enrichment_factor_score(seventh, y_score, fraction=0.07)
    assert found == pytest.approx(100 / 7)
    found = metrics.precision_at_recall_score(y_score > -100, y_score, recall=0.07, pos_label=True)
    assert found == 1
    assert metrics.true_positive_rate_at_fpr_score(-y_score % 2, y_score, fpr=0.14) == 7 / 50


@pytest.mark.parametrize("alpha", [1e-5, 1e-14])
def test_bedroc_tends_to_the_area_under_the_roc_curve(alpha):
    y_true, y_score, weight = large_case(0)
    found = metrics.bedroc_score(y_true, y_score, alpha=alpha, sample_weight=weight)
    area = roc_auc_score(y_true, y_score, sample_weight=weight)
    assert found == pytest.approx(area, abs=1e-5)
