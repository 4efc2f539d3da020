"""TopKClassifier: predict k labels for each sample."""

import copy
import inspect
from collections.abc import Callable
from dataclasses import KW_ONLY
from functools import partial
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import nn

from sktopk._common._input import own_labels
from sktopk._common._scalars import check_call, check_number, check_option, number
from sktopk._common._types import RowsLike
from sktopk._common._warnings import warn, warn_of_order
from sktopk._training._objectives import CrossEntropy, CustomLoss, Mixture, SampleLoss, name_of
from sktopk.losses._loss import check_k
from sktopk.losses._mixtures import check_k_distribution, topk_distribution_loss
from sktopk.losses._registry import OF_LABELS, name_or_loss, named_like, params_with
from sktopk.metrics import topk_accuracy_score

from ._base import BaseNetClassifier
from ._parameters import estimator
from ._task import LabelTask, Training

# Arguments that the training passes to loss functions. Users cannot set them in `loss_params`.
GIVEN = {"sample_weight", "reduction", "class_counts", "generator", "noise"}


@estimator
class TopKClassifier(BaseNetClassifier):
    r"""Classifier that predicts the k best labels of each sample.

    `fit` minimizes the mean of a loss :math:`L_k(f(x), y)`, which is small if the label is among
    the k classes with the highest scores. By default, this loss is averaged with cross-entropy. In
    our experiments, this average had about the same top-k accuracy as cross-entropy alone, both for
    correct and for partly wrong training labels.

    For linear models, a top-k loss without cross-entropy (``log_loss_share=0``) can be better than
    the default. If some classes are rare, choose a loss for long-tailed classes. A fit of 10 000
    samples with 50 columns takes about 7 seconds on one CPU core.

    Parameters
    ----------
    loss : str, nn.Module or callable, default="smooth_topk"
        Training loss: a name, function or module ``loss(scores, target)``. For sample weights, a
        function or module must either take `sample_weight` and return the weighted mean, or return
        the loss of each sample if `reduction` is "none". A function needs an argument `reduction`
        for this, and a module needs an attribute `reduction`.

        Names: "cross_entropy", "smooth_topk" [1]_, "topk_hinge", "topk_hinge_convex",
        "topk_hinge_calibrated", "topk_grouping", "topk_transition" [2]_, "noised_topk" [3]_,
        "focal". For long-tailed classes: "logit_adjusted", "smooth_topk_adjusted", "ldam",
        "noised_topk_imbalanced" [3]_.
    k : int or dict, default=5
        Number of labels for the loss and `predict_topk`. `fit` uses at most n_classes - 1. A dict
        such as ``{1: 0.1, 5: 0.9}`` trains the weighted mean of the losses for several k.
    tau : float, default=0.2
        Temperature > 0 of "smooth_topk" and "smooth_topk_adjusted". Larger values smooth more.
    sigma : float, default=0.2
        Standard deviation of the noise in "noised_topk" and "noised_topk_imbalanced".
    loss_params : dict, default=None
        Other parameters of the loss, such as ``{"gamma": 1.0}`` for "focal". In `set_params` and
        searches, write ``loss__gamma``.
    class_weight : dict, "balanced" or None, default=None
        Class weights as in scikit-learn, multiplied by `sample_weight`. None means weights of 1.

    Attributes
    ----------
    k_ : int
        Value of k that `fit` used; the largest one if k is a dict.

    See Also
    --------
    sktopk.losses.smooth_topk_loss : The default loss on torch tensors.
    sktopk.model_selection.compare_losses : Comparison of losses with confidence intervals.
    sktopk.metrics.make_topk_scorer : Scorer for the parameter `scoring` of a search.

    References
    ----------
    .. [1] Berrada, Zisserman, Kumar. "Smooth Loss Functions for Deep Top-k Classification",
       ICLR 2018, eq. 9 and 10.
    .. [2] Sawada, Kaneko, Sagi. "Trade-offs in Top-k Classification Accuracies on Losses for
       Deep Learning", 2020, eq. 5 and 6.
    .. [3] Garcin, Servajean, Joly, Salmon. "Stochastic smoothing of the top-K calibrated hinge
       loss for deep imbalanced classification", ICML 2022, eq. 8 to 13.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sktopk import TopKClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = TopKClassifier(k=2, n_estimators=2, random_state=0).fit(X, y)
    >>> clf.predict_topk(X[70:71])
    array([[1, 2]])
    """

    loss: str | nn.Module | Callable = "smooth_topk"
    _: KW_ONLY
    k: int | dict[int, float] = 5
    tau: float = 0.2
    sigma: float = 0.2
    loss_params: dict | None = None
    class_weight: dict | str | None = None

    _checks: ClassVar = {"tau": number(0, bounds="neither"), "sigma": number(0)}

    def predict_topk(self, X: RowsLike, k: int | None = None) -> np.ndarray:
        """Predict for each sample the k labels with the highest scores.

        Parameters
        ----------
        X : {array, sparse CSR, data frame, torch Dataset} of shape (n_samples, n_features)
        k : int, default=None
            Number of labels, 1 <= k < n_classes (else ValueError or TypeError). None means `k_`.

        Returns
        -------
        labels : ndarray of shape (n_samples, k)
            The best label, which `predict` returns, is first. Ties are in the order of `classes_`.
        """
        now, scores = self._scored(X)
        k = now.k_ if k is None else check_k(k, len(now.classes_))
        return now._task_.top_labels(scores, k)

    def score(
        self, X: RowsLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> float:
        """Return the top-k accuracy at `k_`, the default metric of searches.

        In a search over `k`, this method scores each candidate with its own k. The candidate with
        the largest k usually wins. Search over ``loss__k`` instead, or pass `scoring`.

        Parameters
        ----------
        X : {array, sparse CSR, data frame, torch Dataset} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,), default=None
            True labels. None if X is a Dataset with labels. Labels unseen in `fit` count as errors.
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        score : float
            Share of samples whose label is among the `k_` classes with the highest scores. If the
            label is tied at rank `k_`, the sample counts as the probability that the label is in
            the top `k_` after ordering ties at random. NaN, with a warning, if all weights are 0.
        """
        now, scores = self._scored(X)
        warn_of_order(X, y=y, sample_weight=sample_weight)
        y_score, y = now._task_.decide(scores, now), own_labels(X, y, needed=True)
        options = {"k": now.k_, "labels": now.classes_, "sample_weight": sample_weight}
        return topk_accuracy_score(y, y_score, **options)

    def _check_params(self):
        super()._check_params()
        loss = self.loss
        if isinstance(loss, str):
            check_option(loss, "loss", tuple(OF_LABELS))
        elif isinstance(loss, type) or not callable(loss):
            raise TypeError(
                f"loss must be one of {', '.join(map(repr, OF_LABELS))}, or an nn.Module or "
                f"function called as loss(scores, target); got {loss!r}"
            )
        elif not isinstance(loss := name_or_loss(loss), str):
            check_call(getattr(loss, "forward", loss), "loss", "scores", "target")
        if isinstance(self.k, dict):
            check_k_distribution(self.k)
        if isinstance(self.k, list | tuple):
            raise TypeError(f"k must be an integer, or a dict {{k: weight}}; got {self.k!r}")
        for k in self.k if isinstance(self.k, dict) else [self.k]:
            check_number(k, "k", 1, integer=True)
        self._check_loss_params(loss)

    def _check_loss_params(self, loss):
        given, known = self.loss_params, set()
        if given is None:
            return
        if not isinstance(given, dict) or not all(isinstance(name, str) for name in given):
            raise TypeError(f"loss_params must be a dict with string keys; got {given!r}")
        if isinstance(loss, str):
            known = own_parameters(OF_LABELS[loss])
        if unknown := sorted(given.keys() - known):
            must = f"have keys from {sorted(known)}" if known else "be None"
            own = [": use functools.partial, or arguments of the module"]
            if isinstance(loss, str):
                own = [f". Set {each} of the estimator" for each in unknown if hasattr(self, each)]
            raise ValueError(
                f"loss_params must {must} for loss={self.loss!r}; got {unknown}{''.join(own)}"
            )
        if "k" in given:
            check_number(given["k"], "loss__k", 1, integer=True)
            if isinstance(self.k, dict):
                raise ValueError(f"loss__k must not be set if k is a dict; got k={self.k!r}")

    def _models_proba(self):
        return self.log_loss_share > 0 or getattr(named_like(self.loss), "models_proba", False)

    def _warn_of_ignored(self, named):
        """Warn if the user has set `tau` or `sigma`, but the loss does not use this parameter."""
        for name in ("tau", "sigma"):
            value = getattr(self, name)
            if not (named and name in named.params) and value != getattr(type(self), name):
                why = f"loss={self.loss!r} does not use it"
                if named and name in own_parameters(named):
                    why = f"loss={self.loss!r} has its own {name}: set it in loss_params"
                if hasattr(self.loss, name):
                    why = f"the loss has its own {name}={getattr(self.loss, name)!r}"
                warn(f"{name}={value!r} is ignored: {why}")

    def _make_task(self):
        n_classes, loss = len(self.classes_), name_or_loss(self.loss)
        named = OF_LABELS[loss] if isinstance(loss, str) else named_like(loss)
        k = max(self.k) if isinstance(self.k, dict) else self.k
        # Set `k_` and warn only once: copies and later calls of `partial_fit` have `k_` already.
        if is_first := not hasattr(self, "k_"):
            self.k_ = min(int(k), n_classes - 1)
            # Do not warn if the default k is above n_classes, because the user did not choose k.
            if self.k_ < k and (self.k != type(self).k or k == n_classes):
                warn(f"k={k} must be smaller than n_classes={n_classes}: k_={self.k_} is used")
            self._warn_of_ignored(named if isinstance(loss, str) else None)
            if named is not None and named.counts and self.class_weight is not None:
                warn(
                    f"class_weight={self.class_weight!r} and loss={self.loss!r} both adjust for "
                    "class frequencies: use one of them"
                )
        params = {}
        if isinstance(loss, str):
            params = {name: getattr(self, "k_" if name == "k" else name) for name in named.params}
            params |= self.loss_params or {}
            if "k" in params and isinstance(self.k, dict):
                params["k"] = {}
                for each, weight in self.k.items():
                    each = min(each, self.k_)
                    params["k"][each] = params["k"].get(each, 0.0) + weight
            elif "k" in params and params["k"] >= n_classes:
                asked, params["k"] = params["k"], n_classes - 1
                if is_first:
                    used = f"{n_classes - 1} is used"
                    warn(f"loss__k={asked} must be smaller than n_classes={n_classes}: {used}")
        share = float(self.log_loss_share)

        def objective():
            own = make_objective(loss, params, n_classes)
            if named is None:
                return Mixture(own, CrossEntropy(), share)
            every = params_with(loss, params)
            scale = float(every["scale"]) if named.cosines else 1.0
            prior = named.prior_factor(every), every.get("class_counts")
            return Mixture(own, CrossEntropy(scale, *prior), share)

        cosines_for = name_of(loss) if named is not None and named.cosines else ""
        return LabelTask(
            classes=self.classes_,
            n_outputs=n_classes,
            metric=partial(topk_accuracy_score, k=self.k_, labels=np.arange(n_classes)),
            k=self.k_,
            training=Training(objective, cosines_for=cosines_for),
            models_proba=self._models_proba(),
            balanced=named is not None and named.counts,
        )


def own_parameters(named):
    """Return the names of all parameters of a loss that users can set in `loss_params`."""
    keywords = inspect.getfullargspec(named.function).kwonlyargs
    return {*keywords} - GIVEN - ({*named.params} - {"k"})


def make_objective(loss, params, n_classes):
    """Return the `Objective` of a loss. `params` is used only if `loss` is a name."""
    if not isinstance(loss, str):
        return CustomLoss(copy.deepcopy(loss))
    named, function = OF_LABELS[loss], OF_LABELS[loss].function
    if isinstance(params.get("k"), dict):  # the weighted mean of the loss over several k
        params, function = params | {"loss": function}, topk_distribution_loss
    objective = SampleLoss(function, params, counts=named.counts, draws=named.draws)
    if params.keys() <= {"k", "tau", "sigma"}:  # these parameters are already checked
        return objective
    # Evaluate the loss once, so that invalid parameters raise an error before the training.
    given = {"class_counts": torch.ones(n_classes)} if named.counts else {}
    if named.draws:
        given["generator"] = torch.Generator()
    with torch.no_grad():
        function(torch.zeros(2, n_classes), torch.zeros(2, dtype=torch.long), **params, **given)
    return objective
