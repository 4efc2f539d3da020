"""Rankers like Pat&Mat: the threshold depends on a share of all samples, or of one class."""

import math
from dataclasses import KW_ONLY
from functools import partial
from numbers import Integral
from typing import ClassVar

from sktopk._common._scalars import check_number, number
from sktopk.losses import KthLargest, SurrogateQuantile
from sktopk.metrics import (
    precision_at_recall_score,
    recall_at_k_score,
    true_positive_rate_at_fpr_score,
)

from ._parameters import estimator
from ._ranking import TopClassifier, cuts
from ._task import midway_above


def check_share(tau, name, *, of, other):
    """Check that tau is in (0, 1). For an integer, the error recommends the estimator `other`."""
    if isinstance(tau, Integral) and not isinstance(tau, bool) and tau >= 1:
        raise ValueError(
            f"{name} must be a share of the {of}, in (0, 1); got {tau}. For a number of {of}, use "
            f"{other}(k={tau})"
        )
    check_number(tau, name, 0, 1, bounds="neither")


@estimator
class PatMatClassifier(TopClassifier):
    r"""Classifier that finds positives among the share tau of samples with the highest scores.

    .. math::
        \min_f \; \frac{1}{n_+} \sum_{i : y_i = 1} \ell(t - f(x_i)), \qquad
        t = f_{[j]}, \quad j = \max(1, \lceil n \tau \rceil)

    This is Pat&Mat [1]_ with an exact quantile as threshold: t is the j-th highest of the n scores,
    and j is about :math:`n \tau`. If tau is below the share of positives, even a perfect ranking
    can have positives below t, which count as errors. Then use :class:`RecallAtFPRClassifier`.

    `score` is :func:`sktopk.metrics.recall_at_k_score` at the share tau. `threshold_` is between
    the t of the training set (formula above) and the next lower training score. `predict` may
    select more or fewer new samples than the share tau. `predict_top(X, 100)` selects 100 samples.

    Parameters
    ----------
    tau : float, default=0.01
        Share of the samples to review, in (0, 1).

    See Also
    --------
    PatMatNPClassifier : The threshold is a quantile of the negatives.
    sktopk.losses.pat_mat_loss : The loss on torch tensors.
    """

    tau: float = 0.01

    _checks: ClassVar = {"tau": partial(check_share, of="samples", other="RecallAtKClassifier")}

    def _threshold(self):
        return KthLargest("all", tau=self.tau)

    def _metric(self, positive, scores, weight):
        return recall_at_k_score(positive, scores, k=self.tau, sample_weight=weight)


@estimator
class PatMatNPClassifier(TopClassifier):
    r"""Classifier that ranks positives above a share 1 - tau of the negatives.

    .. math::
        \min_f \; \frac{1}{n_+} \sum_{i : y_i = 1} \ell(t - f(x_i)), \qquad
        t = f^-_{[j]}, \quad j = \max(1, \lceil n_- \tau \rceil)

    This is the Neyman-Pearson form of Pat&Mat [1]_. It maximizes the true positives at a
    false-positive rate of about tau. The threshold t is the j-th highest score of the negatives,
    and j is about tau times their number.

    `score` is :func:`sktopk.metrics.true_positive_rate_at_fpr_score` at the rate tau. `threshold_`
    is between t, computed from the training samples, and the highest training score below t.

    Parameters
    ----------
    tau : float, default=0.01
        Share of the negatives above the threshold, in (0, 1).

    See Also
    --------
    PatMatClassifier : The threshold is a quantile of all samples.
    sktopk.losses.pat_mat_np_loss : The loss on torch tensors.
    """

    tau: float = 0.01

    _checks: ClassVar = {"tau": partial(check_share, of="negatives", other="TopPushKClassifier")}

    def _threshold(self):
        return KthLargest("negatives", tau=self.tau)

    def _metric(self, positive, scores, weight):
        return true_positive_rate_at_fpr_score(positive, scores, fpr=self.tau, sample_weight=weight)


