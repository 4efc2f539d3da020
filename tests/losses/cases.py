"""The list of losses with which the tests of all losses run."""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import pytest
import torch

from sktopk import losses
from sktopk.losses._cross_entropy import cross_entropy_loss
from sktopk.losses._mixtures import topk_distribution_loss
from tests.losses import program_references, references, top_references
from tests.losses.data import CLASS_COUNTS, binary_batch, class_batch, fixed_noise
from tests.named_losses import without_address

PRIVATE = {each.__name__: each for each in (cross_entropy_loss, topk_distribution_loss)}
# The module of each function. Keys are names of functions without underscores.
MODULES = {name.lower(): name for name in losses.__all__} | {"toppushloss": "DeepTopPushLoss"}


def function_called(name):
    return PRIVATE.get(name) or getattr(losses, name)


@dataclass(frozen=True)
class Case:
    name: str
    reference: Callable | None
    parameters: dict = field(default_factory=dict)
    noised = False

    def __str__(self):
        values = [f"{k}={v}" for k, v in self.parameters.items() if k != "class_counts"]
        return f"{self.name}({', '.join(values)})"

    @property
    def function(self):
        return function_called(self.name)

    @property
    def module(self):
        return getattr(losses, MODULES.get(self.name.replace("_", ""), ""), None)

    def __call__(self, scores, target, **changes):
        return self.function(scores, target, **(self.parameters | changes))

    def noise_of(self, scores, index):
        return {"noise": fixed_noise(scores)[index]} if self.noised else {}


@dataclass(frozen=True)
class ClassCase(Case):
    """A loss of several classes. If `bound` is given, the loss is >= bound * (top-k error)."""

    bound: float | None = None
    soft: bool = False
    noised: bool = False
    batch = staticmethod(class_batch)

    def __call__(self, scores, target, **changes):
        if "noise" not in changes:
            changes |= self.noise_of(scores, slice(None))
        return super().__call__(scores, target, **changes)

    def defined_rows(self, scores, target):
        rows = []
        for i, row in enumerate(scores.tolist()):
            noise = {name: each.tolist() for name, each in self.noise_of(scores, i).items()}
            rows.append(self.reference(row, target[i].tolist(), **self.parameters, **noise))
        return torch.tensor(rows, dtype=torch.float64)


COUNTS = {"class_counts": CLASS_COUNTS}


def classes(name, parameters=None, **claims):
    reference = getattr(references, name.removesuffix("_loss"))
    return ClassCase(name, reference, parameters or {}, **claims)


AT_3 = {"k": 3}
SMOOTH = {"k": 3, "tau": 0.5}
CLASSES = [
    classes("cross_entropy_loss", bound=math.log(2), soft=True),
    classes("cross_entropy_loss", {"label_smoothing": 0.2}, soft=True),
    classes("smooth_topk_loss", {"k": 1}, bound=1.0, soft=True),
    classes("smooth_topk_loss", SMOOTH, bound=1 - 0.5 * math.log(3), soft=True),
    classes("topk_hinge_loss", AT_3, bound=1.0),
    classes("topk_hinge_loss", {"k": 2, "margin": 0.5, "scaled": False}, bound=0.5),
    classes("topk_hinge_convex_loss", AT_3, bound=1.0),
    classes("topk_hinge_calibrated_loss", AT_3, bound=1.0),
    classes("topk_grouping_loss", AT_3, bound=math.log(4), soft=True),
    classes("topk_transition_loss", AT_3, bound=math.log(4), soft=True),
    classes("noised_topk_loss", {"k": 3, "sigma": 0.7}, noised=True),
    classes("noised_topk_imbalanced_loss", {"k": 2, "sigma": 0.3, **COUNTS}, noised=True),
    classes("focal_loss", {"gamma": 0.5}, bound=0.5**0.5 * math.log(2)),
    classes("ldam_loss", {"scale": 2.0, **COUNTS}, bound=math.log(2)),
    classes("logit_adjusted_loss", {"tau": 0.8, **COUNTS}),
    classes("smooth_topk_adjusted_loss", SMOOTH | COUNTS, soft=True),
]


@dataclass(frozen=True)
class TopCase(Case):
    """Accuracy at the top. `reference(scores, labels)` is the slow definition of the threshold."""

    of: str = "negatives"
    errors: str = "false_negatives"
    batch = staticmethod(binary_batch)

    @property
    def counted(self):
        return 1 if self.errors == "false_negatives" else 0

    def defined_rows(self, scores, target):
        s, labels = scores.tolist(), target.tolist()
        rows = (s, labels, self.reference(s, labels), self.errors, self.parameters["surrogate"])
        return torch.tensor(top_references.losses(*rows), dtype=torch.float64)

    def defined(self, scores, target):
        n_counted = (target == self.counted).sum().clamp(min=1)
        return self.defined_rows(scores, target).sum() / n_counted


