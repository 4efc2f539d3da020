"""Losses under anomaly detection, with denormal scores, and on several threads."""

import warnings

import numpy as np
import pytest
import torch

from sktopk import TopKClassifier
from tests.losses import cases, program_cases, top_cases
from tests.losses.cases import value_and_gradient

ALL = [
    *((case, cases.fixed_batch) for case in cases.LOSSES),
    *((case, top_cases.top_batch) for case in top_cases.TOP_LOSSES),
    *((case, program_cases.fixed_batch) for case in program_cases.LOSSES),
]
every_loss = pytest.mark.parametrize(
    ("case", "batch"), ALL, ids=lambda value: getattr(value, "__name__", str(value))
)


def batches(batch):
    """Scores as they come, with ties, without spread, with absent ones, and of one class."""
    scores, target = batch(dtype=torch.float32)
    scores = scores.detach()
    yield scores, target
    yield scores.round(), target
    yield torch.zeros_like(scores), target
    yield 1e30 * scores, target
    yield scores, torch.zeros_like(target)
    yield scores, torch.ones_like(target)


@every_loss
def test_no_step_of_the_gradient_is_nan(case, batch):
    """A NaN between two steps may be masked in the end; anomaly detection sees it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its slowness
        detection = torch.autograd.set_detect_anomaly(True, check_nan=True)
    with detection:
        for scores, target in batches(batch):
            weight = torch.ones(len(scores)).index_fill(0, torch.tensor([0, 3]), 0.0)
            for sample_weight in (None, weight):
                _, gradient = value_and_gradient(case, scores, target, sample_weight=sample_weight)
                assert gradient.isfinite().all()


@pytest.fixture(params=[False, True], ids=["denormals", "flushed"])
def flushes(request):
    """Whether the CPU takes denormals for zero, as fast programs let it."""
    if not torch.set_flush_denormal(request.param):
        pytest.skip("this CPU does not tell denormals apart")
    yield request.param
    torch.set_flush_denormal(False)


@every_loss
def test_denormal_scores_are_next_to_equal(case, batch, flushes):
    scores, target = batch(dtype=torch.float32)
    scores = 1e-40 * scores.detach()
    for weight in (None, torch.full((len(scores),), 1e-40)):
        if weight is not None and not _has_no_ties_to_break(case):
            continue
        loss, gradient = value_and_gradient(case, scores, target, sample_weight=weight)
        assert gradient.isfinite().all()
        assert loss.isfinite()
        if weight is None or not flushes:
            expected = case(torch.zeros_like(scores, dtype=torch.float64), target)
            if _has_no_ties_to_break(case):
                torch.testing.assert_close(loss.double(), expected, rtol=1e-5, atol=1e-6)


def _has_no_ties_to_break(case):
    """What no order of tied classes changes, nor a k that is a sum of weights."""
    name = getattr(case, "name", None) or case.loss.__name__
    return name not in ("topk_grouping_loss", "topk_transition_loss", "precision_at_k_loss")


@pytest.fixture
def on_threads():
    """Call a function on 1, 2 and 4 threads and return the three results."""
    before = torch.get_num_threads()

    def call(function):
        results = []
        for n_threads in (1, 2, 4):
            torch.set_num_threads(n_threads)
            results.append(function())
        return results

    yield call
    torch.set_num_threads(before)


# Sums in another order: of float32 numbers, relative to the loss and to the largest entry of the
# gradient. The gradient of F-beta is a small difference of such sums.
LOSS_AGREES, GRADIENT_AGREES = 1e-6, 2e-5
SHARED_OUT = [
    *((case, cases.fixed_batch, 5_000) for case in cases.LOSSES),
    *((case, top_cases.top_batch, 40_000) for case in top_cases.all_with("quadratic")),
    *((case, top_cases.top_batch, 40_000) for case in program_cases.PROGRAMS),
]


def test_losses_agree_on_any_number_of_threads(on_threads):
    def values():
        return [
            value_and_gradient(case, *batch(n_samples=n_samples, dtype=torch.float32))
            for case, batch, n_samples in SHARED_OUT
        ]

    one, *others = on_threads(values)
    for other in others:
        for (case, *_), (loss, gradient), (loss_1, gradient_1) in zip(
            SHARED_OUT, other, one, strict=True
        ):
            assert (loss - loss_1).abs() <= LOSS_AGREES * loss_1.abs(), case
            difference = (gradient - gradient_1).abs().max()
            assert difference <= GRADIENT_AGREES * gradient_1.abs().max(), case


def test_a_fit_agrees_on_any_number_of_threads(on_threads):
    X = np.random.default_rng(0).normal(size=(512, 300)).astype(np.float32)
    y = X[:, :12].argmax(1)

    def scores():
        clf = TopKClassifier(k=3, batch_size=256, max_epochs=3, random_state=0, device="cpu")
        return clf.fit(X, y).decision_function(X)

    one, *others = on_threads(scores)
    for other in others:
        np.testing.assert_allclose(other, one, rtol=1e-4, atol=1e-5)