@estimator
class RecallAtFPRClassifier(TopClassifier):
    r"""Classifier that finds positives at a limited false-positive rate.

    .. math::
        \min_f \; \frac{1}{n_+} \sum_{i : y_i = 1} \ell(t - f(x_i)), \qquad
        \frac{1}{n_-} \sum_{j : y_j = 0} \ell(f(x_j) - t) = \varphi

    The threshold t solves the second equation, in which :math:`\varphi` is `fpr`. With the hinge,
    the loss is the optimum of a linear program (:func:`sktopk.losses.recall_at_fpr_loss`). With
    ``surrogate="quadratic"``, the loss is that of the original Pat&Mat-NP, which is reference 2 in
    the bibliography of [1]_.

    `score` is :func:`sktopk.metrics.true_positive_rate_at_fpr_score`. `threshold_` is the lowest
    threshold with a false-positive rate of at most `fpr` for the training scores, which an ensemble
    corrects (see `threshold_` below). For a guarantee, use :class:`BudgetClassifier`.

    Parameters
    ----------
    fpr : float, default=0.01
        Limit for the share of negatives above the threshold, in (0, 1).
    surrogate : {"hinge", "quadratic", "logistic"}, default="hinge"
        Loss l(z) of a score. z is the distance to the threshold, negative on the correct side.
        "hinge" (fastest) is max(0, 1 + z), "quadratic" its square, "logistic" log2(1 + exp z).

    See Also
    --------
    PatMatNPClassifier : The threshold is the score of a negative.
    sktopk.losses.SurrogateQuantile : The threshold of this loss.
    """

    fpr: float = 0.01
    _: KW_ONLY
    surrogate: str = "hinge"

    _checks: ClassVar = {"fpr": number(0, 1, "neither")}
    _midway = staticmethod(midway_above)

    def _threshold(self):
        return SurrogateQuantile("negatives", float(self.fpr), self.surrogate)

    def _metric(self, positive, scores, weight):
        return true_positive_rate_at_fpr_score(positive, scores, fpr=self.fpr, sample_weight=weight)

    def _cut(self, scores, positive, weight):
        """Return the highest score s such that more than a share `fpr` of negatives score >= s."""
        score, found, _ = cuts(scores, ~positive, weight)
        # The factor 1 + 1e-10 tolerates rounding errors in sums of weights.
        beyond = found > float(self.fpr) * found[-1] * (1 + 1e-10)
        return score[beyond][0] if beyond.any() else scores.new_tensor(-math.inf)


@estimator
class PrecisionAtRecallClassifier(TopClassifier):
    r"""Classifier that finds a share of the positives with as few negatives as possible.

    .. math::
        \min_f \; \frac{1}{n_-} \sum_{i : y_i = 0} \ell(f(x_i) - t), \qquad
        t = f^+_{[j]}, \quad j = \max(1, \lceil n_+ r \rceil)

    The threshold t is the j-th highest score of the positives, and j is about r times their number.
    At the recall r, few false positives mean a high precision (Prec@Rec, eq. 4 of [1]_). Another
    loss for this task is the linear program :func:`sktopk.losses.precision_at_recall_program_loss`.

    `score` is :func:`sktopk.metrics.precision_at_recall_score`. `threshold_` is between
    the t of the training set (formula above) and the next lower training score.

    Parameters
    ----------
    recall : float, default=0.8
        Share r of the positives to find, in (0, 1].

    See Also
    --------
    RecallAtPrecisionClassifier : Maximizes the recall at a given precision.
    sktopk.losses.precision_at_recall_loss : The loss on torch tensors.
    """

    recall: float = 0.8

    _checks: ClassVar = {"recall": number(0, 1, "right")}
    errors = "false_positives"

    def _threshold(self):
        return KthLargest("positives", tau=float(self.recall))

    def _metric(self, positive, scores, weight):
        return precision_at_recall_score(positive, scores, recall=self.recall, sample_weight=weight)
