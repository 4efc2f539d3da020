"""Losses with a threshold among the scores: gradients of the paper, metrics, golden values."""

import math

import numpy as np
import pytest
import torch

from sktopk import losses
from sktopk.losses import KthLargest, TopMean, accuracy_at_top_loss
from tests.losses import top_references as references
from tests.losses.cases import TOP, binary_batch, every, value_and_gradient
from tests.losses.test_golden import Entries, golden_names


@every(TOP)
def test_bounds_the_zero_one_metric_from_above(case):
    for seed in range(3):
        scores, target = binary_batch(n_samples=200, seed=seed)
        t = case.reference(scores.tolist(), target.tolist())
        if case.errors == "false_negatives":  # eq. 2
            error = (target == 1) & (scores < t)
        else:
            error = (target == 0) & (scores >= t)
        assert error.any()
        assert (case(scores, target, reduction="none") >= error.double() - 1e-12).all()
        assert case(scores, target) >= error.sum() / (target == case.counted).sum()


# Both kinds of errors: equation 1 of Adam, Macha, Smidl.

BOTH = {"false_positives": 0.3, "false_negatives": 1.7}


@pytest.mark.parametrize("threshold", [KthLargest("all", k=5), TopMean("negatives", k=3)], ids=str)
@pytest.mark.parametrize("surrogate", references.SURROGATES)
def test_both_kinds_are_the_weighted_sum_of_each(surrogate, threshold):
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


# Surrogates: z, max(0, 1 + z)^2, max(0, 1 + z), log2(1 + exp z), as the loss at a threshold of 0.

TABLE = [
    (-2.0, 0.0, 0.0, 0.18311841),
    (-1.0, 0.0, 0.0, 0.45194108),
    (-0.5, 0.25, 0.5, 0.68394851),
    (0.0, 1.0, 1.0, 1.0),
    (3.0, 16.0, 4.0, 4.39818183),
]


@pytest.mark.parametrize(("name", "column"), [("quadratic", 1), ("hinge", 2), ("logistic", 3)])
def test_surrogates_by_hand_and_by_definition(name, column):
    def of_surrogate(z):
        """The surrogate of the distances z: the losses of negatives of these scores at 0."""
        return accuracy_at_top_loss(
            *(z, torch.zeros(len(z))),
            threshold=lambda scores, positive, weight: scores.new_zeros(()),
            errors="false_positives",
            surrogate=name,
            reduction="none",
        )

    table = torch.tensor(TABLE, dtype=torch.float64)
    torch.testing.assert_close(of_surrogate(table[:, 0]), table[:, column], rtol=1e-7, atol=1e-9)
    fine = torch.linspace(-60, 60, 24_001, dtype=torch.float64)
    value = of_surrogate(fine)
    assert (value.diff() >= 0).all()
    assert (value.diff().diff() >= -1e-11).all()
    assert (value >= (fine >= 0).double()).all()
    slow = [references.SURROGATES[name](x) for x in fine[::100].tolist()]
    assert value[::100].tolist() == pytest.approx(slow, rel=1e-14, abs=1e-14)


# Golden values of threshold, loss and gradient.

GOLDEN = {
    "at_TopPush": lambda y, p: KthLargest("negatives", k=1),
    "at_ties": lambda y, p: KthLargest("negatives", k=1),
    "at_KthNeg": lambda y, p: KthLargest("negatives", k=p),
    "at_RecAtK": lambda y, p: KthLargest("all", k=p),
    "at_MeanTopKNeg": lambda y, p: TopMean("negatives", k=p),
    # Means of floor(n p) + 1 scores.
    "at_TauFPL": lambda y, p: TopMean("negatives", k=math.floor((y == 0).sum() * p) + 1),
    "at_TopMean": lambda y, p: TopMean("all", k=math.floor(len(y) * p) + 1),
}
NAMED = {
    "at_TopPush": lambda s, y, p: losses.top_push_loss(s, y),
    "at_KthNeg": lambda s, y, p: losses.top_push_k_loss(s, y, k=p),
    "at_RecAtK": lambda s, y, p: losses.recall_at_k_loss(s, y, k=p),
}


@pytest.mark.parametrize("name", [n for n in golden_names("at_") if n != "at_baseline"])
def test_golden_threshold_loss_and_gradients(name):
    entry = Entries(name)
    kind = "_".join(name.split("_")[:2])
    scores, target = entry.tensor("z"), entry.tensor("y")
    threshold = GOLDEN[kind](entry["y"], entry.get("param"))
    value, gradient = value_and_gradient(lambda s: threshold(s, target == 1), scores)
    assert value.item() == pytest.approx(entry["t"], rel=1e-14)
    np.testing.assert_allclose(gradient, entry["dt_dz"], rtol=1e-14, atol=0)
    general = lambda s, y, p: accuracy_at_top_loss(s, y, threshold=threshold)  # noqa: E731
    for loss in {general, NAMED.get(kind, general)}:
        value, gradient = value_and_gradient(loss, scores, target, p=entry.get("param"))
        assert value.item() == pytest.approx(entry["loss"], rel=1e-12)
        np.testing.assert_allclose(gradient, entry["grad"], rtol=1e-12, atol=1e-12)
