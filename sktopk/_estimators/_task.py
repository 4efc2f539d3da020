"""A task defines what the scores of an estimator mean, and how its networks are trained.

From scores of shape (n_samples, n_outputs), `decide`, `labels` and `proba` compute the results of
`decision_function`, `predict` and `predict_proba`. Their argument `fitted` is the estimator.
`target` converts labels to class indices. ``array[order]`` sorts an array with one entry per class
by these indices. The validation score is the weighted mean of `values`.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from sklearn.exceptions import UndefinedMetricWarning

from sktopk._common._input import encode
from sktopk._common._samples import rows_of_groups
from sktopk._common._scalars import negative_first
from sktopk._common._types import Label
from sktopk._common._warnings import warn

from ._calibration import calibrated_proba


def midway_below(scores, t):
    """Return a threshold midway between the score t and the next lower score."""
    below = float(scores[scores < t - rounding(scores, t)].max(initial=-np.inf))
    if below == -np.inf:
        return t - rounding(scores, t)
    return (t + below) / 2


def midway_above(scores, t):
    """Return a threshold midway between the score t and the next higher score."""
    return -midway_below(-scores, -t)


def rounding(scores, t):
    """Return the largest difference of two scores near t that rounding errors can explain."""
    return 8 * float(np.spacing(np.abs(scores.dtype.type(t))))


@dataclass(frozen=True)
class Training:
    """How networks are trained for a task."""

    objective: Callable  # without arguments, returns an `Objective`
    min_positives: int | None = None  # smallest number of positives in a minibatch
    least_epochs: int = 18  # max_epochs="auto" trains at least these epochs and steps
    least_steps: int = 360
    n_bins: int = 0  # number of bins per numerical column
    beta2: float = 0.95  # torch's default, 0.999, averages over more steps than the training has
    cosines_for: str = ""  # name of the loss if its scores must be cosines


@dataclass(frozen=True)
class LabelTask:
    """Task with one score per class."""

    classes: np.ndarray
    n_outputs: int  # number of classes
    metric: Callable  # of `score`, called as metric(target, result of `decide`, sample_weight=...)
    k: int
    training: Training | None = None
    models_proba: bool = False  # whether the softmax of the scores estimates probabilities
    balanced: bool = False  # whether the loss corrects for class frequencies

    is_ranking, order = False, slice(None)

    def target(self, y):
        """Return class indices; -1 for unknown labels."""
        return encode(self.classes, y)

    def decide(self, scores, fitted=None):
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def labels(self, scores, fitted=None):
        return self.classes[scores.argmax(axis=1)]

    def top_labels(self, scores, k):
        """Return the k best labels of each sample, for k < n_classes. Ties are in class order."""
        scores = torch.from_numpy(scores)
        best, index = scores.topk(k + 1, dim=1)
        tied = best[:, k - 1] == best[:, k]
        index = index[:, :k].sort(1).values
        order = scores.gather(1, index).argsort(dim=1, descending=True, stable=True)
        index = index.gather(1, order)
        # If the k-th and (k+1)-th scores of a row are tied, sort all classes of the row.
        index[tied] = scores[tied].argsort(dim=1, descending=True, stable=True)[:, :k]
        return self.classes[index.numpy()]

    def proba(self, scores, fitted=None):
        return calibrated_proba(*getattr(fitted, "calibration_", (1.0, 0.0)), scores)

    def calibration_weights(self, target, weight):
        if not self.balanced:
            return weight
        total = np.bincount(target, weight)
        mean, total = weight.sum() / max(1, np.count_nonzero(total)), total[target]
        return mean * np.divide(weight, total, where=total > 0, out=np.zeros_like(weight))

    def score(self, target, scores, weight, groups=None, fitted=None):
        return self.metric(target, self.decide(scores), sample_weight=weight)

    def values(self, target, scores, weight, groups):
        """Return two arrays: each sample's mean of top-1 and top-k accuracy, and its weight."""
        known = target >= 0
        own = np.where(known, scores[np.arange(len(target)), target], -np.inf)[:, np.newaxis]
        rank = np.where(known, (scores >= own).sum(axis=1), scores.shape[1] + 1)
        return np.mean([rank <= 1, rank <= self.k], axis=0), weight


