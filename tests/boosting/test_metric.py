"""Evaluation functions compared with the score functions."""

import numpy as np
import pytest

from sktopk import metrics
from sktopk.boosting import metric
from tests.metrics.top_cases import SCORES

Y = np.arange(40) % 5 == 0
SCORE = np.random.default_rng(0).normal(size=40).round(1)
WEIGHT = np.arange(40) % 3


@pytest.mark.parametrize(("score", "params"), SCORES)
@pytest.mark.parametrize("weight", [None, WEIGHT])
def test_a_metric_equals_its_score_function_for_either_library(score, params, weight):
    expected = score(Y, SCORE, sample_weight=weight, **params)
    name = score.__name__.removesuffix("_score")
    f, of_xgboost = (metric(name, library=each, **params) for each in ("lightgbm", "xgboost"))
    for labels in (Y.astype(int), Y.astype(float)):
        assert f(labels, SCORE, weight) == (f.__name__, expected, True)
        assert of_xgboost(labels, SCORE, weight) == -expected


@pytest.mark.parametrize("average", ["micro", "macro"])
def test_the_topk_accuracy_metric_accepts_samples_without_some_classes(average):
    y, y_score = np.arange(30) % 3, np.random.default_rng(1).normal(size=(30, 5))
    name, found, larger_is_better = metric("topk_accuracy", k=2, average=average)(y, y_score)
    expected = metrics.topk_accuracy_score(y, y_score, k=2, labels=range(5), average=average)
    assert (name, found, larger_is_better) == (f"topk_accuracy_2_{average}", expected, True)


def test_lightgbm_group_sizes_give_the_same_score_as_group_labels():
    expected = metrics.precision_at_k_score(Y, SCORE, k=2, groups=np.repeat([0, 1], [10, 30]))
    assert metric("precision_at_k", k=2)(Y, SCORE, group=[10, 30])[1] == expected
    with pytest.raises(ValueError, match="group must be None for name='bedroc'"):
        metric("bedroc")(Y, SCORE, group=[10, 30])
