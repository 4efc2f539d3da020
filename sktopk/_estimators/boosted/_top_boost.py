"""TopBoostClassifier: LightGBM trained with a loss for the top of a ranking."""

import dataclasses
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import ClassVar, Self

import numpy as np
from joblib import effective_n_jobs
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from sktopk._common._estimator import assign, available_if, fitted_attributes, present, public
from sktopk._common._extras import import_extra
from sktopk._common._frames import Categories
from sktopk._common._input import (
    check_classes,
    check_labelled,
    check_labels,
    check_length,
    check_rows,
    check_weight,
    encode_labels,
    known_codes,
    listed,
)
from sktopk._common._samples import deal, encode_groups, in_memory, present_groups, several_groups
from sktopk._common._scalars import (
    check_k,
    check_number,
    check_pos_label,
    check_random,
    class_weights,
    number,
    option,
    positive_label,
)
from sktopk._common._types import Label, RowsLike
from sktopk._common._warnings import warn, warn_of_order
from sktopk._estimators._best_rows import rows_on_top
from sktopk._estimators._calibration import fit_calibration, scores_as_unseen
from sktopk._estimators._task import LabelTask, RankingTask, groups_of_both, midway_above
from sktopk.boosting import initial_score, objective
from sktopk.boosting._objective import HESSIANS
from sktopk.losses._registry import named_like
from sktopk.metrics import topk_accuracy_score

from ._boosters import average_precision, check_columns, constraints, grow, have_splits
from ._model_text import BoostersAsText
from ._parameters import OF_TWO_CLASSES, check_params, check_ranking, cut_of, has_proba, loss_in_use

# Number of folds with n_members=1. For early stopping, the single member holds out one fold.
N_FOLDS_OF_ONE = 10


def has_classes(two, name, other):
    """Return a check for `available_if`: the method needs 2 classes if `two`, else more than 2."""

    def check(classifier):
        fitted = getattr(classifier, "classes_", None)
        if fitted is not None and (len(fitted) == 2) != two:
            raise AttributeError(f"{name} is not available for {len(fitted)} classes: use {other}")
        return True

    return check


