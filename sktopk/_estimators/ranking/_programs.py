"""Classifiers trained on losses that are linear programs: F-score, recall at precision, ..."""

from dataclasses import KW_ONLY

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import fbeta_score

from sktopk._common._public import public
from sktopk._common._scalars import check_number, on_host
from sktopk._common._warnings import warn
from sktopk._estimators._parameters import estimator
from sktopk._training.criteria._program import ProgramCriterion
from sktopk.losses import FBetaLoss, PrecisionAtRecallProgramLoss, RecallAtPrecisionLoss
from sktopk.losses._top_quantile import precision_at_recall_threshold
from sktopk.losses.programs._fbeta import beta_shares
from sktopk.metrics._ranking import undefined

from ._ranking import RankingClassifier, cuts, tensors


@estimator
class ProgramClassifier(RankingClassifier):
    """A loss of the batch as a whole; subclasses define `_loss()` and the threshold.

    Parameters
    ----------
    margin : float, default=1.0
        Distance that scores should keep, positive: the unit of the scores.
    min_positives : int, default=10
        Least number of positives in a minibatch, see
        :class:`sktopk.samplers.StratifiedBatchSampler`. Smaller than `batch_size`.
    """

    _: KW_ONLY
    margin: float = 1.0
    min_positives: int = 10

    def _check_params(self):
        super()._check_params()
        check_number(self.margin, "margin", 0, bounds="neither")

    @property
    def _unit(self):
        return self.margin

    def _task(self, dtype):
        return self._task_of(dtype, ProgramCriterion(self._loss()), 1)

    def _has_threshold(self, positive, weight):
        # Groups that lack a class teach nothing, here as in the loss.
        return bool((weight > 0)[positive].any() and (weight > 0)[~positive].any())

    def _warn_of_ranking(self, scores, positive, weight):
        super()._warn_of_ranking(scores, positive, weight)
        criterion = self.net_.criterion_.losses[0]
        n_without = int(criterion.n_without_class)
        if n_without:
            warn(
                f"{n_without} of {int(criterion.n_batches)} batches had rows of one class only, "
                "whose loss is zero: raise batch_size or min_positives",
                ConvergenceWarning,
            )
            criterion.n_without_class.zero_()
            criterion.n_batches.zero_()


@estimator
@public
class FScoreClassifier(ProgramClassifier):
    r"""For labels where precision and recall balance: the F-score at the threshold that suits it.

    .. math::
        F_\beta = \frac{(1 + \beta^2) \, \text{TP}}
        {(1 + \beta^2) \, \text{TP} + \beta^2 \, \text{FN} + \text{FP}}

    The loss is a bound of 1 - F by hinges, a linear-fractional program in the threshold and the
    hinges [1]_, solved in closed form (:func:`sktopk.losses.fbeta_loss`). It could mostly not be
    told from cross-entropy with a tuned threshold: :doc:`the evidence </evidence>`. For a fixed
    number of rows, or so many false alarms, take a class :doc:`of that job </top>`.

    `score` is the F-score of `predict`. `threshold_` is the one of the largest F-score of the
    training rows, midway between two scores.

    The default network scales the columns inside. A linear model or a `module` of yours needs a
    StandardScaler in front (:func:`make_pipeline`).

    Parameters
    ----------
    beta : float, default=1.0
        Weight of recall, positive: recall counts beta times as much as precision.

    See Also
    --------
    RecallAtPrecisionClassifier : A precision to be kept.
    sktopk.losses.fbeta_loss : The loss on torch tensors.

    References
    ----------
    .. [1] Meng et al. NeurIPS 2021: non-decomposable objectives as linear programs. Section 3.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from sktopk import FScoreClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> clf = FScoreClassifier(max_epochs=20, random_state=0).fit(scale(X), y)
    >>> clf.score(scale(X), y) > 0.95
    True
    """

    beta: float = 1.0

    _scores_labels = True

    def _check_params(self):
        super()._check_params()
        check_number(self.beta, "beta", 0, bounds="neither")

    def _loss(self):
        return FBetaLoss(beta=self.beta, margin=self.margin)

    def _default_scorer(self):
        return f_score

    def _score_threshold(self, scores, positive, weight):
        score, found, looked_at = cuts(scores, positive, weight)
        n_positives = found[-1]
        recall, precision = beta_shares(float(self.beta))
        f_beta = found / (precision * looked_at + recall * n_positives)
        return score[f_beta.argmax()]


def f_score(estimator, X, y, sample_weight=None):
    """F-score of the labels that an `FScoreClassifier` predicts."""
    y, predicted = np.asarray(on_host(y, "y")), estimator.predict(X)
    y, predicted = y == estimator.pos_label_, predicted == estimator.pos_label_
    if not (y.any() or predicted.any()):
        return undefined("F-score", "no positives, neither true nor predicted")
    beta = float(estimator.beta)
    return float(fbeta_score(y, predicted, beta=beta, sample_weight=sample_weight))


