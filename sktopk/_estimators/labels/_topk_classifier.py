"""TopKClassifier: k labels per row."""

import copy
from collections.abc import Callable
from dataclasses import KW_ONLY

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import nn

from sktopk._common._input import class_weights, own_labels
from sktopk._common._public import public
from sktopk._common._scalars import check_number, check_option
from sktopk._common._types import RowsLike
from sktopk._common._warnings import warn
from sktopk._estimators._net_classifier import NetClassifier
from sktopk._estimators._parameters import OPTIMIZERS, check_optimizer, estimator
from sktopk._estimators._validation import OrderScorer
from sktopk._training._candidates import CandidateNet
from sktopk._training._net import Net
from sktopk._training._process import all_objects
from sktopk._training.criteria._base import RowLoss
from sktopk._training.criteria._custom import CustomLoss
from sktopk._training.criteria._sampled import SampledLoss
from sktopk.losses import (
    LogitAdjustedLoss,
    cross_entropy_loss,
    logit_adjusted_loss,
    topk_distribution_loss,
)
from sktopk.losses._mixtures import check_k_distribution
from sktopk.metrics import make_topk_scorer
from sktopk.modules import MLP

from ._auto_loss import choose_loss
from ._losses import LOSSES, MOST_ROOM, named_like, own_parameters
from ._topk_predictions import TopKPredictions

# Scores of rows out of fold that are kept at once, where steps have candidates: 512 MiB of float32.
MOST_OUT_OF_FOLD = 1 << 27


