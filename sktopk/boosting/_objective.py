"""Losses of the top as objectives of boosted trees: gradients, Hessians, where scores start."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from scipy.special import softmax

from sktopk import losses
from sktopk._common._labels import check_weight
from sktopk._common._scalars import check_number, check_option
from sktopk.losses._cross_entropy import cross_entropy_loss

HESSIANS = ("auto", "curvature", "gradient")
# Of the mean: what no row's Hessian is below.
FLOOR = 1e-3
# What the caller of a loss brings along, beside its parameters.
_OF_A_CALL = {"scores", "target", "sample_weight", "reduction", "noise", "generator", "groups"}
LOSSES = {"cross_entropy": cross_entropy_loss} | {
    name.removesuffix("_loss"): getattr(losses, name)
    for name in losses.__all__
    if name.endswith("_loss")
}
# Losses of a ranking of samples, of two classes; the others compare the labels of a sample.
LOSSES_OF_RANKINGS = {
    "accuracy_at_top",
    "fbeta",
    "pat_mat",
    "pat_mat_np",
    "precision_at_k",
    "precision_at_recall",
    "precision_at_recall_program",
    "recall_at_fpr",
    "recall_at_k",
    "recall_at_precision",
    "top_push",
    "top_push_k",
}
LOSSES_OF_BOTH = {"cross_entropy", "pairwise_auc"}


def objective(
    loss: str | Callable,
    /,
    *,
    log_loss_share: float = 0.6,
    hessian: str = "auto",
    **loss_params: Any,
) -> Objective:
    r"""A loss of the top as the `objective` of LightGBM's and XGBoost's scikit-learn wrappers.

    .. math::
        g = a \, g' + (1 - a) \, c \, \nabla L, \qquad h = a \, h' + (1 - a) \, c \, h_L, \qquad
        c = \frac{\sum_i |g'_i|}{\sum_i |\partial L / \partial s_i|}

    with the log loss :math:`L'` of gradient g' and Hessian h', its share a, and any loss L of
    :mod:`sktopk.losses`, whose gradient is that of autograd. Trees see all rows in every round,
    so that a threshold is exact. By its factor c, a loss that is a mean pulls as strongly as the
    log loss, which is a sum.

    Alone (a = 0) a loss of the top moves the few rows near its threshold, and the ranking of all
    others is left to chance; the share of the log loss keeps it. What that gains, and where it
    does not, is in the guide.

    Parameters
    ----------
    loss : str or callable
        The name of a function of :mod:`sktopk.losses` without its ``_loss``, such as
        "accuracy_at_top", "top_push_k" or "smooth_topk"; or a module or function called as
        ``loss(scores, target)``, and with `sample_weight` and `groups` if it takes them.
    log_loss_share : float, default=0.6
        The share a of the log loss, in [0, 1].
    hessian : {"auto", "curvature", "gradient"}, default="auto"
        What stands for the second derivatives :math:`h_L` of the loss, see the notes. "auto" is
        "curvature" where the loss is smooth: where it has a second derivative that is not 0.
    **loss_params
        Parameters of the function `loss`, such as ``k=100``. `class_counts` are counted if the
        loss takes them and they are not given.

    Returns
    -------
    objective : Objective
        Called as ``objective(y_true, raw_score, sample_weight=None, group=None)`` with labels
        (n_samples,), 0 and 1 or class indices, and scores (n_samples,) or (n_samples,
        n_classes); it returns gradient and Hessian, float64 arrays of the shape of the scores. It
        can be pickled and cloned.

    Raises
    ------
    TypeError, ValueError
        If an argument is not allowed, or the function lacks a parameter; when called, if labels
        and scores are not what the loss takes, or a gradient is not finite.

    See Also
    --------
    initial_score : Where a training with an objective of one's own should start.
    metric : Scores of the top as `eval_metric`.
    sktopk.TopBoostClassifier : An estimator on LightGBM with all that.

    Notes
    -----
    A Hessian is divided by, so it has to be positive and of the size of what it stands for:

    - "curvature": :math:`h_i = |\sum_j \partial_i \partial_j L \, \mathrm{sign}(g_j)|`. The
      surrogates of the accuracy at the top are functions of :math:`t(s) - s_i`, where t grows
      in each of its scores: then the sum is that of the absolute values of the row of second
      derivatives, and the diagonal matrix of these sums is an upper bound of them all. A step
      that it is divided by cannot overshoot the quadratic model of the loss.
    - "gradient": :math:`h_i = |g_i|`. A leaf then moves by the learning rate at most.

    It is at least a thousandth of the mean. All of it is proportional to weights: a row of weight
    2 counts as the row given twice.

    LightGBM begins an objective of one's own at a score of 0: pass
    ``init_score=np.full(len(y), initial_score(y))``, which a prediction then lacks. CatBoost is
    not among them: it gives an objective of one's own a piece of the rows at a time
    (`calc_ders_range`), which have no common threshold. Groups are those of LightGBM's
    `LGBMRanker`; `XGBRanker` takes no objective of one's own.

    Examples
    --------
    >>> import numpy as np
    >>> from sktopk.boosting import objective
    >>> from sktopk.losses import TopMean
    >>> f = objective("accuracy_at_top", threshold=TopMean("negatives", k=1), log_loss_share=0.5)
    >>> gradient, hessian = f(np.array([1, 0, 0]), np.array([0.0, 0.0, -2.0]))
    >>> print(gradient.round(2), hessian.round(2))
    [-0.53  0.53  0.06] [0.68 0.68 0.05]
    """
    return Objective(loss, log_loss_share, hessian, loss_params)


class Objective:
    """What `objective` returns, which documents the parameters."""

    def __init__(self, loss, log_loss_share, hessian, loss_params):
        self.loss = loss
        self.log_loss_share = log_loss_share
        self.hessian = hessian
        self.loss_params = loss_params
        loss_function(loss)  # raises what is none
        check_number(log_loss_share, "log_loss_share", 0, 1)
        check_option(hessian, "hessian", HESSIANS)
        _check_loss_params(loss, loss_params)
        self._takes = frozenset(_signature(loss))

    def __repr__(self):
        params = "".join(f", {name}={value!r}" for name, value in self.loss_params.items())
        return (
            f"objective({self.loss!r}, log_loss_share={self.log_loss_share!r}, "
            f"hessian={self.hessian!r}{params})"
        )

    def __call__(
        self,
        y_true: ArrayLike,
        raw_score: ArrayLike,
        sample_weight: ArrayLike | None = None,
        group: ArrayLike | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the gradient and the Hessian of each score.

        Parameters
        ----------
        y_true : array-like of shape (n_samples,)
            0 and 1, or class indices where there is a score for each class.
        raw_score : array-like of shape (n_samples,) or (n_samples, n_classes)
        sample_weight : array-like of shape (n_samples,), default=None
        group : array-like of shape (n_groups,), default=None
            Numbers of rows, of groups that lie one after another, as LightGBM has them.

        Returns
        -------
        gradient, hessian : ndarray of the shape of raw_score
            float64.
        """
        score = np.asarray(raw_score, dtype=np.float64)
        target = _check_target(y_true, score)
        weight = check_weight(sample_weight, len(score))
        gradient, hessian = _log_loss(target, score, weight)
        if self.log_loss_share == 1:
            return gradient, hessian
        of_top = self._of_the_loss(target, score, weight, sample_weight is not None, group)
        if not all(np.isfinite(each).all() for each in of_top):
            raise ValueError(
                f"loss={self.loss!r} has a gradient that is not finite at these scores: lower "
                "learning_rate, or raise log_loss_share"
            )
        steepness = np.abs(of_top[0]).sum()
        factor = np.abs(gradient).sum() / steepness if steepness > 0 else 0.0
        share, factor = self.log_loss_share, (1 - self.log_loss_share) * factor
        gradient = share * gradient + factor * of_top[0]
        hessian = share * hessian + factor * of_top[1]
        return gradient, np.maximum(hessian, _floor(hessian, weight))

    def _of_the_loss(self, target, score, weight, is_weighted, group):
        """Gradient of the loss at these scores, and what stands for its Hessian."""
        scores = torch.tensor(score, requires_grad=True)
        params = self._params(target, score, weight, is_weighted, group)
        value = loss_function(self.loss)(scores, torch.from_numpy(target), **params)
        if value.ndim:
            raise ValueError(
                f"loss={self.loss!r} must return one number; got shape {tuple(value.shape)}"
            )
        gradient = curvature = None
        if self.hessian != "gradient":
            gradient, curvature = _curvature(value, scores)
        if gradient is None:
            (gradient,) = torch.autograd.grad(value, scores)
        if curvature is None and self.hessian == "curvature":
            raise ValueError(
                "hessian='curvature' needs a loss with second derivatives, which "
                f"loss={self.loss!r} has not: set hessian='gradient'"
            )
        curvature = gradient.abs() if curvature is None else curvature
        return gradient.numpy(), curvature.numpy()

    def _params(self, target, score, weight, is_weighted, group):
        """What the loss is called with beside scores and target."""
        params = dict(self.loss_params)
        if is_weighted:
            if "sample_weight" not in self._takes:
                raise TypeError(
                    f"loss={self.loss!r} must take sample_weight where rows have weights"
                )
            params["sample_weight"] = torch.from_numpy(weight)
        if group is not None:
            if "groups" not in self._takes:
                raise TypeError(f"loss={self.loss!r} must take groups where rows have groups")
            params["groups"] = torch.from_numpy(group_codes(group, len(score)))
        if "class_counts" in self._takes and "class_counts" not in params:
            params["class_counts"] = torch.from_numpy(
                np.bincount(target, weight, minlength=score.shape[1])
            )
        if "generator" in self._takes and "generator" not in params:
            # The same noise in every round: the loss that is minimised stays the same.
            params["generator"] = torch.Generator().manual_seed(0)
        return params


def _curvature(value, scores):
    """Gradient of a loss, and sums of its second derivatives; None for what it has not."""
    try:
        (gradient,) = torch.autograd.grad(value, scores, create_graph=True)
    except RuntimeError as error:
        if "differentiated once" not in str(error):
            raise
        return None, None
    found, curvature = gradient.detach(), None
    if gradient.requires_grad:
        along = (gradient * found.sign()).sum()
        (curvature,) = torch.autograd.grad(along, scores, allow_unused=True)
    # Of straight pieces all second derivatives are 0.
    return found, curvature.abs() if curvature is not None and curvature.any() else None


def loss_function(loss):
    """Return the function that `loss` names, or `loss` itself."""
    if isinstance(loss, str):
        check_option(loss, "loss", tuple(LOSSES))
        return LOSSES[loss]
    if not callable(loss) or isinstance(loss, type):
        raise TypeError(
            "loss must be the name of a loss, or callable as loss(scores, target), such as a "
            f"module; got {loss!r}"
        )
    return loss


def parameters_of(loss):
    """Return the parameters of a loss that a call does not bring along, by name."""
    known = _signature(loss)
    return {name: each for name, each in list(known.items())[2:] if name not in _OF_A_CALL}


def _signature(loss):
    """Return the parameters of a loss by name, as far as Python knows them."""
    function = loss_function(loss)
    try:
        return inspect.signature(getattr(function, "forward", function)).parameters
    except (TypeError, ValueError):  # as of some builtins
        return {}


def _check_loss_params(loss, params):
    """Raise unless the loss has these parameters, and needs no others."""
    known = parameters_of(loss)
    if not any(each.kind is each.VAR_KEYWORD for each in known.values()):
        unknown = sorted(set(params) - set(known))
        if unknown:
            raise TypeError(
                f"loss={loss!r} has the parameters {', '.join(known) or 'of no name'}; got "
                f"{', '.join(unknown)}"
            )
    counted = {"class_counts", *params}
    needed = [
        name
        for name, each in known.items()
        if each.default is each.empty and each.kind is each.KEYWORD_ONLY and name not in counted
    ]
    if needed:
        raise TypeError(f"loss={loss!r} needs {', '.join(needed)}")


def initial_score(
    y_true: ArrayLike, *, sample_weight: ArrayLike | None = None
) -> float | np.ndarray:
    r"""Scores of the log loss before any tree: where a training should start.

    .. math::
        s = \log \frac{n_+}{n_-} \quad \text{or} \quad
        s_c = \log n_c - \frac{1}{K} \sum_{b=1}^K \log n_b

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        0 and 1, or class indices from 0 on.
    sample_weight : array-like of shape (n_samples,), default=None
        Nonnegative weights; a class counts as what its rows weigh.

    Returns
    -------
    score : float or ndarray of shape (n_classes,)
        Of label 1 where no label is larger, else of each class. A class without rows, or a
        missing one, counts as half a row.

    Raises
    ------
    ValueError
        If a label is negative or no whole number, or there are none.

    Examples
    --------
    >>> from sktopk.boosting import initial_score
    >>> initial_score([0, 0, 0, 1]).round(3)
    np.float64(-1.099)
    """
    target = _check_indices(y_true)
    if not len(target):
        raise ValueError("y_true must have a label; got none")
    weight = check_weight(sample_weight, len(target))
    count = np.bincount(target, weight, minlength=2)
    logarithm = np.log(np.where(count > 0, count, 0.5 * weight.sum() / len(weight)))
    if len(count) == 2:
        return logarithm[1] - logarithm[0]
    return logarithm - logarithm.mean()


def _check_indices(y_true):
    """Return labels as int64 class indices."""
    labels = np.asarray(y_true)
    if labels.ndim != 1 or labels.dtype.kind not in "fiub":
        raise ValueError(
            f"y_true must be 0 and 1, or class indices, of shape (n_samples,); got dtype "
            f"{labels.dtype} and shape {labels.shape}"
        )
    refused = labels[~((labels >= 0) & (labels == np.floor(labels)))]
    if len(refused):
        raise ValueError(f"y_true must hold class indices from 0 on; got {refused[0]}")
    return labels.astype(np.int64)


def _check_target(y_true, score):
    """Return the class index of each row of scores."""
    target = _check_indices(y_true)
    if score.ndim not in (1, 2) or len(score) != len(target):
        raise ValueError(
            f"raw_score must have shape (n_samples,) or (n_samples, n_classes) with "
            f"{len(target)} rows; got shape {score.shape}"
        )
    n_classes = 2 if score.ndim == 1 else score.shape[1]
    if len(target) and target.max() >= n_classes:
        raise ValueError(f"y_true must be smaller than {n_classes} classes; got {target.max()}")
    return target


def _log_loss(target, score, weight):
    """Gradient and Hessian of the weighted sum of log losses.

    The Hessian of one score is p (1 - p), of several K / (K - 1) p (1 - p), as in LightGBM.
    """
    if score.ndim == 1:
        columns = np.column_stack([np.zeros_like(score), score])
    else:
        columns = score
    proba = softmax(columns, axis=1)
    gradient = proba.copy()
    gradient[np.arange(len(target)), target] -= 1
    gradient *= weight[:, None]
    hessian = proba * (1 - proba) * weight[:, None]
    if score.ndim == 1:
        return gradient[:, 1], hessian[:, 1]
    n_classes = score.shape[1]
    return gradient, hessian * (n_classes / (n_classes - 1))


def _floor(hessian, weight):
    """The least Hessian of each row; 0 for those of weight 0."""
    n_scores = hessian.size / max(1, len(hessian))
    mean = hessian.sum() / (weight.sum() * n_scores)
    floor = weight * (FLOOR * mean if mean > 0 else FLOOR)
    return floor if hessian.ndim == 1 else floor[:, None]


def group_codes(group, n_samples):
    """The number of the group of each row."""
    sizes = np.asarray(group)
    if sizes.sum() != n_samples:
        raise ValueError(f"group must sum to the {n_samples} rows; got {sizes.sum()}")
    return np.repeat(np.arange(len(sizes)), sizes)
