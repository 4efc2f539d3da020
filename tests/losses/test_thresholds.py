"""Thresholds among the scores: ranks, means, roots, gradients, and the losses that use them."""

import copy
import math
import pickle
from fractions import Fraction

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from sktopk.losses import KthLargest, SurrogateQuantile, TopMean, accuracy_at_top_loss
from tests.losses import top_references as references
from tests.losses.data import assert_same, binary_batch
from tests.losses.data import value_and_gradient as grad_of

GROUPS = ["negatives", "positives", "all"]
SURROGATES = list(references.SURROGATES)

every_surrogate = pytest.mark.parametrize("surrogate", SURROGATES)
RANKED = [
    *(KthLargest(of, k=3) for of in GROUPS),
    *(TopMean(of, tau=0.4) for of in GROUPS),
    KthLargest("all", tau=0.4),
]
QUANTILES = [SurrogateQuantile(of, 0.3, by) for of, by in zip(GROUPS, SURROGATES, strict=True)]
every_threshold = pytest.mark.parametrize("threshold", [*RANKED, *QUANTILES], ids=repr)


def value_and_gradient(threshold, scores, positive, weight=None):
    return grad_of(lambda s: threshold(s, positive, weight) + 0 * s[:0].sum(), scores)


def rank_found(threshold, n, weight=None, dtype=torch.float64):
    """The number of samples at or above the threshold, among n samples with scores n, ..., 1."""
    scores = torch.arange(n, 0, -1, dtype=dtype)
    return n - int(threshold(scores, torch.ones(n, dtype=torch.bool), weight).item()) + 1


@pytest.mark.parametrize("tau", [0.07, 0.29, 0.001, Fraction(1, 3), 1.0])
def test_the_rank_of_a_quantile_threshold_uses_the_decimal_value_of_tau(tau):
    threshold = KthLargest("positives", tau=float(tau))
    for n in [*range(1, 130), 1000, 100_000]:
        assert rank_found(threshold, n) == references.rank_of_share(tau, n), n


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("weight", ["0.1", "0.3", "0.7", "1.1", "1/3"])
def test_rounding_of_weights_does_not_change_the_rank_of_the_threshold(weight, dtype):
    # Ten samples of weight 0.7 weigh 7, but in float32 a little less.
    exact = Fraction(weight)
    for n in range(10, 200, 10):
        weights = torch.full((n,), float(exact), dtype=dtype)
        for j in range(1, math.floor(exact * n) + 1):
            assert rank_found(KthLargest("all", k=j), n, weights, dtype) == math.ceil(j / exact)
        assert rank_found(KthLargest("all", tau=0.5), n, weights, dtype) == math.ceil(n / 2)


@pytest.mark.parametrize("of", GROUPS)
@pytest.mark.parametrize("threshold", [KthLargest, TopMean])
@pytest.mark.parametrize("factor", [1e-6, 0.03, 0.05, 0.3, 1.0, 2.0])
def test_a_factor_of_all_weights_has_no_effect_on_a_share(threshold, factor, of):
    scores, target = binary_batch()
    weight, positive = torch.full((len(scores),), factor), target == 1
    for tau in (0.1, 0.25, 0.8, 1.0):
        t = threshold(of, tau=tau)(scores, positive)
        if threshold is KthLargest or factor <= 1:  # else TopMean splits a sample
            assert_same(threshold(of, tau=tau)(scores, positive, weight), t)


@given(
    st.lists(
        st.tuples(st.integers(-4, 4), st.sampled_from([1, 10, 10**4, 10**7, 10**9])),
        min_size=1,
        max_size=9,
    ),
    st.sampled_from([{"k": 1}, {"k": 7}, {"k": 10**7}, {"k": 10**9 + 1}])
    | st.sampled_from([{"tau": 0.001}, {"tau": 0.5}, {"tau": 1.0}]),
    st.sampled_from([torch.float32, torch.float64]),
)
@settings(max_examples=300, deadline=None, derandomize=True)
def test_weights_between_1_and_1e9_give_the_exact_threshold(rows, rank, dtype):
    scores, weights = map(list, zip(*rows, strict=True))
    total = sum(weights)
    if "k" in rank:
        j = rank["k"]
    else:
        share = Fraction(str(rank["tau"])) * total
        j = share if share < 1 else math.ceil(share)
    j = min(j, total)
    tensors = torch.tensor(scores).double(), torch.ones(len(rows)) == 1
    weight = torch.tensor(weights, dtype=dtype)
    twice = [tensor.repeat(2) for tensor in (*tensors, weight)]
    groups = torch.arange(2).repeat_interleave(len(rows))
    for kind, reference in (
        (KthLargest, references.weighted_kth_largest),
        (TopMean, references.weighted_top_mean),
    ):
        expected = torch.tensor(float(reference(scores, weights, j)), dtype=torch.float64)
        assert_same(kind("all", **rank)(*tensors, weight), expected)
        assert_same(kind("all", **rank)(*twice, groups), expected.expand(2))