@estimator
@public
class RecallAtPrecisionClassifier(ProgramClassifier):
    r"""For a list of which 80 % must be hits: positives found while a share p of it is positive.

    .. math::
        \max \; \text{recall} \quad\text{with}\quad \text{precision} \ge p

    The loss bounds both by hinges and pays for a missing precision, as most scores cannot
    have it (:func:`sktopk.losses.recall_at_precision_loss`, a linear program [1]_). It could mostly
    not be told from cross-entropy with a tuned threshold: :doc:`the evidence </evidence>`.
    :class:`BudgetClassifier` promises a precision on new rows.

    `score` is :func:`sktopk.metrics.recall_at_precision_score`. `threshold_` is the lowest at
    which the training rows have the precision, midway between two scores; where none has it,
    the one of the highest precision, with a warning.

    The default network scales the columns inside. A linear model or a `module` of yours needs a
    StandardScaler in front (:func:`make_pipeline`).

    Parameters
    ----------
    precision : float, default=0.8
        The precision p, in (0, 1]. That of the arithmetic is `autocast` here.
    autocast : "bfloat16" or None, default=None
        Precision of the forward pass; losses are computed in float32.

    See Also
    --------
    PrecisionAtRecallClassifier : The other way round.
    sktopk.losses.recall_at_precision_loss : The loss on torch tensors.

    References
    ----------
    .. [1] Meng et al. NeurIPS 2021: non-decomposable objectives as linear programs. Section 3.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from sktopk import RecallAtPrecisionClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> clf = RecallAtPrecisionClassifier(max_epochs=20, random_state=0).fit(scale(X), y)
    >>> clf.score(scale(X), y) > 0.95
    True
    """

    precision: float = 0.8
    _: KW_ONLY
    autocast: str | None = None

    _precision = "autocast"

    def _check_params(self):
        super()._check_params()
        check_number(self.precision, "precision", 0, 1, bounds="right")

    def _loss(self):
        return RecallAtPrecisionLoss(precision=self.precision, margin=self.margin)

    def _scorer(self):
        return "recall_at_precision", {"precision": float(self.precision)}

    def _score_threshold(self, scores, positive, weight):
        score, found, looked_at = cuts(scores, positive, weight)
        # The last digit of a sum of weights must not decide.
        reached = found >= float(self.precision) * looked_at * (1 - 1e-12)
        if reached.any():
            return score[reached.nonzero()[-1, 0]]
        precision = found / looked_at
        return score[(precision == precision.max()).nonzero()[-1, 0]]

    def _warn_of_ranking(self, scores, positive, weight):
        super()._warn_of_ranking(scores, positive, weight)
        if hasattr(self, "n_groups_"):
            return
        _, found, looked_at = cuts(*tensors(scores, positive, weight))
        best = (found / looked_at).max()
        if best < float(self.precision) * (1 - 1e-12):
            warn(
                f"precision={float(self.precision):g} is reached by no threshold on the training "
                f"rows: threshold_ is that of the highest, {best:.3g}",
                ConvergenceWarning,
            )


@estimator
@public
class PrecisionAtRecallProgramClassifier(ProgramClassifier):
    r"""For 80 % found, or another share r, with the fewest negatives, by a linear program.

    .. math::
        \min_f \; \text{false-positive rate} \quad\text{with}\quad \text{recall} \ge r

    The loss bounds the errors on both sides of a free threshold by hinges
    (:func:`sktopk.losses.precision_at_recall_program_loss`, a linear program [1]_), where
    :class:`PrecisionAtRecallClassifier` has one of the scores for its threshold. It could mostly
    not be told from cross-entropy with a tuned threshold: :doc:`the evidence </evidence>`.

    `score` is :func:`sktopk.metrics.precision_at_recall_score`. `threshold_` lies midway between
    the score that a share r of the positives reaches and the next lower score, on the training
    rows, or on the validation rows if `fit` gets X_val and y_val.

    The default network scales the columns inside. A linear model or a `module` of yours needs a
    StandardScaler in front (:func:`make_pipeline`).

    Parameters
    ----------
    recall : float, default=0.8
        The recall r, in (0, 1].

    See Also
    --------
    PrecisionAtRecallClassifier : The same with the threshold at a score.
    sktopk.losses.precision_at_recall_program_loss : The loss on torch tensors.

    References
    ----------
    .. [1] Meng et al. NeurIPS 2021: non-decomposable objectives as linear programs. Section 3.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from sktopk import PrecisionAtRecallProgramClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> clf = PrecisionAtRecallProgramClassifier(max_epochs=20, random_state=0)
    >>> clf.fit(scale(X), y).predict_top(scale(X), n=5).shape
    (5,)
    """

    recall: float = 0.8

    _judged_on_validation = True

    def _check_params(self):
        super()._check_params()
        check_number(self.recall, "recall", 0, 1, bounds="right")

    def _loss(self):
        return PrecisionAtRecallProgramLoss(recall=self.recall, margin=self.margin)

    def _scorer(self):
        return "precision_at_recall", {"recall": self.recall}

    def _score_threshold(self, scores, positive, weight):
        return precision_at_recall_threshold(self.recall)(scores, positive, weight)
