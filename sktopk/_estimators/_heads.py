"""Heads: each head defines the number of scores, the loss and the metrics of a network.

A head holds settings and no data. :class:`~sktopk._estimators._base.BaseNetClassifier` calls

- ``n_outputs(n_classes)``: returns the number of scores per sample;
- ``criterion(n_members, own_rows)``: returns the `Criterion` that training minimizes;
- ``finish(scores, target, weight, groups)``: returns fitted attributes, only for rankings;
- ``decide(scores)``: returns the result of `decision_function`;
- ``scorer()``: returns the metric of `score`, a function of (target, scores, weight);
- ``values(target, scores, weight, groups)``: returns a value and a weight for each held-out sample.
  Their weighted mean chooses the epoch.

Targets are class indices. For a ranking head, 1 is the positive class.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch

from sktopk._common._groups import rows_of_groups
from sktopk._common._warnings import warn
from sktopk._training._process import all_objects, joined
from sktopk._training.criteria._ensemble import EnsembleLoss
from sktopk._training.criteria._mixture import Mixture, TwoClassCrossEntropy

from ._between_scores import midway_below
from ._calibration import calibrated_proba

# Training has failed if the loss is above this share of the loss of constant scores.
NEARLY = 0.97


@dataclass(frozen=True)
class LabelHead:
    """Head with one score per class.

    Parameters
    ----------
    make : callable
        Function without arguments that returns the `Criterion` of the loss.
    metric : callable
        Metric of `score`, a function of (target, result of `decide`, weight).
    k : int
    share : float
        Share of cross-entropy in the loss.
    make_partner : callable
        Function without arguments that returns the `Criterion` of cross-entropy.
    models_proba : bool
        Whether the softmax of the scores estimates class probabilities.
    balanced : bool
        Whether the loss corrects for class frequencies.
    cosines_for : str
        Name of the loss if its scores must be cosines.
    """

    make: Callable
    metric: Callable
    k: int
    share: float
    make_partner: Callable
    models_proba: bool = False
    balanced: bool = False
    cosines_for: str = ""

    min_positives = None
    # torch's beta2 of 0.999 averages over more steps than the training has.
    least_epochs, least_steps, n_bins, beta2 = 18, 360, 0, 0.95

    def n_outputs(self, n_classes):
        """Return the number of scores per sample."""
        return n_classes

    def criterion(self, n_members, own_rows):
        """Return the training loss as a `Criterion`, for one network or for an ensemble."""
        return mixture(self.make(), self.make_partner, self.share, n_members, own_rows)

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

    def decide(self, scores):
        """Convert an array of network scores to the result of `decision_function`."""
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def proba(self, scores):
        """Return class probabilities, for skorch's callbacks."""
        return calibrated_proba(1.0, 0.0, scores)

    def calibration_scores(self, scores):
        """Return one score per class, the input of `fit_calibration`."""
        return scores

    def calibration_weights(self, target, weight):
        """Return sample weights, balanced if the loss corrects for class frequencies."""
        if not self.balanced:
            return weight
        total = np.bincount(target, weight)[target]
        return np.divide(weight, total, where=total > 0, out=np.zeros_like(weight))

    def check_learned(self, net, target, weight, history):
        """Do nothing."""

    def scorer(self):
        """Return the metric of `score`."""
        return lambda target, scores, weight: self.metric(target, self.decide(scores), weight)

    def values(self, target, scores, weight, groups):
        """Return the mean of top-1 and top-k accuracy of each sample, and its weight.

        An unknown label (-1) counts as an error.
        """
        known = target >= 0
        own = np.where(known, scores[np.arange(len(target)), target], -np.inf)[:, np.newaxis]
        rank = np.where(known, (scores >= own).sum(axis=1), scores.shape[1] + 1)
        value = np.mean([rank <= 1, rank <= self.k], axis=0)
        return value, self.calibration_weights(np.where(known, target, 0), weight)