@public
@dataclass(eq=False, repr=False)
class TopBoostClassifier(ClassifierMixin, BoostersAsText, BaseEstimator):
    r"""Gradient-boosted trees (LightGBM) trained for the top of a ranking, or for top-k labels.

    .. math::
        \min_f \; a \, L'(f(X), y) + (1 - a) \, c \, L(f(X), y), \qquad f: \text{a sum of trees}

    L' is the log loss, L is the `loss`, a is `log_loss_share`, and the factor c scales the gradient
    of L to the size of the gradient of L'. Each round computes the threshold of L from all samples.
    Columns of over 50 categories are target-encoded. Needs ``pip install "sktopk[boosting]"``.

    Parameters
    ----------
    loss : str or callable, default="top_mean"
        Training loss: a name, or a callable that gets ``(scores, target)``, `sample_weight` if
        there are weights, and `k` if the callable requires k. "cross_entropy" is the log loss only.
        Other names are functions of :mod:`sktopk.losses` without ``_loss``, such as "pat_mat".

        "top_mean" (two classes) penalizes positives below the mean of the `k` highest scores of
        negatives. It is :func:`sktopk.losses.accuracy_at_top_loss` with the logistic surrogate.
        Tied scores rank in the order of the samples. So this order should be random.
    k : int or float, default=0.05
        Size of the top, as a number or a fraction in (0, 1). For two classes, k counts samples. But
        for "top_mean" and "top_push_k", k counts negatives. For more classes, k counts labels.
    log_loss_share : float, default=0.6
        Weight a of the log loss in the training loss, in [0, 1]. With 1, `loss` is not used.
    hessian : {"auto", "curvature", "gradient"}, default="auto"
        How the second derivative of the loss is computed (see :func:`sktopk.boosting.objective`).
    loss_params : dict, default=None
        Parameters of the loss except `k`, such as ``{"tau": 0.01}``.
    n_estimators : int, default=100
        Number of boosting rounds. A round grows one tree (one per class for more than two classes).
    learning_rate : float, default=0.1
        Factor by which the leaf values of each new tree are multiplied (shrinkage), positive.
    num_leaves : int, default=31
        Maximum number of leaves of a tree, at least 2.
    min_child_samples : int, default=20
        Minimum number of samples in a leaf. Also used as LightGBM's `min_data_per_group`.
    lightgbm_params : dict, default=None
        Other parameters of LightGBM, such as ``{"feature_fraction": 0.5}``. LightGBM ignores
        unknown names without a warning. To print unknown names, add ``"verbosity": 0``.
    n_members : int, default=5
        Number of ensemble members, whose scores are averaged. With 2 or more, each member holds out
        one fold from its training. Equal rows are in one fold, unless all columns are categorical.
    class_weight : dict, "balanced" or None, default=None
        Weight of each class, multiplied by `sample_weight`. Affects `predict_proba`. None means 1.
    pos_label : int, float, bool or str, default=None
        Positive label of two classes. None means 1 or True if the other label is 0, -1 or False.
        Otherwise, None chooses one of the labels, with a warning: set `pos_label` instead.
    n_iter_no_change : int or None, default=None
        Training stops after this number of rounds without improvement of `score` on held-out
        samples (10 % of all if ``n_members=1``). The best round is kept. None trains all rounds.
    calibration : "sigmoid" or None, default="sigmoid"
        Calibration of `predict_proba`: "sigmoid" is Platt scaling (temperature scaling for over two
        classes). It needs held-out samples: set ``n_members > 1`` or `n_iter_no_change`. With None,
        `predict_proba` requires ``loss="cross_entropy"`` or ``log_loss_share=1``.
    random_state : int, RandomState or None, default=None
        Seed of LightGBM. The folds depend on the samples only, not on the seed.
    n_jobs : int, default=None
        Number of threads. None means 1, or as set in joblib's ``parallel_config``. -1 is all cores.

    Attributes
    ----------
    boosters_ : list of lightgbm.Booster
        One booster per member. Pass an array to its `predict`, and add `init_score_` to the result.
    init_score_ : float or ndarray of shape (n_classes,)
        Score before the first tree: :func:`sktopk.boosting.initial_score`, or 0 if the loss
        corrects for class frequencies.
    classes_ : ndarray of shape (n_classes,)
        Sorted labels.
    class_count_ : ndarray of shape (n_classes,)
        Sum of the sample weights of each class, before they are multiplied by `class_weight`.
    pos_label_ : int, float, bool or str
        Label of the positives. Absent for more than two classes.
    threshold_ : float
        Decision threshold for two classes, which `decision_function` subtracts. It is 0 for the log
        loss, else the threshold of the loss, estimated from training and out-of-fold scores. If
        `loss` has no threshold, predicted positives get the same total weight as the positives.
    k_ : int or float
        Value of k that `fit` used.
    n_iter_ : ndarray of shape (n_members,)
        Number of boosting rounds of each member.
    oob_decision_function_ : ndarray of shape (n_samples,) or (n_samples, n_classes)
        `decision_function` of each training sample, from the member that held the sample out. NaN
        if there is no such member, as for samples of weight 0. Absent with ``n_members=1``.
    oob_score_ : float
        Value of `score` computed from `oob_decision_function_`. Absent with ``n_members=1``.
    calibration_ : tuple (float, float)
        Slope and intercept that `predict_proba` applies to the scores. Absent without calibration.
    n_groups_ : int
        Number of groups in `fit`. Absent if `fit` got no groups or a single group.
    n_features_in_, feature_names_in_ : int, ndarray of shape (n_features_in_,)
        Number of columns of X, and their names if X was a data frame with string names.

    See Also
    --------
    DeepTopPushClassifier, TopKClassifier : Neural networks.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sktopk import TopBoostClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> clf = TopBoostClassifier(n_estimators=20, random_state=0).fit(X, y)
    >>> clf.predict_top(X, n=5).shape
    (5,)
    """

    loss: str | Callable = "top_mean"
    _: KW_ONLY
    k: int | float = 0.05
    log_loss_share: float = 0.6
    hessian: str = "auto"
    loss_params: dict | None = None
    n_estimators: int = 100
    learning_rate: float = 0.1
    num_leaves: int = 31
    min_child_samples: int = 20
    lightgbm_params: dict | None = None
    n_members: int = 5
    class_weight: dict | str | None = None
    pos_label: Label | None = None
    n_iter_no_change: int | None = None
    calibration: str | None = "sigmoid"
    random_state: int | np.random.RandomState | None = None
    n_jobs: int | None = None

    _checks: ClassVar = {
        "k": check_k,
        "log_loss_share": number(0, 1),
        "hessian": option(*HESSIANS),
        "n_estimators": number(1, 2**31 - 1, integer=True),
        "min_child_samples": number(1, 2**31 - 1, integer=True),
        "n_iter_no_change": number(1, integer=True, none=True),
        "calibration": option(None, "sigmoid"),
        "num_leaves": number(2, 131072, integer=True),
        "n_members": number(1, 1000, integer=True),
        "learning_rate": number(0, bounds="neither"),
        "pos_label": check_pos_label,
        "random_state": check_random,
        "n_jobs": number(-(2**15), 2**15, integer=True, none=True),
    }

    def fit(
        self,
        X: RowsLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Train the ensemble.

        Parameters
        ----------
        X : {array, sparse CSR, data frame, torch Dataset} of shape (n_samples, n_features)
            Numbers or NaN. Data frames may also have categories or strings. float32 is kept, other
            numbers become float64. A category that `fit` has not seen counts as unknown. If `fit`
            has seen no NaN in a column, a later NaN counts as the median (in CSR, as 0).
        y : array-like of shape (n_samples,)
            Class labels.
        sample_weight : array-like of shape (n_samples,), default=None
            Nonnegative weights of gradients and Hessians. `min_child_samples` counts samples,
            whatever their weight. Samples of weight 0 are dropped.
        groups : array-like of shape (n_samples,), default=None
            Group of each sample, for two classes only. Each group has its own threshold, and
            `threshold_` is their median. The loss is the mean over groups. Members hold out groups.
        """
        check_params(self)
        lightgbm = import_extra("lightgbm", type(self).__name__, "boosting")
        new = type(self)(**self.get_params(deep=False))
        new._fit(lightgbm, X, y, sample_weight, groups)
        assign(self, fitted_attributes(new))
        return self

    def decision_function(self, X: RowsLike) -> np.ndarray:
        """Return the score of each class or, for two classes, the score minus `threshold_`.

        For two classes, a result above 0 means ``classes_[1]``, as in scikit-learn. If `pos_label_`
        is ``classes_[0]``, the result is therefore `threshold_` minus the score.
        """
        now, scores = self._scored(X)
        return now._task().decide(scores, now)

    def predict(self, X: RowsLike) -> np.ndarray:
        """Predict the label: by `threshold_` (two classes) or the highest score (more classes)."""
        now, scores = self._scored(X)
        return now._task().labels(scores, now)

    @available_if(has_classes(True, "predict_top", "predict_topk(X, k)"))
    def predict_top(self, X: RowsLike, n: int, groups: ArrayLike | None = None) -> np.ndarray:
        """Return the positions of the n samples with the highest scores, best first (two classes).

        With `groups`, return n samples of each group (with a warning: all, if there are fewer),
        sorted by score. Tied samples are in the order of X. For a data frame, use ``X.iloc[...]``.
        """
        return rows_on_top(self._scored(X)[1][:, 0], n, groups)

    @available_if(has_classes(False, "predict_topk", "predict_top(X, n)"))
    def predict_topk(self, X: RowsLike, k: int | None = None) -> np.ndarray:
        """Return for each sample the k (default `k_`) labels with the highest scores, best first.

        Requires more than two classes. Tied labels are in the order of `classes_`.
        """
        now, scores = self._scored(X)
        k = now.k_ if k is None else k
        check_number(k, "k", 1, len(now.classes_) - 1, integer=True)
        return now._task().top_labels(scores, k)

    @available_if(has_proba)
    def predict_proba(self, X: RowsLike) -> np.ndarray:
        """Return class probabilities. Requires `calibration`, or the log loss as the only loss."""
        now, scores = self._scored(X)
        return now._task().proba(scores, now)

    def score(
        self,
        X: RowsLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> float:
        """Return the average precision (two classes) or the top-`k_` accuracy (more classes).

        `groups` is for two classes: the mean over groups with both, or NaN with a warning.
        """
        now, scores = self._scored(X)
        warn_of_order(X, y=y, sample_weight=sample_weight, groups=groups)
        y = check_labels(y)
        check_length(y, len(scores))
        weight, task = check_weight(sample_weight, len(y)), now._task()
        refuse_groups(groups, now.classes_)
        groups = None if groups is None else encode_groups(groups, len(y))
        check = known_codes if task.is_ranking else encode_labels
        check(now.classes_, y)  # raises for other labels, or for labels of another type
        if task.is_ranking and now.pos_label_ not in y[weight > 0]:
            warn(f"the score is 0: y has no positives (label {now.pos_label_!r})")
        return task.score(task.target(y), scores, weight, groups)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = True
        tags.classifier_tags.poor_score = True  # accuracy is poor if few samples are selected
        of_two = isinstance(self.loss, str) and self.loss in OF_TWO_CLASSES
        tags.classifier_tags.multi_class = not of_two
        return tags

    def _trains_log_loss(self):
        return self.loss == "cross_entropy" or self.log_loss_share == 1

    def _fit(self, lightgbm, X, y, sample_weight, groups):
        data = self._checked(X, y, sample_weight, groups)
        index = np.flatnonzero(data.weight > 0)
        if data.groups is not None:
            index = index[np.argsort(data.groups[index], kind="stable")]
            self.n_groups_ = int(data.groups.max()) + 1
        rows, n_classes = taken(data, index), len(self.classes_)
        loss, params, self.k_ = loss_in_use(self.loss, self.k, self.loss_params, n_classes, rows)
        task = self._task()
        self._models_proba_ = self._trains_log_loss()
        share = 1 if self._models_proba_ else self.log_loss_share
        categories = getattr(self, "categories_", Categories({}))
        # Target statistics are shares of class 1: scores decrease with them if class 0 is positive.
        falls = task.is_ranking and task.turned
        statistics = categories.columns_of_classes(rows.X.shape[1])
        function = objective(loss, log_loss_share=share, hessian=self.hessian, **params)
        target, weight = np.append(rows.target, n_classes - 1), np.append(rows.weight, 0.0)
        corrects = not task.is_ranking and task.balanced
        self.init_score_ = initial_score(target, sample_weight=weight) * (not corrects)
        settings = {
            "num_class": task.n_outputs,
            "metric": "None",
            "learning_rate": float(self.learning_rate),
            "num_leaves": self.num_leaves,
            "min_child_samples": self.min_child_samples,
            "min_data_per_group": self.min_child_samples,  # default 100 ignores rare categories
            "num_threads": effective_n_jobs(self.n_jobs),
            "seed": int(check_random(self.random_state).randint(np.iinfo(np.int32).max)),
            "data_random_seed": 1,  # LightGBM's default: bins do not depend on random_state
            "deterministic": True,
            "verbosity": -1,
            **constraints(statistics, -1 if falls else 1, rows.X.shape[1]),
            **(self.lightgbm_params or {}),
        }
        dense = rows.X if isinstance(rows.X, np.ndarray) else np.full((1, 1), np.nan)
        self._median_ = np.median(dense, axis=0)  # for new NaN, which LightGBM would read as 0
        self._median_[[*categories.sizes]] = np.nan
        options = {"n_rounds": self.n_estimators, "categorical": list(categories.sizes)}
        train = partial(grow, lightgbm, function, settings, init_score=self.init_score_, **options)
        check_columns(self.lightgbm_params or {}, categories, rows.X.shape[1])
        held_out, self.boosters_ = self._hold_out(rows), []
        for mask in held_out:
            held, stop = taken(rows, mask), None
            stops = self.n_iter_no_change is not None and mask.any()
            if stops and task.is_ranking and len(np.unique(held.target)) < 2:
                warn("n_iter_no_change has no effect if all held-out samples have the same class")
            elif stops:
                if held.groups is not None and not groups_of_both(held.target, held.groups):
                    held = held._replace(groups=None)
                stop = held, partial(quality, task, held), int(self.n_iter_no_change)
            self.boosters_.append(train(taken(rows, ~mask), stop))
        self.n_iter_ = np.array([booster.current_iteration() for booster in self.boosters_])
        n_seen = len(rows.y) - max(map(np.count_nonzero, held_out))
        grown = have_splits(self.boosters_, self.min_child_samples, n_seen)
        fresh = None
        if task.is_ranking:
            self.threshold_ = 0.0
            calibrates = self.calibration is not None and np.any(held_out)
            if calibrates or not self._models_proba_:
                fresh, known = self._as_unseen(rows, held_out)
            if not self._models_proba_ and grown:
                cut = cut_of(loss, params, rows, *self.class_count_[task.order])
                known, task = taken(rows, known), dataclasses.replace(task, cut=cut)
                vars(self).update(task.finish(fresh, known.target, known.count, known.groups))
            elif not self._models_proba_:
                # No tree has a split, so all scores are equal. Above them, no sample is flagged.
                scores = self._raw(self.boosters_, rows.X)[:, 0]
                self.threshold_ = midway_above(scores, float(scores[0]))
        self._finish_out_of_fold(data, rows, index, held_out, fresh)

    def _finish_out_of_fold(self, data, rows, index, held_out, fresh):
        task, known = self._task(), np.any(held_out, axis=0)
        scores = np.full((len(rows.y), task.n_outputs), np.nan)
        for booster, mask in zip(self.boosters_, held_out, strict=True):
            if mask.any():
                scores[mask] = self._raw([booster], rows.X[mask])
        own, own_scores = taken(rows, known), scores[known]
        if self.calibration is not None and known.any():
            fresh = own_scores if fresh is None else fresh
            weight = task.calibration_weights(own.target, own.weight)
            self.calibration_ = fit_calibration(fresh, own.target, weight)
            self._models_proba_ = True
        if self.n_members > 1:
            self.oob_decision_function_ = data.as_given(task.decide(scores, self), index)
            self.oob_score_ = quality(task, own, own_scores) if known.any() else np.nan

    def _hold_out(self, rows):
        """Return one mask for each member: the samples that this member holds out."""
        if self.n_members == 1 and self.n_iter_no_change is None:
            return [np.zeros(len(rows.y), dtype=bool)]
        order = rows.order(0)
        for n_folds in [self.n_members] if self.n_members > 1 else range(N_FOLDS_OF_ONE, 1, -1):
            fold = deal(order, rows.target, n_folds)
            if len(np.unique(rows.target[fold == 0])) == len(np.unique(rows.target[fold >= 0])):
                break
        if not (fold >= 0).any():
            warn(
                f"n_members={self.n_members} and n_iter_no_change={self.n_iter_no_change} hold out "
                "samples, and need another sample of the same class for training. But no class has "
                "two different samples, so all members train on all samples for all rounds: add "
                "samples, or set n_members=1 and n_iter_no_change=None"
            )
        return [fold == m for m in range(self.n_members)]

    def _as_unseen(self, rows, held_out):
        """Return two arrays: scores (see `scores_as_unseen`) and the mask of the scored samples."""
        held_out = np.column_stack(held_out)
        known = held_out.any(axis=1)
        if not known.any():
            return self._raw(self.boosters_, rows.X), ~known
        own = taken(rows, known)
        each = np.column_stack([self._raw([booster], own.X)[:, 0] for booster in self.boosters_])
        scores = scores_as_unseen(each, held_out[known], own.target, own.weight)
        return scores[:, np.newaxis], known

    def _checked(self, X, y, sample_weight, groups):
        """Return samples with a positive `sample_weight`. Set attributes of columns and classes."""
        takes = {"takes_tables": True, "takes_images": False}
        data = check_labelled(self, X, y, sample_weight, groups, reset=True, **takes)
        y, count, groups = data.y, data.weight, data.groups
        self.classes_ = check_classes(y)
        index, n_classes = encode_labels(self.classes_, y), len(self.classes_)
        self.class_count_ = np.bincount(index, count, n_classes)
        of_class = class_weights(self.class_weight, self.classes_, self.class_count_)
        weight = count * of_class[index]
        check_classes(y[weight > 0], "y with a positive weight")
        groups = several_groups(None if groups is None else present_groups(groups, weight))
        refuse_groups(groups, self.classes_)
        if n_classes == 2:
            self.pos_label_ = positive_label(self.pos_label, self.classes_, self.class_count_)
            index = (y == self.pos_label_).astype(np.int64)
            # Negatives keep their weight, because ranks such as k are in units of weight.
            weight = weight / of_class[self.classes_ != self.pos_label_]
            check_ranking(index, groups, self.n_members)
        elif self.pos_label is not None:
            raise ValueError(
                f"pos_label={self.pos_label!r} needs 2 classes in y; got {listed(self.classes_)}: "
                "merge labels or drop samples"
            )
        checked = {"weight": weight, "groups": groups, "target": index, "count": count}
        return data._replace(X=in_memory(data.X), **checked)

    def _task(self):
        """Return the task: a ranking of two classes, or labels of more classes."""
        if len(self.classes_) == 2:
            return RankingTask(self.classes_, self.pos_label_, average_precision)
        n_classes = len(self.classes_)
        metric = partial(topk_accuracy_score, k=self.k_, labels=np.arange(n_classes))
        balanced = self.log_loss_share < 1 and getattr(named_like(self.loss), "log_prior", False)
        return LabelTask(self.classes_, n_classes, metric, self.k_, balanced=balanced)

    def _raw(self, boosters, X):
        """Return `init_score_` plus the mean raw score of the boosters, for each sample."""
        n_threads = effective_n_jobs(self.n_jobs)
        each = [booster.predict(X, raw_score=True, num_threads=n_threads) for booster in boosters]
        scores = np.mean(each, axis=0) + self.init_score_
        return scores.reshape(len(scores), -1)

    def _scored(self, X):
        """Return two values: a snapshot of the estimator, and raw scores (n_samples, n_outputs)."""
        now = present(self)
        check_is_fitted(now)
        X = in_memory(check_rows(now, X))
        X = np.where(np.isnan(X), now._median_, X) if isinstance(X, np.ndarray) else X
        return now, now._raw(now.boosters_, X)


def refuse_groups(groups, classes):
    if groups is not None and len(classes) > 2:
        raise ValueError(f"groups must be None for more than 2 classes; got {len(classes)} classes")


def taken(rows, index):
    rows = rows.take(index)
    return rows._replace(X=in_memory(rows.X))


def quality(task, rows, scores):
    return task.score(rows.target, scores.reshape(len(rows.y), -1), rows.count, rows.groups)
