"""Constraints of BudgetClassifier: thresholds with guarantees, and metrics at the budget."""

import math
from dataclasses import dataclass
from numbers import Integral
from typing import ClassVar

import numpy as np
from scipy.stats import binom

from sktopk._common._scalars import check_k, check_size, number
from sktopk.metrics._top_scorer import METRICS

from ._guarantees import n_errors_allowed, n_rows_needed

# `Precision` chooses the first threshold from this share of samples. 0.15 to 0.3 were similar.
_PLACING_FRACTION = 0.2


@dataclass(frozen=True)
class _Constraint:
    """A bound on a rate. `find_threshold` returns a threshold, and a warning (str) or None."""

    budget: float
    delta: float

    # The metric that `score` returns, and the parameter of this metric that the budget sets.
    metric: ClassVar = ("recall_at_precision", "precision")

    # The values of `budget`, for a message, and the function that checks them.
    allowed: ClassVar = 'a rate in (0, 1): 0.05 is 5 % (only "count" takes a number of samples),'
    check_budget: ClassVar = staticmethod(number(0, 1, "neither"))

    def check(self, name):
        check_size(self.budget, "budget")  # the message below cannot show huge integers
        try:
            self.check_budget(self.budget, "budget")
        except (TypeError, ValueError) as error:
            message = f"budget must be {self.allowed} for constraint={name!r}; got {self.budget!r}"
            raise type(error)(message) from None

    def score(self, y, scores, n_samples, sample_weight):
        name, parameter = self.metric
        level = {parameter: self._level(n_samples)}
        return METRICS[name](y, scores, sample_weight=sample_weight, **level)

    def _level(self, n_samples):
        return self.budget

    def _too_few(self, rate, needed, scores, kind):
        return (
            f"{rate} {self.budget:g} with probability {1 - self.delta:g} needs at least {needed} "
            f"{kind} among the calibration samples; got {len(scores)}"
        )


class Count(_Constraint):
    """A bound on the number or share of flagged samples."""

    metric = ("recall_at_k", "k")
    allowed = "an integer >= 1 or a fraction in (0, 1)"
    check_budget = staticmethod(check_k)

    def find_threshold(self, scores, positive, n_samples, random):
        share = self._share(n_samples)
        if share > 1:
            few = f"budget={self.budget} exceeds n_samples={n_samples}: every sample is flagged"
            return -np.inf, few
        n_flagged = math.floor(round(share * len(scores), 9))
        if n_flagged >= len(scores):
            return -np.inf, None
        scores = np.sort(scores)[::-1]
        cut = scores[n_flagged]
        above = scores[scores > cut]
        few = f"budget={self.budget} is less than one of {len(scores)} calibration samples"
        problem = None if n_flagged else few
        if len(above) < n_flagged:
            problem = (
                f"the threshold flags {len(above)} of {len(scores)} calibration samples instead of "
                f"{n_flagged}, because {(scores == cut).sum()} samples have the same score. Use "
                "predict_top(X, n) to break ties"
            )
        return _between(cut, above.min(initial=np.inf)), problem

    def _level(self, n_samples):
        # A share k of the metric must be below 1. The largest float below 1 selects all samples.
        return min(self._share(n_samples), np.nextafter(1.0, 0.0))

    def _share(self, n_samples):
        return self.budget / n_samples if isinstance(self.budget, Integral) else self.budget


class FalsePositiveRate(_Constraint):
    """An upper bound on the false positive rate: the umbrella algorithm of Tong, Feng and Li."""

    metric = ("true_positive_rate_at_fpr", "fpr")

    def find_threshold(self, scores, positive, n_samples, random):
        negative = np.sort(scores[~positive])[::-1]
        n_allowed = n_errors_allowed(len(negative), self.budget, self.delta)
        if n_allowed < 0:
            needed = n_rows_needed(self.budget, self.delta)
            return np.inf, self._too_few("fpr <=", needed, negative, "negatives")
        low = negative[n_allowed]
        return _between(low, scores[scores > low].min(initial=np.inf)), None


class Recall(_Constraint):
    """A lower bound on recall."""

    metric = ("precision_at_recall", "recall")

    def find_threshold(self, scores, positive, n_samples, random):
        found = np.sort(scores[positive])
        n_allowed = n_errors_allowed(len(found), 1 - self.budget, self.delta)
        if n_allowed < 0:
            needed = n_rows_needed(1 - self.budget, self.delta)
            return -np.inf, self._too_few("recall >=", needed, found, "positives")
        high = found[n_allowed]
        below = scores[scores < high].max(initial=-np.inf)
        low = np.nextafter(high, -np.inf) if below == -np.inf else below
        return _between(low, high), None


