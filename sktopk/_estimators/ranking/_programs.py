"""Classifiers trained on losses that are linear programs: F-score, recall at precision."""

from dataclasses import KW_ONLY, dataclass

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning, UndefinedMetricWarning
from sklearn.metrics import fbeta_score

from sktopk._common._scalars import (
    check_number,
    check_option,
)
from sktopk._common._warnings import (
    warn,
)
from sktopk._training._torch_names import (
    PRECISIONS,
)
from sktopk._training.criteria._program import ProgramCriterion
from sktopk.losses import FBetaLoss, RecallAtPrecisionLoss

from ._binary import BinaryNetClassifier

MARGIN = """\
    margin : float, default=1.0
        Distance that scores should keep, positive: the unit of the scores.
"""


@dataclass(eq=False, repr=False)
class ProgramParameters:
    """The parameters of the loss: the last base class, whose fields come first."""

    _: KW_ONLY
    margin: float = 1.0


@dataclass(eq=False, repr=False)
class ProgramClassifier(BinaryNetClassifier, ProgramParameters):
    """A loss of the batch as a whole; subclasses say which, and where the threshold lies."""

    _: KW_ONLY
    min_positives: int = 10

    def __init_subclass__(cls, **kwargs):
        place = "    <training parameters>\n"
        cls.__doc__ = cls.__doc__ and cls.__doc__.replace(place, MARGIN + place)
        super().__init_subclass__(**kwargs)
        cls.__doc__ = cls.__doc__ and cls.__doc__.replace(
            "min_positives : int, default=5", "min_positives : int, default=10"
        )

    def _check_params(self):
        super()._check_params()
        check_number(self.margin, "margin", 0, bounds="neither")

    def _criterion(self):
        return ProgramCriterion(self._loss())


def cuts(scores, positive, weight):
    """The distinct scores from the largest down, and the weights at or above each of them."""
    order = scores.argsort(descending=True, stable=True)
    scores, own = scores[order], weight[order]
    found = (own * positive[order]).cumsum(0)
    looked_at = own.cumsum(0)
    last = torch.cat([scores[1:] != scores[:-1], torch.ones(1, dtype=torch.bool)])
    return scores[last], found[last], looked_at[last]


@dataclass(eq=False, repr=False)
class FScoreClassifier(ProgramClassifier):
    r"""Train for the F-score at the threshold that suits it best.

    .. math::
        F_\beta = \frac{(1 + \beta^2) \, \text{TP}}
        {(1 + \beta^2) \, \text{TP} + \beta^2 \, \text{FN} + \text{FP}}

    The loss is a bound of 1 - F by hinges, a linear-fractional program in the threshold and the
    hinges [1]_, solved in closed form (:func:`sktopk.losses.fbeta_loss`).

    `score` is the F-score of `predict`. `threshold_` is the one of the largest F-score of the
    training rows, midway between two scores.

    Features are not scaled inside: put a StandardScaler in front.

    Parameters
    ----------
    beta : float, default=1.0
        Weight of recall, positive: recall counts beta times as much as precision.
    <training parameters>

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
        f_beta = found / (looked_at + self.beta**2 * n_positives)
        return score[f_beta.argmax()]


def f_score(estimator, X, y, sample_weight=None):
    """F-score of the labels that an `FScoreClassifier` predicts."""
    y, predicted = np.asarray(y), estimator.predict(X)
    if not ((y == estimator.classes_[1]).any() or (predicted == estimator.classes_[1]).any()):
        return undefined("F-score", "no positives, neither true nor predicted")
    return float(
        fbeta_score(
            y == estimator.classes_[1],
            predicted == estimator.classes_[1],
            beta=estimator.beta,
            sample_weight=sample_weight,
        )
    )


def undefined(score, reason):
    """Return NaN with a warning."""
    warn(f"{score}: {reason}, the score is NaN", UndefinedMetricWarning)
    return float("nan")


@dataclass(eq=False, repr=False)
class RecallAtPrecisionClassifier(ProgramClassifier):
    r"""Find as many positives as possible while a share of what is flagged is positive.

    .. math::
        \max \; \text{recall} \quad\text{with}\quad \text{precision} \ge p

    The loss bounds both by hinges and pays for a missing precision, as most scores cannot
    have it (:func:`sktopk.losses.recall_at_precision_loss`, a linear program [1]_).

    `score` is :func:`sktopk.metrics.recall_at_precision_score`. `threshold_` is the lowest at
    which the training rows have the precision, midway between two scores; where none has it,
    the one of the highest precision, with a warning.

    Features are not scaled inside: put a StandardScaler in front.

    Parameters
    ----------
    precision : float, default=0.8
        The precision p, in (0, 1]. That of the arithmetic is `autocast` here.
    <training parameters>

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

    def _check_params(self):
        super()._check_params()
        check_number(self.precision, "precision", 0, 1, bounds="right")
        check_option(self.autocast, "autocast", PRECISIONS)

    def _autocast(self):
        return self.autocast

    def _loss(self):
        return RecallAtPrecisionLoss(precision=self.precision, margin=self.margin)

    def _scorer(self):
        return "recall_at_precision", {"precision": self.precision}

    def _score_threshold(self, scores, positive, weight):
        score, found, looked_at = cuts(scores, positive, weight)
        # The last digit of a sum of weights must not decide.
        reached = found >= self.precision * looked_at * (1 - 1e-12)
        if reached.any():
            return score[reached.nonzero()[-1, 0]]
        precision = found / looked_at
        return score[(precision == precision.max()).nonzero()[-1, 0]]

    def _warn_of_threshold(self, scores, positive, weight):
        _, found, looked_at = cuts(scores, positive, weight)
        best = (found / looked_at).max()
        if best < self.precision * (1 - 1e-12):
            warn(
                f"precision={self.precision:g} is reached by no threshold on the training rows: "
                f"threshold_ is that of the highest, {best:.3g}",
                ConvergenceWarning,
            )


# Its `precision` is the other one.
RecallAtPrecisionClassifier.__doc__ = RecallAtPrecisionClassifier.__doc__.replace(
    """    precision : "bfloat16" or None, default=None
        Autocast of the forward pass; losses are computed in float32.
""",
    "",
).replace(
    """Torch's own generators stay as they are.
""",
    """Torch's own generators stay as they are.
    autocast : "bfloat16" or None, default=None
        Precision of the forward pass; losses are computed in float32.
""",
)
