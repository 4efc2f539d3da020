"""Constraints of BudgetClassifier.

Each class has these methods:

- ``check(name)``: checks the budget;
- ``find_threshold(scores, positive, n_samples, random)``: returns a threshold that satisfies the
  constraint, and a warning or None. `scores` are the scores of the calibration samples;
- ``score(y, scores, n_samples, sample_weight)``: returns a metric of the ranking at the budget;
- ``choose(scores, threshold, calibration, groups)``: returns the mask of the samples in a batch to
  review. `calibration` contains the scores and labels of the calibration samples.
"""

from dataclasses import dataclass
from numbers import Integral

import numpy as np

from sktopk._common._groups import encode_groups
from sktopk._common._scalars import check_k, check_number, check_size, n_kept
from sktopk.metrics import (
    precision_at_recall_score,
    recall_at_k_score,
    recall_at_precision_score,
    true_positive_rate_at_fpr_score,
)

from ._guarantees import (
    count_threshold,
    fdr_threshold,
    fpr_threshold,
    precision_threshold,
    recall_threshold,
)
from ._selection import conformal_selection


@dataclass(frozen=True)
class _Constraint:
    """A bound on a rate, in (0, 1)."""

    budget: float
    delta: float

    def check(self, name):
        self._check(name, check_number, "a rate in (0, 1)", 0, 1, bounds="neither")

    def choose(self, scores, threshold, calibration, groups):
        if groups is not None:
            raise ValueError(
                'groups must be None if n is None, unless constraint="fdr", because all groups '
                "have the same threshold; got groups"
            )
        return scores.astype(np.float64) > threshold

    def _check(self, name, check, allowed, *bounds, **options):
        try:
            check(self.budget, "budget", *bounds, **options)
        except (TypeError, ValueError) as error:
            message = f"budget must be {allowed} for constraint={name!r}; got {self.budget!r}"
            raise type(error)(message) from None


class Count(_Constraint):
    """A bound on the number or share of flagged samples."""

    def check(self, name):
        check_size(self.budget, "budget")
        self._check(name, check_k, "an integer >= 1 or a fraction in (0, 1)")

    def find_threshold(self, scores, positive, n_samples, random):
        share = self._share(n_samples)
        if share >= 1:
            few = f"budget={self.budget} exceeds n_samples={n_samples}: every sample is flagged"
            return -np.inf, few if share > 1 else None
        return count_threshold(scores, n_kept(share, len(scores)))

    def score(self, y, scores, n_samples, sample_weight):
        share = self._share(n_samples)
        k = share if share < 1 else len(y)
        return recall_at_k_score(y, scores, k=k, sample_weight=sample_weight)

    def _share(self, n_samples):
        return self.budget / n_samples if isinstance(self.budget, Integral) else self.budget


class FalsePositiveRate(_Constraint):
    """An upper bound on the false positive rate."""

    def find_threshold(self, scores, positive, n_samples, random):
        return fpr_threshold(scores, positive, self.budget, self.delta)

    def score(self, y, scores, n_samples, sample_weight):
        return true_positive_rate_at_fpr_score(
            y, scores, fpr=self.budget, sample_weight=sample_weight
        )


class Recall(_Constraint):
    """A lower bound on recall."""

    def find_threshold(self, scores, positive, n_samples, random):
        return recall_threshold(scores, positive, self.budget, self.delta)

    def score(self, y, scores, n_samples, sample_weight):
        return precision_at_recall_score(y, scores, recall=self.budget, sample_weight=sample_weight)


class Precision(_Constraint):
    """A lower bound on precision."""

    def find_threshold(self, scores, positive, n_samples, random):
        return precision_threshold(scores, positive, self.budget, self.delta, random)

    def score(self, y, scores, n_samples, sample_weight):
        return recall_at_precision_score(
            y, scores, precision=self.budget, sample_weight=sample_weight
        )


class FalseDiscoveryRate(_Constraint):
    """An upper bound on the expected share of negatives among the flagged samples."""

    def find_threshold(self, scores, positive, n_samples, random):
        return fdr_threshold(scores, positive, self.budget)

    def score(self, y, scores, n_samples, sample_weight):
        return recall_at_precision_score(
            y, scores, precision=1 - self.budget, sample_weight=sample_weight
        )

    def choose(self, scores, threshold, calibration, groups):
        group = np.zeros(len(scores), int) if groups is None else encode_groups(groups, len(scores))
        chosen = np.zeros(len(scores), dtype=bool)
        for i in range(group.max(initial=-1) + 1):
            own = group == i
            chosen[own] = conformal_selection(*calibration, scores[own], self.budget)
        return chosen


CONSTRAINTS = {
    "count": Count,
    "fpr": FalsePositiveRate,
    "precision": Precision,
    "recall": Recall,
    "fdr": FalseDiscoveryRate,
}
