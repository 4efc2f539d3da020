"""Accuracy at the top: a threshold that depends on the scores, errors on one side of it."""

from collections.abc import Callable

import numpy as np
import torch

from sktopk._common._public import public
from sktopk._common._scalars import check_call, check_option
from sktopk._estimators._parameters import estimator
from sktopk.losses import KthLargest
from sktopk.losses._accuracy_at_top import ERRORS, check_errors, check_threshold
from sktopk.losses._groups import check_takes_groups
from sktopk.metrics._ranking import check_true, undefined

from ._ranking import TopClassifier


@estimator
@public
class ThresholdClassifier(TopClassifier):
    r"""For a threshold of your own: positives above it, negatives below it, or both.

    .. math::
        \min_f \; \frac{\lambda_1}{n_-} \sum_{i : y_i = 0} \ell(f(x_i) - t)
        + \frac{\lambda_2}{n_+} \sum_{i : y_i = 1} \ell(t - f(x_i)), \qquad t = t(f(x), y)

    Any threshold of :mod:`sktopk.losses` or function of the scores, with
    :func:`sktopk.losses.accuracy_at_top_loss` (eq. 1 and 5 of [1]_). The classifiers with a name
    are this one with a default: take the one :doc:`of your job </top>` if there is one.

    `score` is the share of the positives at or above the threshold of the rows that it is given
    (with ``errors="false_positives"``, of the negatives below it; with both kinds the mean of the
    two shares, weighted as the errors are). `threshold_` lies midway
    between the threshold of the training rows and the next lower score.

    The default network scales the columns inside. A linear model or a `module` of yours needs a
    StandardScaler in front (:func:`make_pipeline`).

    Parameters
    ----------
    threshold : callable, default=KthLargest("all", tau=0.01)
        Called as ``threshold(scores, positive, weight)``: :class:`sktopk.losses.KthLargest`,
        :class:`sktopk.losses.TopMean`, :class:`sktopk.losses.SurrogateQuantile` or a function.
        A rank k is one of the training set; on minibatches, and in pieces of a stream, it stands
        for the same share.
    errors : {"false_negatives", "false_positives"} or dict, default="false_negatives"
        Which rows should be on the other side. A dict such as ``{"false_positives": 0.1,
        "false_negatives": 0.9}`` counts both, with the weights lambda.

    See Also
    --------
    DeepTopPushClassifier, TopPushKClassifier : A threshold among the highest negatives.
    RecallAtKClassifier, PatMatClassifier : One among all rows.
    sktopk.losses.accuracy_at_top_loss : The loss on torch tensors.

    References
    ----------
    .. [1] L. Adam, V. Macha, V. Smidl. DeepTopPush: Simple and Scalable Method for Accuracy at
       the Top. 2020. Eq. 1 and 5.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from sktopk import ThresholdClassifier
    >>> from sktopk.losses import TopMean
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> clf = ThresholdClassifier(TopMean("negatives", k=5), max_epochs=20, random_state=0)
    >>> clf.fit(scale(X), y).predict_top(scale(X), n=5).shape
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

    def _check_groups(self, groups):
        if groups is not None:
            check_takes_groups(self.threshold)

    def _threshold(self):
        return self.threshold

    def _default_scorer(self):
        return share_on_the_right_side


def share_on_the_right_side(classifier, X, y, sample_weight=None):
    """Share of the rows that a `ThresholdClassifier` counts which are on the right side."""
    y_score = torch.from_numpy(classifier._above_threshold(classifier._scores(X))).double()
    positive = torch.from_numpy(check_true(y) == classifier.pos_label_)
    weight = torch.ones(len(positive), dtype=torch.float64)
    if sample_weight is not None:
        weight = torch.from_numpy(np.asarray(sample_weight, dtype=np.float64))
    above = y_score >= classifier._score_threshold(y_score, positive, weight)
    kinds, score = check_errors(classifier.errors), 0.0
    for kind, factor in kinds:
        is_right, counted = (above, positive) if kind == "false_negatives" else (~above, ~positive)
        counted = counted * weight
        if factor and not counted.any():
            return undefined("ThresholdClassifier.score", "y has no row that counts")
        if factor:
            score += factor * float((counted * is_right).sum() / counted.sum())
    return score / sum(factor for _, factor in kinds)