FP = "false_positives"


def top(name, definition, of, arguments, parameters, errors="false_negatives"):
    return TopCase(name, partial(definition, of=of, **arguments), parameters, of=of, errors=errors)


def ranked(surrogate):
    """The losses whose threshold is the score of one sample."""
    ranks = [
        ("top_push_loss", "negatives", {"k": 1}, {}),
        ("top_push_k_loss", "negatives", AT_3, AT_3),
        ("pat_mat_np_loss", "negatives", {"tau": 0.3}, {"tau": 0.3}),
        ("recall_at_k_loss", "all", {"k": 4}, {"k": 4}),
        ("pat_mat_loss", "all", {"tau": 0.3}, {"tau": 0.3}),
        ("precision_at_recall_loss", "positives", {"tau": 0.6}, {"recall": 0.6}, FP),
    ]
    by_rank = top_references.kth_largest
    return [
        top(name, by_rank, of, rank, parameters | {"surrogate": surrogate}, *errors)
        for name, of, rank, parameters, *errors in ranks
    ]


def of_threshold(kind, of, arguments, surrogate="quadratic", errors="false_negatives"):
    """Return a case of `accuracy_at_top_loss` with this threshold."""
    parameters = {"threshold": kind(of, **arguments), "errors": errors, "surrogate": surrogate}
    definition = {
        losses.TopMean: top_references.top_mean,
        losses.SurrogateQuantile: top_references.surrogate_quantile,
    }[kind]
    return top("accuracy_at_top_loss", definition, of, arguments, parameters, errors)


TOP = [
    *ranked("quadratic"),
    of_threshold(losses.TopMean, "negatives", AT_3),
    of_threshold(losses.TopMean, "positives", {"tau": 0.6}, errors=FP),
    of_threshold(losses.SurrogateQuantile, "negatives", {"tau": 0.3}),
    of_threshold(losses.SurrogateQuantile, "all", {"tau": 0.3, "surrogate": "hinge"}, "hinge", FP),
    *(ranked("hinge")[i] for i in (0, 5)),
    *(ranked("logistic")[i] for i in (2, 3)),
]


@dataclass(frozen=True)
class ProgramCase(Case):
    """A loss that is a linear program."""

    convex: bool = False  # the gradient is a subgradient, also at ties
    shares: bool = False  # samples of one class with equal scores have equal gradients
    batch = staticmethod(binary_batch)

    def defined(self, scores, target, weight=None):
        weight = torch.ones_like(scores) if weight is None else weight
        value = 0.0
        if len(target[weight > 0].unique()) == 2:
            arrays = (each.detach().double().numpy() for each in (scores, target, weight))
            value = self.reference(*arrays, **self.parameters)
        return torch.tensor(value, dtype=torch.float64)


def program(name, parameters=None, **claims):
    reference = getattr(program_references, name.removesuffix("_loss").removesuffix("_program"))
    return ProgramCase(name, reference, parameters or {}, **claims)


BOTH = {"convex": True, "shares": True}
PRECISION = "recall_at_precision_loss"
PROGRAMS = [
    program("pairwise_auc_loss", convex=True),
    program("fbeta_loss", {"beta": 1.0}, shares=True),
    program("fbeta_loss", {"beta": 2.0, "margin": 0.5}, shares=True),
    program("precision_at_recall_program_loss", {"recall": 0.75}, **BOTH),
    program("precision_at_recall_program_loss", {"recall": 1.0, "margin": 2.0}, **BOTH),
    program("recall_at_fpr_loss", {"fpr": 0.25}, **BOTH),
    program("recall_at_fpr_loss", {"fpr": 1.0, "margin": 0.5}, **BOTH),
    program(PRECISION, {"precision": 0.75, "margin": 0.5, "penalty": 0.5}, **BOTH),
    program(PRECISION, {"precision": 1.0, "penalty": 1.0}, **BOTH),
    program("precision_at_k_loss", {"k": 2}),
    program("precision_at_k_loss", {"k": 3, "margin": 0.5}),
    program("pairwise_auc_loss", {"surrogate": "quadratic"}, convex=True),
    program("pairwise_auc_loss", {"surrogate": "logistic"}, convex=True),
    program("pairwise_auc_loss", {"surrogate": "ramp"}),
]
SOLVED = [case for case in PROGRAMS if "surrogate" not in case.parameters]
OF_TWO = [*TOP, *PROGRAMS]
# precision_at_k_loss needs at least k samples in each group.
GROUPED = [case for case in OF_TWO if case.name != "precision_at_k_loss"]
LOSSES = [*CLASSES, *OF_TWO]


def first_of_each(cases):
    """Return the first case of each loss, for tests in which parameters do not matter."""
    return list({case.name: case for case in reversed(cases)}.values())[::-1]


def every(cases):
    return pytest.mark.parametrize("case", cases, ids=without_address)
