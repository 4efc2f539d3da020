"""Accuracy at the top: a threshold that depends on the scores, errors on one side of it."""

import dataclasses
from dataclasses import KW_ONLY

import numpy as np
import torch

from sktopk._common._scalars import check_number, check_option
from sktopk._common._warnings import warn
from sktopk._estimators._parameters import estimator
from sktopk._training._process import all_objects
from sktopk._training.criteria._top import TopCriterion
from sktopk.losses import KthLargest
from sktopk.losses._accuracy_at_top import ERRORS, SURROGATES, check_threshold
from sktopk.losses._thresholds import in_group
from sktopk.metrics import make_top_scorer

from ._ranking import RankingClassifier, undefined


@estimator
class TopClassifier(RankingClassifier):
    """Threshold, kind of errors and surrogate; subclasses say which threshold and errors.

    Parameters
    ----------
    surrogate : {"quadratic", "hinge", "logistic"}, default="quadratic"
        The function l: max(0, 1 + z)^2 as in the paper, max(0, 1 + z) or log2(1 + exp z).
    buffer_size : int, default=1
        Number of hard rows that every minibatch gets from those before it; 0 for none.
    batch_size : int or "auto", default="auto"
        "auto" is min(128, n_samples). A batch of all rows needs no estimate of the threshold.

    Attributes
    ----------
    history_ : list of dict
        A row per epoch: train_loss, valid_score and valid_loss if there were validation rows,
        dur (seconds), what callbacks recorded, and `threshold`, an array of its estimate in each
        step (with :class:`sktopk.callbacks.TrueThreshold` `true_threshold` beside it).
    """

    _: KW_ONLY
    surrogate: str = "quadratic"
    buffer_size: int = 1

    errors = "false_negatives"

    def _check_params(self):
        super()._check_params()
        check_option(self.surrogate, "surrogate", tuple(SURROGATES))
        check_number(self.buffer_size, "buffer_size", 0, integer=True)

    def _threshold(self):
        """The threshold of the loss, for the rows of the training."""
        raise NotImplementedError(f"{type(self).__name__} must define _threshold")

    def _task(self, dtype):
        threshold, size = self._threshold(), self.buffer_size
        return self._task_of(dtype, TopCriterion(threshold, self.errors, self.surrogate, size), 1)

    def _go_on(self, count, partial):
        super()._go_on(count, partial)
        # Its rank may be clipped to other rows now.
        self.net_.criterion_.threshold = self._threshold()

    def _clip_k(self, partial, total, what):
        """Set `k_`; later pieces of a stream may have the rows that the first one lacks."""
        total = int(sum(all_objects(total)))
        self.k_ = self.k if partial else max(1, min(self.k, total))
        if self.k_ < self.k:
            warn(
                f"k={self.k} must be at most the number of {what} ({total}): k_={self.k_} is used",
            )

    def _scaled(self, k, of, positive, weight):
        """The rank k of the training set among rows that are a part of it."""
        total = self.class_count_
        total = {"all": total.sum(), "negatives": total[0], "positives": total[1]}[of]
        share = float(weight[in_group(positive, of)].sum()) / total
        return max(1, round(k * min(1.0, share)))

    def _score_threshold(self, scores, positive, weight):
        threshold = self._threshold()
        if getattr(threshold, "k", None) is not None:
            # A piece of a stream has a part of the ranks.
            k = self._scaled(threshold.k, threshold.of, positive, weight)
            threshold = dataclasses.replace(threshold, k=k)
        return threshold(scores, positive, weight)

    def _validation_scorer(self, y_val):
        if not hasattr(self, "k_"):
            return self._default_scorer()
        name, params = self._scorer()
        positive = torch.from_numpy(np.asarray(y_val == self.classes_[1]))
        of, weight = self._threshold().of, torch.ones(len(positive))
        return make_top_scorer(name, **{**params, "k": self._scaled(self.k_, of, positive, weight)})

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        # The optimum flags few rows, whatever the labels.
        tags.classifier_tags.poor_score = True
        return tags


@estimator
class ThresholdClassifier(TopClassifier):
    r"""Put the positives above a threshold of your choice, or the negatives below it.

    .. math::
        \min_f \; \frac{1}{n_+} \sum_{i : y_i = 1} \ell(t - f(x_i))
        \quad \text{or} \quad
        \min_f \; \frac{1}{n_-} \sum_{i : y_i = 0} \ell(f(x_i) - t), \qquad t = t(f(x), y)

    Any threshold of :mod:`sktopk.losses` or function of the scores, with
    :func:`sktopk.losses.accuracy_at_top_loss` (eq. 5 of [1]_). The classifiers with a name are
    this one with a default.

    `score` is the share of the positives at or above the threshold of the rows that it is given
    (with ``errors="false_positives"``, of the negatives below it). `threshold_` lies midway
    between the threshold of the training rows and the next lower score.

    Features are not scaled inside: put a StandardScaler in front.

    Parameters
    ----------
    threshold : callable, default=KthLargest("all", tau=0.01)
        Called as ``threshold(scores, positive, weight)``: :class:`sktopk.losses.KthLargest`,
        :class:`sktopk.losses.TopMean`, :class:`sktopk.losses.SurrogateQuantile`,
        :class:`sktopk.losses.FixedThreshold` or a function. A rank k is one of the training
        set; on minibatches, and in pieces of a stream, it stands for the same share.
    errors : {"false_negatives", "false_positives"}, default="false_negatives"
        Which rows should be on the other side.

    See Also
    --------
    DeepTopPushClassifier, TopPushKClassifier : A threshold among the highest negatives.
    RecallAtKClassifier, PatMatClassifier : One among all rows.
    sktopk.losses.accuracy_at_top_loss : The loss on torch tensors.

    References
    ----------
    .. [1] L. Adam, V. Macha, V. Smidl. DeepTopPush: Simple and Scalable Method for Accuracy at
       the Top. 2020. Eq. 5.

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

    threshold: object = KthLargest("all", tau=0.01)
    errors: str = "false_negatives"

    def _check_params(self):
        super()._check_params()
        check_threshold(self.threshold)
        check_option(self.errors, "errors", ERRORS)

    def _threshold(self):
        return self.threshold

    def _default_scorer(self):
        return share_on_the_right_side

    def _validation_scorer(self, y_val):
        return share_on_the_right_side


def share_on_the_right_side(classifier, X, y, sample_weight=None):
    """Share of the rows that a `ThresholdClassifier` counts which are on the right side."""
    y_score = torch.from_numpy(classifier.decision_function(X)).double()
    positive = torch.from_numpy(np.asarray(y) == classifier.classes_[1])
    weight = torch.ones(len(positive), dtype=torch.float64)
    if sample_weight is not None:
        weight = torch.from_numpy(np.asarray(sample_weight, dtype=np.float64))
    above = y_score >= classifier._score_threshold(y_score, positive, weight)
    counted = positive if classifier.errors == "false_negatives" else ~positive
    right = above if classifier.errors == "false_negatives" else ~above
    counted = counted * weight
    if not counted.any():
        return undefined("ThresholdClassifier.score", "y has no row that counts")
    return float((counted * right).sum() / counted.sum())
