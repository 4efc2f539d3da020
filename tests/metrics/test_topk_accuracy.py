import tracemalloc
from fractions import Fraction

import numpy as np
import pytest
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.metrics import top_k_accuracy_score

from sktopk.metrics import shot_accuracy_score, topk_accuracy_score

every_average = pytest.mark.parametrize("average", ["micro", "macro"])


def row_hit(score, column, k, ties):
    """Sort the row; share the places left at the cut among the tied labels."""
    in_order = sorted(score, reverse=True)
    cut = in_order[min(k, len(in_order)) - 1]
    if score[column] != cut:
        return Fraction(int(score[column] > cut))
    n_above = sum(s > cut for s in score)
    n_at_cut = sum(s == cut for s in score)
    if n_above + n_at_cut <= k or ties == "optimistic":
        return Fraction(1)
    return Fraction(0) if ties == "pessimistic" else Fraction(k - n_above, n_at_cut)


def reference_accuracy(y_true, y_score, k, labels, average, ties, weight):
    rows = []
    for y, score, w in zip(y_true, y_score, weight, strict=True):
        hit = row_hit(score, list(labels).index(y), k, ties) if y in labels else Fraction(0)
        rows.append((y, hit, Fraction(float(w))))

    def mean(rows):
        return sum(h * w for _, h, w in rows) / sum(w for _, _, w in rows)

    if average == "micro":
        return float(mean(rows))
    present = sorted({y for y, _, w in rows if w > 0})
    return float(sum(mean([r for r in rows if r[0] == y]) for y in present) / len(present))


@pytest.fixture
def fold():
    """Many ties, infinities, weights, a class without rows ("e"), labels without a column."""
    rng = np.random.default_rng(0)
    labels = np.array(["d", "a", "e", "c", "b", "f"])
    y_true = rng.choice(["a", "b", "c", "d", "f", "unseen", "new"], size=200)
    y_score = rng.integers(0, 4, size=(200, 6)).astype(np.float32)
    y_score[rng.random(y_score.shape) < 0.1] = np.inf
    y_score[rng.random(y_score.shape) < 0.1] = -np.inf
    return y_true, y_score, labels, rng.integers(0, 4, size=200) / 2


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("ties", ["expected", "optimistic", "pessimistic"])
@every_average
@pytest.mark.parametrize("k", [1, 2, 5, 9])
def test_equals_definition(fold, k, average, ties):
    y_true, y_score, labels, weight = fold
    weight[y_true == "new"] = 0
    score = topk_accuracy_score(
        y_true, y_score, k=k, labels=labels, average=average, ties=ties, sample_weight=weight
    )
    assert isinstance(score, float)
    expected = reference_accuracy(y_true, y_score, k, labels, average, ties, weight)
    assert score == pytest.approx(expected, abs=1e-13)


@pytest.mark.parametrize("k", [1, 2, 4])
def test_equals_scikit_learn_without_ties(k):
    rng = np.random.default_rng(1)
    y_true, y_score = rng.integers(5, size=300), rng.standard_normal((300, 5))
    weight = rng.random(300)
    assert topk_accuracy_score(y_true, y_score, k=k, sample_weight=weight) == pytest.approx(
        top_k_accuracy_score(y_true, y_score, k=k, sample_weight=weight), abs=1e-14
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.uint8])
def test_one_dimension_means_two_classes_with_opposite_scores(dtype):
    y_true = np.array(["no", "yes", "yes", "no"])
    decision = np.array([3, 2, 1, 0], dtype=dtype)
    assert topk_accuracy_score(y_true, decision, k=1) == pytest.approx((0 + 1 + 1 + 0.5) / 4)
    assert topk_accuracy_score(y_true, decision, k=1, labels=["yes", "no"]) == 0.375
    assert topk_accuracy_score(y_true, decision, k=2) == 1.0


def test_every_kind_of_label_and_container():
    y_score = np.array([[2, 1, 0], [2, 1, 0], [0, 1, 2]])
    for labels in (
        ["a", "b", "c"],
        np.array(["a", "b", "c"], dtype=object),
        [5, 7, 9],
        [-1.0, 0.5, 3.0],
        np.array([1, 2, 3], dtype=np.uint8),
    ):
        y_true = [labels[0], labels[1], labels[2]]
        assert topk_accuracy_score(y_true, y_score, k=1) == pytest.approx(2 / 3)
        assert topk_accuracy_score(y_true[:2], y_score[:2], k=1, labels=labels) == 0.5
    assert topk_accuracy_score([True, False, True], y_score[:, :2], k=1) == pytest.approx(2 / 3)
    assert topk_accuracy_score(np.array(["a"], dtype=object), [[1.0]], labels=np.array(["a"])) == 1


def test_many_samples_are_scored_chunk_by_chunk():
    rng = np.random.default_rng(5)
    y_score = rng.standard_normal((20_000, 500), dtype=np.float32)
    y_true = rng.integers(500, size=20_000)
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


@every_average
@pytest.mark.parametrize("rows", [([], np.empty((0, 3))), ([0, 1], np.eye(2))], ids=len)
def test_nothing_to_average_warns_and_is_nan(average, rows):
    with pytest.warns(UndefinedMetricWarning, match="no sample of positive weight"):
        score = topk_accuracy_score(*rows, average=average, sample_weight=np.zeros(len(rows[0])))
    assert np.isnan(score)


def test_shot_accuracy_is_the_macro_average_inside_each_group():
    rng = np.random.default_rng(6)
    counts = {"a": 101, "b": 100, "c": 20, "d": 19, "e": 500, "f": 1}
    y_true = rng.choice([*counts, "unseen"], size=300)
    y_score = rng.standard_normal((300, 6))
    labels = list(counts)
    scores = shot_accuracy_score(
        y_true, y_score, class_counts=list(counts.values()), labels=labels, k=2
    )
    groups = {"many": ["a", "e"], "medium": ["b", "c"], "few": ["d", "f", "unseen"]}
    assert list(scores) == ["many", "medium", "few"]
    for name, group in groups.items():
        rows = np.isin(y_true, group)
        assert scores[name] == pytest.approx(
            topk_accuracy_score(y_true[rows], y_score[rows], k=2, labels=labels, average="macro")
        )


def test_shot_group_without_test_classes_is_nan_with_a_warning():
    with pytest.warns(UndefinedMetricWarning, match="no medium-shot class"):
        scores = shot_accuracy_score(
            [0, 1], np.eye(3)[:2], class_counts=[200, 3, 50], labels=range(3)
        )
    assert scores["many"] == scores["few"] == 1.0
    assert np.isnan(scores["medium"])
