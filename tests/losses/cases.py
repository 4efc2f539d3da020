"""The table of losses that the tests ask their questions."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
import torch

from sktopk import losses
from tests.losses import references

N_CLASSES = 7
CLASS_COUNTS = (500, 120, 1, 60, 30, 10, 5)


@dataclass(frozen=True)
class Case:
    """A loss with parameters, its definition, and what is claimed of it.

    `bound` times the top-k error (k=1 for losses without k) is never above the loss.
    """

    name: str
    module: str
    reference: Callable
    parameters: dict = field(default_factory=dict)
    bound: float | None = None
    soft: bool = False
    noised: bool = False

    def __str__(self):
        values = [f"{k}={v}" for k, v in self.parameters.items() if k != "class_counts"]
        return f"{self.name}({', '.join(values)})"

    @property
    def k(self):
        return self.parameters.get("k", 1)

    def __call__(self, scores, target, **changes):
        """Return the loss; the noised losses get fixed noise."""
        parameters = self.parameters | changes
        if self.noised and "noise" not in parameters:
            parameters["noise"] = fixed_noise(scores)
        return getattr(losses, self.name)(scores, target, **parameters)

    def defined(self, scores, target):
        """Return the losses of each row by definition."""
        rows = []
        for i, row in enumerate(scores.tolist()):
            noise = {"noise": fixed_noise(scores)[i].tolist()} if self.noised else {}
            rows.append(self.reference(row, target[i].tolist(), **self.parameters, **noise))
        return torch.tensor(rows, dtype=scores.dtype)


def fixed_noise(scores):
    generator = torch.Generator().manual_seed(7)
    return torch.randn((*scores.shape, 4), dtype=torch.float64, generator=generator)


def fixed_batch(n_samples=6, n_classes=N_CLASSES, seed=0, dtype=torch.float64):
    """Return random scores, as leaf of a graph, and every kind of label rank."""
    generator = torch.Generator().manual_seed(seed)
    scores = 2 * torch.randn((n_samples, n_classes), dtype=dtype, generator=generator)
    target = torch.randint(n_classes, (n_samples,), generator=generator)
    return scores.requires_grad_(), target


def assert_same(result, expected, tolerance=1e-12):
    """Compare losses, or pairs of loss and gradient."""
    torch.testing.assert_close(result, expected, rtol=tolerance, atol=tolerance)


def value_and_gradient(case, scores, target, **changes):
    scores = scores.detach().clone().requires_grad_()
    loss = case(scores, target, **changes)
    (gradient,) = torch.autograd.grad(loss.sum(), scores)
    return loss.detach(), gradient


COUNTS = {"class_counts": CLASS_COUNTS}
SMOOTH = ("smooth_topk_loss", "SmoothTopKLoss", references.smooth_topk)
HINGE = ("topk_hinge_loss", "TopKHingeLoss", references.topk_hinge)
CONVEX = ("topk_hinge_convex_loss", "TopKHingeConvexLoss", references.topk_hinge_convex)
CALIBRATED = (
    "topk_hinge_calibrated_loss",
    "TopKHingeCalibratedLoss",
    references.topk_hinge_calibrated,
)
GROUPING = ("topk_grouping_loss", "TopKGroupingLoss", references.topk_grouping)
TRANSITION = ("topk_transition_loss", "TopKTransitionLoss", references.topk_transition)
NOISED = ("noised_topk_loss", "NoisedTopKLoss", references.noised_topk)
IMBALANCED = (
    "noised_topk_imbalanced_loss",
    "NoisedTopKImbalancedLoss",
    references.noised_topk_imbalanced,
)
CROSS_ENTROPY = ("cross_entropy_loss", "CrossEntropyLoss", references.cross_entropy)
FOCAL = ("focal_loss", "FocalLoss", references.focal)
LDAM = ("ldam_loss", "LDAMLoss", references.ldam)
LOGIT_ADJUSTED = ("logit_adjusted_loss", "LogitAdjustedLoss", references.logit_adjusted)
ADJUSTED = ("smooth_topk_adjusted_loss", "SmoothTopKAdjustedLoss", references.smooth_topk_adjusted)

LOSSES = [
    Case(*CROSS_ENTROPY, bound=math.log(2), soft=True),
    Case(*CROSS_ENTROPY, {"label_smoothing": 0.2}, soft=True),
    Case(*SMOOTH, {"k": 1}, bound=1.0, soft=True),
    Case(*SMOOTH, {"k": 3, "tau": 0.5}, bound=1 - 0.5 * math.log(3), soft=True),
    Case(*HINGE, {"k": 3}, bound=1.0),
    Case(*HINGE, {"k": 2, "margin": 0.5, "scaled": False}, bound=0.5),
    Case(*CONVEX, {"k": 3}, bound=1.0),
    Case(*CALIBRATED, {"k": 3}, bound=1.0),
    Case(*GROUPING, {"k": 3}, bound=math.log(4), soft=True),
    Case(*TRANSITION, {"k": 3}, bound=math.log(4), soft=True),
    Case(*NOISED, {"k": 3, "sigma": 0.7}, noised=True),
    Case(*IMBALANCED, {"k": 2, "sigma": 0.3, "scale": 2.0, **COUNTS}, noised=True),
    Case(*FOCAL, {"gamma": 0.5}, bound=0.5**0.5 * math.log(2)),
    Case(*FOCAL, bound=0.25 * math.log(2)),
    Case(*LDAM, {"scale": 2.0, **COUNTS}, bound=math.log(2)),
    Case(*LOGIT_ADJUSTED, {"tau": 0.8, **COUNTS}),
    Case(*ADJUSTED, {"k": 3, "tau": 0.5, **COUNTS}, soft=True),
]

every_loss = pytest.mark.parametrize("case", LOSSES, ids=str)
every_loss_of_k = pytest.mark.parametrize(
    "case", [case for case in LOSSES if "k" in case.parameters], ids=str
)
every_soft_loss = pytest.mark.parametrize("case", [c for c in LOSSES if c.soft], ids=str)
