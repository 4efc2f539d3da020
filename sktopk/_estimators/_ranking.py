"""Base class of binary classifiers with one score per sample and a decision threshold."""

import dataclasses
from dataclasses import KW_ONLY, dataclass
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import ArrayLike

from sktopk._common._estimator import fitted_attributes
from sktopk._common._input import check_length, check_two_classes, known_codes, own_labels
from sktopk._common._samples import encode_groups
from sktopk._common._scalars import check_pos_label, number, option, positive_label
from sktopk._common._types import Label, RowsLike
from sktopk._common._warnings import warn, warn_of_order
from sktopk._training._objectives import Mixture, TopLoss, TwoClassCrossEntropy
from sktopk.losses._accuracy_at_top import SURROGATES
from sktopk.losses._thresholds import _Ranked, in_group
from sktopk.metrics._ranking import check_true, row_weights

from ._base import BaseNetClassifier
from ._best_rows import rows_on_top
from ._task import RankingTask, Training, midway_below

# Parameters that the loss and the metric of a ranker share. Each ranker has at most one of them.
OF_METRICS = ("k", "tau", "fpr", "recall", "precision", "beta")


@dataclass(eq=False, repr=False)
class RankingClassifier(BaseNetClassifier):
    """Binary classifier with one score per sample and a decision threshold.

    A subclass defines `_objective()` (the loss), `_metric(positive, scores, weight)` (the metric of
    `score`) and `_cut(scores, positive, weight)` (the lowest score that is predicted as positive).

    Parameters
    ----------
    pos_label : int, float, bool or str, default=None
        Label of the positives. None means 1 or True if the other label is 0, -1 or False.
        Otherwise, None chooses one of the labels, with a warning: set `pos_label` instead.
    log_loss_share : float, default=0.8
        Weight of cross-entropy in the training loss, in [0, 1]. The classifier's own loss gets the
        rest. The references use 0, but scores can then be nearly equal if the classes overlap.
    calibration : "sigmoid" or None, default="sigmoid"
        Calibration of `predict_proba`. "sigmoid" fits a sigmoid of the score to held-out samples
        (Platt scaling). With None, `predict_proba` needs ``log_loss_share > 0``. If both
        `calibration` and `n_iter_no_change` are None, no samples are held out.
    module : callable, default=TabularMLP
        Class or function that creates a network: ``(n_features, n_outputs) -> nn.Module``. The
        default handles missing values and categories, scales columns and, with hidden layers,
        encodes numerical columns in 8 bins. Other networks need scaled data, or must start with
        :class:`~sktopk.modules.TableEncoder`. If `module` has a parameter `n_members`,
        one call must create all networks of the ensemble.
    max_epochs : int or "auto", default="auto"
        Number of epochs. "auto" trains at least 24 epochs and at least 200 steps (minibatches).
    loss_params : dict, default=None
        Parameters for the loss only: ``{"fpr": 0.05}`` changes the `fpr` of the loss, but not of
        `score` and `threshold_`. In a search, ``loss__fpr`` sets this key, so that all candidates
        are compared by the same metric.
    learning_rate : float, default=0.01
        Largest learning rate. The rate increases linearly during the first tenth of the steps, then
        decreases along a half cosine. A skorch LRScheduler in `callbacks` replaces this schedule.
    weight_decay : float, default=0.3
        Weight decay of AdamW. In the default network, it applies to hidden layers only. For another
        optimizer, set "optimizer__weight_decay" in `net_params` instead.

    Attributes
    ----------
    threshold_ : float
        Decision threshold, which `decision_function` subtracts. `fit` computes `threshold_` from
        the scores of the training samples. If an ensemble holds out samples, `fit` first corrects
        these scores to be distributed like the scores of held-out samples, because new samples have
        scores like held-out samples.
    pos_label_ : int, float, bool or str
        Label of the positives.
    n_groups_ : int
        Number of groups passed to `fit`. Absent if `fit` got no groups or a single group.
    history_ : list of dict
        One dict per epoch: `train_loss`, `dur` (seconds) and values of callbacks. If the loss has a
        threshold, the array `threshold` has its value in each minibatch. `valid_score` is the area
        under the ROC curve of held-out samples, with log(false-positive rate) as x axis.
        `valid_loss`, the held-out loss, exists only with `X_val`, `callbacks` or a single network.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sktopk import DeepTopPushClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> clf = DeepTopPushClassifier(n_estimators=2, random_state=0).fit(X, y)
    >>> clf.predict_top(X, n=5).shape
    (5,)
    """

    _: KW_ONLY
    pos_label: Label | None = None
    loss_params: dict | None = None
    learning_rate: float = 0.01
    weight_decay: float = 0.3
    log_loss_share: float = 0.8
    calibration: str | None = "sigmoid"

    _checks: ClassVar = {"calibration": option(None, "sigmoid"), "pos_label": check_pos_label}

    def fit(
        self,
        X: RowsLike,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
        X_val: RowsLike | None = None,
        y_val: ArrayLike | None = None,
        checkpoint: Any = None,
    ) -> Self:
        r"""Train the network. With G groups, the loss L is the mean of the losses of the groups.

        .. math:: L = \frac{1}{G} \sum_g L_g

        Parameters
        ----------
        X, y, sample_weight, X_val, y_val, checkpoint
            Parameters of :meth:`TopKClassifier.fit`: training samples with their labels and
            weights, validation samples with their labels, and a file that stores the progress.
        groups : array-like of shape (n_samples,), default=None
            Group of each sample, such as its day. Each group has its own threshold, and
            `threshold_` is the median of the thresholds of the groups. An integer `k` is a rank
            within each group. A network holds out whole groups.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError, TypeError
            See :meth:`TopKClassifier.fit`. TypeError also if the loss does not support `groups`.
        """
        return self._fit(X, y, sample_weight, groups, X_val, y_val, checkpoint)

    def partial_fit(
        self,
        X: RowsLike,
        y: ArrayLike | None = None,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Train for one epoch on a part of the data, at a constant learning rate.

        Each call computes `threshold_` from its own samples. Without groups, an integer `k` is a
        rank among the samples of all calls so far. The rank within a call is smaller in proportion:
        k / 10 if the call has a tenth of all samples. A sample that was passed twice counts twice.

        Parameters
        ----------
        X, y, classes, sample_weight
            X, y and `sample_weight` are a part of the data, and `classes` contains all possible
            labels. Formats and errors are the same as in :meth:`TopKClassifier.partial_fit`.
        groups : array-like of shape (n_samples,), default=None
            Group of each sample, as in `fit`. Pass all samples of a group in the same call.

        Returns
        -------
        self : object
        """
        return self._partial_fit(X, y, classes, sample_weight, groups)

    def decision_function(self, X: RowsLike) -> np.ndarray:
        """Return the score of each sample minus `threshold_`, an array of shape (n_samples,).

        Larger results mean that the label ``classes_[1]`` is more likely. If ``classes_[1]`` is the
        positive label, results above 0 are predicted as positive. If ``classes_[0]`` is the
        positive label, the result is `threshold_` minus the score, and results below 0 are
        predicted as positive. X has the formats of `fit`.
        """
        return super().decision_function(X)

    def predict(self, X: RowsLike) -> np.ndarray:
        """Predict `pos_label_` for samples whose score is above `threshold_`.

        X has the formats of `fit`. The result is an array of shape (n_samples,).
        """
        return super().predict(X)

    def predict_top(self, X: RowsLike, n: int, groups: ArrayLike | None = None) -> np.ndarray:
        """Return the positions of the n samples with the highest scores, or of n per group.

        ``X.iloc[index]`` selects these samples of a frame.

        Parameters
        ----------
        X : {array, sparse CSR, data frame, torch Dataset} of shape (n_samples, n_features)
        n : int
            Number of samples, at least 1 (else ValueError or TypeError). With groups, the number
            per group. If there are fewer samples, all are returned, with a warning.
        groups : array-like of shape (n_samples,), default=None
            Group of each sample, to select n samples per group. Groups can be new (not in `fit`).

        Returns
        -------
        index : ndarray of shape (n_top,)
            Positions, sorted by decreasing score, not by group. Tied samples are in the order of X.
        """
        return rows_on_top(self._scored(X)[1][:, 0], n, groups)

    def score(
        self,
        X: RowsLike,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        groups: ArrayLike | None = None,
    ) -> float:
        """Return the metric of this classifier (see the docstring of the class).

        A search over a parameter of this metric, such as `fpr` or `k`, changes the metric between
        candidates. Search over ``loss__fpr`` or ``loss__k`` instead, or pass `scoring`.

        Parameters
        ----------
        X : {array, sparse CSR, data frame, torch Dataset} of shape (n_samples, n_features)
        y : array-like of shape (n_samples,), default=None
            True labels. None if X is a Dataset with labels.
        sample_weight : array-like of shape (n_samples,), default=None
        groups : array-like of shape (n_samples,), default=None
            Group of each sample. The score is then the mean over the groups with both classes.

        Returns
        -------
        score : float
            Larger is better. NaN, with a warning, if y lacks a class that the metric requires.
        """
        now, scores = self._scored(X)
        warn_of_order(X, y=y, sample_weight=sample_weight, groups=groups)
        y = check_true(own_labels(X, y, needed=True), "y")
        check_length(y, len(scores))
        known_codes(now.classes_, y)  # raises for other labels
        weight = row_weights(sample_weight, len(y), "X")
        groups = None if groups is None else encode_groups(groups, len(y))
        target = (y == now.pos_label_).astype(int)
        return now._task_.score(target, scores, weight, groups, fitted=now)

    # `threshold_` is just below the threshold t of the loss: samples with the score t are positive.
    _midway = staticmethod(midway_below)
    _min_positives = 5

    def _trained(self):
        """Return a copy with the parameters in `loss_params`, or self if there are none."""
        if not self.loss_params:
            return self
        params = self.get_params(deep=False) | self.loss_params | {"loss_params": None}
        trained = type(self)(**params)
        vars(trained).update(fitted_attributes(self))
        return trained

    def _make_task(self):
        if not hasattr(self, "pos_label_"):
            self.pos_label_ = positive_label(self.pos_label, self.classes_, self.class_count_)
        share, trained = float(self.log_loss_share), self._trained()
        return RankingTask(
            classes=self.classes_,
            pos_label=self.pos_label_,
            metric=self._metric,
            cut=self._cut,
            midway=self._midway,
            models_proba=self._models_proba(),
            # Bins of numerical columns increase the average precision on tabular data.
            training=Training(
                lambda: Mixture(trained._objective(), TwoClassCrossEntropy(), share),
                self._min_positives,
                least_epochs=24,
                least_steps=200,
                n_bins=8,
                beta2=0.99,
            ),
        )

    def _check_params(self):
        super()._check_params()
        if self.loss_params is None:
            return
        known = [name for name in OF_METRICS if name in self.get_params(deep=False)]
        if not isinstance(self.loss_params, dict) or not {*self.loss_params} <= {*known}:
            what = f"None or a dict with the key {known[0]!r}" if known else "None or {}"
            name, got = type(self).__name__, f"got {self.loss_params!r}"
            raise ValueError(f"loss_params of {name} must be {what}; {got}")
        if self.loss_params:
            self._trained()._check_params()

    def _check_classes(self, y, name="y"):
        return check_two_classes(y, self.pos_label, name)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        # Accuracy can be poor, because few samples are predicted as positive.
        tags.classifier_tags.poor_score = True
        return tags


@dataclass(eq=False, repr=False)
class TopClassifier(RankingClassifier):
    """Ranker whose loss penalizes samples on the wrong side of a threshold t.

    A subclass defines `_threshold()`, which returns a function ``(scores, positive, weight) -> t``.

    Parameters
    ----------
    surrogate : {"quadratic", "hinge", "logistic"}, default="quadratic"
        Loss l(z) of a sample. z is the distance of its score to the threshold: z > 0 on the wrong
        side, z < 0 on the right side. "quadratic" is max(0, 1 + z)^2 as in [1]_, "hinge" is
        max(0, 1 + z), and "logistic" is log2(1 + exp z).
    buffer_size : int, default=4
        Number of hard examples that each network keeps from earlier minibatches to estimate the
        threshold. 0 keeps none. For a threshold computed from positives, the positives with the
        lowest scores are kept. For a threshold computed from negatives, the negatives with the
        highest scores are kept. For a threshold computed from all samples, the samples with the
        highest scores are kept.

    References
    ----------
    .. [1] L. Adam, V. Macha, V. Smidl. DeepTopPush: Simple and Scalable Method for Accuracy at
       the Top. 2020. Eq. 5 with Table 1, algorithm 3.1.
    """

    _: KW_ONLY
    surrogate: str = "quadratic"
    buffer_size: int = 4

    _checks: ClassVar = {"surrogate": option(*SURROGATES), "buffer_size": number(0, integer=True)}

    errors = "false_negatives"  # the loss counts positives below the threshold as errors

    def _objective(self):
        return TopLoss(self._threshold(), self.errors, self.surrogate, self.buffer_size)

    def _make_task(self):
        task = super()._make_task()
        if hasattr(self, "k"):
            most = max(1, int(self._total(self._threshold().of) * (1 + 1e-9)))
            self.k_ = self.k if hasattr(self, "n_groups_") else min(self.k, most)
        return task

    def _total(self, of):
        """Return the total weight of all negatives, positives or samples in all calls so far."""
        total, positive = self._class_total_, self.classes_ == self.pos_label_
        parts = {"negatives": total[~positive], "positives": total[positive], "all": total}
        return float(parts[of].sum())

    def _check_rank(self, groups):
        """Warn if the rank k exceeds the number of samples that are ranked."""
        of = self._threshold().of
        most, what = max(1, int(self._total(of) * (1 + 1e-9))), {"all": "samples"}.get(of, of)
        for name, k in {"k": self.k, "loss__k": (self.loss_params or {}).get("k")}.items():
            if not isinstance(k, Integral):
                continue
            if groups is None and k > most:
                warn(f"{name}={k} must be at most the number of {what} ({most}): {most} is used")
            elif groups is not None and k >= (largest := np.bincount(groups).max()):
                warn(f"{name}={k} must be smaller than the largest group ({largest} samples)")

    def _cut(self, scores, positive, weight):
        """Return the lowest score that is predicted as positive."""
        threshold = self._threshold()
        if isinstance(threshold, _Ranked) and threshold.k and not hasattr(self, "n_groups_"):
            # k is a rank in the whole training set. For a part of this set, reduce k in proportion.
            own = float(weight[in_group(positive, threshold.of)].sum())
            share = min(1.0, own / max(self._total(threshold.of), 1e-300))
            threshold = dataclasses.replace(threshold, k=max(1, round(threshold.k * share)))
        return threshold(scores, positive, weight)


def cuts(scores, positive, weight):
    """Return three tensors: distinct scores s, weight of positives >= s, weight of samples >= s."""
    order = scores.argsort(descending=True, stable=True)
    scores, own = scores[order], weight[order]
    found, selected = (own * positive[order]).cumsum(0), own.cumsum(0)
    last = torch.cat([scores[1:] != scores[:-1], torch.ones(1, dtype=torch.bool)])
    return scores[last], found[last], selected[last]