def test_a_sample_of_weight_0_is_not_the_threshold_if_another_score_is_minus_infinity():
    scores, weight = torch.tensor([2.0, -9.0, -math.inf]), torch.tensor([0.7, 0.0, 6.3])
    assert KthLargest("all", tau=0.1)(scores, scores > 0, weight) == 2


@pytest.mark.parametrize("k", [1, 2, 3])
def test_tied_samples_rank_in_their_order(k):
    scores = torch.tensor([1.0, 5.0, 5.0, 7.0, 5.0])
    positive = torch.tensor([False, False, False, True, False])
    value, gradient = value_and_gradient(KthLargest("negatives", k=k), scores, positive)
    assert value == 5
    assert gradient.nonzero().flatten().tolist() == [[1, 2, 4][k - 1]]
    _, gradient = value_and_gradient(TopMean("negatives", k=k), scores, positive)
    assert gradient.nonzero().flatten().tolist() == [1, 2, 4][:k]
    assert KthLargest("all", k=1)(scores.where(~positive, -torch.nan), positive).isnan()


@every_threshold
def test_gradient_matches_finite_differences(threshold):
    scores, target = binary_batch()
    weight = torch.linspace(0.1, 2, len(scores), dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda s, w: threshold(s, target == 1, w), (scores, weight))


@every_threshold
@pytest.mark.parametrize("weighted", [False, True])
def test_without_samples_to_rank_the_threshold_is_minus_infinity(threshold, weighted):
    scores = torch.tensor([1.0, 2.0, 3.0])
    positive = torch.full((3,), threshold.of == "negatives")
    weight = torch.zeros(3) if weighted or threshold.of == "all" else None
    value, gradient = value_and_gradient(threshold, scores, positive, weight)
    assert value == -torch.inf
    assert (gradient == 0).all()
    assert value_and_gradient(threshold, scores[:0], positive[:0], None)[0] == -torch.inf


@every_threshold
def test_a_threshold_survives_pickle_and_copy_and_repr_shows_its_arguments(threshold):
    for again in (pickle.loads(pickle.dumps(threshold)), copy.deepcopy(threshold)):
        assert again == threshold
    assert eval(repr(threshold)) == threshold
    scores, target = binary_batch(dtype=torch.float32)
    assert threshold(scores, target == 1).dtype == torch.float32
    assert threshold(scores, target) == threshold(scores, target == 1)
    with pytest.raises(AttributeError):
        threshold.of = "positives"


@every_threshold
@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("offset", [0.0, 1e4, 2.0**24])
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_the_threshold_is_that_of_float64_up_to_one_rounding(threshold, grouped, offset, dtype):
    offset = min(offset, torch.finfo(dtype).max / 2)
    scores, target = binary_batch(n_samples=20_000, dtype=torch.float32)
    scores = (scores.detach() + offset).to(dtype).requires_grad_()
    weight = torch.linspace(0, 3, len(scores))
    groups = (torch.arange(len(scores)) % 3,) if grouped else ()
    exact = threshold(scores.double(), target == 1, weight, *groups).detach()
    found = threshold(scores, target == 1, weight, *groups)
    assert found.dtype == dtype
    assert torch.equal(found.detach(), exact.to(dtype))
    more = target == 1, weight, *groups
    gradient, slope = (grad_of(threshold, s, *more)[1] for s in (scores, scores.double()))
    torch.testing.assert_close(gradient, slope.to(dtype), rtol=1e-6, atol=0)


@every_surrogate
@pytest.mark.parametrize("of", GROUPS)
@pytest.mark.parametrize(("seed", "tau"), [(0, 1e-6), (1, 0.01), (2, 0.3), (3, 0.999), (4, 1.0)])
def test_at_the_surrogate_quantile_the_mean_surrogate_is_tau(surrogate, of, seed, tau):
    scores, target = binary_batch(n_samples=60, seed=seed)
    given = scores.tolist(), target.tolist(), of
    t = SurrogateQuantile(of, tau, surrogate)(scores, target == 1).item()
    mean = references.surrogate_mean(*given, t, surrogate)
    assert mean == pytest.approx(tau, rel=1e-11, abs=1e-12)
    assert t >= references.kth_largest(*given, tau=tau)


