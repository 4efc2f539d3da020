"""The losses that can be passed to TopKClassifier by name."""

import copy
import inspect
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import nn

from sktopk import losses
from sktopk._training._custom_loss import CustomLoss
from sktopk._training._objectives import CrossEntropy, Drawn, SampleLoss, Totals
from sktopk.losses._cross_entropy import cross_entropy_loss
from sktopk.losses._loss import LossModule
from sktopk.losses._mixtures import topk_distribution_loss


class NamedLoss(NamedTuple):
    """A loss function, the estimator parameters that it takes, and other properties."""

    function: Callable
    params: tuple = ()
    models_proba: bool = False  # whether the softmax of the scores estimates class probabilities
    counts: bool = False  # whether the function has the parameter `class_counts`
    draws: bool = False  # whether the function draws noise with the parameter `generator`
    log_prior: bool = False  # whether the function adds log class frequencies to the scores
    cosines: bool = False  # whether the scores must be cosines, which the function scales


LOSSES = {
    "cross_entropy": NamedLoss(cross_entropy_loss, models_proba=True),
    "smooth_topk": NamedLoss(losses.smooth_topk_loss, ("k", "tau")),
    "topk_hinge": NamedLoss(losses.topk_hinge_loss, ("k",)),
    "topk_hinge_convex": NamedLoss(losses.topk_hinge_convex_loss, ("k",)),
    "topk_hinge_calibrated": NamedLoss(losses.topk_hinge_calibrated_loss, ("k",)),
    "topk_grouping": NamedLoss(losses.topk_grouping_loss, ("k",)),
    "topk_transition": NamedLoss(losses.topk_transition_loss, ("k",)),
    "noised_topk": NamedLoss(losses.noised_topk_loss, ("k", "sigma"), draws=True),
    "focal": NamedLoss(losses.focal_loss),
    "logit_adjusted": NamedLoss(
        losses.logit_adjusted_loss, models_proba=True, counts=True, log_prior=True
    ),
    "smooth_topk_adjusted": NamedLoss(
        losses.smooth_topk_adjusted_loss, ("k", "tau"), counts=True, log_prior=True
    ),
    "ldam": NamedLoss(losses.ldam_loss, counts=True, cosines=True),
    "noised_topk_imbalanced": NamedLoss(
        losses.noised_topk_imbalanced_loss, ("k", "sigma"), counts=True, draws=True, cosines=True
    ),
}
# Arguments that the training passes to loss functions. Users cannot set them in `loss_params`.
_GIVEN = {"sample_weight", "reduction", "class_counts", "generator", "noise"}


def name_or_loss(loss):
    """Return `loss`, or its name if it is a function of :mod:`sktopk.losses` with a name."""
    return next((name for name, each in LOSSES.items() if each.function is loss), loss)


def named_like(loss):
    """Return the entry of `LOSSES` for a name, or for the same function or module; or None."""
    if isinstance(loss, str):
        return LOSSES.get(loss)
    function = cross_entropy_loss if type(loss) is nn.CrossEntropyLoss else loss
    if isinstance(loss, LossModule):
        function = loss.function
    return next((each for each in LOSSES.values() if each.function is function), None)


def loss_models_proba(loss):
    """Return whether the softmax of the scores estimates class probabilities."""
    named = named_like(loss)
    return named is not None and named.models_proba


def own_parameters(loss):
    """Return the set of names that `loss_params` may contain for this loss.

    With "k", the loss has another k than `predict_topk` and `score`.
    """
    if not isinstance(loss, str) or loss not in LOSSES:
        return set()
    parameters = inspect.signature(LOSSES[loss].function).parameters.values()
    keywords = {each.name for each in parameters if each.kind is each.KEYWORD_ONLY}
    return keywords - _GIVEN - (set(LOSSES[loss].params) - {"k"})


def make_objective(loss, params, n_classes, k):
    """Return the `Objective` of a loss.

    `params` are those of a named loss, with `k` if the loss has this parameter. A dict {k: weight}
    as `k` stands for the weighted mean of the loss over several k.
    """
    if not isinstance(loss, str):
        return CustomLoss(copy.deepcopy(loss))
    named, function = LOSSES[loss], LOSSES[loss].function
    if "k" in params and isinstance(k, dict):
        params, function = params | {"k": k, "loss": function}, topk_distribution_loss
    objective = SampleLoss(function, params, counts=named.counts, draws=named.draws)
    if params.keys() <= {"k", "tau", "sigma"}:  # checked before
        return objective
    # Evaluate the loss once, so that invalid parameters raise an error before the training.
    if named.draws:
        objective.seed(torch.Generator())
    ones = torch.ones(n_classes, 1, dtype=torch.float64)
    with torch.no_grad():
        target = torch.zeros(1, 2, dtype=torch.long)
        drawn = Drawn(Totals(ones, ones, ones[0]))
        objective(torch.zeros(1, 2, n_classes), target, None, drawn)
    objective.generator = None
    return objective


def make_partner(named, parameters):
    """Return the `CrossEntropy` that is trained together with a loss.

    `parameters` are those of the loss, or the attributes of a module. Others have their defaults.
    """
    if named is None:
        return CrossEntropy()
    defaults = inspect.signature(named.function).parameters

    def value(name):
        return float(parameters.get(name, defaults[name].default))

    scale = value("scale") if named.cosines else 1.0
    tau = 0.0
    if named.log_prior:
        # The tau of a smooth loss is a temperature.
        tau = 1.0 if "tau" in named.params else value("tau")
    return CrossEntropy(scale, tau)
