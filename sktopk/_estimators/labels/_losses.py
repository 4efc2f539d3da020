"""The losses that TopKClassifier knows by name."""

import inspect
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from torch import nn

from sktopk import losses
from sktopk._training.criteria._base import RowLoss
from sktopk.losses._loss import LossModule


class NamedLoss(NamedTuple):
    """A loss function, the parameters of the estimator that it takes, and what its scores mean.

    score_scale="auto" is the largest of `room`, `room_per_k` times k and `room_per_k_tau` times
    k times tau: the losses that divide scores need them larger by what they divide by.
    """

    function: Callable
    params: tuple = ()
    # benchmarks/defaults.py compares others.
    room: float = 1.0
    room_per_k: float = 0.0
    room_per_k_tau: float = 0.0
    # softmax(scores) estimates class probabilities, once the frequencies of the classes that one
    # with `counts` takes out of them are back, see `log_frequencies`.
    models_proba: bool = False
    # All it asks of the classes are sums of exponentials of scores, which it may divide by k tau.
    has_sums: bool = False
    # Whether it takes `class_counts`, whether it takes a `generator`.
    counts: bool = False
    draws: bool = False
    # Whether the cross-entropy of a warm-up takes the class frequencies out of the scores, too.
    adjusts: bool = False


# The largest score_scale="auto" of a network of tables (benchmarks/top_of_the_table.py).
MOST_ROOM = 5.0
LOSSES = {
    "cross_entropy": NamedLoss(losses.cross_entropy_loss, models_proba=True, has_sums=True),
    # For small tau it is the hinge below, and wants the same room.
    "smooth_topk": NamedLoss(losses.smooth_topk_loss, ("k", "tau"), 1.0, 5.0, 10.0, has_sums=True),
    "topk_hinge": NamedLoss(losses.topk_hinge_loss, ("k",), room_per_k=5.0),
    "topk_hinge_convex": NamedLoss(losses.topk_hinge_convex_loss, ("k",), 10.0),
    "topk_hinge_calibrated": NamedLoss(losses.topk_hinge_calibrated_loss, ("k",), 10.0),
    "topk_grouping": NamedLoss(losses.topk_grouping_loss, ("k",), 10.0),
    "topk_transition": NamedLoss(losses.topk_transition_loss, ("k",), 10.0),
    "noised_topk": NamedLoss(losses.noised_topk_loss, ("k", "sigma"), 10.0, draws=True),
    "focal": NamedLoss(losses.focal_loss, has_sums=True),
    "logit_adjusted": NamedLoss(
        losses.logit_adjusted_loss, counts=True, models_proba=True, adjusts=True
    ),
    "smooth_topk_adjusted": NamedLoss(
        losses.smooth_topk_adjusted_loss, ("k", "tau"), 1.0, 5.0, 10.0, counts=True, adjusts=True
    ),
    # Made for cosines, which they scale themselves; other scores want a little more.
    "ldam": NamedLoss(losses.ldam_loss, (), 3.0, counts=True),
    "noised_topk_imbalanced": NamedLoss(
        losses.noised_topk_imbalanced_loss, ("k", "sigma"), 3.0, counts=True, draws=True
    ),
}
# Arguments of the functions that the training gives them.
_GIVEN = {"sample_weight", "reduction", "class_counts", "generator", "noise"}


def named_like(module):
    """The named loss that a module of ours, or of torch, computes; None for any other."""
    function = losses.cross_entropy_loss if type(module) is nn.CrossEntropyLoss else None
    if isinstance(module, LossModule):
        function = module.function
    return next((each for each in LOSSES.values() if each.function is function), None)


def log_frequencies(criteria):
    """What to add to scores for their softmax to be probabilities: 0, or a number per class.

    Parameters
    ----------
    criteria : list of Criterion
        Those of the members; one where they share it.
    """
    added = []
    for criterion in criteria:
        if isinstance(criterion, RowLoss):
            counts, tau = criterion.class_counts, criterion.parameters.get("tau", 1.0)
        else:
            counts, tau = (getattr(criterion.loss, n, None) for n in ("class_counts", "tau"))
        if counts is None:
            return 0.0
        counts = counts.double().cpu()
        if not ((counts > 0) & counts.isfinite()).all():
            # Of a file: training refuses such counts.
            raise ValueError(f"class_counts of the loss must be positive; got {counts.tolist()}")
        added.append(tau * (counts / counts.sum()).log().numpy())
    return np.mean(added, axis=0)


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
