"""The table of losses that are linear programs, which the tests ask their questions."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import torch

from sktopk import losses
from sktopk.losses.programs._batch import split_classes
from sktopk.losses.programs._fbeta import fbeta_program
from sktopk.losses.programs._operating_points import budget_program
from sktopk.losses.programs._pairwise_auc import Problems, pairwise_auc_program
from sktopk.losses.programs._precision import elastic_program, precision_at_k_program
from tests.losses import program_references as references
from tests.losses.top_cases import every


@dataclass(frozen=True)
class Case:
    """A loss with parameters, its module, its definition and the program it is the optimum of.

    `convex` in the scores: the gradient is a subgradient where scores tie, too. `shares`: rows
    of one class with equal scores have equal gradients.
    """

    loss: Callable
    module: type
    reference: Callable
    program: Callable | None
    parameters: dict = field(default_factory=dict)
    convex: bool = False
    shares: bool = False

    def __str__(self):
        values = ", ".join(f"{k}={v}" for k, v in self.parameters.items())
        return f"{self.loss.__name__}({values})"

    def __call__(self, scores, target, **changes):
        return self.loss(scores, target, **(self.parameters | changes))

    def defined(self, scores, target, weight=None):
        weight = torch.ones(len(scores)) if weight is None else weight
        lists = scores.tolist(), target.long().tolist(), weight.tolist()
        return self.reference(*lists, **self.parameters)

    def by_highs(self, scores, target, weight=None):
        parameters = dict(self.parameters)
        batch = split_classes(scores, target, parameters.pop("margin", 1.0), weight)
        if weight is not None:
            batch = batch.select(weight > 0)
        return references.solve(self.program(batch, **parameters))


def auc_program(batch):
    return pairwise_auc_program(Problems(*(part.unsqueeze(0) for part in batch[:3])))


def recall_program(batch, recall):
    return budget_program(batch, budget=1 - recall)


def fpr_program(batch, fpr):
    return budget_program(batch.mirrored, budget=fpr)


AUC = (losses.pairwise_auc_loss, losses.PairwiseAUCLoss, references.pairwise_auc)
FBETA = (losses.fbeta_loss, losses.FBetaLoss, references.fbeta, fbeta_program)
RECALL = (
    losses.precision_at_recall_program_loss,
    losses.PrecisionAtRecallProgramLoss,
    references.precision_at_recall,
    recall_program,
)
FPR = (losses.recall_at_fpr_loss, losses.RecallAtFPRLoss, references.recall_at_fpr, fpr_program)
PRECISION = (
    losses.recall_at_precision_loss,
    losses.RecallAtPrecisionLoss,
    references.recall_at_precision,
    elastic_program,
)
TOP = (
    losses.precision_at_k_loss,
    losses.PrecisionAtKLoss,
    references.precision_at_k,
    precision_at_k_program,
)

PROGRAMS = [
    Case(*AUC, auc_program, convex=True),
    Case(*AUC, auc_program, {"margin": 0.5}, convex=True),
    Case(*FBETA, {"beta": 1.0}, shares=True),
    Case(*FBETA, {"beta": 2.0, "margin": 0.5}, shares=True),
    Case(*RECALL, {"recall": 0.75}, convex=True, shares=True),
    Case(*RECALL, {"recall": 1.0, "margin": 2.0}, convex=True, shares=True),
    Case(*FPR, {"fpr": 0.25}, convex=True, shares=True),
    Case(*FPR, {"fpr": 1.0, "margin": 0.5}, convex=True, shares=True),
    Case(*PRECISION, {"precision": 0.5, "penalty": 2.0}, convex=True, shares=True),
    Case(*PRECISION, {"precision": 0.75, "margin": 0.5, "penalty": 0.5}, convex=True, shares=True),
    Case(*PRECISION, {"precision": 1.0, "penalty": 1.0}, convex=True, shares=True),
    Case(*TOP, {"k": 1}),
    Case(*TOP, {"k": 3, "margin": 0.5}),
]
LOSSES = PROGRAMS + [
    Case(*AUC, None, {"surrogate": name}, convex=name != "ramp")
    for name in ("quadratic", "logistic", "ramp")
]


def first_of_each(cases):
    """One case of each loss, where parameters do not matter."""
    return list({case.loss: case for case in reversed(cases)}.values())


every_loss = every(LOSSES)
every_program = every(PROGRAMS)


def fixed_batch(n_samples=14, seed=0, dtype=torch.float64, share=0.4):
    """Return random scores, as leaf of a graph, and labels of both classes."""
    generator = torch.Generator().manual_seed(seed)
    scores = 1.5 * torch.randn(n_samples, dtype=dtype, generator=generator)
    target = torch.randperm(n_samples, generator=generator) < share * n_samples
    return (scores + 0.5 * target).requires_grad_(), target.long()


def tied_batch(rng, n_max=7, float_weights=True):
    """Return scores with many ties or none, labels, and weights of some kind."""
    n_samples = int(rng.integers(3, n_max))
    if rng.random() < 0.6:
        scores = rng.integers(-3, 4, n_samples) / 2
    else:
        scores = rng.normal(size=n_samples)
    kind = rng.integers(3)
    if kind == 0:
        weight = np.ones(n_samples)
    elif kind == 1 or not float_weights:
        weight = rng.integers(0, 3, n_samples).astype(float)
    else:
        weight = rng.random(n_samples) * (rng.random(n_samples) < 0.9)
    target = rng.random(n_samples) < 0.5
    return tuple(map(torch.from_numpy, (scores, target, weight)))
