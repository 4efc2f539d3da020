"""The table of losses that the tests ask their questions."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import numpy as np
import pytest
import torch

from sktopk import losses
from sktopk.losses._cross_entropy import cross_entropy_loss
from sktopk.losses._mixtures import topk_distribution_loss
from tests.ids import without_address
from tests.losses import program_references, references, top_references

N_CLASSES = 7
CLASS_COUNTS = (500, 120, 1, 60, 30, 10, 5)


def assert_same(result, expected, tolerance=1e-12):
    """Compare losses, or pairs of loss and gradient."""
    torch.testing.assert_close(result, expected, rtol=tolerance, atol=tolerance)


def value_and_gradient(loss, scores, *args, **changes):
    scores = scores.detach().clone().requires_grad_()
    value = loss(scores, *args, **changes)
    (gradient,) = torch.autograd.grad(value.sum(), scores)
    return value.detach(), gradient


PRIVATE = {
    "cross_entropy_loss": cross_entropy_loss,
    "topk_distribution_loss": topk_distribution_loss,
}


def function_called(name):
    """A loss, public or one that only estimators use."""
    return PRIVATE.get(name) or getattr(losses, name)


@dataclass(frozen=True)
class Case:
    """A loss with parameters, its module and its definition."""

    name: str
    module: str | None
    reference: Callable
    parameters: dict = field(default_factory=dict)

    def __str__(self):
        values = [f"{k}={v}" for k, v in self.parameters.items() if k != "class_counts"]
        return f"{self.name}({', '.join(values)})"

    @property
    def function(self):
        return function_called(self.name)

    @property
    def k(self):
        return self.parameters.get("k", 1)

    def __call__(self, scores, target, **changes):
        return self.function(scores, target, **(self.parameters | changes))

    def build(self):
        return getattr(losses, self.module)(**self.parameters)


@dataclass(frozen=True)
class ClassCase(Case):
    """`bound` times the top-k error (k=1 for losses without k) is never above the loss."""

    bound: float | None = None
    soft: bool = False
    noised: bool = False

    def __call__(self, scores, target, **changes):
        if self.noised and "noise" not in changes:
            changes["noise"] = fixed_noise(scores)
        return super().__call__(scores, target, **changes)

    def batch(self, **options):
        return class_batch(**options)

    def defined_rows(self, scores, target):
        rows = []
        for i, row in enumerate(scores.tolist()):
            noise = {"noise": fixed_noise(scores)[i].tolist()} if self.noised else {}
            rows.append(self.reference(row, target[i].tolist(), **self.parameters, **noise))
        return torch.tensor(rows, dtype=torch.float64)


def fixed_noise(scores):
    generator = torch.Generator().manual_seed(7)
    return torch.randn((*scores.shape, 4), dtype=torch.float64, generator=generator)


def class_batch(n_samples=6, n_classes=N_CLASSES, seed=0, dtype=torch.float64):
    """Return random scores, as leaf of a graph, and every kind of label rank."""
    generator = torch.Generator().manual_seed(seed)
    scores = 2 * torch.randn((n_samples, n_classes), dtype=dtype, generator=generator)
    target = torch.randint(n_classes, (n_samples,), generator=generator)
    return scores.requires_grad_(), target


COUNTS = {"class_counts": CLASS_COUNTS}


def classes(name, module, parameters=None, **claims):
    reference = getattr(references, name.removesuffix("_loss"))
    return ClassCase(name, module, reference, parameters or {}, **claims)


CLASSES = [
    classes("cross_entropy_loss", None, bound=math.log(2), soft=True),
    classes("cross_entropy_loss", None, {"label_smoothing": 0.2}, soft=True),
    classes("smooth_topk_loss", "SmoothTopKLoss", {"k": 1}, bound=1.0, soft=True),
    classes(
        "smooth_topk_loss",
        "SmoothTopKLoss",
        {"k": 3, "tau": 0.5},
        bound=1 - 0.5 * math.log(3),
        soft=True,
    ),
    classes("topk_hinge_loss", "TopKHingeLoss", {"k": 3}, bound=1.0),
    classes(
        "topk_hinge_loss", "TopKHingeLoss", {"k": 2, "margin": 0.5, "scaled": False}, bound=0.5
    ),
    classes("topk_hinge_convex_loss", "TopKHingeConvexLoss", {"k": 3}, bound=1.0),
    classes("topk_hinge_calibrated_loss", "TopKHingeCalibratedLoss", {"k": 3}, bound=1.0),
    classes("topk_grouping_loss", "TopKGroupingLoss", {"k": 3}, bound=math.log(4), soft=True),
    classes("topk_transition_loss", "TopKTransitionLoss", {"k": 3}, bound=math.log(4), soft=True),
    classes("noised_topk_loss", "NoisedTopKLoss", {"k": 3, "sigma": 0.7}, noised=True),
    classes(
        "noised_topk_imbalanced_loss",
        "NoisedTopKImbalancedLoss",
        {"k": 2, "sigma": 0.3, "scale": 2.0, **COUNTS},
        noised=True,
    ),
    classes("focal_loss", "FocalLoss", {"gamma": 0.5}, bound=0.5**0.5 * math.log(2)),
    classes("ldam_loss", "LDAMLoss", {"scale": 2.0, **COUNTS}, bound=math.log(2)),
    classes("logit_adjusted_loss", "LogitAdjustedLoss", {"tau": 0.8, **COUNTS}),
    classes(
        "smooth_topk_adjusted_loss",
        "SmoothTopKAdjustedLoss",
        {"k": 3, "tau": 0.5, **COUNTS},
        soft=True,
    ),
]


@dataclass(frozen=True)
class TopCase(Case):
    """`reference` is the definition of the threshold t(scores, labels)."""

    of: str = "negatives"
    errors: str = "false_negatives"

    def __str__(self):
        return f"{self.name}({', '.join(map(str, self.parameters.values()))})"

    @property
    def surrogate(self):
        return self.parameters["surrogate"]

    @property
    def counted(self):
        """The label of the samples that can be errors."""
        return 1 if self.errors == "false_negatives" else 0

    def batch(self, **options):
        return top_batch(**options)

    def defined_rows(self, scores, target):
        s, labels = scores.tolist(), target.tolist()
        t = self.reference(s, labels)
        rows = top_references.losses(s, labels, t, self.errors, self.surrogate)
        return torch.tensor(rows, dtype=torch.float64)

    def defined(self, scores, target):
        n_counted = (target == self.counted).sum().clamp(min=1)
        return self.defined_rows(scores, target).sum() / n_counted


def top_batch(n_samples=14, seed=0, dtype=torch.float64):
    """Return random scores, as leaf of a graph, and labels of both classes."""
    generator = torch.Generator().manual_seed(seed)
    scores = 2 * torch.randn(n_samples, dtype=dtype, generator=generator)
    target = torch.randperm(n_samples, generator=generator) < 0.4 * n_samples
    return scores.requires_grad_(), target.long()


def of_rank(name, module, of, rank, parameters, surrogate, errors="false_negatives"):
    """A loss whose threshold is the score of one sample."""
    threshold = partial(top_references.kth_largest, of=of, **rank)
    parameters = {**parameters, "surrogate": surrogate}
    return TopCase(name, module, threshold, parameters, of=of, errors=errors)


def of_threshold(kind, definition, of, arguments, surrogate, errors="false_negatives"):
    """`accuracy_at_top_loss` with another kind of threshold."""
    parameters = {"threshold": kind(of, **arguments), "errors": errors, "surrogate": surrogate}
    threshold = partial(definition, of=of, **arguments)
    return TopCase("accuracy_at_top_loss", None, threshold, parameters, of=of, errors=errors)


def ranked(surrogate):
    tau = {"tau": 0.3}
    recall = {"recall": 0.6}
    fp = "false_positives"
    return [
        of_rank("top_push_loss", "DeepTopPushLoss", "negatives", {"k": 1}, {}, surrogate),
        of_rank("top_push_k_loss", "TopPushKLoss", "negatives", {"k": 3}, {"k": 3}, surrogate),
        of_rank("pat_mat_np_loss", "PatMatNPLoss", "negatives", tau, tau, surrogate),
        of_rank("recall_at_k_loss", "RecallAtKLoss", "all", {"k": 4}, {"k": 4}, surrogate),
        of_rank("pat_mat_loss", "PatMatLoss", "all", tau, tau, surrogate),
        of_rank(
            "precision_at_recall_loss",
            "PrecisionAtRecallLoss",
            *("positives", {"tau": 0.6}, recall, surrogate, fp),
        ),
    ]


MEAN = losses.TopMean, top_references.top_mean
QUANTILE = losses.SurrogateQuantile, top_references.surrogate_quantile
TOP = [
    *ranked("quadratic"),
    of_threshold(*MEAN, "negatives", {"k": 3}, "quadratic"),
    of_threshold(*MEAN, "positives", {"tau": 0.6}, "quadratic", "false_positives"),
    of_threshold(*QUANTILE, "negatives", {"tau": 0.3}, "quadratic"),
    of_threshold(*QUANTILE, "all", {"tau": 0.3, "surrogate": "hinge"}, "hinge", "false_positives"),
    ranked("hinge")[0],
    ranked("hinge")[5],
    ranked("logistic")[2],
    ranked("logistic")[3],
]


@dataclass(frozen=True)
class ProgramCase(Case):
    """`convex` in the scores: the gradient is a subgradient where scores tie, too.

    `shares`: samples of one class with equal scores have equal gradients.
    """

    program: bool = True
    convex: bool = False
    shares: bool = False

    def batch(self, **options):
        return program_batch(**options)

    def defined(self, scores, target, weight=None):
        weight = torch.ones(len(scores)) if weight is None else weight
        lists = scores.tolist(), target.long().tolist(), weight.tolist()
        value = self.reference(*lists, **self.parameters)
        return torch.tensor(value, dtype=torch.float64)


def program_batch(n_samples=14, seed=0, dtype=torch.float64, share=0.4):
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


def program(name, module, parameters=None, **claims):
    reference = getattr(program_references, name.removesuffix("_loss").removesuffix("_program"))
    return ProgramCase(name, module, reference, parameters or {}, **claims)


AUC = "pairwise_auc_loss", "PairwiseAUCLoss"
FBETA = "fbeta_loss", "FBetaLoss"
RECALL = "precision_at_recall_program_loss", "PrecisionAtRecallProgramLoss"
FPR = "recall_at_fpr_loss", "RecallAtFPRLoss"
PRECISION = "recall_at_precision_loss", "RecallAtPrecisionLoss"
AT_K = "precision_at_k_loss", "PrecisionAtKLoss"
BOTH = {"convex": True, "shares": True}
PROGRAMS = [
    program(*AUC, convex=True),
    program(*FBETA, {"beta": 1.0}, shares=True),
    program(*FBETA, {"beta": 2.0, "margin": 0.5}, shares=True),
    program(*RECALL, {"recall": 0.75}, **BOTH),
    program(*RECALL, {"recall": 1.0, "margin": 2.0}, **BOTH),
    program(*FPR, {"fpr": 0.25}, **BOTH),
    program(*FPR, {"fpr": 1.0, "margin": 0.5}, **BOTH),
    program(*PRECISION, {"precision": 0.75, "margin": 0.5, "penalty": 0.5}, **BOTH),
    program(*PRECISION, {"precision": 1.0, "penalty": 1.0}, **BOTH),
    program(*AT_K, {"k": 2}),
    program(*AT_K, {"k": 3, "margin": 0.5}),
    program(*AUC, {"surrogate": "quadratic"}, program=False, convex=True),
    program(*AUC, {"surrogate": "logistic"}, program=False, convex=True),
    program(*AUC, {"surrogate": "ramp"}, program=False),
]
SOLVED = [case for case in PROGRAMS if case.program]
OF_TWO = [*TOP, *PROGRAMS]
LOSSES = [*CLASSES, *OF_TWO]


def first_of_each(cases):
    """One case of each loss, where parameters do not matter."""
    return list({case.name: case for case in reversed(cases)}.values())[::-1]


def every(cases):
    return pytest.mark.parametrize("case", cases, ids=without_address)
