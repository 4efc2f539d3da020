"""Losses of `sktopk.losses` as objectives for boosted trees."""

import inspect
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from scipy.special import expit, softmax

from sktopk._common._input import check_weight
from sktopk._common._scalars import check_number, check_option
from sktopk.losses._registry import LOSSES, named_like, params_with

HESSIANS = ("auto", "curvature", "gradient")
# If log_loss_share < 1, Hessians are at least this share of the mean Hessian.
FLOOR = 1e-3
# Users cannot set these arguments of a loss with `loss_params`.
_RESERVED = {"scores", "target", "sample_weight", "reduction", "noise", "generator", "groups"}


def objective(
    loss: str | Callable,
    /,
    *,
    log_loss_share: float = 0.6,
    hessian: str = "auto",
    **loss_params: Any,
) -> "Objective":
    r"""Return a loss of :mod:`sktopk.losses` as `objective` for LightGBM or XGBoost.

    .. math::
        g = a \, g' + (1 - a) \, c \, \nabla L, \qquad h = a \, h' + (1 - a) \, c \, h_L, \qquad
        c = \frac{\sum_i |g'_i|}{\sum_i |\partial L / \partial s_i|}

    - g and h are the gradient and the Hessian of the objective.
    - g' and h' are the gradient and the Hessian of the log loss. a is `log_loss_share`.
    - L is the `loss` of the scores s. h_L replaces the Hessian of L (see `hessian`).
    - c scales the gradient of L to the size of g'.

    The log loss also ranks samples for which L has no gradient. If a < 1 and L is "logit_adjusted"
    or "smooth_topk_adjusted", the log loss adds log class frequencies to the scores, as L does. If
    a < 1, h is at least ``0.001 * mean(h) * w / mean(w)``, where w are the sample weights.

    LightGBM starts from scores of 0. For a better start, fit with ``init_score=np.full(len(y),
    initial_score(y))``, and add ``initial_score(y)`` to predictions. With several classes, pass
    ``np.tile(initial_score(y), (len(y), 1))``. If L corrects for class frequencies, pass no
    `init_score`. CatBoost cannot use the objective, because L needs all samples in one call.

    Parameters
    ----------
    loss : str or callable
        Name of a function of :mod:`sktopk.losses` without ``_loss``, such as "smooth_topk". A
        callable gets ``(scores, target)`` and, if the data have them, `sample_weight` and `groups`.
    log_loss_share : float, default=0.6
        Weight :math:`a` of the log loss, in [0, 1]. The loss :math:`L` has weight :math:`1 - a`.
    hessian : {"auto", "curvature", "gradient"}, default="auto"
        Formula for h_L, which replaces the Hessian of L. "gradient" is the absolute gradient
        :math:`|\partial_i L|`. "curvature" is the absolute product of Hessian and gradient signs,
        :math:`|\sum_j \partial_i \partial_j L \, \mathrm{sign}(\partial_j L)|`. "auto" is
        "gradient" if the second derivatives are 0 or not available, and "curvature" otherwise.
    **loss_params
        Parameters of `loss`, such as ``k=100``. By default, `class_counts` is computed from labels.

    Returns
    -------
    objective : Objective
        Function ``objective(y_true, raw_score, sample_weight=None, group=None)`` that returns
        gradients g and Hessians h, float64. Labels are 0 and 1, or class indices. Scores have shape
        (n_samples,) or (n_samples, n_classes). `group` has the sizes of consecutive groups.

    Raises
    ------
    TypeError, ValueError
        If an argument is not valid, or if a parameter of the loss is unknown or missing. The
        objective raises an error for invalid labels or scores, and for infinite gradients.

    Examples
    --------
    >>> from sktopk.boosting import objective
    >>> from sktopk.losses import TopMean
    >>> f = objective("accuracy_at_top", threshold=TopMean("negatives", k=1), log_loss_share=0.5)
    >>> gradient, hessian = f([1, 0, 0], [0.0, 0.0, -2.0])
    >>> print(gradient.round(2), hessian.round(2))
    [-0.53  0.53  0.06] [0.68 0.68 0.05]
    """
    return Objective(loss, log_loss_share, hessian, loss_params)