class Precision(_Constraint):
    """A lower bound on precision: fixed sequence testing (Angelopoulos et al., 2021)."""

    # Precision is not monotone in the threshold. Therefore one part of the samples chooses the
    # first threshold, which has the smallest p-value. The other part tests this threshold and then
    # lower ones, until a test fails. A threshold passes if
    # P(Binomial(samples above, precision) >= positives above) <= delta.

    def find_threshold(self, scores, positive, n_samples, random):
        precision = self.budget
        n_placing = math.ceil(_PLACING_FRACTION * len(scores))
        order = random.permutation(len(scores))
        placing, testing = order[:n_placing], order[n_placing:]
        candidates = np.unique(scores[placing])[::-1]
        lower = candidates[1:]
        # Put thresholds between scores, where they are unlikely to tie with new scores.
        thresholds = lower + (candidates[:-1] - lower) / 2
        needed = n_rows_needed(1 - precision, self.delta)
        if len(thresholds) == 0 or len(testing) < needed:
            return np.inf, (
                f"precision >= {precision:g} with probability {1 - self.delta:g} needs at least "
                f"{needed} test samples (four fifths of the calibration samples) and two different "
                f"scores in the other fifth; got {len(testing)} test samples and "
                f"{len(candidates)} scores"
            )
        n_above, n_right = _count_above(scores[placing], positive[placing], thresholds)
        first = np.argmin(binom.sf(n_right - 1, n_above, precision))
        n_above, n_right = _count_above(scores[testing], positive[testing], thresholds[first:])
        too_low = binom.sf(n_right - 1, n_above, precision) > self.delta
        n_passed = len(too_low) if not too_low.any() else np.argmax(too_low)
        if n_passed == 0:
            return np.inf, self._too_imprecise(n_right[0], n_above[0], len(scores))
        return thresholds[first + n_passed - 1], None

    def _too_imprecise(self, count, n, n_calibration):
        problem = (
            f"no threshold has precision >= {self.budget:g} with probability {1 - self.delta:g}: "
            f"{count} of {n} calibration samples above the best threshold are positive"
        )
        # Increase the number of samples in steps of 10 %, to at most ten times (1.1 ** 24 = 9.85).
        for factor in 1.1 ** np.arange(25):
            grown = math.ceil(count * factor), math.ceil(n * factor)
            if binom.sf(grown[0] - 1, grown[1], self.budget) <= self.delta:
                needed = f"about {math.ceil(n_calibration * factor)} calibration samples instead of"
                return f"{problem}. Use {needed} {n_calibration}"
        return f"{problem}. Use an estimator with a better ranking, or a lower precision"


class FalseDiscoveryRate(_Constraint):
    """An upper bound on the expected share of negatives among the flagged samples."""

    # Among the calibration scores and minus infinity, the threshold is the lowest t with
    # (1 + negatives above t) / (1 + samples above t) <= fdr. Proof: docs/promises_details.md.

    def find_threshold(self, scores, positive, n_samples, random):
        fdr = self.budget
        # The proof needs a stopping time. Therefore the threshold is a score: the midpoint of two
        # scores would also depend on the higher score.
        thresholds = np.append(-np.inf, np.unique(scores))
        n_above, n_right = _count_above(scores, positive, thresholds)
        # The term 1e-9 allows for rounding: 0.07 * 100 is above 7.
        passes = 1 + n_above - n_right <= fdr * (1 + n_above) + 1e-9
        if passes.any():
            return thresholds[np.argmax(passes)], None
        # The smallest n for which the lowest possible p-value, 1 / (n + 1), is at most fdr.
        needed = math.ceil(round(1 / fdr, 9)) - 1
        if len(scores) < needed:
            few = f"fdr <= {fdr:g} needs at least {needed} calibration samples; got {len(scores)}"
            return np.inf, few
        best = np.argmin((1 + n_above - n_right) / (1 + n_above))
        return np.inf, (
            f"no threshold has fdr <= {fdr:g}: {n_above[best] - n_right[best]} of {n_above[best]} "
            f"calibration samples above the best threshold are negative; {needed} positives above "
            f"all negatives would be enough. Use more than {len(scores)} calibration samples"
        )

    def _level(self, n_samples):
        return 1 - self.budget


def _between(low, high):
    """Return a threshold t with low <= t < high: the midpoint if possible, else `low`."""
    middle = low / 2 + high / 2
    return middle if low <= middle < high else low


def _count_above(scores, positive, thresholds):
    """Return two arrays: the number of samples and of positives above each threshold."""
    parts = scores, scores[positive]
    return [len(each) - np.searchsorted(np.sort(each), thresholds, "right") for each in parts]


CONSTRAINTS = {
    "count": Count,
    "fpr": FalsePositiveRate,
    "precision": Precision,
    "recall": Recall,
    "fdr": FalseDiscoveryRate,
}
