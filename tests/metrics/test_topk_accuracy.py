import tracemalloc
from fractions import Fraction

import numpy as np
import pytest
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.metrics import accuracy_score, balanced_accuracy_score, top_k_accuracy_score

from sktopk.metrics import _topk, shot_accuracy_score, topk_accuracy_score

TIES = ["expected", "optimistic", "pessimistic"]


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
@pytest.mark.parametrize("ties", TIES)
@pytest.mark.parametrize("average", ["micro", "macro"])
@pytest.mark.parametrize("k", [1, 2, 3, 5, 6, 9])
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


def test_top1_is_accuracy_and_macro_top1_is_balanced_accuracy():
    rng = np.random.default_rng(2)
    y_true, y_score = rng.integers(4, size=100), rng.standard_normal((100, 4))
    y_pred = y_score.argmax(axis=1)
    assert topk_accuracy_score(y_true, y_score, k=1) == accuracy_score(y_true, y_pred)
    assert topk_accuracy_score(y_true, y_score, k=1, average="macro") == pytest.approx(
        balanced_accuracy_score(y_true, y_pred)
    )


@pytest.mark.parametrize("average", ["micro", "macro"])
@pytest.mark.parametrize("n_classes", [3, 7, 10, 49])
def test_constant_classifier_scores_exactly_k_over_n_classes(n_classes, average):
    y_true = np.random.default_rng(0).integers(n_classes, size=1797)
    y_score = np.zeros((1797, n_classes))
    for k in range(1, n_classes + 1):
        score = topk_accuracy_score(y_true, y_score, k=k, labels=range(n_classes), average=average)
        assert score == k / n_classes


def test_expected_ties_are_the_average_over_random_tie_breaking(fold):
    y_true, y_score, labels, _ = fold
    y_score = np.clip(y_score, -9, 9)
    rng = np.random.default_rng(3)
    broken = [
        topk_accuracy_score(y_true, y_score + rng.random(y_score.shape) / 2, k=2, labels=labels)
        for _ in range(1000)
    ]
    assert topk_accuracy_score(y_true, y_score, k=2, labels=labels) == pytest.approx(
        np.mean(broken), abs=4 * np.std(broken) / np.sqrt(len(broken))
    )


def test_pessimistic_expected_optimistic_are_ordered(fold):
    y_true, y_score, labels, _ = fold
    low, middle, high = (
        topk_accuracy_score(y_true, y_score, k=2, labels=labels, ties=ties)
        for ties in ["pessimistic", "expected", "optimistic"]
    )
    assert low < middle < high


@pytest.mark.parametrize("average", ["micro", "macro"])
def test_k_of_all_classes_finds_every_known_label(fold, average):
    y_true, y_score, labels, _ = fold
    known = np.isin(y_true, labels)
    for k in (6, 60):
        score = topk_accuracy_score(
            y_true[known], y_score[known], k=k, labels=labels, average=average
        )
        assert score == 1.0


def test_unseen_label_is_a_miss_and_in_macro_a_class_of_accuracy_zero():
    y_score = [[2.0, 1.0], [2.0, 1.0], [2.0, 1.0], [2.0, 1.0]]
    y_true = ["ash", "ash", "yew", "fir"]
    assert topk_accuracy_score(y_true, y_score, k=2, labels=["ash", "elm"]) == 0.5
    score = topk_accuracy_score(y_true, y_score, k=2, labels=["ash", "elm"], average="macro")
    assert score == pytest.approx(1 / 3)


def test_fold_of_singleton_classes_has_a_score():
    """The fold on which a scorer that is not class-aware gives NaN."""
    y_score = np.eye(6)[:, ::-1] + np.eye(6)
    y_true = np.array([0, 1, 2, 7, 8, 9])
    assert topk_accuracy_score(y_true, y_score, k=2, labels=range(6), average="macro") == 0.5