@every_surrogate
@pytest.mark.parametrize("tau", [0.01, 1.0])
def test_the_mean_of_the_surrogate_quantile_includes_masked_samples(surrogate, tau):
    # A score of -inf adds 0 to the sum; the mean is over all n samples.
    scores = torch.tensor([3.0, 1.0] + 8 * [-torch.inf]).double()
    threshold = SurrogateQuantile("all", tau, surrogate)
    value, gradient = value_and_gradient(threshold, scores, scores > 0)
    loss = references.SURROGATES[surrogate]
    assert sum(loss(s - value.item()) for s in (3.0, 1.0)) / 10 == pytest.approx(tau, rel=1e-11)
    assert_same(gradient.sum(), torch.tensor(1.0).double())
    assert threshold(torch.full_like(scores, -torch.inf), scores > 0) == -torch.inf


# Losses with false positives and false negatives: equation 1 of Adam, Macha and Smidl.

BOTH = {"false_positives": 0.3, "false_negatives": 1.7}


@pytest.mark.parametrize("threshold", [KthLargest("all", k=5), TopMean("negatives", k=3)], ids=str)
@every_surrogate
def test_the_loss_of_both_errors_sums_weighted_false_positives_and_negatives(surrogate, threshold):
    scores, target = binary_batch(n_samples=30)
    weight = torch.linspace(0.0, 2.0, 30, dtype=torch.float64)
    options = {"surrogate": surrogate, "sample_weight": weight, "threshold": threshold}
    s, y, w = scores.tolist(), target.tolist(), weight.tolist()
    t, mean, rows = threshold(scores, target, weight).item(), 0.0, [0.0] * len(s)
    for kind, label in (("false_positives", 0), ("false_negatives", 1)):
        each = references.losses(s, y, t, kind, surrogate)
        each = [BOTH[kind] * w_i * each_i for w_i, each_i in zip(w, each, strict=True)]
        mean += sum(each) / sum(w_i for w_i, y_i in zip(w, y, strict=True) if y_i == label)
        rows = [a + b for a, b in zip(rows, each, strict=True)]
    options["errors"] = BOTH
    assert accuracy_at_top_loss(scores, target, **options).item() == pytest.approx(mean)
    each = accuracy_at_top_loss(scores, target, reduction="none", **options)
    assert each.tolist() == pytest.approx(rows)
    assert torch.autograd.gradcheck(lambda s: accuracy_at_top_loss(s, target, **options), scores)


@every_surrogate
def test_surrogates_are_convex_upper_bounds_of_the_step_function(surrogate):
    def of_surrogate(z):
        return accuracy_at_top_loss(
            *(z, torch.zeros(len(z))),
            threshold=lambda scores, positive, weight: scores.new_zeros(()),
            errors="false_positives",
            surrogate=surrogate,
            reduction="none",
        )

    fine = torch.linspace(-60, 60, 24_001, dtype=torch.float64)
    value = of_surrogate(fine)
    assert (value.diff() >= 0).all()
    assert (value.diff().diff() >= -1e-11).all()
    assert (value >= (fine >= 0).double()).all()
    slow = [references.SURROGATES[surrogate](x) for x in fine[::100].tolist()]
    assert value[::100].tolist() == pytest.approx(slow, rel=1e-14, abs=1e-14)


OF_RANK = [
    (("neg", 1), "of='neg' must be one of 'negatives', 'positives', 'all'"),
    (("all",), "pass either k or tau; got k=None and tau=None"),
    (("all", 1, 0.5), r"pass either k or tau; got k=1 and tau=0\.5"),
    (("all", 0), "k=0 must be at least 1"),
    (("all", None, 1.01), r"tau=1\.01 must be in \(0, 1\]"),
]
OF_ROOT = [
    (("all", 0), r"tau=0 must be in \(0, 1\]"),
    (("all", 0.5, "step"), "surrogate='step' must be one of"),
    (("top", 0.5), "of='top' must be one of"),
]
REFUSED = [(kind, *each) for kind in (KthLargest, TopMean) for each in OF_RANK]
REFUSED += [(SurrogateQuantile, *each) for each in OF_ROOT]


@pytest.mark.parametrize(("kind", "arguments", "message"), REFUSED)
def test_wrong_arguments_of_thresholds_raise(kind, arguments, message):
    with pytest.raises(ValueError, match=message):
        kind(*arguments)
