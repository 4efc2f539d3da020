"""The losses that TopKClassifier knows by name."""

import inspect
from collections.abc import Callable
from typing import NamedTuple

from sktopk import losses


def _one(k, tau):
    return 1.0


def _three(k, tau):
    return 3.0


def _ten(k, tau):
    return 10.0


class NamedLoss(NamedTuple):
    """A loss function, the parameters of the estimator that it takes, and what its scores mean."""

    function: Callable
    params: tuple = ()
    # softmax(scores) estimates class probabilities.
    models_proba: bool = False
    # score_scale="auto" as a function of k and tau; benchmarks/defaults.py compares others.
    score_scale: Callable = _one
    # What it divides scores by, if all it asks of the classes are sums of exponentials.
    unit: Callable | None = None
    # Whether it takes `class_counts`, whether it takes a `generator`.
    counts: bool = False
    draws: bool = False


LOSSES = {
    "cross_entropy": NamedLoss(losses.cross_entropy_loss, models_proba=True, unit=_one),
    # The losses that divide scores need them larger by what they divide by.
    "smooth_topk": NamedLoss(
        losses.smooth_topk_loss,
        ("k", "tau"),
        # For small tau it is the hinge below, and wants the same room.
        score_scale=lambda k, tau: k * max(5.0, 10.0 * tau),
        unit=lambda k, tau: k * tau,
    ),
    "topk_hinge": NamedLoss(losses.topk_hinge_loss, ("k",), score_scale=lambda k, tau: 5.0 * k),
    "topk_hinge_convex": NamedLoss(losses.topk_hinge_convex_loss, ("k",), score_scale=_ten),
    "topk_hinge_calibrated": NamedLoss(losses.topk_hinge_calibrated_loss, ("k",), score_scale=_ten),
    "topk_grouping": NamedLoss(losses.topk_grouping_loss, ("k",), score_scale=_ten),
    "topk_transition": NamedLoss(losses.topk_transition_loss, ("k",), score_scale=_ten),
    "noised_topk": NamedLoss(losses.noised_topk_loss, ("k", "sigma"), score_scale=_ten, draws=True),
    # Made for cosines, which they scale themselves; other scores want a little more.
    "noised_topk_imbalanced": NamedLoss(
        losses.noised_topk_imbalanced_loss,
        ("k", "sigma"),
        score_scale=_three,
        counts=True,
        draws=True,
    ),
    "focal": NamedLoss(losses.focal_loss, unit=_one),
    "ldam": NamedLoss(losses.ldam_loss, score_scale=_three, counts=True),
    "logit_adjusted": NamedLoss(losses.logit_adjusted_loss, counts=True),
}
# Arguments of the functions that the training gives them.
_GIVEN = {"sample_weight", "reduction", "class_counts", "generator", "noise"}


def own_parameters(loss):
    """Names of the parameters that a loss alone has."""
    if not isinstance(loss, str) or loss not in LOSSES:
        return set()
    parameters = inspect.signature(LOSSES[loss].function).parameters.values()
    keywords = {each.name for each in parameters if each.kind is each.KEYWORD_ONLY}
    return keywords - _GIVEN - set(LOSSES[loss].params)


def params_for(estimator, loss, prefix=""):
    """Parameters that make a copy of an estimator train with another loss.

    What that loss ignores or refuses goes back to its default. `prefix` is that of the
    TopKClassifier in the estimator, such as "clf__".
    """
    classifier = estimator.get_params()[prefix.removesuffix("__")] if prefix else estimator
    params = {"loss": loss}
    if loss in LOSSES:
        ignored = {"tau", "sigma"} - set(LOSSES[loss].params)
        params |= {name: getattr(type(classifier), name) for name in ignored}
    if (classifier.loss_params or {}).keys() - own_parameters(loss):
        params["loss_params"] = None
    return {f"{prefix}{name}": value for name, value in params.items()}