def test_order_of_columns_does_not_matter(fold):
    y_true, y_score, labels, weight = fold
    order = [3, 0, 5, 1, 4, 2]
    for average in ["micro", "macro"]:
        kwargs = dict(k=2, average=average, sample_weight=weight)
        assert topk_accuracy_score(
            y_true, y_score[:, order], labels=labels[order], **kwargs
        ) == topk_accuracy_score(y_true, y_score, labels=labels, **kwargs)


@pytest.mark.parametrize("average", ["micro", "macro"])
def test_weight_two_is_the_row_twice_and_zero_the_row_absent(fold, average):
    y_true, y_score, labels, _ = fold
    weight = np.random.default_rng(4).integers(0, 3, size=len(y_true))
    weight[y_true == "a"] = 0
    kwargs = dict(k=2, labels=labels, average=average)
    assert topk_accuracy_score(y_true, y_score, sample_weight=weight, **kwargs) == pytest.approx(
        topk_accuracy_score(y_true.repeat(weight), y_score.repeat(weight, axis=0), **kwargs)
    )


@pytest.mark.parametrize(("k", "same_as"), [(0.5, 3), (0.01, 1), (0.51, 4), (0.99, 6)])
def test_fraction_of_classes_is_rounded_up(fold, k, same_as):
    y_true, y_score, labels, _ = fold
    assert topk_accuracy_score(y_true, y_score, k=k, labels=labels) == topk_accuracy_score(
        y_true, y_score, k=same_as, labels=labels
    )


def test_fraction_that_is_a_whole_number_of_classes_is_not_rounded_up():
    assert 0.07 * 100 > 7
    score = topk_accuracy_score([0], np.zeros((1, 100)), k=0.07, labels=range(100))
    assert score == 0.07


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


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_frames_are_read_like_arrays(library):
    frames = pytest.importorskip(library)
    y_true, y_score = ["a", "c", "a"], np.array([[2, 1, 0], [2, 1, 0], [0, 1, 2.0]])
    score = topk_accuracy_score(
        frames.Series(y_true), frames.DataFrame(y_score), k=1, labels=frames.Series(list("abc"))
    )
    assert score == topk_accuracy_score(y_true, y_score, k=1, labels=list("abc"))


@pytest.mark.parametrize("chunk_size", [1, 6, 7, 100, 1199, 1200])
def test_chunks_of_any_size_give_the_same_score(fold, chunk_size, monkeypatch):
    y_true, y_score, labels, _ = fold
    expected = topk_accuracy_score(y_true, y_score, k=2, labels=labels)
    monkeypatch.setattr(_topk, "_CHUNK_SIZE", chunk_size)
    assert topk_accuracy_score(y_true, y_score, k=2, labels=labels) == expected
    y_score[-1, -1] = np.nan
    with pytest.raises(ValueError, match="y_score must not contain NaN"):
        topk_accuracy_score(y_true, y_score, k=2, labels=labels)


def test_memory_is_that_of_a_chunk():
    rng = np.random.default_rng(5)
    y_score = rng.standard_normal((20_000, 500), dtype=np.float32)
    y_true = rng.integers(500, size=20_000)
    tracemalloc.start()
    topk_accuracy_score(y_true, y_score, labels=range(500))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < y_score.nbytes / 10


def test_inputs_are_not_changed(fold):
    copies = [a.copy() for a in fold]
    y_true, y_score, labels, weight = fold
    topk_accuracy_score(y_true, y_score, labels=labels, sample_weight=weight)
    for array, copy in zip(fold, copies, strict=True):
        np.testing.assert_array_equal(array, copy)


@pytest.mark.parametrize("average", ["micro", "macro"])
def test_nothing_to_average_warns_and_is_nan(average):
    with pytest.warns(UndefinedMetricWarning, match="no row of positive weight"):
        assert np.isnan(topk_accuracy_score([], np.empty((0, 3)), average=average))
    with pytest.warns(UndefinedMetricWarning, match="no row of positive weight"):
        assert np.isnan(
            topk_accuracy_score([0, 1], np.eye(2), sample_weight=[0, 0], average=average)
        )