@estimator
@public
class TopKClassifier(TopKPredictions, NetClassifier):
    r"""Classifier of which one looks at the k best labels of each row.

    .. math::
        \min_f \; \frac{\sum_i w_i L_k(f(x_i), y_i)}{\sum_i w_i},
        \qquad f: \text{a network with one score per class}

    with a loss :math:`L_k` that asks for the label among the k highest scores rather than in
    the first place. That pays where the network cannot be right at once: small models, noisy
    or overlapping labels. Cross-entropy is as good where a large network meets clean,
    plentiful data: compare both.

    The default network scales the columns inside. A linear model or a `module` of yours needs a
    StandardScaler in front (:func:`make_pipeline`).

    Parameters
    ----------
    loss : str or nn.Module, default="smooth_topk"
        "cross_entropy", "smooth_topk" [1]_, "topk_hinge", "topk_hinge_convex",
        "topk_hinge_calibrated", "topk_grouping", "topk_transition" [2]_, "noised_topk" [3]_,
        "focal"; for long tails "logit_adjusted", "smooth_topk_adjusted", "ldam",
        "noised_topk_imbalanced" [3]_: functions of :mod:`sktopk.losses`; or a module called as
        ``loss(scores, target)``. "auto" compares "smooth_topk", "topk_hinge_convex" and
        "logit_adjusted" with "cross_entropy" on rows that they have not seen, see the notes.
    k : int or dict, default=5
        The k of the loss and of `predict_topk`. Clipped to n_classes - 1, with a warning unless
        it is the default; the k in use is `k_`. A dict such as ``{1: 0.1, 5: 0.9}`` trains for
        several at once, with weights; `k_` is then the largest, and all terms of the smooth loss
        divide scores by ``k_ * tau`` (:func:`sktopk.losses.topk_distribution_loss`).
    tau : float, default=1.0
        Temperature of the smooth losses, positive; with several k that of the largest.
    sigma : float, default=0.2
        Standard deviation of the noise of the noised losses.
    loss_params : dict, default=None
        Parameters that the loss alone has, such as ``{"gamma": 1.0}`` of "focal": `margin`,
        `n_noise`, `max_margin`, `gamma`, `scale`, `detach_weight`, under the names and with the
        defaults of its function. ``loss__gamma`` can be set and searched directly.
    order : "cross_entropy" or None, default=None
        What orders the labels. None: the loss. "cross_entropy": the network has two heads, and
        the loss says which k labels are in front, cross-entropy in which order they and the
        others are: `predict` is its label among the k, `predict_proba` its own.
    n_candidates : int, default=None
        For thousands of classes and more: a step trains the labels of its batch and this many
        classes drawn at random, see the notes. Larger than k, and better many times k: where at
        most k candidates are distinct, the smooth loss is 0. None: all classes. Members are then
        there only where `n_members` is 2 or more, or `module` is TabularMLP: each has a last layer
        of its own.
    score_scale : float or "auto", default="auto"
        Factor on the network's output. The initial weights of a last linear layer are divided
        by it, so that training starts from the same scores. "auto" is 1 for
        cross-entropy and k max(5, 10 tau) for the smooth losses, which divide scores by k tau
        and are not sharp enough to be trained otherwise; 5 k for "topk_hinge", 10 for the other
        top-k losses, 3 for "ldam" and "noised_topk_imbalanced" (1 with
        ``module__normalize=True``), else 1. For TabularMLP it is 5 at most: members that begin
        with cross-entropy have learnt most of the scale. Of a `module` of your own with hidden
        layers try 1 to 5, too: with a large one it learns wrong labels by heart.
    scoring : str, callable or None, default=None
        Score of the validation rows. None is :func:`sktopk.metrics.topk_auc_log_score`, the top-k
        accuracy at all k, which hangs on more rows than the one at `k_` (of two classes the mean
        log-probability); of losses with class priors or counts, such as "logit_adjusted", the mean
        over classes. One of probabilities, such as "neg_log_loss", needs a loss that models them
        or `calibration`, which is then fitted on these rows after each epoch.
    warm_up : int or "auto", default="auto"
        Epochs of cross-entropy before those of the loss, with `early_stopping` at most so many.
        The loss then starts from the best weights, at a quarter of the learning rate; the best
        epoch of all is kept. 0 trains with the loss from the start, as the papers do. "auto" is
        `max_epochs` of TabularMLP, else 0, and 0 for "cross_entropy" and "logit_adjusted", which is
        one. That of "smooth_topk_adjusted" is logit-adjusted: both leave the class frequencies to
        the loss. With `order` it is plain, as its head stands for probabilities.
    cross_entropy_share : float, default=0.5
        After a warm-up: the share a of cross-entropy L', of the kind that came first, in
        ``a L' + (1 - a) L``, in [0, 1).
    calibration : {"temperature", "sigmoid", "auto"} or None, default="auto"
        How held-out rows (X_val, y_val, or `validation_fraction` of the rows) turn scores into
        probabilities after training: softmax of scores over a temperature, or Platt's sigmoid
        per class, normalised. "auto" is "temperature" where rows are left out of the training
        anyway, by `cross_fit` as by default, `early_stopping` or X_val, and nothing elsewhere: it
        costs no row and some milliseconds. It is "sigmoid" where the loss takes the class
        frequencies out of the scores in a way that is not known, such as "smooth_topk_adjusted": a
        temperature does not bring them back. None: the probabilities of the loss, if it has some.
    class_weight : dict, "balanced" or None, default=None
        Weight of each label, multiplied with `sample_weight`.
    net_params : dict, default=None
        Other arguments of the skorch net and, as ``module__x``, ``optimizer__x``,
        ``callbacks__name__x``, of its parts. Such keys can be set and searched directly.
        Patterns of parameter names meet ``module.`` first where `score_scale` is not 1.

    Attributes
    ----------
    k_ : int
        The k in use.
    loss_ : str
        With ``loss="auto"``: the loss that was chosen.
    score_scale_ : float
        With ``loss="auto"`` and ``score_scale="auto"``: the scale that was chosen with it, if
        there was a comparison.
    comparison_ : dict
        With ``loss="auto"``: what it rests on. `tried`, lists of loss, score scale and mean
        score. Of each loss with its best scale: `score_scale`, floats by loss; `scores`, lists by
        loss with a number per fold or block; `difference` of their mean from that of
        cross-entropy and its `standard_error`, floats by loss; `verdict`, by loss "better", "as
        good" (within .01), "worse" or "cannot tell", of intervals that all hold together at
        level .95; `test_fraction`, as :class:`sktopk.metrics.LossComparisonDisplay` takes it
        with the scores and any `margin`; `reason`, the choice in words, with the verdict on the
        best loss.

    See Also
    --------
    sktopk.losses.smooth_topk_loss : The default loss on torch tensors.
    sktopk.losses.sample_candidates : What `n_candidates` draws.
    sktopk.model_selection.compare_losses : A comparison of any losses, with a test.
    sktopk.metrics.make_topk_scorer : What to pass as `scoring` to a search.

    Notes
    -----
    ``loss="auto"`` trains cross-entropy, "smooth_topk", "topk_hinge_convex" and "logit_adjusted"
    with the parameters given, each with two scales of its scores: 1, and what "auto" is for it,
    or 10 where that is 1 (5 with the network of tables); only with `score_scale` where that is a
    number. They are judged by `scoring`, by default the top-k accuracy at `k_`. Where members are
    cross-fitted, as by default, each of the eight takes one fit and is judged on the rows that
    members leave out, fold by fold; the fit of the best is the result. (These rows also say when
    a member stops, for every loss alike.) Else they are judged on five folds, and the best is
    fitted to all rows: about 33 fits. With (X_val, y_val) those rows take the place of the folds,
    in five blocks, in nine fits.

    A loss is chosen if it is ahead of cross-entropy with its better scale by more than so many
    standard errors, corrected for shared training rows as in
    :class:`sktopk.metrics.LossComparisonDisplay`, that of losses as good as cross-entropy the
    luckiest gets there no more often than a single one gets ahead by one standard error; of
    several the best. That is a bet and no proof, and `reason` says so. Networks that were not
    done training are named in a ConvergenceWarning. Cross-entropy is used without a comparison
    where `k_` is 1, and where fewer than 100 distinct rows are there to score. Fits run one after
    another unless ``joblib.parallel_config(n_jobs=...)`` says otherwise. With `warm_start`, the
    loss stays.

    With `n_candidates`, a step costs the same for any number of classes. It evaluates the rows
    of the last layer of its candidates alone, whose scores are shifted as
    :func:`sktopk.losses.sample_candidates` says, so that "cross_entropy", "smooth_topk" and
    "focal" estimate their value over all classes; the other losses are refused. Other rows stay
    as they are in that step: `weight_decay` and the moments of the optimizer ("adam", "adamw" or
    "sgd") act on a row only when it is a candidate. The network must end in an nn.Linear or a
    NormalizedLinear, or, with its members in one, in a MemberLinear. `train_loss` and `valid_loss`
    are then estimates, a little too low. Predictions look at all classes.

    Members share the draws of a step, so that one product and one copy of the rows do for all: each
    estimates a loss of its own, whose mean needs no other draws. What a member looks at depends on
    its own rows alone: with `cross_fit`, a label of rows that it leaves out is no candidate of its,
    unless it is drawn, and its row for that class stays as it is. A `warm_up` estimates
    cross-entropy from the same candidates. For `early_stopping`, rows that members leave out are
    scored for all classes after every epoch, some at a time, which may take longer than the steps:
    set it to False then, and `warm_up` and `max_epochs` to a few. `oob_decision_function_` is kept
    if it has at most 2**27 numbers, else `oob_score_` alone, and `calibration` sees as many rows as
    have so many.

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
    >>> clf = TopKClassifier(k=2, hidden_layer_sizes=(), random_state=0).fit(X, y)
    >>> clf.predict_topk(X[:1])
    array([[0, 1]])
    """

    loss: str | nn.Module | Callable = "smooth_topk"
    _: KW_ONLY
    k: int | dict[int, float] = 5
    tau: float = 1.0
    sigma: float = 0.2
    loss_params: dict | None = None
    order: str | None = None
    n_candidates: int | None = None
    calibration: str | None = "auto"
    class_weight: dict | str | None = None

    def _purpose(self):
        return f"Loss: {self._loss_in_use}, k = {getattr(self, 'k_', self.k)}."

    def score(
        self, X: RowsLike, y: ArrayLike | None = None, sample_weight: ArrayLike | None = None
    ) -> float:
        """Return the top-k accuracy at `k_`, what searches without `scoring` choose by.

        That is :func:`sktopk.metrics.topk_accuracy_score`, not the accuracy of `predict`, unless
        `k_` is 1, as for two classes. ``scoring="accuracy"`` asks for the latter.

        Parameters
        ----------
        X : {array, CSR matrix or array, frame, Dataset} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,), default=None
            True labels; None only for a Dataset that has them. A label unseen in `fit` is a miss.
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        score : float
            Share of the rows, or of their weight, whose label is among the k highest scores, in
            [0, 1]. A label that ties at the k-th place counts by its chance to be among them;
            NaN, with a warning, where no row has weight.
        """
        return super().score(X, y, sample_weight)

    @property
    def _warms_up(self):
        """Whether cross-entropy comes first."""
        if not isinstance(self.warm_up, str):
            return self.warm_up > 0
        of_tables = self._of_tables_ if hasattr(self, "_of_tables_") else self._suits_tables
        return of_tables and self._may_warm_up

    @property
    def _may_cross_fit(self):
        # Rows are left out by a weight of 0.
        return isinstance(self._loss_in_use, str) or CustomLoss(self._loss_in_use).is_weighted

    @property
    def _may_warm_up(self):
        # What is cross-entropy begins with itself.
        loss = self._loss_in_use
        return not (isinstance(loss, str) and loss in LOSSES and LOSSES[loss].models_proba)

    @property
    def _loss_in_use(self):
        """The parameter `loss`, or what loss="auto" has become in `fit`."""
        return getattr(self, "loss_", self.loss) if self._is_auto else self.loss

    @property
    def _named_loss(self):
        """The entry of the loss among those with a name, also of one that is given as a module."""
        loss = self._loss_in_use
        return LOSSES.get(loss) if isinstance(loss, str) else named_like(loss)

    @property
    def _is_auto(self):
        return isinstance(self.loss, str) and self.loss == "auto"

    @property
    def _k_in_use(self):
        """The largest k, before it is clipped."""
        return max(self.k) if isinstance(self.k, dict) else self.k

    def _check_params(self):
        super()._check_params()
        if isinstance(self.loss, str):
            check_option(self.loss, "loss", (*LOSSES, "auto"))
        elif not isinstance(self.loss, torch.nn.Module):
            raise TypeError(
                f"loss must be one of {', '.join(map(repr, LOSSES))} or an nn.Module called as "
                f"loss(scores, target); got {self.loss!r}"
            )
        if isinstance(self.k, dict):
            check_k_distribution(self.k)
        for k in self.k if isinstance(self.k, dict) else [self.k]:
            check_number(k, "k", 1, integer=True)
        check_option(self.order, "order", (None, "cross_entropy"))
        check_number(self.tau, "tau", 0, bounds="neither")
        check_number(self.sigma, "sigma", 0)
        if self.loss_params is not None:
            self._check_loss_params()
        if self.n_candidates is not None:
            self._check_candidates()

    def _check_loss_params(self):
        given, loss = self.loss_params, self.loss
        if not isinstance(given, dict) or not all(isinstance(name, str) for name in given):
            raise TypeError(f"loss_params must be a dict of parameters by name; got {given!r}")
        known = own_parameters(loss)
        unknown = sorted(given.keys() - known)
        if unknown and not (isinstance(loss, str) and loss in LOSSES):
            what = loss if isinstance(loss, str) else type(loss).__name__
            raise ValueError(f"loss_params must be None for loss={what}; got {unknown}")
        if unknown:
            allowed = f"has {', '.join(map(repr, sorted(known)))}" if known else "has none"
            raise ValueError(
                f"loss_params must be parameters of loss={loss!r}, which {allowed}; got {unknown}"
            )

    def _check_candidates(self):
        """Check that loss and optimizer can do with a few of the classes."""
        loss, k = self.loss, self.k
        check_number(self.n_candidates, "n_candidates", 1, integer=True)
        able = [name for name, each in LOSSES.items() if each.has_sums]
        if not isinstance(loss, str) or loss not in able:
            raise ValueError(
                f"n_candidates works with loss={' or '.join(map(repr, able))}: any other asks for "
                f"more of the classes than sums, which a sample does not tell; got loss={loss!r}"
            )
        if "k" in LOSSES[loss].params:
            if isinstance(k, dict):
                raise ValueError(
                    f"n_candidates needs one k for loss={loss!r}, whose sums depend on it; got "
                    f"k={k!r}"
                )
            if self.n_candidates <= k:
                raise ValueError(f"n_candidates={self.n_candidates} must be larger than k ({k})")
        if check_optimizer(self.optimizer) not in OPTIMIZERS.values():
            raise ValueError(
                "n_candidates needs an optimizer that treats each weight by itself, one of "
                f"{', '.join(map(repr, OPTIMIZERS))}; got {self.optimizer!r}"
            )
        if self.order is not None:
            raise ValueError(
                "n_candidates does not go with order: it gives the network a second last layer, "
                "which is what costs with many classes, and its predictions need all scores of a "
                f"row; set order=None; got {self.order!r}"
            )
        if self.compile:
            raise ValueError("n_candidates does not go with compile=True: set one of them")

    def _needs_all_data(self):
        if self._is_auto:
            return "loss='auto'"
        return super()._needs_all_data()

    def _choose(self, X, y, sample_weight, X_val, y_val):
        if not self._is_auto:
            return {}
        return choose_loss(self, X, own_labels(X, y), sample_weight, X_val, y_val)

    def _prepare(self, partial):
        n_classes, k, loss = len(self.classes_), self._k_in_use, self._loss_in_use
        self.k_ = min(int(k), n_classes - 1)
        if self.k_ < k and self.k != type(self).k:  # nobody asked for the default
            warn(
                f"k={k} must be smaller than the number of classes ({n_classes}): "
                f"k_={self.k_} is used",
            )
        # What scores mean is what they were trained for, whatever is set later.
        divides = isinstance(loss, str) and "tau" in LOSSES[loss].params and self._k_ordered is None
        self._exponent_unit_ = self.k_ * self.tau if divides else 1.0
        if divides and self._warms_up:
            # The factor is in the loss.
            scale = self._scale() if isinstance(self.score_scale, str) else self.score_scale
            self._exponent_unit_ /= scale
        self._models_proba_ = self._k_ordered is not None or self._loss_has_proba()
        if isinstance(self.loss, str) and self.loss in LOSSES:
            self._warn_of_ignored(loss)

    @property
    def _auto_calibration(self):
        named = self._named_loss
        # A temperature does not bring back frequencies that the loss has taken out of the scores.
        lacks_frequencies = named is not None and named.counts and not self._models_proba_
        return "sigmoid" if lacks_frequencies else "temperature"

    def _loss_has_proba(self):
        """Whether the loss trains scores that stand for probabilities."""
        named = self._named_loss
        return named is not None and named.models_proba

    def _warn_of_ignored(self, loss):
        """k is never ignored: `predict_topk` and the score of validation rows use it."""
        for name in ("tau", "sigma"):
            value, default = getattr(self, name), getattr(type(self), name)
            if value != default and name not in LOSSES[loss].params:
                users = [known for known, each in LOSSES.items() if name in each.params]
                warn(
                    f"{name}={value!r} is ignored by loss={loss!r}: it is a parameter of "
                    f"{' and '.join(map(repr, users))}"
                )

    def _task(self, dtype):
        loss, n_classes, k_ordered = self._loss_in_use, len(self.classes_), self._k_ordered
        if not isinstance(loss, str):
            criterion = CustomLoss(copy.deepcopy(loss).to(getattr(torch, dtype)))
            if self._settings().cross_fit and not criterion.is_weighted:
                raise TypeError(
                    "cross_fit=True weighs the rows that a member leaves out with 0 and needs a "
                    "loss that takes sample_weight or has a reduction attribute; got "
                    f"loss={type(loss).__name__}"
                )
            first = self._adjusted_first(criterion)
            return self._task_of(
                dtype, criterion, n_classes, draws=True, k_ordered=k_ordered, first=first
            )
        named, k, scale = LOSSES[loss], self.k_, self._scale()
        params = {name: getattr(self, name) for name in named.params} | (self.loss_params or {})
        function = named.function
        if "k" in params:
            params["k"] = k
        if "k" in params and isinstance(self.k, dict):
            weights = {}
            for each, weight in self.k.items():
                weights[min(each, k)] = weights.get(min(each, k), 0.0) + weight
            params |= {"k": weights, "loss": function}
            function = topk_distribution_loss
        criterion = RowLoss(
            function, params, n_counts=n_classes if named.counts else None, draws=named.draws
        )
        if self.loss_params:
            # Their values are refused before training.
            if named.draws:
                criterion.seed(torch.Generator())
            with torch.no_grad():
                criterion(torch.zeros(2, n_classes), torch.zeros(2, dtype=torch.long))
        net, first = Net, self._adjusted_first(criterion) if named.adjusts else None
        if self.n_candidates is not None:
            net, sizes = CandidateNet, (n_classes, self.n_candidates)
            unit = k * self.tau if "tau" in named.params else 1.0
            criterion = SampledLoss(criterion, *sizes, unit)
            first = SampledLoss(RowLoss(cross_entropy_loss, {}), *sizes, 1.0)
        return self._task_of(
            dtype,
            criterion,
            n_classes,
            score_scale=scale,
            net=net,
            k_ordered=k_ordered,
            first=first,
        )

    def _adjusted_first(self, criterion):
        """The logit-adjusted cross-entropy of a warm-up; None where it is the plain one.

        With two heads it is plain: that of cross-entropy stands for probabilities.
        """
        named = self._named_loss
        if named is None or not named.adjusts or self._k_ordered is not None:
            return None
        if named.models_proba:
            return copy.deepcopy(criterion)
        if isinstance(criterion, CustomLoss):
            return CustomLoss(LogitAdjustedLoss(criterion.loss.class_counts))
        return RowLoss(logit_adjusted_loss, {}, n_counts=len(self.classes_))

    @property
    def _k_ordered(self):
        """How many classes the loss puts in front; None if their order is its own as well."""
        has_order = self.order is None or self._loss_in_use == "cross_entropy"
        return None if has_order or self.k_ == 1 else self.k_

    def _scale(self):
        """What score_scale="auto" stands for."""
        if self._is_auto and hasattr(self, "score_scale_"):
            return self.score_scale_
        is_ours = self.module in (None, MLP)
        normalizes = is_ours and (self.net_params or {}).get("module__normalize")
        if normalizes and "scale" in own_parameters(self._loss_in_use):
            return 1.0
        return self._auto_scale(self._loss_in_use, self.k_, self._of_tables_)

    def _auto_scale(self, loss, k, of_tables):
        """What score_scale="auto" stands for, of a loss."""
        named = LOSSES[loss]
        room = max(named.room, named.room_per_k * k, named.room_per_k_tau * k * self.tau)
        # Members that begin with cross-entropy have learnt most of it.
        return min(room, MOST_ROOM) if of_tables else room

    def _weights(self, target, weight):
        """Sample weight times class weight, of mean 1 over the rows of all processes."""
        given, largest = weight, weight.max()
        weight = weight / largest
        if self.class_weight is not None:
            count = sum(all_objects(np.bincount(target, given, len(self.classes_))))
            weights = class_weights(self.class_weight, self.classes_, count)
            weight = weight * weights[target]
        shared = np.array(all_objects((largest, weight.sum(), len(weight))))
        unit = shared[:, 0].max()
        mean = (shared[:, 0] / unit) @ shared[:, 1] / shared[:, 2].sum()
        if mean == 0:
            raise ValueError("sample_weight times class_weight must not be 0 for every row")
        return weight * (largest / unit) / mean

    def _judge_out_of_fold(self, training):
        rows, folds = training.rows, training.folds
        most = MOST_OUT_OF_FOLD // len(self.classes_)
        if self.n_candidates is None or len(rows.y) <= most:
            return super()._judge_out_of_fold(training)
        known = np.flatnonzero(folds.fold >= 0)

        def of_members(numbers):
            mask = np.zeros(len(rows.y), dtype=bool)
            mask[known[numbers]] = True
            some = rows.take(mask)
            return some, self.net_.score_out_of_fold(self.net_.rows(some.X), folds.take(mask))

        def scores_of(numbers):
            return self._answered(of_members(numbers)[1])

        judged = rows.take(folds.fold >= 0)
        self.oob_score_ = self._score_by_number(self._with(_scores=scores_of), judged)
        # Probabilities are calibrated with as many as there is room for.
        n_kept = min(max(1, most), len(known))
        return of_members(np.linspace(0, len(known) - 1, n_kept).round().astype(int))

    def _default_scorer(self):
        return make_topk_scorer(self.k_)

    def _validation_scorer(self, y_val, weight):
        loss = self._loss_in_use
        # A loss that weighs classes alike would not be kept for what it gains with rare ones.
        balanced = isinstance(loss, str) and loss in LOSSES and LOSSES[loss].counts
        return OrderScorer(self._exponent_unit_, balanced)
