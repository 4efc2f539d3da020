"""AUCClassifier: the area under the ROC curve, of two classes or of several."""

from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike

from sktopk._common._available import available_if
from sktopk._common._input import check_classes, encode
from sktopk._common._public import public
from sktopk._common._scalars import check_option
from sktopk._common._types import RowsLike
from sktopk._estimators._parameters import estimator
from sktopk._training._process import all_objects
from sktopk._training.criteria._base import BatchCriterion
from sktopk.losses import PairwiseAUCLoss
from sktopk.metrics._ranking import Ranking, check_true, undefined

from ._programs import ProgramClassifier
from ._ranking import cuts

SURROGATES = ("hinge", "quadratic", "squared_hinge", "logistic", "ramp")


def auc_score(estimator, X, y, sample_weight=None):
    """Area under the ROC curve of the scores of an `AUCClassifier`."""
    scores, target = estimator.decision_function(X), encode(estimator.classes_, check_true(y))
    weight = np.ones(len(target)) if sample_weight is None else np.asarray(sample_weight)
    areas = list(areas_of(scores, target, weight, estimator.multi_class))
    if not areas:
        return undefined("AUCClassifier.score", "y has no two known classes")
    return float(np.mean(areas))


def areas_of(scores, target, weight, multi_class):
    """The areas that `multi_class` averages, over the classes that `target` has."""
    present = [c for c in np.unique(target[weight > 0]) if c >= 0]
    if len(present) < 2:
        return
    if scores.ndim == 1:
        known = target >= 0
        yield area(target[known] == 1, scores[known], weight[known])
    elif multi_class == "ovr":
        for c in present:
            yield area(target == c, scores[:, c], weight)
    else:
        for a, b in combinations(present, 2):
            rows = (target == a) | (target == b)
            is_a, own = target[rows] == a, weight[rows]
            if multi_class == "mu":
                yield area(is_a, scores[rows, a] - scores[rows, b], own)
            else:
                yield area(is_a, scores[rows, a], own)
                yield area(~is_a, scores[rows, b], own)


def area(positive, y_score, weight):
    """That of scikit-learn's `roc_auc_score`, which takes thirty times as long of few rows."""
    return Ranking.from_values(positive, y_score, weight).area


def _ranks(classifier):
    """Return True if there is one order of rows, else raise."""
    classes = getattr(classifier, "classes_", (0, 1))
    if not classifier._is_ranking(classes):
        raise AttributeError(
            f"predict_top is not available for {len(classes)} classes, each of which ranks the "
            "rows by a score of its own: take decision_function"
        )
    return True


@estimator
@public
class AUCClassifier(ProgramClassifier):
    r"""For an order of all rows, cut nowhere: the area under the ROC curve, of two classes or more.

    .. math::
        \min_f \; \frac{1}{n_+ n_-} \sum_{i : y_i = 1} \sum_{j : y_j = 0}
        \ell\bigl(f(x_j) - f(x_i)\bigr)

    With the hinge it is the optimum of a linear program [1]_, in closed form
    (:func:`sktopk.losses.pairwise_auc_loss`). Of several classes the mean over classes against
    the rest ("ovr"), over ordered pairs of classes ("ovo") or over pairs with the difference of
    their scores ("mu").

    `score` is this area, the share of pairs in the right order, ties counting a half. Of two
    classes, `threshold_` is the one of the largest sum of true-positive and true-negative rate
    on the training rows, as the area itself favours none; of several, `predict` is the highest
    score and there is no `threshold_`.

    Where only the top is looked at, :class:`PatMatClassifier` is for that. Beside cross-entropy
    this loss was mostly as good, or could not be told from it: :doc:`the evidence </evidence>`.

    The default network scales the columns inside. A linear model or a `module` of yours needs a
    StandardScaler in front (:func:`make_pipeline`).

    Parameters
    ----------
    surrogate : {"hinge", "quadratic", "squared_hinge", "logistic", "ramp"}, default="hinge"
        The function l of the distance; "squared_hinge" is another name of "quadratic", and
        "ramp" is there for comparison only.
    pos_label : int, float, bool or str, default=None
        Of two classes the label of the positives, as for the other classifiers of rows; for more
        than two it must be None.
    multi_class : {"ovr", "ovo", "mu"}, default="ovr"
        What is averaged for more than two classes.
    scoring : str, callable or None, default=None
        Score of the validation rows; None is the metric of `score`. One of probabilities, such
        as "neg_log_loss", needs `calibration`, which is then fitted on these rows after each
        epoch.

    See Also
    --------
    sktopk.losses.pairwise_auc_loss : The loss on torch tensors.

    References
    ----------
    .. [1] Meng et al. NeurIPS 2021: non-decomposable objectives as linear programs. Section 3.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from sktopk import AUCClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> clf = AUCClassifier(max_epochs=20, random_state=0).fit(scale(X), y)
    >>> clf.score(scale(X), y) > 0.98
    True
    """

    surrogate: str = "hinge"
    multi_class: str = "ovr"

    _multi_class = True

    def _check_params(self):
        super()._check_params()
        check_option(self.surrogate, "surrogate", SURROGATES)
        check_option(self.multi_class, "multi_class", ("ovr", "ovo", "mu"))

    def _check_classes(self, y, name="y"):
        classes = check_classes(y, name)
        if self._is_ranking(classes):
            return super()._check_classes(classes, name)
        if self.pos_label is not None:
            raise ValueError(
                f"pos_label must be None where {name} has {len(classes)} classes, none of which is "
                f"positive; got {self.pos_label!r}"
            )
        return classes

    def _is_ranking(self, classes):
        return len(classes) == 2

    def _loss(self):
        return PairwiseAUCLoss(
            margin=self.margin, surrogate=self.surrogate, multi_class=self.multi_class
        )

    def _task(self, dtype):
        if self._is_ranking(self.classes_):
            return super()._task(dtype)
        return self._task_of(dtype, BatchCriterion(self._loss()), len(self.classes_))

    def _weights(self, target, weight):
        if self._is_ranking(self.classes_):
            return super()._weights(target, weight)
        # Of mean 1 over the rows of all processes, for the cross-entropy beside the loss.
        weight = weight / max(all_objects(weight.max()))
        total, n_rows = np.sum(all_objects((weight.sum(), len(weight))), axis=0)
        return weight * (n_rows / total)

    @available_if(_ranks)
    def predict_top(self, X: RowsLike, n: int, groups: ArrayLike | None = None) -> np.ndarray:
        """Return the rows of highest score, where there are two classes.

        Parameters
        ----------
        X : {array, CSR matrix or array, frame, Dataset} of shape (n_samples, n_features)
            Or a stream of such tables, of which only the best rows' scores are kept.
        n : int
            How many, 1 <= n <= n_samples; with groups of each.
        groups : array-like of shape (n_samples,), default=None
            Name of the group of each row.

        Returns
        -------
        index : ndarray of shape (n_top,)
            Row numbers, best first; tied rows in the order of X.
        """
        return super().predict_top(X, n, groups)

    def _score_threshold(self, scores, positive, weight):
        score, found, looked_at = cuts(scores, positive, weight)
        false = looked_at - found
        rates = found / found[-1].clamp(min=1e-300) - false / false[-1].clamp(min=1e-300)
        return score[rates.argmax()]

    def _default_scorer(self):
        return auc_score

    def _validation_scorer(self, y_val, weight):
        # An area hangs on no single row.
        return auc_score
