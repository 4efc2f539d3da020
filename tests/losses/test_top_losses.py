"""Every accuracy-at-the-top loss answers the same questions."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from sktopk import losses
from sktopk.losses import TopMean, accuracy_at_top_loss
from sktopk.losses._accuracy_at_top import get_surrogate
from tests.losses import top_references as references
from tests.losses.cases import assert_same, value_and_gradient
from tests.losses.test_golden import Entries, golden_names
from tests.losses.top_cases import every_ranked_loss, every_top_loss, top_batch

few_examples = settings(max_examples=30, deadline=None, derandomize=True)


# The values of the definition.


@every_top_loss
@pytest.mark.parametrize("seed", range(3))
def test_equals_definition(case, seed):
    scores, target = top_batch(seed=seed)
    assert_same(case(scores, target, reduction="none"), case.defined(scores, target))


@every_top_loss
def test_equals_definition_where_scores_tie(case):
    scores = torch.tensor([2.0, 2.0, 2.0, 1.0, 1.0, 0.0, 0.0, 2.0, -1.0]).double()
    target = torch.tensor([1, 0, 0, 1, 0, 1, 0, 1, 0])
    assert_same(case(scores, target, reduction="none"), case.defined(scores, target))
    everything_equal = torch.full_like(scores, 7.0)
    loss, gradient = value_and_gradient(case, everything_equal, target)
    assert_same(loss, case.defined(everything_equal, target)[target == case.counted].mean())
    assert gradient.isfinite().all()


@every_top_loss
@pytest.mark.parametrize("dtype", [torch.bool, torch.int64, torch.float32])
def test_target_of_any_dtype(case, dtype):
    scores, target = top_batch()
    assert_same(case(scores, target.to(dtype)), case(scores, target), 0)


HAND = [
    # 1 + 0.5 and 1 - 0.5 squared, of two positives
    ("top_push_loss", [2.0, 1.0, 1.5], [1, 1, 0], {}, (0.5**2 + 1.5**2) / 2),
    ("top_push_loss", [2.0, 1.0, 1.5], [1, 1, 0], {"surrogate": "hinge"}, (0.5 + 1.5) / 2),
    ("top_push_loss", [3.0, 3.0], [1, 0], {"surrogate": "logistic"}, 1.0),
    ("top_push_k_loss", [2.0, 1.0, 1.5, 1.0], [1, 1, 0, 0], {"k": 2}, (0 + 1) / 2),
    # ceil(2 * 0.5) = 1 negative
    ("pat_mat_np_loss", [2.0, 1.0, 1.5, 0.0], [1, 1, 0, 0], {"tau": 0.5}, 1.25),
    ("recall_at_k_loss", [2.0, 1.0, 1.5], [1, 1, 0], {"k": 1}, (1 + 2.0**2) / 2),
    # ceil(3 * 0.5) = 2 rows
    ("pat_mat_loss", [2.0, 1.0, 1.5], [1, 1, 0], {"tau": 0.5}, 1.25),
    ("precision_at_recall_loss", [2.0, 1.0, 1.5, 0.5], [1, 1, 0, 0], {"recall": 1.0}, 1.25),
    ("precision_at_recall_loss", [2.0, 1.0, 1.5, 0.5], [1, 1, 0, 0], {"recall": 0.5}, 0.125),
]


@pytest.mark.parametrize(("name", "scores", "labels", "parameters", "expected"), HAND)
def test_value_computed_by_hand(name, scores, labels, parameters, expected):
    loss = getattr(losses, name)(torch.tensor(scores), torch.tensor(labels), **parameters)
    assert loss.item() == pytest.approx(expected, rel=1e-6)


GOLDEN = {
    "at_TopPush": lambda scores, y, p: losses.top_push_loss(scores, y),
    "at_ties": lambda scores, y, p: losses.top_push_loss(scores, y),
    "at_KthNeg": lambda scores, y, p: losses.top_push_k_loss(scores, y, k=p),
    "at_RecAtK": lambda scores, y, p: losses.recall_at_k_loss(scores, y, k=p),
    "at_MeanTopKNeg": lambda scores, y, p: accuracy_at_top_loss(
        scores, y, threshold=TopMean("negatives", k=p)
    ),
    # These thresholds are means of floor(n p) + 1 scores.
    "at_TauFPL": lambda scores, y, p: accuracy_at_top_loss(
        scores, y, threshold=TopMean("negatives", k=math.floor((y == 0).sum().item() * p) + 1)
    ),
    "at_TopMean": lambda scores, y, p: accuracy_at_top_loss(
        scores, y, threshold=TopMean("all", k=math.floor(len(y) * p) + 1)
    ),
}


@pytest.mark.parametrize("name", [n for n in golden_names("at_") if n != "at_baseline"])
def test_golden_value_and_gradient(name):
    entry = Entries(name)
    loss = GOLDEN["_".join(name.split("_")[:2])]
    value, gradient = value_and_gradient(
        lambda scores, y: loss(scores, y, entry.get("param")), entry.tensor("z"), entry.tensor("y")
    )
    assert value.item() == pytest.approx(entry["loss"], rel=1e-12)
    np.testing.assert_allclose(gradient, entry["grad"], rtol=1e-12, atol=1e-12)


# z, max(0, 1 + z)^2, max(0, 1 + z), log2(1 + exp z)
SURROGATE_TABLE = [
    (-math.inf, 0.0, 0.0, 0.0),
    (-2.0, 0.0, 0.0, 0.18311841),
    (-1.0, 0.0, 0.0, 0.45194108),
    (-0.5, 0.25, 0.5, 0.68394851),
    (0.0, 1.0, 1.0, 1.0),
    (1.0, 4.0, 2.0, 1.89463612),
    (3.0, 16.0, 4.0, 4.39818183),
    (math.inf, math.inf, math.inf, math.inf),
]


@pytest.mark.parametrize("row", SURROGATE_TABLE)
def test_surrogates_by_hand(row):
    z, *expected = row
    values = [get_surrogate(name)(torch, torch.tensor(z)) for name in references.SURROGATES]
    assert values == pytest.approx(expected, rel=1e-7, abs=1e-9)


@pytest.mark.parametrize("name", references.SURROGATES)
def test_surrogates_never_fall_and_bound_the_step(name):
    z = torch.linspace(-60, 60, 240_001, dtype=torch.float64)
    value = get_surrogate(name)(torch, z)
    assert (value.diff() >= 0).all()
    assert (value.diff().diff() >= -1e-11).all()
    assert (value >= (z >= 0).double()).all()
    expected = [references.SURROGATES[name](x) for x in z[::100].tolist()]
    assert value[::100].tolist() == pytest.approx(expected, rel=1e-14, abs=1e-14)


# Gradients and invariances.


@every_top_loss
def test_gradient_matches_finite_differences(case):
    scores, target = top_batch()
    assert torch.autograd.gradcheck(lambda s: case(s, target, reduction="none"), scores)


@every_top_loss
def test_second_derivative_matches_finite_differences(case):
    scores, target = top_batch(n_samples=8)
    assert torch.autograd.gradgradcheck(lambda s: case(s, target), scores)


@every_ranked_loss
@pytest.mark.parametrize("seed", range(3))
def test_gradient_is_that_of_the_paper(case, seed):
    # Eq. 6 and 7: of a network's weights, row by row.
    _, target = top_batch(seed=seed)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        network = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 1)).double()
        X = torch.randn(len(target), 3, dtype=torch.float64)
    weights = list(network.parameters())
    expected = [torch.zeros_like(w) for w in weights]
    factors = case.defined_factors(network(X).flatten(), target)
    for x, factor in zip(X, factors, strict=True):
        of_row = torch.autograd.grad(network(x).squeeze(), weights)
        expected = [e + factor * g for e, g in zip(expected, of_row, strict=True)]
    gradient = torch.autograd.grad(case(network(X).flatten(), target), weights)
    assert_same(list(gradient), expected)
    assert expected[0].abs().max() > 0.01


@every_top_loss
def test_adding_a_constant_changes_nothing(case):
    scores, target = top_batch()
    loss, gradient = value_and_gradient(case, scores, target)
    assert_same(value_and_gradient(case, scores + 50, target), (loss, gradient), 1e-9)
    assert_same(gradient.sum(), torch.tensor(0.0).double())
    assert gradient.abs().max() > 0.01


@every_top_loss
def test_order_of_rows_does_not_matter(case):
    scores, target = top_batch()
    order = torch.randperm(len(target), generator=torch.Generator().manual_seed(1))
    loss, gradient = value_and_gradient(case, scores, target)
    permuted = value_and_gradient(case, scores[order], target[order])
    assert_same(permuted, (loss, gradient[order]))


@every_top_loss
@pytest.mark.parametrize("seed", range(3))
def test_bounds_the_zero_one_metric_from_above(case, seed):
    scores, target = top_batch(n_samples=200, seed=seed)
    t = case.threshold(scores.tolist(), target.tolist())
    if case.errors == "false_negatives":  # eq. 2
        error = (target == 1) & (scores < t)
    else:
        error = (target == 0) & (scores >= t)
    assert error.any()
    assert (case(scores, target, reduction="none") >= error.double() - 1e-12).all()
    assert case(scores, target) >= error.sum() / (target == case.counted).sum()


# Weights and reductions.


@every_top_loss
@few_examples
@given(
    st.lists(
        st.tuples(st.integers(-3, 3), st.booleans(), st.integers(0, 3)), min_size=1, max_size=9
    )
)
def test_weight_is_a_number_of_equal_rows(case, rows):
    scores, target, weight = (torch.tensor(column) for column in zip(*rows, strict=True))
    scores = scores.double() / 2
    row = torch.arange(len(scores)).repeat_interleave(weight)
    repeated, gradient = value_and_gradient(case, scores[row], target[row])
    gradient = torch.zeros_like(scores).index_add(0, row, gradient)
    weighted = value_and_gradient(case, scores, target, sample_weight=weight)
    assert_same(weighted, (repeated, gradient), 1e-9)


@every_top_loss
@pytest.mark.parametrize("score", [-math.inf, math.inf, math.nan])
@pytest.mark.parametrize("label", [0, 1])
def test_row_of_weight_zero_is_absent_whatever_its_score(case, score, label):
    scores, target = top_batch()
    absent, absent_gradient = value_and_gradient(case, scores, target)
    weight = torch.ones(len(scores) + 1).index_fill(0, torch.tensor([0]), 0.0)
    loss, gradient = value_and_gradient(
        case,
        torch.cat([torch.tensor([score]), scores]),
        torch.cat([torch.tensor([label]), target]),
        sample_weight=weight,
    )
    assert_same((loss, gradient[1:]), (absent, absent_gradient))
    assert gradient[0] == 0


@every_top_loss
def test_reductions(case):
    scores, target = top_batch()
    weight = torch.linspace(0.5, 3, len(scores), dtype=scores.dtype)
    counted = target == case.counted
    rows = case(scores, target, sample_weight=weight, reduction="none")
    assert rows.shape == target.shape
    assert (rows[~counted] == 0).all()
    assert_same(case(scores, target, sample_weight=weight, reduction="sum"), rows.sum())
    assert_same(case(scores, target, sample_weight=weight), rows.sum() / weight[counted].sum())
    assert_same(case(scores, target), case(scores, target, reduction="none")[counted].mean())


@every_top_loss
def test_inputs_are_left_alone(case):
    scores, target = top_batch()
    inputs = (scores, target, torch.ones(len(scores)))
    before = [tensor.detach().clone() for tensor in inputs]
    case(scores, target, sample_weight=inputs[2]).backward()
    assert all(torch.equal(tensor, old) for tensor, old in zip(inputs, before, strict=True))


# Batches that lack something.


@every_top_loss
@pytest.mark.parametrize("label", [0, 1])
@pytest.mark.parametrize("weighted", [False, True])
def test_batch_of_one_class(case, label, weighted):
    scores, target = top_batch()
    kept, weight = target == label, None
    if weighted:
        weight = kept.double()
    else:
        scores, target = scores.detach()[kept], target[kept]
        kept = torch.ones_like(kept[kept])
    defined = case.defined(scores[kept], target[kept])
    loss, gradient = value_and_gradient(case, scores, target, sample_weight=weight)
    assert_same(loss, defined.mean())
    assert gradient.isfinite().all()
    # The losses that need both classes; a threshold among all rows needs none.
    if case.counted != label or (case.of != "all" and (case.of == "positives") != label):
        assert loss == 0
        assert (gradient == 0).all()


@every_top_loss
@pytest.mark.parametrize("labels", [[], [0], [1], [0, 1], [1, 0, 0, 0], [0, 1, 1, 1]])
def test_few_rows(case, labels):
    # k=3 and k=4 are larger than these groups: the smallest score is the threshold.
    target = torch.tensor(labels, dtype=torch.long)
    scores = torch.linspace(1, -2, len(labels), dtype=torch.float64)
    loss, gradient = value_and_gradient(case, scores, target, reduction="none")
    assert_same(loss, case.defined(scores, target))
    assert gradient.shape == scores.shape
    assert gradient.isfinite().all()


@every_top_loss
def test_masked_negatives(case):
    scores, target = top_batch()
    masked = (target == 0) & (torch.arange(len(target)) < 5)
    assert masked.any()
    scores = scores.detach().masked_fill(masked, -torch.inf)
    loss, gradient = value_and_gradient(case, scores, target)
    assert_same(loss, case.defined(scores, target)[target == case.counted].mean())
    assert gradient.isfinite().all()
    assert (gradient[masked] == 0).all()


@every_top_loss
def test_nothing_but_masked_rows(case):
    scores = torch.full((4,), -torch.inf, dtype=torch.float64)
    loss, gradient = value_and_gradient(case, scores, torch.tensor([0, 1, 0, 1]))
    assert loss == 0
    assert (gradient == 0).all()


@every_top_loss
def test_nan_is_not_hidden(case):
    scores, target = top_batch()
    assert case(torch.full_like(scores, math.nan), target).isnan()


# Numbers of every size and precision.


@every_top_loss
@pytest.mark.parametrize("scale", [1e-4, 1.0, 1e2, 1e4, 1e10, 1e18, 1e30])
def test_finite_at_every_scale_in_float32(case, scale):
    scores, target = top_batch(dtype=torch.float32, n_samples=20)
    loss, gradient = value_and_gradient(case, scale * scores, target)
    assert gradient.isfinite().all()
    assert loss >= 0
    # The square of 1e30 is above float32, but its slope is not.
    exact = case.defined(scale * scores.double(), target)[target == case.counted].mean()
    assert loss.isfinite() or (exact.float() == torch.inf and case.surrogate == "quadratic")


@every_top_loss
@pytest.mark.parametrize("scale", [1.0, 100.0, 1e4])
def test_float32_agrees_with_float64(case, scale):
    scores, target = top_batch(dtype=torch.float32, n_samples=20)
    scores = scale * scores.detach()
    loss, gradient = value_and_gradient(case, scores, target)
    expected = value_and_gradient(case, scores.double(), target)
    assert loss.dtype == gradient.dtype == torch.float32
    assert_same((loss.double(), gradient.double()), expected, 1e-5)


@every_top_loss
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_computed_in_float32(case, dtype):
    scores, target = top_batch(dtype=torch.float32)
    scores = scores.detach().to(dtype)
    loss, gradient = value_and_gradient(case, scores, target)
    expected, expected_gradient = value_and_gradient(case, scores.float(), target)
    assert (loss.dtype, gradient.dtype) == (torch.float32, dtype)
    assert_same((loss, gradient), (expected, expected_gradient.to(dtype)), 1e-6)
    with torch.autocast("cpu", dtype=dtype):
        assert_same(value_and_gradient(case, scores, target), (loss, gradient), 1e-6)


@every_top_loss
def test_no_gradient_where_none_is_asked(case):
    scores, target = top_batch()
    expected = case(scores, target).item()
    with torch.no_grad():
        assert not case(scores, target).requires_grad
    with torch.inference_mode():
        assert case(scores.detach().clone(), target).item() == pytest.approx(expected, 1e-12)
