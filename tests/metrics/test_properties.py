"""Properties of every score for random scores, weights and ties."""

import math
import warnings
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.exceptions import UndefinedMetricWarning

from sktopk import metrics
from tests.metrics.top_cases import function_called

# Infinite, denormal and few distinct numbers, so that there are many ties.
scores_of = st.sampled_from(
    np.float32([-np.inf, -3e38, -1.0, -1e-40, -0.0, 0.0, 1e-45, 0.5, 1.0, 2.0**24, 3e38, np.inf])
)
# Sums of 0.1 and 0.7 have rounding errors.
weight_of = st.sampled_from([0.0, 0.1, 0.5, 0.7, 1.0, 3.0])
share = st.sampled_from([0.1, 0.3, 0.5, 0.7, 1.0]) | st.floats(1e-6, 1)
ranks = st.integers(1, 9) | st.floats(0.01, 0.99)
ties = st.sampled_from(["expected", "optimistic", "pessimistic"])

# For each score: its parameters, and the parameter with which the score never decreases.
ROWS = {
    "precision_at_k_score": ({"k": ranks, "ties": ties}, None),
    "recall_at_k_score": ({"k": ranks, "ties": ties}, "k"),
    "enrichment_factor_score": ({"fraction": share, "ties": ties}, None),
    "precision_at_recall_score": ({"recall": share}, None),
    "recall_at_precision_score": ({"precision": share}, None),
    "positives_at_top_score": ({"k": st.integers(1, 9)}, "k"),
    "true_positive_rate_at_fpr_score": ({"fpr": share}, "fpr"),
    "partial_auc_log_score": ({"max_fpr": st.floats(0.01, 1)}, None),
    "auc_at_quantile_score": ({"quantile": share, "ties": ties}, None),
    "bedroc_score": ({"alpha": st.floats(0.1, 50), "ties": ties}, None),
}


def quietly(score, *args, **kwargs):
    """Return the score, and whether it warned that it is undefined."""
    with warnings.catch_warnings(record=True, action="always") as caught:
        value = score(*args, **kwargs)
    undefined = any(issubclass(each.category, UndefinedMetricWarning) for each in caught)
    return value, undefined


@st.composite
def rows(draw, name):
    n_samples = draw(st.integers(1, 8))
    y_true = draw(arrays(np.int64, n_samples, elements=st.integers(0, 1)))
    y_score = draw(arrays(np.float32, n_samples, elements=scores_of))
    weight = draw(st.none() | arrays(np.float64, n_samples, elements=weight_of))
    strategies, _ = ROWS[name]
    return y_true, y_score, weight, {key: draw(each) for key, each in strategies.items()}


@pytest.mark.parametrize("name", ROWS)
@given(data=st.data())
def test_ranking_scores_are_bounded_and_monotone_and_ignore_the_order_of_samples(name, data):
    y_true, y_score, weight, parameters = data.draw(rows(name))
    score = partial(quietly, function_called(name), **parameters)
    value, undefined = score(y_true, y_score, sample_weight=weight)
    assert type(value) is float
    assert math.isnan(value) == undefined
    if undefined:
        return
    assert value >= 0
    if name != "enrichment_factor_score":  # at most n / k
        assert value <= 1 + 1e-12

    # Permuted samples, and other scores in the same order.
    order = np.arange(len(y_true))[::-1]
    other_weight = None if weight is None else weight[order]
    again, _ = score(y_true[order], y_score[order], sample_weight=other_weight)
    assert again == pytest.approx(value, abs=1e-12)
    by_rank = np.unique(y_score, return_inverse=True)[1]
    assert score(y_true, by_rank, sample_weight=weight)[0] == value

    # A sample of weight 0 is absent; weight 2 equals two copies.
    twice, double = np.repeat(order, 2), np.ones(len(y_true)) if weight is None else weight
    other_weight = None if weight is None else weight[twice]
    repeated, _ = score(y_true[twice], y_score[twice], sample_weight=other_weight)
    share = isinstance(parameters.get("k", parameters.get("fraction")), float)
    if not share or double.sum() >= np.count_nonzero(double):  # else, shares are rounded otherwise
        once, _ = score(y_true, y_score, sample_weight=2 * double)
        assert once == pytest.approx(repeated, abs=1e-9)
    absent = np.append(double, 0.0), np.append(y_true, 1), np.append(y_score, np.inf)
    if weight is not None or not isinstance(parameters.get("k"), float):
        with_absent, _ = score(absent[1], absent[2], sample_weight=absent[0])
        assert with_absent == pytest.approx(value, abs=1e-12)

    # A higher score of a positive, or a larger parameter, never decreases the metric. Precision at
    # a recall is an exception: the threshold can move to another positive and add negatives.
    if y_true.any() and name != "precision_at_recall_score":
        row = data.draw(st.sampled_from(np.flatnonzero(y_true).tolist()))
        better = y_score.astype(np.float64)
        better[row] = np.inf
        assert score(y_true, better, sample_weight=weight)[0] >= value - 1e-12
    _, rising = ROWS[name]
    if rising:
        lower = parameters[rising]
        more = lower + 1 if isinstance(lower, int) else lower + (1 - lower) / 2
        generous, _ = score(y_true, y_score, sample_weight=weight, **{rising: more})
        assert generous >= value - 1e-12
    if "ties" in parameters:
        of_ties = [
            score(y_true, y_score, sample_weight=weight, ties=each)[0]
            for each in ("pessimistic", "expected", "optimistic")
        ]
        assert of_ties[0] - 1e-9 <= of_ties[1] <= of_ties[2] + 1e-9


def row_hit(score, column, k, ties):
    """Return the hit of one sample. Labels that tie at rank k share the remaining places."""
    in_order = sorted(score, reverse=True)
    cut = in_order[min(k, len(in_order)) - 1]
    if score[column] != cut:
        return Fraction(int(score[column] > cut))
    n_above, n_at_cut = sum(s > cut for s in score), sum(s == cut for s in score)
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


@st.composite
def labels_and_scores(draw):
    n_samples, n_classes = draw(st.integers(1, 5)), draw(st.integers(2, 5))
    labels = list("dacbe"[:n_classes])
    y_true = draw(arrays("U1", n_samples, elements=st.sampled_from([*labels, "z"])))
    y_score = draw(arrays(np.float32, (n_samples, n_classes), elements=scores_of))
    weight = draw(st.none() | arrays(np.float64, n_samples, elements=weight_of))
    return labels, y_true, y_score, weight, draw(st.integers(1, n_classes + 1)), draw(ties)


@given(labels_and_scores(), st.sampled_from(["micro", "macro"]))
def test_topk_accuracy_equals_a_loop_with_exact_fractions(case, average):
    labels, y_true, y_score, weight, k, ties = case
    options = {"k": k, "labels": labels, "average": average, "ties": ties, "sample_weight": weight}
    value, undefined = quietly(metrics.topk_accuracy_score, y_true, y_score, **options)
    assert isinstance(value, float)
    assert math.isnan(value) == undefined
    weight = np.ones(len(y_true)) if weight is None else weight
    assert undefined == (not weight.any())
    if not undefined:
        expected = reference_accuracy(y_true, y_score, k, labels, average, ties, weight)
        assert value == pytest.approx(expected, abs=1e-13)
    options = {"class_counts": np.arange(len(labels)) * 60, "labels": labels, "k": k}
    groups, _ = quietly(metrics.shot_accuracy_score, y_true, y_score, **options)
    assert all(math.isnan(each) or 0 <= each <= 1 for each in groups.values())
