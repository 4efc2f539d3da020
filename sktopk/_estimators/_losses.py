"""The losses that can be passed to TopKClassifier by name."""

import copy
import inspect
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import nn

from sktopk import losses
from sktopk._training.criteria._base import RowLoss
from sktopk._training.criteria._custom import CustomLoss
from sktopk._training.criteria._mixture import CrossEntropy
from sktopk.losses._cross_entropy import cross_entropy_loss, cross_entropy_of_rows
from sktopk.losses._loss import LossModule
from sktopk.losses._mixtures import topk_distribution_loss
from sktopk.losses._smooth_topk import smooth_topk_of_rows


class NamedLoss(NamedTuple):
    """A loss function, the estimator parameters that it takes, and other properties."""

    function: Callable
    params: tuple = ()
    models_proba: bool = False  # whether the softmax of the scores estimates class probabilities
    counts: bool = False  # whether the function has the parameter `class_counts`
    draws: bool = False  # whether the function draws noise with the parameter `generator`
    gradient_of_rows: Callable | None = None  # see `RowLoss`
    log_prior: bool = False  # whether the function adds log class frequencies to the scores
    cosines: bool = False  # whether the scores must be cosines, which the function scales


LOSSES = {
    "cross_entropy": NamedLoss(
        cross_entropy_loss, models_proba=True, gradient_of_rows=cross_entropy_of_rows
    ),
    "smooth_topk": NamedLoss(
        losses.smooth_topk_loss, ("k", "tau"), gradient_of_rows=smooth_topk_of_rows
    ),
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


def named_like(module):
    """Return the entry of `LOSSES` for the same loss as an nn.Module, or None."""
    function = cross_entropy_loss if type(module) is nn.CrossEntropyLoss else None
    if isinstance(module, LossModule):
        function = module.function
    return next((each for each in LOSSES.values() if each.function is function), None)


def own_parameters(loss):
    """Return the set of names that `loss_params` may contain for this loss.

    With "k", the loss has another k than `predict_topk` and `score`.
    """
    if not isinstance(loss, str) or loss not in LOSSES:
        return set()
    parameters = inspect.signature(LOSSES[loss].function).parameters.values()
    keywords = {each.name for each in parameters if each.kind is each.KEYWORD_ONLY}
    return keywords - _GIVEN - (set(LOSSES[loss].params) - {"k"})


def make_criterion(loss, params, n_classes, k):
    """Return the `Criterion` of a loss.

    Parameters
    ----------
    loss : str, nn.Module or callable
    params : dict
        Parameters of a named loss, with `k` if the loss has this parameter.
    n_classes : int
    k : int or dict
        A dict {k: weight} stands for the weighted mean of the loss over several k.
    """
    if not isinstance(loss, str):
        return CustomLoss(copy.deepcopy(loss))
    named, function = LOSSES[loss], LOSSES[loss].function
    gradient_of_rows = named.gradient_of_rows
    if "k" in params and isinstance(k, dict):
        gradient_of_rows = None
        params, function = params | {"k": k, "loss": function}, topk_distribution_loss
    counts = n_classes if named.counts else None
    more = {"draws": named.draws, "gradient_of_rows": gradient_of_rows}
    criterion = RowLoss(function, params, n_counts=counts, **more)
    # Evaluate the loss once, so that invalid parameters raise an error before the training.
    if named.draws:
        criterion.seed(torch.Generator())
    with torch.no_grad():
        criterion(torch.zeros(2, n_classes), torch.zeros(2, dtype=torch.long))
    criterion.generator = None
    return criterion


def make_partner(named, parameters, n_classes):
    """Return the `CrossEntropy` that is trained together with a loss.

    Parameters
    ----------
    named : NamedLoss or None
    parameters : dict
        Parameters of the loss, or the attributes of a module. The function has the others.
    n_classes : int
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
    return CrossEntropy(scale, tau, n_classes if tau else None)
