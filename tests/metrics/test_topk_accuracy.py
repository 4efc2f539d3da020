import tracemalloc

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import UndefinedMetricWarning

from sktopk.metrics import shot_accuracy_score, topk_accuracy_score


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.uint8])
def test_one_dimensional_scores_mean_two_classes_with_opposite_scores(dtype):
    y_true = np.array(["no", "yes", "yes", "no"])
    decision = np.array([3, 2, 1, 0], dtype=dtype)
    assert topk_accuracy_score(y_true, decision, k=1) == pytest.approx((0 + 1 + 1 + 0.5) / 4)
    assert topk_accuracy_score(y_true, decision, k=1, labels=["yes", "no"]) == 0.375
    with pytest.warns(UserWarning, match="k=2 covers all 2 classes"):
        assert topk_accuracy_score(y_true, decision, k=2) == 1.0
    with pytest.warns(UserWarning, match="one column of y_score is compared with 0"):
        topk_accuracy_score(y_true, decision / 3, k=1)


def test_labels_of_every_type_and_container_are_accepted():
    y_score = np.array([[2, 1, 0], [2, 1, 0], [0, 1, 2]])
    of_numpy = np.array(["a", "b", "c"], dtype=object), np.array([1, 2, 3], dtype=np.uint8)
    for labels in (["a", "b", "c"], [5, 7, 9], [-1.0, 0.5, 3.0], *of_numpy):
        assert topk_accuracy_score(list(labels), y_score, k=1) == pytest.approx(2 / 3)
        assert topk_accuracy_score(list(labels)[:2], y_score[:2], k=1, labels=labels) == 0.5
    assert topk_accuracy_score([True, False, True], y_score[:, :2], k=1) == pytest.approx(2 / 3)
    assert topk_accuracy_score(np.array(["a"], dtype=object), [[1.0]], labels=np.array(["a"])) == 1


def test_many_samples_are_scored_chunk_by_chunk():
    rng = np.random.default_rng(5)
    y_score, y_true = rng.standard_normal((20_000, 500), np.float32), rng.integers(500, size=20_000)
    tracemalloc.start()
    score = topk_accuracy_score(y_true, y_score, k=2, labels=range(500))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < y_score.nbytes / 10
    own = np.take_along_axis(y_score, y_true[:, None], axis=1)
    assert score == pytest.approx(np.mean((y_score > own).sum(axis=1) < 2))
    y_score[-1, -1] = np.nan
    with pytest.raises(ValueError, match="y_score must not contain NaN"):
        topk_accuracy_score(y_true, y_score, k=2, labels=range(500))


@pytest.mark.parametrize("average", ["micro", "macro"])
@pytest.mark.parametrize("rows", [([], np.empty((0, 3))), ([0, 1], np.eye(2))], ids=len)
def test_topk_accuracy_without_samples_of_positive_weight_is_nan_with_a_warning(average, rows):
    with pytest.warns(UndefinedMetricWarning, match="no sample of positive weight"):
        score = topk_accuracy_score(*rows, average=average, sample_weight=np.zeros(len(rows[0])))
    assert np.isnan(score)


def test_shot_accuracy_is_the_macro_average_inside_each_group():
    rng = np.random.default_rng(6)
    counts = {"a": 101, "b": 100, "c": 20, "d": 19, "e": 500, "f": 1}
    y_true = rng.choice([*counts, "unseen"], size=300)
    y_score = rng.standard_normal((300, 6))
    options, by_label = {"labels": list(counts), "k": 2}, pd.Series(counts | {"z": 0})[::-1]
    scores = shot_accuracy_score(y_true, y_score, class_counts=pd.Index(counts.values()), **options)
    groups = {"many": ["a", "e"], "medium": ["b", "c"], "few": ["d", "f", "unseen"]}
    assert list(scores) == ["many", "medium", "few"]
    assert scores == shot_accuracy_score(y_true, y_score, class_counts=by_label, **options)
    with pytest.raises(ValueError, match="must be in labels; got 0"):
        shot_accuracy_score(y_true, y_score, class_counts={0: 5}, **options)
    for name, group in groups.items():
        rows = np.isin(y_true, group)
        expected = topk_accuracy_score(y_true[rows], y_score[rows], average="macro", **options)
        assert scores[name] == pytest.approx(expected)


def test_shot_group_without_test_classes_is_nan_with_a_warning():
    counts = [200, 3, 50]
    with pytest.warns(UndefinedMetricWarning, match="no medium-shot class"):
        scores = shot_accuracy_score([0, 1], np.eye(2, 3), class_counts=counts, labels=range(3))
    assert scores["many"] == scores["few"] == 1.0
    assert np.isnan(scores["medium"])
