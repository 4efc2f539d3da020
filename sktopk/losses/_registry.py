"""Table of the losses by name: losses for class labels and losses for rankings."""

from collections.abc import Callable
from functools import partial
from inspect import signature
from typing import NamedTuple

from torch import nn

from sktopk import losses

from ._cross_entropy import cross_entropy_loss
from ._loss import LossModule


class NamedLoss(NamedTuple):
    function: Callable
    # What the loss compares. "labels": the classes of a sample. "ranking": samples of two classes.
    # "both": classes or samples, depending on its use. "pairs": samples of any number of classes.
    of: str = "labels"
    params: tuple = ()  # parameters of TopKClassifier that the function takes
    models_proba: bool = False  # whether the softmax of the scores estimates class probabilities
    log_prior: bool = False  # whether the function adds log class frequencies to the scores
    cosines: bool = False  # whether the scores must be cosines, which the function scales
    # The samples whose scores set the threshold, and the parameter that sets the threshold's rank
    # or share. The parameter None means rank 1, "" means that the loss has no such parameter.
    threshold: tuple = ("all", "")
    counts: bool = False  # whether the function takes the sizes of the classes
    draws: bool = False  # whether the function draws noise

    def prior_factor(self, params):
        """Return the factor of log class frequencies in the log loss that is added to this loss."""
        # In smooth losses, tau is a temperature, and the factor is 1.
        return float(self.log_prior and (1.0 if "tau" in self.params else params["tau"]))


def _of_classes(function, of="labels", **facts):
    takes = signature(function).parameters
    facts |= {"counts": "class_counts" in takes, "draws": "generator" in takes}
    return NamedLoss(function, of, **facts)


def _of_ranking(function, of="all", name=""):
    return NamedLoss(function, "ranking", threshold=(of, name))


LOSSES = {
    "cross_entropy": _of_classes(cross_entropy_loss, "both", models_proba=True),
    "smooth_topk": _of_classes(losses.smooth_topk_loss, params=("k", "tau")),
    "topk_hinge": _of_classes(losses.topk_hinge_loss, params=("k",)),
    "topk_hinge_convex": _of_classes(losses.topk_hinge_convex_loss, params=("k",)),
    "topk_hinge_calibrated": _of_classes(losses.topk_hinge_calibrated_loss, params=("k",)),
    "topk_grouping": _of_classes(losses.topk_grouping_loss, params=("k",)),
    "topk_transition": _of_classes(losses.topk_transition_loss, params=("k",)),
    "noised_topk": _of_classes(losses.noised_topk_loss, params=("k", "sigma")),
    "focal": _of_classes(losses.focal_loss),
    "logit_adjusted": _of_classes(losses.logit_adjusted_loss, models_proba=True, log_prior=True),
    "smooth_topk_adjusted": _of_classes(
        losses.smooth_topk_adjusted_loss, params=("k", "tau"), log_prior=True
    ),
    "ldam": _of_classes(losses.ldam_loss, cosines=True),
    "noised_topk_imbalanced": _of_classes(
        losses.noised_topk_imbalanced_loss, params=("k", "sigma"), cosines=True
    ),
    "pairwise_auc": _of_classes(losses.pairwise_auc_loss, "pairs"),
    "accuracy_at_top": _of_ranking(losses.accuracy_at_top_loss),
    "fbeta": _of_ranking(losses.fbeta_loss),
    "pat_mat": _of_ranking(losses.pat_mat_loss, "all", "tau"),
    "pat_mat_np": _of_ranking(losses.pat_mat_np_loss, "negatives", "tau"),
    "precision_at_k": _of_ranking(losses.precision_at_k_loss, "all", "k"),
    "precision_at_recall": _of_ranking(losses.precision_at_recall_loss, "positives", "recall"),
    "precision_at_recall_program": _of_ranking(
        losses.precision_at_recall_program_loss, "positives", "recall"
    ),
    "recall_at_fpr": _of_ranking(losses.recall_at_fpr_loss, "negatives", "fpr"),
    "recall_at_k": _of_ranking(losses.recall_at_k_loss, "all", "k"),
    "recall_at_precision": _of_ranking(losses.recall_at_precision_loss),
    "top_push": _of_ranking(losses.top_push_loss, "negatives", None),
    "top_push_k": _of_ranking(losses.top_push_k_loss, "negatives", "k"),
}
# Losses of TopKClassifier.
OF_LABELS = {name: each for name, each in LOSSES.items() if each.of in ("labels", "both")}


def name_or_loss(loss):
    """Return the name of the function `loss` in `OF_LABELS`, else `loss` itself."""
    return next((name for name, each in OF_LABELS.items() if each.function is loss), loss)


def named_like(loss):
    """Return the entry of `OF_LABELS` for a name, function, partial or module, or else None."""
    if isinstance(loss, str):
        return OF_LABELS.get(loss)
    if isinstance(loss, partial):
        return named_like(loss.func)
    function = cross_entropy_loss if type(loss) is nn.CrossEntropyLoss else loss
    if isinstance(loss, LossModule):
        function = loss.function
    return next((each for each in OF_LABELS.values() if each.function is function), None)


def params_with(loss, params):
    """Return each parameter from `params`, or else from `loss`, or else its default."""
    if isinstance(loss, partial):
        return params_with(loss.func, loss.keywords | params)
    own = vars(loss) | dict(loss.named_buffers()) if isinstance(loss, nn.Module) else {}
    return named_like(loss).function.__kwdefaults__ | own | params
