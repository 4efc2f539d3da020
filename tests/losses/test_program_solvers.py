"""The programs of the shipped losses, solved by linear_program in each of its ways."""

import math

import numpy as np
import pytest
import torch

from sktopk.losses import linear_program, pairwise_auc_loss
from sktopk.losses.programs._batch import split_classes
from sktopk.losses.programs._pairwise_auc import MULTI_CLASS, _multi_class, pairwise_auc_program
from tests.losses.cases import fixed_batch as class_batch
from tests.losses.linear_programs import precision_at_recall
from tests.losses.program_cases import (
    PROGRAMS,
    TOP,
    Case,
    every,
    every_program,
    first_of_each,
    fixed_batch,
)

SMOOTHING = 1e-2


def program_of(case, scores, target, weight=None):
    parameters = dict(case.parameters)
    batch = split_classes(scores, target, parameters.pop("margin", 1.0), weight)
    return case.program(batch, **parameters)


def stacked(programs):
    """One batch of programs of the same shape, dense."""
    return {name: torch.stack([p[name].to_dense() for p in programs]) for name in programs[0]}


def batch_of_two_values(rng, n_samples):
    """Scores with many ties or none, as many positives as negatives, positive weights."""
    if rng.random() < 0.6:
        scores = rng.integers(-3, 4, n_samples) / 2
    else:
        scores = rng.normal(size=n_samples)
    target = rng.permutation(np.arange(n_samples) < n_samples // 2)
    weight = rng.choice([1.0, 2.0, rng.random() + 0.05], n_samples)
    return tuple(map(torch.from_numpy, (scores, target, weight)))


@every_program
def test_closed_form_is_the_optimum_of_the_program_whatever_ties(case):
    """A thousand for each loss, to 1e-12."""
    rng = np.random.default_rng(len(str(case)))
    n_cases = sum(other.loss is case.loss for other in PROGRAMS)
    for n_samples in (4, 5, 6, 7):
        batches = [
            batch_of_two_values(rng, n_samples) for _ in range(math.ceil(1000 / (4 * n_cases)))
        ]
        closed = torch.stack([case(s, y, sample_weight=w) for s, y, w in batches])
        result = linear_program(**stacked([program_of(case, *batch) for batch in batches]))
        assert (result.status == 0).all()
        torch.testing.assert_close(closed, result.fun, rtol=1e-12, atol=1e-12)


def assert_solved(program):
    """Ask every method, in both precisions, about one program; return its optimum."""
    exact = linear_program(**program, method="highs")
    rounded = {name: part.float() for name, part in program.items()}
    found = linear_program(**program)
    torch.testing.assert_close(found.fun, exact.fun, rtol=1e-10, atol=1e-10)
    for method in ("newton", "highs"):
        of_float32 = linear_program(**rounded, method=method)
        torch.testing.assert_close(of_float32.fun.double(), exact.fun, rtol=1e-3, atol=1e-3)
    # The penalty is what its notes say: below the optimum by at most width |multipliers|^2 / 2.
    square = exact.multipliers_ub.square().sum() + exact.multipliers_eq.square().sum()
    smooth = linear_program(**program, method="penalty", smoothing=SMOOTHING)
    assert smooth.status == 0
    assert exact.fun - SMOOTHING * square / 2 - 1e-10 <= smooth.fun <= exact.fun + 1e-10
    of_float32 = linear_program(**rounded, method="penalty", smoothing=SMOOTHING)
    torch.testing.assert_close(of_float32.fun.double(), smooth.fun, rtol=1e-3, atol=1e-3)
    return exact.fun


@every_program
@pytest.mark.parametrize("decimals", [None, 0])
def test_every_method_solves_the_program_of_a_batch(case, decimals):
    scores, target = fixed_batch(n_samples=128, share=0.1)
    scores = scores.detach() if decimals is None else scores.detach().round(decimals=decimals)
    optimum = assert_solved(program_of(case, scores, target))
    torch.testing.assert_close(case(scores, target), optimum, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("multi_class", MULTI_CLASS)
def test_every_method_solves_the_program_of_several_classes(multi_class):
    scores, target = class_batch(n_samples=30, n_classes=4)
    scores = scores.detach()
    problems, _ = _multi_class(scores, target, 1.0, multi_class, None)
    optimum = assert_solved(pairwise_auc_program(problems))
    loss = pairwise_auc_loss(scores, target, multi_class=multi_class)
    torch.testing.assert_close(loss, optimum, rtol=1e-10, atol=1e-10)


@every(first_of_each(PROGRAMS))
def test_newton_solves_a_large_batch_within_the_default_number_of_steps(case):
    """Also where every row has a box of its own, as in the program of precision at k."""
    scores, target = fixed_batch(n_samples=512, share=0.1)
    scores = (1.0 if case.loss is pairwise_auc_loss else 30.0) * scores.detach()
    case = Case(*TOP, case.parameters | {"k": 10}) if "k" in case.parameters else case
    result = linear_program(**program_of(case, scores, target))
    assert result.status == 0
    torch.testing.assert_close(result.fun, case(scores, target), rtol=1e-10, atol=1e-10)


@pytest.mark.filterwarnings("ignore:Sparse")
def test_newton_steps_hardly_grow_with_the_batch():
    """Each costs O(n) by conjugate gradients: sixteen times the rows, not twice the steps."""
    steps = []
    for n in (128, 2048):
        scores = fixed_batch(n_samples=n)[0].detach()
        steps.append(linear_program(*precision_at_recall(scores, n // 10, 0.8)).n_iter.item())
    assert steps[1] < 2 * steps[0]