class Objective:
    """Callable object that `objective` returns."""

    def __init__(self, loss, log_loss_share, hessian, loss_params):
        self.loss, self.log_loss_share = loss, log_loss_share
        self.hessian, self.loss_params = hessian, loss_params
        self._takes = frozenset(_signature(loss))  # raises if `loss` is not valid
        check_number(log_loss_share, "log_loss_share", 0, 1)
        check_option(hessian, "hessian", HESSIANS)
        _check_loss_params(loss, loss_params)

    def __repr__(self):
        params = "".join(f", {name}={value!r}" for name, value in self.loss_params.items())
        share = f"log_loss_share={self.log_loss_share!r}"
        return f"objective({self.loss!r}, {share}, hessian={self.hessian!r}{params})"

    def __call__(
        self,
        y_true: ArrayLike,
        raw_score: ArrayLike,
        sample_weight: ArrayLike | None = None,
        group: ArrayLike | None = None,
    ) -> tuple[np.ndarray, np.ndarray]:
        score = np.asarray(raw_score, dtype=np.float64)
        target = _check_target(y_true, score)
        weight = check_weight(sample_weight, len(score))
        prior = self._log_prior(target, score, weight)
        gradient, hessian = _log_loss(target, score + prior, weight)
        plain = self.loss == "cross_entropy" and score.ndim == 1 and not self.loss_params
        if self.log_loss_share == 1 or (plain and group is None):
            return gradient, hessian
        of_top = self._of_the_loss(target, score, weight, sample_weight is not None, group)
        if not all(np.isfinite(each).all() for each in of_top):
            raise ValueError(
                f"loss={self.loss!r} has a gradient that is not finite: use a smaller "
                "learning_rate or a larger log_loss_share"
            )
        steepness = np.abs(of_top[0]).sum()
        factor = np.abs(gradient).sum() / steepness if steepness > 0 else 0.0
        share, factor = self.log_loss_share, (1 - self.log_loss_share) * factor
        gradient = share * gradient + factor * of_top[0]
        hessian = share * hessian + factor * of_top[1]
        # The minimum Hessian of each sample is proportional to the sample weight.
        n_scores = hessian.size / max(1, len(hessian))
        mean = hessian.sum() / (weight.sum() * n_scores)
        floor = weight * (FLOOR * mean if mean > 0 else FLOOR)
        return gradient, np.maximum(hessian, floor if hessian.ndim == 1 else floor[:, None])

    def _log_prior(self, target, score, weight):
        """Return the correction for class frequencies that the log loss adds to scores, or 0."""
        named = named_like(self.loss)
        if not getattr(named, "log_prior", False) or self.log_loss_share == 1 or score.ndim < 2:
            return 0.0
        params = params_with(self.loss, self.loss_params)
        counts = params.get("class_counts", np.bincount(target, weight, score.shape[1]))
        counts = np.maximum(np.asarray(counts, dtype=np.float64), 1e-300)  # `loss` raises for 0
        return named.prior_factor(params) * np.log(counts / counts.sum())

    @torch.inference_mode(False)
    @torch.enable_grad()
    def _of_the_loss(self, target, score, weight, is_weighted, group):
        """Return gradient and Hessian of the loss, also under torch.no_grad or inference_mode."""
        scores = torch.tensor(score, requires_grad=True)
        params = self._params(target, score, weight, is_weighted, group)
        value = loss_function(self.loss)(scores, torch.from_numpy(target), **params)
        if not isinstance(value, torch.Tensor) or value.ndim or not value.requires_grad:
            came = f"shape {tuple(getattr(value, 'shape', ()))} from a {type(value).__name__}"
            raise ValueError(f"loss={self.loss!r} must return a scalar with a gradient; got {came}")
        gradient = curvature = None
        if self.hessian != "gradient":
            gradient, curvature = _curvature(value, scores)
        if gradient is None:
            (gradient,) = torch.autograd.grad(value, scores)
        if curvature is None and self.hessian == "curvature":
            raise ValueError(
                "hessian='curvature' needs a loss with known, nonzero second derivatives; got "
                f"loss={self.loss!r}: set hessian='gradient'"
            )
        return gradient.numpy(), (gradient.abs() if curvature is None else curvature).numpy()

    def _params(self, target, score, weight, is_weighted, group):
        """Return the arguments of the loss other than scores and target."""
        params, own = dict(self.loss_params), getattr(self.loss, "keywords", {})  # of a partial
        if is_weighted and "sample_weight" in self._takes:
            params["sample_weight"] = torch.from_numpy(weight)
        elif (weight != 1).any():
            raise TypeError(f"loss={self.loss!r} does not take sample_weight: pass no weights")
        if group is not None:
            if "groups" not in self._takes:
                raise TypeError(f"loss={self.loss!r} takes no groups: use a loss that does")
            params["groups"] = torch.from_numpy(group_codes(group, len(score)))
        if "class_counts" in self._takes and "class_counts" not in params | own:
            counts = np.bincount(target, weight, minlength=2 if score.ndim == 1 else score.shape[1])
            params["class_counts"] = torch.from_numpy(counts)
        if "generator" in self._takes and "generator" not in params | own:
            # The same seed gives the same noise in each boosting round.
            params["generator"] = torch.Generator().manual_seed(0)
        return params


def _curvature(value, scores):
    """Return the gradient and the "curvature" Hessian. Each is None if it is not available."""
    found = curvature = None
    try:
        (gradient,) = torch.autograd.grad(value, scores, create_graph=True)
        found = gradient.detach()
        if gradient.requires_grad:
            along = (gradient * found.sign()).sum()
            (curvature,) = torch.autograd.grad(along, scores, allow_unused=True)
    except RuntimeError as error:
        if not re.search("differentiated once|not implemented", str(error)):
            raise
    # A Hessian of zeros is also replaced by None.
    return found, curvature.abs() if curvature is not None and curvature.any() else None


