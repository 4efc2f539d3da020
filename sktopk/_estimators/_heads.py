"""What a task adds to a network: number of scores, loss, decision and metric.

A head holds settings and no data. :class:`~sktopk._estimators._base.BaseNetClassifier` asks it

- ``n_outputs(n_classes)``: number of scores per sample;
- ``criterion(n_classes)``: the `Criterion` that is trained;
- ``finish(scores, target, weight, groups)``: fitted attributes that depend on the scores of the
  training set;
- ``decide(scores)``: what `decision_function` returns;
- ``scorer()``: the metric of `score`, a function of (target, scores, weight);
- ``judge()``: the same for early stopping, which may depend on more samples than the metric.

Targets are class indices; a ranking head has 1 for the positive class.
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
from sktopk.losses._cross_entropy import cross_entropy_loss
from sktopk.metrics._top_curves import partial_auc_log_score
from sktopk.modules._members import ordered_sets

from ._between_scores import midway_below

# An order of k labels is one by chance if the first is right less often than this times 1 / k.
CHANCE = 1.25
# Numbers that are combined at a time.
COMBINED = 1 << 21


@dataclass(frozen=True)
class LabelHead:
    """One score per class, or two: one for the set of k labels, one for their order.

    Parameters
    ----------
    name : str
        Name of the loss in `history_`.
    make : callable
        Returns the criterion of the loss.
    metric : callable
        Of (target, decision scores, weight).
    k : int
    order : bool
        Whether there is a second score per class, trained with cross-entropy.
    models_proba : bool
        Whether the softmax of the scores estimates class probabilities.
    balanced : bool
        Whether the loss corrects for class frequencies.
    pretrain : bool
        Whether cross-entropy may come first.
    orders : bool
        Whether the loss, which asks for a set of k labels, also orders them.
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

    @property
    def n_heads(self):
        """Number of scores per class."""
        return 1 + self.order

    def n_outputs(self, n_classes):
        """Number of scores per sample."""
        return self.n_heads * n_classes

    def criterion(self, n_members, own_rows):
        """The criterion that is trained."""
        then = ensemble(self.make(), n_members, own_rows)
        if not (self.pretrain or self.order):
            return then
        first = ensemble(RowLoss(cross_entropy_loss, {}), n_members, own_rows)
        return Phases(first, then, self.n_heads)

    def weights(self, weight):
        """Sample weights of mean 1, over all processes."""
        # In units of the largest: sums of large weights have no room in float64.
        largest = weight.max(initial=0.0)
        shared = np.array(
            all_objects((largest, (weight / max(largest, 1e-300)).sum(), len(weight)))
        )
        unit = shared[:, 0].max()
        mean = (shared[:, 0] / unit) @ shared[:, 1] / shared[:, 2].sum()
        return weight / unit / mean

    def combine(self, scores):
        """Scores (n_samples, n_classes) from those of one head or two, a tensor."""
        return ordered_sets(*scores.chunk(2, dim=1), self.k) if self.order else scores

    def combined(self, scores):
        """The same of an array, some samples at a time."""
        if not self.order:
            return scores
        step = max(1, COMBINED // scores.shape[1])
        out = np.empty((len(scores), scores.shape[1] // 2), scores.dtype)
        for rows in (slice(i, i + step) for i in range(0, len(scores), step)):
            out[rows] = self.combine(torch.from_numpy(scores[rows])).numpy()
        return out

    def decide(self, scores):
        """What `decision_function` returns, from an array of the scores of the network."""
        scores = self.combined(scores)
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def order_scores(self, scores):
        """The scores, an array, that stand for probabilities."""
        return scores[:, scores.shape[1] // 2 :] if self.order else scores

    def proba(self, scores):
        """Softmax of an array of scores of the network."""
        return softmax(self.order_scores(scores), axis=1)

    def calibration_scores(self, scores, fitted):
        """What is calibrated."""
        return self.order_scores(scores)

    def finish(self, scores, target, weight, groups):
        """Warn if the loss leaves the order of the k labels to chance; return nothing."""
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
        """The metric of `score`."""
        return lambda target, scores, weight: self.metric(target, self.decide(scores), weight)

    def judge(self):
        """Top-k accuracy averaged over log k, which depends on every sample."""

        def judge(target, scores, weight, groups=None):
            if self.balanced:
                total = np.bincount(target, weight)[target]
                weight = np.divide(weight, total, where=total > 0, out=np.zeros_like(weight))
            return log_rank_score(target, self.combined(scores), weight)

        return judge


def log_rank_score(target, scores, weight):
    """Return ``1 - mean(log rank) / log n_classes`` of the true labels, the larger the better.

    Of two classes, the mean log-probability. An unknown label (-1) ranks last.
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
    """One score per sample, and a threshold that decides.

    Parameters
    ----------
    name : str
        Name of the loss in `history_`.
    make : callable
        Returns the criterion of the loss.
    metric : callable
        Of (positive, scores, weight), of scores minus the threshold.
    cut : callable
        Of (scores, positive, weight), tensors in float64: the score of the last sample that is
        predicted positive.
    midway : callable
        Of (scores, cut): the threshold between two scores.
    min_positives : int
        Least number of positives in a minibatch.
    pretrain : bool
        Whether cross-entropy may come first.
    """

    name: str
    make: Callable
    metric: Callable
    cut: Callable
    midway: Callable = midway_below
    min_positives: int = 5
    pretrain: bool = True

    models_proba, order, n_heads = False, False, 1

    def n_outputs(self, n_classes):
        """One score per sample."""
        return 1

    def criterion(self, n_members, own_rows):
        """The criterion that is trained."""
        then = ensemble(self.make(), n_members, own_rows)
        if not self.pretrain:
            return then
        return Phases(ensemble(TwoClassCrossEntropy(), n_members, own_rows), then)

    def weights(self, weight):
        """Sample weights as they are: the threshold counts them."""
        return weight

    def combine(self, scores):
        """The scores of the network."""
        return scores.squeeze(1)

    def decide(self, scores):
        """The scores of the network; the estimator subtracts the threshold."""
        return scores[:, 0]

    @property
    def proba(self):
        """Scores of a ranking are not probabilities."""
        raise AttributeError("a ranking has no predict_proba: use decision_function")

    def calibration_scores(self, scores, fitted):
        """Two columns whose softmax is the sigmoid of the decision."""
        y_score = scores[:, 0].astype(np.float64) - fitted.get("threshold_", 0.0)
        return np.column_stack([-y_score / 2, y_score / 2])

    def finish(self, scores, target, weight, groups):
        """Return `threshold_`; with groups the median of the thresholds of all groups."""
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
        """The metric of `score`."""
        return lambda target, scores, weight: self.metric(target == 1, scores.ravel(), weight)

    def judge(self):
        """Area under the ROC curve over the logarithm of the false-positive rate."""

        def of_list(positive, scores, weight):
            if positive.all() or not positive.any():
                return np.nan
            # Below a rate of one negative all rates are that of the highest negative.
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
    """The criterion of several networks, from that of one."""
    return criterion if n_members == 1 else EnsembleLoss(criterion, n_members, own_rows)
