"""The DeepTopPush family: classifiers that rank positives above a data-dependent threshold."""

from collections.abc import Callable
from dataclasses import KW_ONLY
from numbers import Integral
from typing import ClassVar

import numpy as np
import torch

from sktopk._common._scalars import check_call, check_k, check_option, number
from sktopk._common._warnings import warn
from sktopk.losses import KthLargest
from sktopk.losses._accuracy_at_top import ERRORS, check_errors, check_threshold
from sktopk.losses._groups import check_takes_groups
from sktopk.losses._thresholds import Largest
from sktopk.metrics import positives_at_top_score, recall_at_k_score

from ._parameters import estimator
from ._ranking import TopClassifier
from ._task import midway_above


@estimator
class DeepTopPushClassifier(TopClassifier):
    r"""Classifier that ranks positives above the highest negative.

    .. math::
        \min_f \; \frac{1}{n_+} \sum_{i : y_i = 1} \ell(t - f(x_i)), \qquad
        t = \max_{j : y_j = 0} f(x_j)

    Use this classifier if lists are read from the top to the first negative [1]_. To review a fixed
    number or share of samples, use :class:`RecallAtKClassifier` or :class:`PatMatClassifier`.

    `score` is :func:`sktopk.metrics.positives_at_top_score`. `threshold_` is midway between the
    highest training score of a negative and the next higher score.

    Parameters
    ----------
    buffer_size : int, default=1
        Number of negatives with the highest scores (hard examples) that each network keeps from
        earlier minibatches to estimate the threshold. The method of [1]_ keeps 1. 0 keeps none.

    See Also
    --------
    TopPushKClassifier : Allows k - 1 negatives above the threshold.
    sktopk.losses.top_push_loss : The loss on torch tensors.
    """

    _: KW_ONLY
    buffer_size: int = 1

    _midway = staticmethod(midway_above)

    def _threshold(self):
        return Largest("negatives")

    def _metric(self, positive, scores, weight):
        return positives_at_top_score(positive, scores, sample_weight=weight)


@estimator
class TopPushKClassifier(TopClassifier):
    r"""Classifier that ranks positives above the k-th highest negative.

    .. math::
        \min_f \; \frac{1}{n_+} \sum_{i : y_i = 1} \ell(t - f(x_i)), \qquad
        t = f^-_{[k]}

    The threshold t is the k-th highest score of a negative. The k - 1 negatives above t, which may
    be outliers or mislabeled, do not increase the loss [1]_.

    `score` is :func:`sktopk.metrics.positives_at_top_score` with this k. `threshold_` is midway
    between the k-th largest training score of the negatives and the next lower training score.

    Parameters
    ----------
    k : int, default=5
        Rank of the threshold t. With fewer than k negatives, t is the lowest negative score.

    Attributes
    ----------
    k_ : int
        Value of k that `fit` used.

    See Also
    --------
    sktopk.losses.top_push_k_loss : The loss on torch tensors.
    """

    k: int = 5

    _checks: ClassVar = {"k": number(1, integer=True)}

    def _threshold(self):
        return KthLargest("negatives", k=self.k)

    def _metric(self, positive, scores, weight):
        return positives_at_top_score(positive, scores, k=self.k, sample_weight=weight)


@estimator
class RecallAtKClassifier(TopClassifier):
    r"""Classifier that finds positives among the k best samples, overall or in each group.

    .. math::
        \min_f \; \frac{1}{n_+} \sum_{i : y_i = 1} \ell(t - f(x_i)), \qquad
        t = f_{[k]}

    The threshold t is the k-th highest score. If `fit` gets `groups`, each group has its own t. Use
    this classifier to review a fixed number of samples [1]_, such as 100 per day.

    `score` is :func:`sktopk.metrics.recall_at_k_score`. `threshold_` is between the k-th largest
    training score and the next lower score. `predict` may select more or fewer than k new samples.
    To select exactly n samples, use `predict_top`.

    Parameters
    ----------
    k : int or float, default=100
        Samples to review: an int >= 1 is their number, and a float in (0, 1) is their share.

    Attributes
    ----------
    k_ : int or float
        Value of k that `fit` used.

    See Also
    --------
    sktopk.losses.recall_at_k_loss : The loss on torch tensors.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sktopk import RecallAtKClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> day = np.arange(len(y)) // 100
    >>> clf = RecallAtKClassifier(k=10, n_estimators=2, random_state=0).fit(X, y, groups=day)
    >>> clf.predict_top(X, n=10, groups=day).shape
    (60,)
    """

    k: int | float = 100

    _checks: ClassVar = {"k": check_k}

    def _threshold(self):
        rank = {"k": self.k} if isinstance(self.k, Integral) else {"tau": float(self.k)}
        return KthLargest("all", **rank)

    def _metric(self, positive, scores, weight):
        return recall_at_k_score(positive, scores, k=self.k, sample_weight=weight)


