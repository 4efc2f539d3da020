"""Classifiers whose losses are linear programs: AUC, F-score, recall at a given precision."""

import math
from dataclasses import KW_ONLY, dataclass
from typing import ClassVar

import numpy as np
from sklearn.metrics import fbeta_score, roc_auc_score

from sktopk._common._scalars import number, option
from sktopk._common._warnings import warn
from sktopk._training._objectives import BatchLoss
from sktopk.losses import FBetaLoss, PairwiseAUCLoss, RecallAtPrecisionLoss
from sktopk.losses.programs._operating_points import beta_shares
from sktopk.metrics import recall_at_precision_score

from ._parameters import estimator
from ._ranking import RankingClassifier, cuts


@dataclass(eq=False, repr=False)
class BatchClassifier(RankingClassifier):
    """Base class of rankers whose losses compare several samples of each class.

    Parameters
    ----------
    margin : float, default=1.0
        Above 0. Samples on the correct side of the threshold by at least `margin` have no loss.

    References
    ----------
    .. [1] Meng et al. NeurIPS 2021: non-decomposable objectives as linear programs. Section 3.
    """

    _: KW_ONLY
    margin: float = 1.0

    _checks: ClassVar = {"margin": number(0, bounds="neither")}
    _min_positives = 10


@estimator
class AUCClassifier(BatchClassifier):
    r"""Classifier that maximizes the area under the ROC curve.

    .. math::
        \min_f \; \frac{1}{n_+ n_-} \sum_{i : y_i = 1} \sum_{j : y_j = 0}
        \ell\bigl(f(x_j) - f(x_i)\bigr)

    With the hinge, the loss :func:`sktopk.losses.pairwise_auc_loss` is the optimum of a linear
    program [1]_. For several classes, use ``TopKClassifier(sktopk.losses.PairwiseAUCLoss())``.

    `score` is the area under the ROC curve. `threshold_` maximizes the true-positive rate minus the
    false-positive rate on the training set.

    Parameters
    ----------
    surrogate : {"hinge", "quadratic", "squared_hinge", "logistic", "ramp"}, default="hinge"
        Loss of a pair of samples, a function of the negative's score minus the positive's score.
        "squared_hinge" is another name for "quadratic".
    margin : float, default=1.0
        Above 0. With the hinge, a pair of a positive and a negative has no loss if the score of the
        positive is at least `margin` above the score of the negative.
    """

    surrogate: str = "hinge"

    _checks: ClassVar = {
        "surrogate": option("hinge", "quadratic", "squared_hinge", "logistic", "ramp")
    }

    def _objective(self):
        return BatchLoss(PairwiseAUCLoss(margin=self.margin, surrogate=self.surrogate))

    def _metric(self, positive, scores, weight):
        if not (weight[positive].any() and weight[~positive].any()):
            warn("score is NaN: y must have positives and negatives with a weight above 0")
            return np.nan
        return float(roc_auc_score(positive, scores, sample_weight=weight))

    def _cut(self, scores, positive, weight):
        score, found, selected = cuts(scores, positive, weight)
        false = selected - found
        rates = found / found[-1].clamp(min=1e-300) - false / false[-1].clamp(min=1e-300)
        has_both = found[-1] > 0 and false[-1] > 0
        return score[rates.argmax()] if has_both else scores.new_tensor(-math.inf)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.classifier_tags.poor_score = False
        return tags


@estimator
class FScoreClassifier(BatchClassifier):
    r"""Classifier that maximizes the F-score, a compromise between precision and recall.

    .. math::
        F_\beta = \frac{(1 + \beta^2) \, \text{TP}}
        {(1 + \beta^2) \, \text{TP} + \beta^2 \, \text{FN} + \text{FP}}

    The loss :func:`sktopk.losses.fbeta_loss` is an upper bound of 1 - F, in which sums of hinge
    losses replace FN and FP. The bound is the optimum of a linear-fractional program [1]_.

    `score` is the F-score of `predict`. `threshold_` maximizes the F-score on the training set.

    Parameters
    ----------
    beta : float, default=1.0
        Positive weight of recall relative to precision.
    """

    beta: float = 1.0

    _checks: ClassVar = {"beta": number(0, bounds="neither")}

    def _objective(self):
        return BatchLoss(FBetaLoss(beta=self.beta, margin=self.margin))

    def _metric(self, positive, scores, weight):
        predicted = scores > 0
        if not weight[positive | predicted].any():
            warn("score is NaN: no sample of weight > 0 is positive in y or predicted positive")
            return np.nan
        return float(fbeta_score(positive, predicted, beta=float(self.beta), sample_weight=weight))

    def _cut(self, scores, positive, weight):
        score, found, selected = cuts(scores, positive, weight)
        recall, precision = beta_shares(float(self.beta))
        best = (found / (precision * selected + recall * found[-1])).argmax()
        return score[best] if found[-1] > 0 else scores.new_tensor(-math.inf)


@estimator
class RecallAtPrecisionClassifier(BatchClassifier):
    r"""Classifier that maximizes the recall at a given precision.

    .. math::
        \max \; \text{recall} \quad\text{with}\quad \text{precision} \ge p

    The loss :func:`sktopk.losses.recall_at_precision_loss` is the optimum of a linear program [1]_.
    Hinge losses replace the counts of errors. The loss has a penalty if the precision, computed
    with hinge losses, is below p. For a guarantee on new samples, use :class:`BudgetClassifier`.

    `score` is :func:`sktopk.metrics.recall_at_precision_score`. `threshold_` is the lowest value
    with a precision >= p on the training set. If there is none, `threshold_` maximizes precision.

    Parameters
    ----------
    precision : float, default=0.8
        The required precision p, in (0, 1].

    See Also
    --------
    PrecisionAtRecallClassifier : Maximizes the precision at a given recall.
    """

    precision: float = 0.8

    _checks: ClassVar = {"precision": number(0, 1, "right")}

    def _objective(self):
        return BatchLoss(RecallAtPrecisionLoss(precision=self.precision, margin=self.margin))

    def _metric(self, positive, scores, weight):
        return recall_at_precision_score(
            positive, scores, precision=float(self.precision), sample_weight=weight
        )

    def _cut(self, scores, positive, weight):
        score, found, selected = cuts(scores, positive, weight)
        # The factor 1 - 1e-12 tolerates rounding errors in sums of weights.
        reached = found >= float(self.precision) * selected * (1 - 1e-12)
        if reached.any():
            return score[reached.nonzero()[-1, 0]]
        precision = found / selected
        best = (precision == precision.max()).nonzero()[-1, 0]
        return score[best] if found[-1] > 0 else scores.new_tensor(-math.inf)