BAD = {
    "k zero": (dict(k=0), ValueError, "k must be an integer >= 1 or a fraction .* got 0"),
    "k one as float": (dict(k=1.0), ValueError, r"k must be .* got 1\.0"),
    "k NaN": (dict(k=np.nan), ValueError, "k must be .* got nan"),
    "k bool": (dict(k=True), TypeError, "k must be .* got True"),
    "k string": (dict(k="3"), TypeError, "k must be .* got '3'"),
    "average": (dict(average="weighted"), ValueError, "average must be one of .*'weighted'"),
    "ties": (dict(ties="random"), ValueError, "ties must be one of .* got 'random'"),
    "NaN scores": (dict(y_score=[[0, 1], [np.nan, 1]]), ValueError, "y_score must not contain NaN"),
    "NaN decision": (dict(y_score=[1, np.nan]), ValueError, "y_score must not contain NaN"),
    "string scores": (dict(y_score=[["0", "1"]] * 2), ValueError, "y_score must be a dense array"),
    "complex scores": (dict(y_score=np.eye(2) * 1j), ValueError, "real numbers; got dtype complex"),
    "3-d scores": (dict(y_score=np.ones((2, 2, 1))), ValueError, r"y_score must .*\(2, 2, 1\)"),
    "no columns": (dict(y_score=np.ones((2, 0))), ValueError, r"y_score must .* \(2, 0\)"),
    "2-d labels": (dict(y_true=[[0, 1]] * 2), ValueError, r"y_true must .* got shape \(2, 2\)"),
    "NaN label": (dict(y_true=[0, np.nan]), ValueError, "y_true contains NaN"),
    "lengths": (dict(y_true=[0, 1, 0]), ValueError, "same number of rows; got 3 and 2"),
    "too few labels": (dict(labels=[0]), ValueError, r"labels must name .* got shape \(1,\)"),
    "labels repeated": (dict(labels=[1, 1]), ValueError, r"labels must be distinct; got \[1, 1\]"),
    "labels of other kind": (dict(labels=["0", "1"]), ValueError, "'0' in labels and 0 in y_true"),
    "class missing": (dict(y_true=[0, 0]), ValueError, r"got 1\. Pass labels.*range\(2\)"),
    "weights short": (dict(sample_weight=[1]), ValueError, r"sample_weight must .* shape \(1,\)"),
    "weight negative": (dict(sample_weight=[1, -2]), ValueError, "sample_weight must .* got -2"),
    "weight NaN": (dict(sample_weight=[1, np.nan]), ValueError, "sample_weight must .* got nan"),
    "weight infinite": (dict(sample_weight=[1, np.inf]), ValueError, "must be finite .* got inf"),
    "weight string": (dict(sample_weight=["a", "b"]), ValueError, "sample_weight must be 2 number"),
}


@pytest.mark.parametrize(("kwargs", "error", "match"), BAD.values(), ids=BAD.keys())
def test_error_names_the_parameter_what_is_allowed_and_what_came(kwargs, error, match):
    with pytest.raises(error, match=match):
        topk_accuracy_score(**{"y_true": [0, 1], "y_score": np.eye(2), "k": 1, **kwargs})


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


@pytest.mark.parametrize(
    ("kwargs", "match"),
    [
        (dict(class_counts=[1]), r"class_counts must be 2 numbers.* shape \(1,\)"),
        (dict(class_counts=[1, -1]), "class_counts must be finite and nonnegative; got -1"),
        (dict(class_counts=[1, 1], few=5, many=3), "few=5 must not exceed many=3"),
        (dict(class_counts=[1, 1], k=0), "k must be"),
    ],
)
def test_shot_errors_name_the_parameter(kwargs, match):
    with pytest.raises(ValueError, match=match):
        shot_accuracy_score([0, 1], np.eye(2), **kwargs)