def loss_function(loss):
    """Return the loss function with the name `loss`, or `loss` itself if it is callable."""
    if isinstance(loss, str):
        check_option(loss, "loss", tuple(LOSSES))
        return LOSSES[loss].function
    if not callable(loss) or isinstance(loss, type):
        raise TypeError(f"loss must be a name or a callable loss(scores, target); got {loss!r}")
    return loss


def parameters_of(loss):
    """Return a dict of the parameters of a loss that users can set with `loss_params`."""
    known = _signature(loss)
    return {name: each for name, each in list(known.items())[2:] if name not in _RESERVED}


def _signature(loss):
    """Return a dict of all arguments of a loss, or an empty dict if the loss has no signature."""
    function = loss_function(loss)
    try:
        return inspect.signature(getattr(function, "forward", function)).parameters
    except (TypeError, ValueError):  # some builtins have no signature
        return {}


def _check_loss_params(loss, params):
    known = parameters_of(loss)
    unknown = sorted(params.keys() - known.keys())
    if unknown and not any(each.kind is each.VAR_KEYWORD for each in known.values()):
        names = ", ".join(known) or "no parameters"
        raise TypeError(f"loss={loss!r} takes {names}; got {', '.join(unknown)}")
    counted = {"class_counts", *params}
    needed = [
        name
        for name, each in known.items()
        if each.default is each.empty and each.kind is each.KEYWORD_ONLY and name not in counted
    ]
    if needed:
        raise TypeError(f"loss={loss!r} requires {', '.join(needed)}")


def initial_score(
    y_true: ArrayLike, *, sample_weight: ArrayLike | None = None
) -> float | np.ndarray:
    r"""Return the constant score with the smallest log loss, for the start of the training.

    .. math::
        s = \log \frac{n_+}{n_-} \quad \text{or} \quad
        s_c = \log n_c - \frac{1}{K} \sum_{b=1}^K \log n_b

    The first formula is for two classes: :math:`n_+` and :math:`n_-` are the total weights of the
    labels 1 and 0. The second is for K classes: :math:`n_c` is the total weight of class c.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        Labels 0 and 1, or class indices.
    sample_weight : array-like of shape (n_samples,), default=None
        Nonnegative weights. None means 1 for every sample.

    Returns
    -------
    score : float or ndarray of shape (n_classes,)
        Score of label 1, or of each class. A class without samples counts as half a sample.

    Examples
    --------
    >>> from sktopk.boosting import initial_score
    >>> initial_score([0, 0, 0, 1]).round(3)
    np.float64(-1.099)
    """
    target = _check_indices(y_true)
    if not len(target):
        raise ValueError("y_true must have at least one label; got none")
    weight = check_weight(sample_weight, len(target))
    count = np.bincount(target, weight, minlength=2)
    logarithm = np.log(np.where(count > 0, count, 0.5 * weight.sum() / len(weight)))
    if len(count) == 2:
        return logarithm[1] - logarithm[0]
    return logarithm - logarithm.mean()


def _check_indices(y_true):
    labels = np.asarray(y_true)
    if labels.ndim != 1 or labels.dtype.kind not in "fiub":
        came = f"dtype {labels.dtype} and shape {labels.shape}"
        raise ValueError(f"y_true must be a 1D array of 0 and 1, or of class indices; got {came}")
    wrong = labels[~((labels >= 0) & (labels == np.floor(labels)))]
    if len(wrong):
        raise ValueError(f"y_true must have nonnegative integers as labels; got {wrong[0]}")
    return labels.astype(np.int64)


def _check_target(y_true, score):
    """Return labels as int64 class indices, and check that they match the scores."""
    target = _check_indices(y_true)
    if score.ndim not in (1, 2) or len(score) != len(target):
        raise ValueError(f"raw_score must be 1D or 2D with {len(target)} rows; got {score.shape}")
    n_classes = 2 if score.ndim == 1 else score.shape[1]
    if len(target) and target.max() >= n_classes:
        raise ValueError(f"y_true must have labels below n_classes={n_classes}; got {target.max()}")
    return target


def _log_loss(target, score, weight):
    """Return gradient and Hessian of the summed log loss, with the formulas of LightGBM."""
    if score.ndim == 1:
        proba = expit(score)
        return weight * (proba - target), weight * proba * (1 - proba)
    proba = softmax(score, axis=1)
    hessian = proba * (1 - proba) * weight[:, None]
    proba[np.arange(len(target)), target] -= 1
    return proba * weight[:, None], hessian * (score.shape[1] / (score.shape[1] - 1))


def group_codes(group, n_samples):
    """Return the group index of each sample. `group` has the sizes of consecutive groups."""
    sizes = np.asarray(group)
    if sizes.sum() != n_samples:
        raise ValueError(f"group must sum to n_samples={n_samples}; got {sizes.sum()}")
    return np.repeat(np.arange(len(sizes)), sizes)