@dataclass(frozen=True)
class RankingHead:
    """Head with one score per sample and a decision threshold.

    Parameters
    ----------
    make : callable
        Function without arguments that returns the `Criterion` of the loss.
    metric : callable
        Metric of `score`, a function of (positive, scores minus threshold, weight).
    cut : callable
        Function that returns the lowest score predicted as positive. Its arguments are the float64
        tensors (scores, positive, weight).
    share : float
        Share of cross-entropy in the loss.
    midway : callable
        Function of (scores, t) that returns a threshold between the score t and the next score.
    min_positives : int
        Smallest number of positives in a minibatch.
    """

    make: Callable
    metric: Callable
    cut: Callable
    share: float
    midway: Callable = midway_below
    min_positives: int = 5

    # Bins of numerical columns increase the average precision of tabular data.
    least_epochs, least_steps, n_bins, beta2 = 24, 200, 8, 0.99

    cosines_for = ""

    @property
    def models_proba(self):
        """Return whether the sigmoid of the score estimates the probability of a positive."""
        return self.share > 0

    def n_outputs(self, n_classes):
        """Return 1, the number of scores per sample."""
        return 1

    def criterion(self, n_members, own_rows):
        """Return the training loss as a `Criterion`, for one network or for an ensemble."""
        return mixture(self.make(), TwoClassCrossEntropy, self.share, n_members, own_rows)

    def weights(self, weight):
        """Return the sample weights unscaled, because a rank k refers to a sum of weights."""
        return weight

    def decide(self, scores):
        """Return scores of shape (n_samples,), from which the estimator subtracts the threshold."""
        return scores[:, 0]

    def proba(self, scores):
        """Return probabilities of negatives and positives, for skorch's callbacks."""
        return calibrated_proba(1.0, 0.0, scores[:, 0])

    def calibration_scores(self, scores):
        """Return the score of each sample, the input of `fit_calibration`."""
        return scores[:, 0]

    def calibration_weights(self, target, weight):
        """Return the sample weights."""
        return weight

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

    def check_learned(self, net, target, weight, history):
        """Warn if the training loss at the end is about that of constant scores."""
        positive, weight = (torch.from_numpy(each).to(net.device) for each in (target == 1, weight))
        share = (positive * weight).sum() / weight.sum()
        # Two constants: 0, and the log-odds of the class frequencies, where log loss is lowest.
        constant = min(
            float(net.criterion_(each.expand(len(target), 1), positive, weight))
            for each in (torch.zeros_like(share), share.logit())
        )
        last = history[-1]["train_loss"]
        if last > NEARLY * constant:
            advice = "raise log_loss_share" if self.share < 1 else "raise max_epochs"
            warn(
                f"The training loss ({last:.3g}) is about that of constant scores "
                f"({constant:.3g}), so the ranking can be poor: {advice}, or compare with other "
                "estimators"
            )

    def scorer(self):
        """Return the metric of `score`."""
        return lambda target, scores, weight: self.metric(target == 1, scores.ravel(), weight)

    def values(self, target, scores, weight, groups):
        """Return the value of `log_fpr_values` of each sample, and its weight.

        The weighted mean is the area under the ROC curve with a log-scaled false-positive rate.
        With groups, it is the mean of the areas of the groups.
        """
        lists = [np.arange(len(target))] if groups is None else rows_of_groups(groups)
        value, share = np.zeros((2, len(target)))
        for rows in lists:
            positive, own = target[rows] == 1, weight[rows]
            if own[positive].any() and own[~positive].any():
                value[rows] = log_fpr_values(positive, scores[rows, 0], own)
                share[rows] = own * positive
                if groups is not None:
                    share[rows] /= share[rows].sum()
        return value, share


def log_fpr_values(positive, scores, weight):
    r"""Return :math:`-\log(\mathrm{FPR}_i) / \log n_-` for each positive i, and 0 for negatives.

    FPR is the share of negatives with a score at least as high. Ties count one half. The smallest
    FPR is :math:`1 / n_-`, because the curve below depends on the highest negative only.
    """
    order = np.argsort(scores[~positive])
    negatives, own = scores[~positive][order], weight[~positive][order]
    n_negatives = max(own.sum(), np.count_nonzero(own), 2.0)
    total = np.append(0.0, own.cumsum())
    below, not_above = (
        total[np.searchsorted(negatives, scores[positive], side)] for side in ("left", "right")
    )
    rate = 1 - (below + not_above) / (2 * total[-1])
    value = np.zeros(len(scores))
    value[positive] = -np.log(rate.clip(1 / n_negatives, 1)) / np.log(n_negatives)
    return value


def mixture(named, make_partner, share, n_members, own_rows):
    """Return the criterion of an ensemble: the named loss and a share of cross-entropy."""
    named = ensemble(named, n_members, own_rows)
    if share == 0:
        return named
    return Mixture(named, ensemble(make_partner(), n_members, own_rows), share)


def ensemble(criterion, n_members, own_rows):
    """Return the criterion of an ensemble whose networks all use the given criterion."""
    return criterion if n_members == 1 else EnsembleLoss(criterion, n_members, own_rows)
