"""The losses that TopKClassifier knows by name, and how it calls any other."""

import copy
import inspect
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from sktopk import losses
from sktopk._common._scalars import (
    check_number,
)
from sktopk._training._candidates import SampledLoss
from sktopk._training._torch_names import (
    OPTIMIZERS,
    check_optimizer,
)
from sktopk.losses._loss import REDUCTIONS


def _one(k, tau):
    return 1.0


class Criterion(NamedTuple):
    """A loss, the parameters of the estimator that it takes, and what its scores mean."""

    module: type
    params: tuple = ()
    # softmax(scores) estimates class probabilities.
    models_proba: bool = False
    # score_scale="auto" as a function of k and tau; benchmarks/defaults.py compares others.
    score_scale: Callable = _one
    # What it divides scores by, if all it asks of the classes are sums of exponentials.
    unit: Callable | None = None


def _ten(k, tau):
    return 10.0


_NOISED = ("k", "sigma", "n_noise")

CRITERIA = {
    "cross_entropy": Criterion(losses.CrossEntropyLoss, models_proba=True, unit=_one),
    # The losses that divide scores need them larger by what they divide by.
    "smooth_topk": Criterion(
        losses.SmoothTopKLoss,
        ("k", "tau", "margin"),
        # For small tau it is the hinge below, and wants the same room.
        score_scale=lambda k, tau: k * max(5.0, 10.0 * tau),
        unit=lambda k, tau: k * tau,
    ),
    "topk_hinge": Criterion(
        losses.TopKHingeLoss, ("k", "margin"), score_scale=lambda k, tau: 5.0 * k
    ),
    "topk_hinge_convex": Criterion(losses.TopKHingeConvexLoss, ("k", "margin"), score_scale=_ten),
    "topk_hinge_calibrated": Criterion(
        losses.TopKHingeCalibratedLoss, ("k", "margin"), score_scale=_ten
    ),
    "topk_grouping": Criterion(losses.TopKGroupingLoss, ("k",), score_scale=_ten),
    "topk_transition": Criterion(losses.TopKTransitionLoss, ("k",), score_scale=_ten),
    "noised_topk": Criterion(losses.NoisedTopKLoss, (*_NOISED, "margin"), score_scale=_ten),
    # Made for cosines, which they scale themselves; other scores want a little more.
    "noised_topk_imbalanced": Criterion(
        losses.NoisedTopKImbalancedLoss,
        ("class_counts", *_NOISED, "max_margin", "scale"),
        score_scale=lambda k, tau: 3.0,
    ),
    "focal": Criterion(losses.FocalLoss, ("gamma",), unit=_one),
    "ldam": Criterion(
        losses.LDAMLoss,
        ("class_counts", "max_margin", "scale"),
        score_scale=lambda k, tau: 3.0,
    ),
    "logit_adjusted": Criterion(losses.LogitAdjustedLoss, ("class_counts",)),
}


def loss_in_use(estimator):
    """The loss of a TopKClassifier: its parameter, or what loss="auto" has become in `fit`."""
    return getattr(estimator, "loss_", estimator.loss)


def auto_scale(estimator):
    """What score_scale="auto" stands for in a TopKClassifier that knows its `k_`."""
    loss = loss_in_use(estimator)
    if not isinstance(loss, str):
        return 1.0
    criterion = CRITERIA[loss]
    if estimator.normalize and "scale" in criterion.params:
        return 1.0
    return criterion.score_scale(estimator.k_, estimator.tau)


def make_criterion(estimator):
    """The loss module of a TopKClassifier that knows its `k_` and class counts."""
    loss = loss_in_use(estimator)
    if not isinstance(loss, str):
        return CustomLoss(copy.deepcopy(loss))
    criterion = CRITERIA[loss]
    values = {name: getattr(estimator, name, None) for name in criterion.params}
    if "class_counts" in values:
        values["class_counts"] = loss_counts(estimator)
    # None stands for the loss's own default.
    values = {name: value for name, value in values.items() if value is not None}
    k = estimator.k
    if "k" in values and isinstance(k, dict):
        each = [criterion.module(**values | {"k": min(k_, estimator.k_)}) for k_ in k]
        return losses.TopKDistributionLoss(each, k.values())
    if "k" in values:
        values["k"] = estimator.k_
    module = criterion.module(**values)
    if estimator.n_candidates is None:
        return module
    unit = criterion.unit(estimator.k_, estimator.tau)
    return SampledLoss(module, len(estimator.classes_), estimator.n_candidates, unit)