@dataclass(frozen=True)
class RankingTask:
    """Task with one score per sample and a decision threshold."""

    classes: np.ndarray
    pos_label: Label
    # Metric of `score`, a function of (positive, scores minus `threshold_`, weight).
    metric: Callable
    # Function of tensors (scores, positive, weight): returns the lowest score predicted positive.
    cut: Callable | None = None
    training: Training | None = None
    models_proba: bool = False  # whether the sigmoid of the score estimates the probability
    # Function of (scores, t): returns a threshold between the score t and the next lower score.
    midway: Callable = midway_below

    is_ranking, n_outputs = True, 1

    @property
    def turned(self):  # whether the positive label is the first class
        return bool(self.pos_label == self.classes[0])

    @property
    def order(self):
        return slice(None, None, -1 if self.turned else None)

    def target(self, y):
        """Return 1 for positives, 0 for negatives and -1 for unknown labels."""
        return np.where(np.isin(y, self.classes), (y == self.pos_label).astype(np.intp), -1)

    def finish(self, scores, target, weight, groups):
        """Return a dict with `threshold_`. With groups, `threshold_` is the median over groups."""
        scores, positive = scores[:, 0], target == 1
        values = [*map(torch.from_numpy, (scores.astype(np.float64), positive, weight))]
        lists = [slice(None)] if groups is None else groups_of_both(positive, groups)
        found = [float(self.cut(*(value[rows] for value in values))) for rows in lists]
        found = [t for t in found if np.isfinite(t)]
        return {"threshold_": self.midway(scores, np.median(found))} if found else {}

    def above(self, scores, fitted=None):
        """Return the scores minus the threshold, as a float64 array of shape (n_samples,)."""
        # In float32, rounding could change a small difference to 0.
        return scores[:, 0].astype(np.float64) - getattr(fitted, "threshold_", 0.0)

    def decide(self, scores, fitted=None):
        # Callbacks of skorch pass no `fitted`: for them, 1 is the positive class.
        y_score = self.above(scores, fitted).astype(scores.dtype)
        return -y_score if self.turned and fitted is not None else y_score

    def labels(self, scores, fitted=None):
        above = self.above(scores, fitted) > 0
        return negative_first(self.classes, self.pos_label)[above.astype(np.intp)]

    def proba(self, scores, fitted=None):
        proba = calibrated_proba(*getattr(fitted, "calibration_", (1.0, 0.0)), scores[:, 0])
        return proba[:, ::-1].copy() if self.turned and fitted is not None else proba

    def calibration_weights(self, target, weight):
        return weight

    def score(self, target, scores, weight, groups=None, fitted=None):
        """Return the metric of `score`, or its mean over the groups with both classes."""
        positive, scores = target == 1, self.above(scores, fitted)
        if groups is None:
            return float(self.metric(positive, scores, weight))
        present = np.flatnonzero(weight > 0)
        each = [
            self.metric(positive[rows], scores[rows], weight[rows])
            for rows in map(present.take, groups_of_both(positive[present], groups[present]))
        ]
        if not each:
            warn("score is NaN: no group has both classes", UndefinedMetricWarning)
        return float(np.mean(each)) if each else float("nan")

    def values(self, target, scores, weight, groups):
        """Return two arrays: the `log_fpr_values` of the samples, and their weights.

        The weighted mean of the first array is the area under the ROC curve with log(false-positive
        rate) as x axis. With groups, it is the mean area of the groups with both classes.
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


def groups_of_both(positive, groups):
    """Return a list of arrays: the sample indices of each group that has both classes."""
    return [rows for rows in rows_of_groups(groups) if 0 < positive[rows].mean() < 1]


def log_fpr_values(positive, scores, weight):
    r"""Return :math:`-\log(\mathrm{FPR}_i) / \log n_-` for each positive i, and 0 for negatives.

    FPR_i is the share of the n_- negatives that score higher than i. Ties count one half. Shares
    below :math:`1 / n_-` are set to 1 / n_-, because only the highest negative determines them.
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
