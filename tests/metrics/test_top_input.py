"""Input of the scores of rankings: types, errors and undefined cases."""

import math
import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import UndefinedMetricWarning

from sktopk import metrics
from sktopk.metrics import precision_at_k_score, topk_accuracy_score
from tests.metrics.top_cases import every_score, function_called, large_case


@every_score
@pytest.mark.parametrize("dtype", [np.int32, np.uint16, np.float16, np.float32])
def test_only_the_order_of_scores_matters_for_every_dtype(score, params, dtype):
    y_true, y_score, weight = large_case(2)
    expected = score(y_true, y_score, sample_weight=weight, **params)
    whole = np.unique(y_score, return_inverse=True)[1].astype(dtype)
    assert score(y_true, whole, sample_weight=weight, **params) == expected


@every_score
def test_labels_of_any_type_give_equal_scores_and_inputs_do_not_change(score, params):
    y_true, y_score, _ = large_case(3)
    expected = score(y_true, y_score, **params)
    named = np.where(y_true == 1, "fraud", "sale")
    before = y_true.copy(), y_score.copy()
    unmasked = np.ma.masked_array(y_true, mask=False)
    for labels in (2 * y_true - 1, y_true == 1, y_true.astype(float), unmasked):
        assert score(labels, y_score, **params) == expected
        assert score(labels.tolist(), y_score.tolist(), **params) == expected
        assert score(pd.Series(labels[::-1])[::-1], pd.Series(y_score), **params) == expected
    assert score(1 - y_true, y_score, pos_label=0, **params) == expected
    assert score(y_true + 1, y_score, pos_label=2, **params) == expected
    assert score(named.astype(object), y_score, pos_label="fraud", **params) == expected
    assert score(y_true == 1, y_score, pos_label=np.True_, **params) == expected
    assert score(named, y_score, pos_label="sale", **params) == score(1 - y_true, y_score, **params)
    np.testing.assert_array_equal(before, (y_true, y_score))


NO_POSITIVES = [
    dict(y_true=[0, 0, 0], y_score=[3, 2, 1]),
    dict(y_true=["ham", "ham"], y_score=[2, 1], pos_label="spam"),
    dict(y_true=[0, 1], y_score=[2, 1], sample_weight=[1, 0]),
    dict(y_true=[1, 0], y_score=[2, 1], sample_weight=[0, 0]),
    dict(y_true=[], y_score=[]),
]


@every_score
@pytest.mark.parametrize("rows", NO_POSITIVES)
def test_without_positives_a_score_is_nan_with_a_warning(score, params, rows):
    match = f"{score.__name__}: no positives, the score is NaN"
    with pytest.warns(UndefinedMetricWarning, match=match):
        assert math.isnan(score(**rows, **params))


@every_score
def test_without_negatives_some_scores_are_nan_and_the_others_defined(score, params):
    y_true, y_score = [1, 1, 1, 1], [1.0, 2.0, 2.0, 3.0]
    if score.__name__.startswith(("bedroc", "true_positive_rate", "partial_auc")):
        with pytest.warns(UndefinedMetricWarning, match=f"{score.__name__}: no negatives"):
            assert math.isnan(score(y_true, y_score, **params))
    else:
        k = params.get("k", 1)
        recall = {2: 0.5, 0.7: 0.75}[k] if score is metrics.recall_at_k_score else 1.0
        assert score(y_true, y_score, **params) == recall


@pytest.mark.parametrize(
    ("y_true", "message"),
    [
        (["a", "b", "c"], "two labels; got 3: 'a', 'b', 'c'"),
        ([3, 3], "pos_label must be given .* labels in y_true: 3$"),
        (["fraud", "ok"], "labels in y_true: 'fraud' and 'ok'"),
        ([1, 2], "labels in y_true: 1 and 2"),
        ([-1, 0], "labels in y_true: -1 and 0"),
        (np.array(["a", 1], dtype=object), "all strings"),
        (["a", np.nan], "missing labels; got 1 of 2"),
        (pd.Series([1, pd.NA]), "y_true .* in row 1"),
        (np.arange(50) / 7, "for example y_true >= 6.429"),
    ],
)
def test_labels_without_a_clear_positive_label_raise(y_true, message):
    with pytest.raises(ValueError, match=message):
        precision_at_k_score(y_true, np.arange(len(y_true)), k=1)


