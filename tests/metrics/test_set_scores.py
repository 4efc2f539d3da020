import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.exceptions import UndefinedMetricWarning

from sktopk.metrics import set_coverage_score, set_size_score

LABELS = ["ash", "elm", "oak", "yew"]


@pytest.fixture
def sets(rng):
    # "fir" has no column, and "yew" is the label of no sample.
    y_true = rng.choice(["ash", "elm", "oak", "fir"], size=60, p=[0.6, 0.2, 0.1, 0.1])
    y_set = rng.random((60, 4)) < 0.5
    y_set[:5] = False
    return y_true, y_set, rng.integers(0, 4, size=60).astype(float)


def coverage_of(y_true, y_set, weight, average):
    hits = {}
    for label, members, w in zip(y_true, y_set, weight, strict=True):
        chosen = [name for name, inside in zip(LABELS, members, strict=True) if inside]
        if w > 0:
            hits.setdefault(label if average == "macro" else "", []).append((label in chosen, w))
    means = [sum(h * w for h, w in rows) / sum(w for _, w in rows) for rows in hits.values()]
    return sum(means) / len(means)


@pytest.mark.parametrize("average", ["micro", "macro"])
@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array, sparse.csc_matrix])
def test_set_coverage_equals_its_definition(average, container, sets):
    y_true, y_set, weight = sets
    for w in (weight, np.ones(60)):
        options = {"labels": LABELS, "average": average, "sample_weight": w}
        found = set_coverage_score(y_true, container(y_set), **options)
        assert found == pytest.approx(coverage_of(y_true, y_set, w, average), abs=1e-15)


def test_set_size_equals_its_definition(sets):
    _, y_set, weight = sets
    sizes = [sum(map(int, row)) for row in y_set]
    expected = sum(w * s for w, s in zip(weight, sizes, strict=True)) / sum(weight)
    for container in (np.asarray, sparse.csr_array, sparse.coo_matrix):
        assert set_size_score(container(y_set), sample_weight=weight) == pytest.approx(expected)
        assert set_size_score(container(y_set)) == pytest.approx(sum(sizes) / 60)


def test_labels_may_have_any_order_and_type():
    y_set = [[1, 0], [1, 0]]
    assert set_coverage_score([5, 3], y_set, labels=[5, 3]) == 0.5
    with pytest.raises(ValueError, match="y_set must have its columns in the order"):
        set_coverage_score([5, 3], pd.DataFrame(np.eye(2), columns=[3, 5]), labels=[5, 3])
    assert set_coverage_score([True, False], y_set, labels=(False, True)) == 0.5
    frame = pd.DataFrame(y_set, columns=["b", "a"])
    assert set_coverage_score(pd.Series(["b", "b"]), frame, labels=frame.columns) == 1.0


@pytest.mark.parametrize("n_rows", [0, 2])
def test_set_scores_without_samples_of_positive_weight_are_nan_with_a_warning(n_rows):
    y_set, weight = np.ones((n_rows, 3)), np.zeros(n_rows)
    with pytest.warns(UndefinedMetricWarning, match="set_coverage_score: no sample of"):
        score = set_coverage_score([1] * n_rows, y_set, labels=[1, 2, 3], sample_weight=weight)
    assert np.isnan(score)
    with pytest.warns(UndefinedMetricWarning, match="set_size_score: no sample of positive"):
        assert np.isnan(set_size_score(y_set, sample_weight=weight))
