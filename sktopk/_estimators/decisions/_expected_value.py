"""What rows are expected to bring, and which of them a budget of money or minutes pays for."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from sktopk._common._input import check_table
from sktopk._common._scalars import check_nonnegative
from sktopk._common._types import RowsLike
from sktopk._estimators._best_rows import check_groups
from sktopk.metrics._ranking import row_weights, undefined

from ._knapsack import affordable_in_groups, value_per_cost


@dataclass(frozen=True)
class IsotonicProbability:
    """The probability of the positive class at a score, as calibration rows have it.

    The isotonic regression of their labels on their scores, with a positive at the lowest score
    and a negative at the highest besides, so that no probability is 0 or 1. Between two `scores`
    it is on the line through their `proba`.
    """

    scores: np.ndarray
    proba: np.ndarray

    @classmethod
    def fit(cls, scores, positive):
        """Return that of calibration rows."""
        # Imported where it is needed: it takes a tenth of a second.
        from sklearn.isotonic import IsotonicRegression

        scores = np.append(scores.astype(np.float64), [scores.min(), scores.max()])
        labels = np.append(positive.astype(np.float64), [1.0, 0.0])
        regression = IsotonicRegression().fit(scores, labels)
        return cls(regression.X_thresholds_, regression.y_thresholds_)

    def __call__(self, scores):
        """Return the probability at each score."""
        return np.interp(scores, self.scores, self.proba)


class SpendsBudget:
    """What flags the rows of most expected value within a budget.

    The class that has it owes `_scores`, the parameters `constraint`, `per` and `budget`, and of
    a fit for "cost" the attribute `_probability`.
    """

    def expected_value(self, X: RowsLike, value: ArrayLike | None = None) -> np.ndarray:
        """Return what each row is expected to bring if it is looked at, of "cost".

        Costs do not change it: only the choice of rows, as in ``predict_top``, takes them.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_samples, n_features)
        value : array-like of shape (n_samples,), default=None
            What each row is worth if it is positive, nonnegative. None: 1, so that the
            probability of the positive class is returned.

        Returns
        -------
        value : ndarray of shape (n_samples,)
            Nonnegative, in the unit of `value`.

        Raises
        ------
        ValueError
            If the constraint is another one, or a value is not allowed.
        """
        if self.constraint != "cost":
            raise ValueError(f'expected_value is for constraint="cost"; got {self.constraint!r}')
        check_table(X)
        scores = self._scores(X)
        return self._probability(scores) * _worth(value, len(scores))

    # Python's errors about arguments say this: the name by which users know the method.
    expected_value.__qualname__ = "BudgetClassifier.expected_value"

    def _afforded(self, X, groups, cost, value):
        """Return the mask of the rows that are flagged, value per cost, and what to warn of."""
        if groups is not None or self._per == "group":
            check_groups(groups, self._per)
        value = self.expected_value(X, value)
        if cost is None:
            raise ValueError(
                'cost must be passed with constraint="cost": what it takes to look at each row, '
                "in the unit of budget; got None"
            )
        cost = check_nonnegative(cost, "cost", len(value), "one per row of X")
        taken, problems = affordable_in_groups(value, cost, groups, float(self.budget))
        return taken, value_per_cost(value, cost), problems

    def _share_of_value(self, X, y, sample_weight, groups, cost, value):
        """Return which share of the value of the positives, True in y, the flagged rows bring."""
        flagged, _, _ = self._afforded(X, groups, cost, value)
        gain = y * _worth(value, len(y)) * row_weights(sample_weight, len(y), "X")
        if not gain.any():
            return undefined("score", "no positive of positive value")
        return float(gain[flagged].sum() / gain.sum())


def _worth(value, n_samples):
    if value is None:
        return np.ones(n_samples)
    return check_nonnegative(value, "value", n_samples, "one per row of X")
