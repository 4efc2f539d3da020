"""The area under the top-k curve against its definition, k by k."""

import itertools
import math

import numpy as np
import pytest

from sktopk.metrics import topk_accuracy_score, topk_auc_log_score

RNG = np.random.default_rng(0)


@pytest.mark.parametrize("n_classes", [2, 3, 7])
def test_it_is_the_sum_over_k(n_classes):
    y, y_score = RNG.integers(0, n_classes, 30), RNG.standard_normal((30, n_classes))
    weight, labels = RNG.random(30), np.arange(n_classes)
    area = sum(
        topk_accuracy_score(y, y_score, k=k, labels=labels, sample_weight=weight)
        * math.log((k + 1) / k)
        for k in range(1, n_classes)
    )
    score = topk_auc_log_score(y, y_score, labels=labels, sample_weight=weight)
    assert score == pytest.approx(area / math.log(n_classes), abs=1e-12)


def test_ties_count_as_the_mean_of_all_orders():
    y_score = np.array([1.0, 1.0, 0.0, 1.0])
    expected = []
    for order in itertools.permutations(range(4)):
        ranked = sorted(order, key=lambda c: -y_score[c])
        expected.append(1 - math.log(1 + ranked.index(3)) / math.log(4))
    score = topk_auc_log_score([3], y_score[np.newaxis], labels=range(4))
    assert score == pytest.approx(np.mean(expected), abs=1e-12)


def test_ends_and_labels_without_a_column():
    y_score = np.array([[2.0, 1.0, 0.0]] * 3)
    assert topk_auc_log_score([0, 0, 0], y_score, labels=[0, 1, 2]) == 1
    assert topk_auc_log_score([2, 2, 2], y_score, labels=[0, 1, 2]) == pytest.approx(0, abs=1e-12)
    assert topk_auc_log_score([0, 9, 9], y_score, labels=[0, 1, 2]) == pytest.approx(1 / 3)


def test_without_rows_it_is_undefined():
    with pytest.warns(UserWarning, match="topk_auc_log_score"):
        assert np.isnan(topk_auc_log_score([0], [[1.0, 0.0]], labels=[0, 1], sample_weight=[0.0]))