def check_candidates(estimator):
    """Check `n_candidates`, and that loss and optimizer can do with a few of the classes."""
    n_candidates, loss, k = estimator.n_candidates, estimator.loss, estimator.k
    if n_candidates is None:
        return
    check_number(n_candidates, "n_candidates", 1, integer=True)
    able = [name for name, each in CRITERIA.items() if each.unit is not None]
    if not isinstance(loss, str) or loss not in able:
        raise ValueError(
            f"n_candidates works with loss={' or '.join(map(repr, able))}: any other asks for more "
            f"of the classes than sums, which a sample does not tell; got loss={loss!r}"
        )
    if "k" in CRITERIA[loss].params:
        if isinstance(k, dict):
            raise ValueError(
                f"n_candidates needs one k for loss={loss!r}, whose sums depend on it; got k={k!r}"
            )
        if n_candidates <= k:
            raise ValueError(f"n_candidates={n_candidates} must be larger than k ({k})")
    if check_optimizer(estimator.optimizer) not in OPTIMIZERS.values():
        raise ValueError(
            "n_candidates needs an optimizer that treats each weight by itself, one of "
            f"{', '.join(map(repr, OPTIMIZERS))}; got {estimator.optimizer!r}"
        )
    if estimator.compile:
        raise ValueError("n_candidates does not go with compile=True: set one of them")


def loss_counts(estimator):
    """Class counts for losses that weigh by them; a class still to come counts as one row."""
    count = estimator.class_count_
    return torch.from_numpy(np.where(count > 0, count, count[count > 0].min()))


def refresh_counts(estimator):
    """Tell the loss of a fitted estimator the class counts as they are now."""
    if isinstance(loss_in_use(estimator), str):
        for name, buffer in estimator.net_.criterion_.named_buffers():
            if name.endswith("class_counts"):
                buffer.copy_(loss_counts(estimator))


def has_proba(estimator):
    """Return True if `predict_proba` means something, else raise with the way out."""
    loss = loss_in_use(estimator)
    if hasattr(estimator, "net_"):
        available = hasattr(estimator, "calibration_") or estimator._models_proba_
    else:
        # Which loss "auto" becomes is not known yet.
        criterion = CRITERIA.get(loss) if isinstance(loss, str) else None
        available = estimator.calibration is not None or (criterion and criterion.models_proba)
    if not available:
        proper = [name for name, each in CRITERIA.items() if each.models_proba]
        raise AttributeError(
            f"predict_proba is not available for loss={loss!r} without calibration: its "
            "scores are not probabilities. Set calibration='temperature' or 'sigmoid', or loss to "
            f"one of {', '.join(map(repr, proper))}, and fit"
        )
    return True


def has_partial_fit(estimator):
    """Return True unless the loss is to be chosen, which takes all rows."""
    if isinstance(estimator.loss, str) and estimator.loss == "auto":
        raise AttributeError(
            "partial_fit is not available for loss='auto', which needs all data at once: set loss "
            "to one by name"
        )
    return True


class CustomLoss(nn.Module):
    """Give a user's ``loss(scores, target)`` the sample weights and the mean that ours have.

    Parameters
    ----------
    loss : nn.Module
        Weights need a loss that takes `sample_weight`, as ours do, or one with a `reduction`
        attribute, which is then "none".
    """

    def __init__(self, loss):
        super().__init__()
        self.loss = loss
        self.takes_weight = "sample_weight" in inspect.signature(loss.forward).parameters

    def forward(self, scores, target, sample_weight=None):
        if getattr(self.loss, "reduction", None) in REDUCTIONS:
            if sample_weight is None and self.loss.reduction == "mean":
                return self._checked(self.loss(scores, target))
            reduction, self.loss.reduction = self.loss.reduction, "none"
            try:
                each = self.loss(scores, target)
            finally:
                self.loss.reduction = reduction
            return losses.reduce(each, sample_weight)
        if sample_weight is None:
            return self._checked(self.loss(scores, target)).mean()
        if not self.takes_weight:
            raise TypeError(
                "sample_weight and class_weight need a loss that takes sample_weight or has a "
                f"reduction attribute; got loss={type(self.loss).__name__}"
            )
        return self._checked(self.loss(scores, target, sample_weight=sample_weight))

    def _checked(self, value):
        if not isinstance(value, torch.Tensor) or (
            torch.is_grad_enabled() and not value.requires_grad
        ):
            came = "one without" if isinstance(value, torch.Tensor) else type(value).__name__
            raise TypeError(
                f"loss must return a Tensor with a gradient; got {came} from "
                f"{type(self.loss).__name__}"
            )
        return value