@estimator
class ThresholdClassifier(TopClassifier):
    r"""Classifier that minimizes errors at a threshold that depends on the scores.

    .. math::
        \min_f \; \frac{\lambda_1}{n_-} \sum_{i : y_i = 0} \ell(f(x_i) - t)
        + \frac{\lambda_2}{n_+} \sum_{i : y_i = 1} \ell(t - f(x_i)), \qquad t = t(f(x), y)

    where :math:`\ell` is the surrogate and `errors` sets the weights :math:`\lambda`. The first sum
    penalizes negatives above the threshold t, the second sum positives below t. Most classifiers
    for accuracy at the top are special cases ([1]_, eq. 1, 5).

    `score` computes t from the samples in X. If `errors` is "false_negatives", `score` returns the
    share of positives at or above t. If `errors` is "false_positives", it returns the share of
    negatives below t. If `errors` is a dict, it returns the weighted mean of both shares.
    `threshold_` is midway between t on the training set and the next lower score.

    Parameters
    ----------
    threshold : callable, default=KthLargest("all", tau=0.01)
        :class:`sktopk.losses.KthLargest` or :class:`sktopk.losses.TopMean` (their `k` counts
        samples of the training set, not of a minibatch), :class:`sktopk.losses.SurrogateQuantile`,
        or a function ``threshold(scores, positive, weight)`` that returns the threshold. If c is
        added to all scores, the threshold must increase by c.
    errors : {"false_negatives", "false_positives"} or dict, default="false_negatives"
        Errors in the loss: positives below or negatives above the threshold. For both, pass a dict:
        ``{"false_positives": 0.1, "false_negatives": 0.9}`` sets lambda_1 = 0.1, lambda_2 = 0.9.

    See Also
    --------
    sktopk.losses.accuracy_at_top_loss : The loss on torch tensors.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sktopk import ThresholdClassifier
    >>> from sktopk.losses import TopMean
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> clf = ThresholdClassifier(TopMean("negatives", k=5), n_estimators=2, random_state=0)
    >>> clf.fit(X, y).predict_top(X, n=5).shape
    (5,)
    """

    threshold: Callable = KthLargest("all", tau=0.01)
    errors: str | dict[str, float] = "false_negatives"

    def _check_params(self):
        super()._check_params()
        check_threshold(self.threshold)
        check_call(self.threshold, "threshold", "scores", "positive", "weight")
        if not isinstance(self.errors, dict):
            check_option(self.errors, "errors", ERRORS)
        check_errors(self.errors)

    def _make_task(self):
        if hasattr(self, "n_groups_"):
            check_takes_groups(self.threshold)
        return super()._make_task()

    def _threshold(self):
        return self.threshold

    def _metric(self, positive, scores, weight):
        scores = torch.from_numpy(scores).double()
        positive, weight = torch.from_numpy(positive), torch.from_numpy(weight).double()
        is_right = positive == (scores >= self.threshold(scores, positive, weight))
        kinds, score = [each for each in check_errors(self.errors) if each[1]], 0.0
        for kind, factor in kinds:
            counted = weight * (positive if kind == "false_negatives" else ~positive)
            if not counted.any():
                needed = "positives" if kind == "false_negatives" else "negatives"
                warn(f"score is NaN: y must have {needed} with a weight above 0")
                return np.nan
            score += factor * float((counted * is_right).sum() / counted.sum())
        return score / sum(factor for _, factor in kinds)
