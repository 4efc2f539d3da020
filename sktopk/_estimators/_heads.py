"""Heads: each head defines the number of scores, the loss and the metrics of a network.

A head holds settings and no data. :class:`~sktopk._estimators._base.BaseNetClassifier` calls

- ``n_outputs(n_classes)``: returns the number of scores per sample;
- ``criterion(n_members, own_rows)``: returns the `Criterion` that training minimizes;
- ``finish(scores, target, weight, groups)``: returns a dict of fitted attributes;
- ``decide(scores)``: returns the result of `decision_function`;
- ``scorer()``: returns the metric of `score`, a function of (target, scores, weight);
- ``judge()``: returns the metric of early stopping, a function of (target, scores, weight, groups).

Targets are class indices. For a ranking head, 1 is the positive class.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from scipy.special import softmax

from sktopk._common._groups import rows_of_groups
from sktopk._common._warnings import warn
from sktopk._training._process import all_objects, joined
from sktopk._training.criteria._base import RowLoss
from sktopk._training.criteria._ensemble import EnsembleLoss
from sktopk._training.criteria._phases import Phases, TwoClassCrossEntropy
from sktopk.losses._cross_entropy import cross_entropy_loss, cross_entropy_of_rows
from sktopk.metrics._top_curves import partial_auc_log_score
from sktopk.modules._members import ordered_sets

from ._between_scores import midway_below

# Label smoothing of the cross-entropy that orders the k labels. It increases top-1 accuracy.
LABEL_SMOOTHING = 0.1
# The order of k labels counts as random if top-1 accuracy < CHANCE * (top-k accuracy) / k.
CHANCE = 1.25
# Number of scores in a chunk of `LabelHead.combined`, to limit the memory.
COMBINED = 1 << 21


@dataclass(frozen=True)
class LabelHead:
    """Head with one score per class, or with two scores per class if `order` is True.

    Parameters
    ----------
    name : str
        Name of the loss in `history_`.
    make : callable
        Function without arguments that returns the `Criterion` of the loss.
    metric : callable
        Metric of `score`, a function of (target, result of `decide`, weight).
    k : int
    order : bool
        Whether each class has a second score, trained with cross-entropy to order the k labels.
    models_proba : bool
        Whether the softmax of the scores estimates class probabilities.
    balanced : bool
        Whether the loss corrects for class frequencies.
    pretrain : bool
        Whether training starts with cross-entropy.
    orders : bool
        Whether `finish` warns if the order of the k labels is random.
    """

    name: str
    make: Callable
    metric: Callable
    k: int
    order: bool = False
    models_proba: bool = False
    balanced: bool = False
    pretrain: bool = True
    orders: bool = False

    min_positives = None
    # torch's beta2 of 0.999 averages over more steps than the training has.
    least_epochs, least_steps, n_bins, beta2 = 18, 360, 0, 0.95

    @property
    def n_heads(self):
        """Return the number of scores per class."""
        return 1 + self.order

    def n_outputs(self, n_classes):
        """Return the number of scores per sample."""
        return self.n_heads * n_classes

    def criterion(self, n_members, own_rows):
        """Return the training loss as a `Criterion`, for one network or for an ensemble."""
        then = ensemble(self.make(), n_members, own_rows)
        if not (self.pretrain or self.order):
            return then
        smoothing = {"label_smoothing": LABEL_SMOOTHING} if self.order else {}
        first = RowLoss(cross_entropy_loss, smoothing, gradient_of_rows=cross_entropy_of_rows)
        return Phases(ensemble(first, n_members, own_rows), then, self.n_heads)

    def weights(self, weight):
        """Return the sample weights divided by their mean over all distributed processes."""
        # Divide by the largest weight, so that sums do not overflow.
        largest = weight.max(initial=0.0)
        shared = np.array(
            all_objects((largest, (weight / max(largest, 1e-300)).sum(), len(weight)))
        )
        unit = shared[:, 0].max()
        mean = (shared[:, 0] / unit) @ shared[:, 1] / shared[:, 2].sum()
        return weight / unit / mean

    def combine(self, scores):
        """Combine the scores of each class. Return a tensor of shape (n_samples, n_classes)."""
        return ordered_sets(*scores.chunk(2, dim=1), self.k) if self.order else scores

    def combined(self, scores):
        """Return the result of `combine` for an array, computed in chunks."""
        if not self.order:
            return scores
        step = max(1, COMBINED // scores.shape[1])
        out = np.empty((len(scores), scores.shape[1] // 2), scores.dtype)
        for rows in (slice(i, i + step) for i in range(0, len(scores), step)):
            out[rows] = self.combine(torch.from_numpy(scores[rows])).numpy()
        return out

    def decide(self, scores):
        """Convert an array of network scores to the result of `decision_function`."""
        scores = self.combined(scores)
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def order_scores(self, scores):
        """Return the second score of each class if there are two, else the only score."""
        return scores[:, scores.shape[1] // 2 :] if self.order else scores

    def proba(self, scores):
        """Return class probabilities, the softmax of an array of network scores."""
        return softmax(self.order_scores(scores), axis=1)

    def calibration_scores(self, scores, fitted):
        """Return one score per class, the input of `fit_calibration`."""
        return self.order_scores(scores)

    def finish(self, scores, target, weight, groups):
        """Warn if the loss does not order the k best labels. Return an empty dict."""
        known = target >= 0
        if self.orders and known.any():
            own = scores[known, target[known]][:, np.newaxis]
            above = (scores[known] > own).sum(axis=1)
            first, among = (np.average(above < k, weights=weight[known]) for k in (1, self.k))
            if first < CHANCE * among / self.k:
                warn(
                    f"predict is right for {first:.0%} of the held-out samples, predict_topk for "
                    f'{among:.0%}: this loss does not order the labels. Set order="cross_entropy"'
                )
        return {}

    def scorer(self):
        """Return the metric of `score`."""
        return lambda target, scores, weight: self.metric(target, self.decide(scores), weight)

    def judge(self):
        """Return the metric of early stopping, a function that calls `log_rank_score`."""

        def judge(target, scores, weight, groups=None):
            if self.balanced:
                total = np.bincount(target, weight)[target]
                weight = np.divide(weight, total, where=total > 0, out=np.zeros_like(weight))
            return log_rank_score(target, self.combined(scores), weight)

        return judge


def log_rank_score(target, scores, weight):
    """Return ``1 - mean(log rank) / log n_classes`` over the ranks of the true labels.

    For two classes, return the mean log-probability. An unknown label (-1) ranks last.
    """
    known = target >= 0
    own = np.where(known, scores[np.arange(len(target)), target], -np.inf)[:, np.newaxis]
    if scores.shape[1] == 2:
        other = scores[np.arange(len(target)), np.where(target == 1, 0, 1)]
        margin = np.where(known, own[:, 0] - other, -1e3)
        return float(np.average(-np.logaddexp(0, -margin.astype(np.float64)), weights=weight))
    above, ties = (scores > own).sum(axis=1), (scores == own).sum(axis=1)
    rank = np.where(known, above + (ties + 1) / 2, scores.shape[1])
    return 1 - float(np.average(np.log(rank), weights=weight)) / np.log(scores.shape[1])


@dataclass(frozen=True)
class RankingHead:
    """Head with one score per sample and a decision threshold.

    Parameters
    ----------
    name : str
        Name of the loss in `history_`.
    make : callable
        Function without arguments that returns the `Criterion` of the loss.
    metric : callable
        Metric of `score`, a function of (positive, scores minus threshold, weight).
    cut : callable
        Function that returns the lowest score predicted as positive. Its arguments are the float64
        tensors (scores, positive, weight).
    midway : callable
        Function of (scores, t) that returns a threshold between the score t and the next score.
    min_positives : int
        Smallest number of positives in a minibatch.
    pretrain : bool
        Whether training starts with cross-entropy.
    """

    name: str
    make: Callable
    metric: Callable
    cut: Callable
    midway: Callable = midway_below
    min_positives: int = 5
    pretrain: bool = True

    # Bins of numerical columns increase the average precision of tabular data.
    least_epochs, least_steps, n_bins, beta2 = 24, 200, 8, 0.99

    models_proba, order, n_heads = False, False, 1

    def n_outputs(self, n_classes):
        """Return 1, the number of scores per sample."""
        return 1

    def criterion(self, n_members, own_rows):
        """Return the training loss as a `Criterion`, for one network or for an ensemble."""
        then = ensemble(self.make(), n_members, own_rows)
        if not self.pretrain:
            return then
        return Phases(ensemble(TwoClassCrossEntropy(), n_members, own_rows), then)

    def weights(self, weight):
        """Return the sample weights unscaled, because a rank k refers to a sum of weights."""
        return weight

    def combine(self, scores):
        """Return a tensor of shape (n_samples,) from scores of shape (n_samples, 1)."""
        return scores.squeeze(1)

    def decide(self, scores):
        """Return scores of shape (n_samples,), from which the estimator subtracts the threshold."""
        return scores[:, 0]

    @property
    def proba(self):
        """Raise AttributeError, because scores of a ranking are not probabilities."""
        raise AttributeError("a ranking has no predict_proba: use decision_function")

    def calibration_scores(self, scores, fitted):
        """Return two class scores, -s / 2 and s / 2, where s is the score minus the threshold."""
        y_score = scores[:, 0].astype(np.float64) - fitted.get("threshold_", 0.0)
        return np.column_stack([-y_score / 2, y_score / 2])

    def finish(self, scores, target, weight, groups):
        """Return a dict with `threshold_`. With groups, this is the median over the groups."""
        scores, positive, weight = joined(scores[:, 0], target == 1, weight)
        values = (scores.astype(np.float64), positive, weight)
        values = tuple(map(torch.from_numpy, values))
        if groups is None:
            t = float(self.cut(*values))
        else:
            each = [
                self.cut(*(value[rows] for value in values))
                for rows in map(torch.from_numpy, rows_of_groups(groups))
                if positive[rows].any() and not positive[rows].all()
            ]
            each = torch.stack(each) if each else values[0][:0]
            t = float(each[each.isfinite()].median())
        return {"threshold_": self.midway(scores, t)} if np.isfinite(t) else {}

    def scorer(self):
        """Return the metric of `score`."""
        return lambda target, scores, weight: self.metric(target == 1, scores.ravel(), weight)

    def judge(self):
        """Return the metric of early stopping: area under the ROC curve with a log-scaled FPR."""

        def of_list(positive, scores, weight):
            if positive.all() or not positive.any():
                return np.nan
            # Exclude FPR < 1 / n_negatives, where the curve depends on the highest negative only.
            own = weight[~positive]
            n_negatives = max(own.sum(), np.count_nonzero(own), 2.0)
            return partial_auc_log_score(
                positive, scores, min_fpr=1 / n_negatives, max_fpr=1.0, sample_weight=weight
            )

        def judge(target, scores, weight, groups=None):
            positive, scores = target == 1, scores[:, 0]
            if groups is not None:
                each = [
                    of_list(positive[rows], scores[rows], weight[rows])
                    for rows in rows_of_groups(groups)
                ]
                if not np.isnan(each).all():
                    return float(np.nanmean(each))
            score = of_list(positive, scores, weight)
            return -np.inf if np.isnan(score) else score

        return judge


def ensemble(criterion, n_members, own_rows):
    """Return the criterion of an ensemble whose networks all use the given criterion."""
    return criterion if n_members == 1 else EnsembleLoss(criterion, n_members, own_rows)