@pytest.mark.parametrize(
    ("score", "name", "refused"),
    [
        ("precision_at_k", "k", [0, 1.5, 1.0, 0.0, -1, math.nan]),
        ("recall_at_k", "k", [0, 1.5]),
        ("positives_at_top", "k", [0]),
        ("precision_at_recall", "recall", [0, 1.01, math.nan]),
        ("true_positive_rate_at_fpr", "fpr", [-0.1, 1.01, math.nan]),
        ("partial_auc_log", "max_fpr", [0, 1.01]),
        ("partial_auc_log", "min_fpr", [0, 1.01, 0.05]),
        ("auc_at_quantile", "quantile", [0, 1.01]),
        ("enrichment_factor", "fraction", [0, 1.01]),
        ("bedroc", "alpha", [0, -1, math.inf, math.nan]),
    ],
)
def test_parameters_out_of_range_raise(score, name, refused):
    score = function_called(f"{score}_score")
    for value in refused:
        with pytest.raises(ValueError, match=rf"^{name}.*{value}"):
            score([0, 1], [1, 2], **{name: value})
    for value in ("1", None, True):
        with pytest.raises(TypeError, match=f"^{name} must be .*got {value!r}"):
            score([0, 1], [1, 2], **{name: value})


def test_object_labels_are_accepted_after_dropping_missing_values():
    scores = [0.1, 0.9, 0.5]
    flags, numbers = pd.Series([None, False, True, False]), pd.Series(["x", 0, 2, 0])[1:]
    assert flags.dropna().dtype == object
    assert precision_at_k_score(flags.dropna(), scores, k=1) == 1
    assert precision_at_k_score(numbers, scores, k=1, pos_label=2) == 1
    columns = np.column_stack([scores, scores[::-1]])
    for y in (flags.dropna(), numbers):
        assert topk_accuracy_score(y, columns, k=1) == topk_accuracy_score([0, 1, 0], columns, k=1)
    with pytest.raises(ValueError, match="y_true must not have missing labels; got 1 of 3"):
        topk_accuracy_score(flags[:3], columns, k=1, labels=[False, True])


DATES = np.array(["2020-01-01", "2021-01-01", "NaT"], dtype="M8[ns]")
KINDS = [DATES, DATES.astype("M8[D]").astype(object), pd.Series(DATES, dtype=object)]


@pytest.mark.parametrize("dates", KINDS, ids=["dates", "objects", "series"])
def test_missing_dates_raise_errors_that_name_the_argument(dates):
    options = {"labels": DATES[:2].tolist()}
    for score, rows, params in (
        (topk_accuracy_score, np.eye(3)[:, :2], options),
        (metrics.set_coverage_score, np.eye(3)[:, :2], options),
        (precision_at_k_score, [1, 2, 3], {"k": 1}),
    ):
        with pytest.raises(ValueError, match=r"y_true must not .*got 1 of 3, first in row 2"):
            score(dates, rows, **params)
    with pytest.raises(ValueError, match=r"groups must not have missing values.* row 2"):
        precision_at_k_score([0, 1, 1], [1, 2, 3], k=1, groups=dates)


def test_tensors_and_frames_are_read():
    torch, pl = pytest.importorskip("torch"), pytest.importorskip("polars")
    y_true, y_score, weight = large_case(0)
    for make in (torch.from_numpy, pl.Series, pd.Series):
        rows = map(make, (y_true, y_score))
        score = precision_at_k_score(*rows, k=30, sample_weight=make(weight))
        assert score == precision_at_k_score(y_true, y_score, k=30, sample_weight=weight)
    columns = np.column_stack([-y_score, y_score])
    for make in (torch.from_numpy, pl.DataFrame, pd.DataFrame):
        found = topk_accuracy_score(y_true, make(columns), k=1)
        assert found == topk_accuracy_score(y_true, columns, k=1)


def test_predicted_labels_instead_of_scores_give_a_warning():
    y_true, predicted = np.array([-1, 1, 1, -1, 1]), np.array([-1, 1, -1, -1, 1])
    with pytest.warns(UserWarning, match="got only the labels -1 and 1, as from predict") as caught:
        precision_at_k_score(y_true, predicted, k=2)
    assert caught[0].filename == __file__
    with warnings.catch_warnings(action="error"):
        precision_at_k_score(y_true, predicted.astype(float), k=2)
        precision_at_k_score(y_true, [3, 2, 4, 1, 0], k=2)
        precision_at_k_score(y_true[:2], predicted[:2], k=1)
