"""Thresholds from calibration samples with guarantees that hold for a finite number of them."""

import math
from typing import NamedTuple

import numpy as np
from scipy.special import betainccinv, betaincinv
from scipy.stats import binom, hypergeom

# Share of the calibration samples that only say where testing the precision begins. Measured:
# fewer begin at a worse place, more leave too few samples to test with; .15 to .3 hardly differ.
_PLACING_FRACTION = 0.2
# A share of flagged samples less probable than this is no accident, even after years of batches.
_DRIFT_P_VALUE = 1e-6
# Fewer samples of a class may well all be easy.
_SOME_SAMPLES = 20


class Rate(NamedTuple):
    """A share of calibration samples, `count` of `n`, and its exact confidence interval."""

    count: int
    n: int
    value: float
    low: float
    high: float


def calibration_rates(flagged, positive, level):
    """Return the rates of the calibration samples, by name, that have at least one sample."""
    rows = {"flagged": flagged, "fpr": flagged[~positive], "recall": flagged[positive]}
    rows["precision"] = positive[flagged]
    return {
        name: clopper_pearson(np.count_nonzero(each), len(each), level)
        for name, each in rows.items()
        if len(each)
    }


def clopper_pearson(count, n, level):
    """Return the exact two-sided interval at `level` of a rate observed as `count` of `n`.

    The limits are the rates at which a binomial tail that contains `count` is
    (1 - level) / 2 (Clopper and Pearson, 1934): quantiles of a beta distribution, as
    P(Binomial(n, p) >= x) = I_p(x, n - x + 1).
    """
    count, n, tail = int(count), int(n), (1 - level) / 2
    low = betaincinv(count, n - count + 1, tail) if count else 0.0
    high = betainccinv(count + 1, n - count, tail) if count < n else 1.0
    return Rate(count, n, count / n, float(low), float(high))


def n_errors_allowed(n, rate, delta):
    """Return the largest x with P(Binomial(n, rate) <= x) <= delta; -1 if there is none.

    The rate at which samples lie beyond the (x + 1)-th most extreme of n scores is at most
    Beta(x + 1, n - x) distributed, and exceeds `rate` with exactly that probability.
    """
    x = int(binom.ppf(delta, n, rate))
    return x if binom.cdf(x, n, rate) <= delta else x - 1


def n_rows_needed(rate, delta):
    """Return the smallest n for which `n_errors_allowed` is not -1: (1 - rate)^n <= delta."""
    return math.ceil(math.log(delta) / math.log1p(-rate))


def count_threshold(scores, n_flagged):
    """Return a threshold that at most `n_flagged` scores exceed, and a warning or None."""
    if n_flagged >= len(scores):
        return -np.inf, None
    scores = np.sort(scores)[::-1]
    cut = scores[n_flagged]
    above = scores[scores > cut]
    problem = None
    if len(above) < n_flagged:
        problem = (
            f"{(scores == cut).sum()} samples tie at the cut, of which a threshold flags all or "
            f"none: it flags {len(above)} of {len(scores)} calibration samples, not {n_flagged}. "
            "predict_top(X, n) breaks ties by the order of the samples"
        )
    return _between(cut, above.min(initial=np.inf)), problem


def fpr_threshold(scores, positive, fpr, delta):
    """Return a threshold, and a warning if it is infinite as no guarantee is possible.

    P(the share of all negatives above the threshold > fpr) <= delta: the threshold lies at
    or above an order statistic of the n negatives, the umbrella algorithm of Tong, Feng and
    Li (2018). Testing the thresholds one by one from the highest, each with the p-value
    P(Binomial(n, fpr) <= negatives above it), stops at the same place.
    """
    negative = np.sort(scores[~positive])[::-1]
    n_allowed = n_errors_allowed(len(negative), fpr, delta)
    if n_allowed < 0:
        needed = n_rows_needed(fpr, delta)
        return np.inf, _too_few("fpr <=", fpr, delta, needed, negative, "negatives")
    low = negative[n_allowed]
    return _between(low, scores[scores > low].min(initial=np.inf)), None


def recall_threshold(scores, positive, recall, delta):
    """Return a threshold, and a warning if it is infinite as no guarantee is possible.

    P(the share of all positives above the threshold < recall) <= delta, by the order
    statistic of the positives as in `fpr_threshold`.
    """
    found = np.sort(scores[positive])
    n_allowed = n_errors_allowed(len(found), 1 - recall, delta)
    if n_allowed < 0:
        needed = n_rows_needed(1 - recall, delta)
        return -np.inf, _too_few("recall >=", recall, delta, needed, found, "positives")
    high = found[n_allowed]
    below = scores[scores < high].max(initial=-np.inf)
    low = np.nextafter(high, -np.inf) if below == -np.inf else below
    return _between(low, high), None


def precision_threshold(scores, positive, precision, delta, random):
    """Return a threshold, and a warning if it is infinite as no guarantee is possible.

    P(the share of positives above the threshold < precision) <= delta, by learn-then-test
    with fixed sequence testing (Angelopoulos et al., 2021). Precision need not rise with the
    threshold, so a part of the samples says which threshold to test first: the one with most
    evidence there. From it downwards the other samples test "the precision is too low" by
    P(Binomial(samples above, precision) >= positives above) <= delta, until it fails once.
    """
    n_placing = math.ceil(_PLACING_FRACTION * len(scores))
    order = random.permutation(len(scores))
    placing, testing = order[:n_placing], order[n_placing:]
    candidates = np.unique(scores[placing])[::-1]
    lower = candidates[1:]
    # Between scores: thresholds that no sample is likely to hit.
    thresholds = lower + (candidates[:-1] - lower) / 2
    needed = n_rows_needed(1 - precision, delta)
    if len(thresholds) == 0 or len(testing) < needed:
        problem = (
            f"precision >= {precision:g} with probability {1 - delta:g} needs at least {needed} "
            "flagged calibration samples, all positive, in addition to a fifth that chooses the "
            f"first threshold; there are {len(testing)}, and {len(candidates)} different scores in "
            "that fifth"
        )
        return np.inf, problem
    n_above, n_right = _count_above(scores[placing], positive[placing], thresholds)
    first = np.argmin(binom.sf(n_right - 1, n_above, precision))
    n_above, n_right = _count_above(scores[testing], positive[testing], thresholds[first:])
    too_low = binom.sf(n_right - 1, n_above, precision) > delta
    n_passed = len(too_low) if not too_low.any() else np.argmax(too_low)
    if n_passed == 0:
        return np.inf, _too_imprecise(precision, delta, n_right[0], n_above[0], len(scores))
    return thresholds[first + n_passed - 1], None


def separates(scores, positive):
    """Tell whether all positives score above all negatives, and there are some of each."""
    few = min(np.count_nonzero(positive), np.count_nonzero(~positive)) < _SOME_SAMPLES
    return not few and scores[positive].min() > scores[~positive].max()


def share_p_value(count, n, expected):
    """Return the smaller one-sided p-value of `count` of `n` new samples above a threshold.

    Given that ``expected.count`` of ``expected.n`` calibration samples lie above it, any order in
    which the two sets of scores mix is as likely: Fisher's exact test, and the distribution of
    the number of new scores beyond an order statistic of the others.
    """
    total = expected.n + n, expected.n, expected.count + count
    more = hypergeom.cdf(expected.count, *total) if count else 1.0
    fewer = hypergeom.sf(expected.count - 1, *total) if expected.count else 1.0
    return min(more, fewer)


def drift(flagged, expected):
    """Return a warning if the number of flagged samples is wildly improbable, else None."""
    count, n = np.count_nonzero(flagged), len(flagged)
    if share_p_value(count, n, expected) >= _DRIFT_P_VALUE:
        return None
    return (
        f"flagged {100 * count / n:.2g} % of {n} samples, {100 * expected.value:.2g} % expected "
        f"from {expected.n} calibration samples: the scores have drifted, or the classifier was "
        "trained on these samples"
    )


def _between(low, high):
    """Return a number that `high` exceeds and `low` does not: midway, or `low` below infinity."""
    middle = low / 2 + high / 2
    return middle if low <= middle < high else low


def _count_above(scores, positive, thresholds):
    """Return how many samples, and how many positives, lie above each threshold."""
    return [
        len(part) - np.searchsorted(np.sort(part), thresholds, side="right")
        for part in (scores, scores[positive])
    ]


def _too_few(rate, budget, delta, needed, scores, kind):
    return (
        f"{rate} {budget:g} with probability {1 - delta:g} needs at least {needed} {kind} "
        f"among the calibration samples; there are {len(scores)}"
    )


def _too_imprecise(precision, delta, count, n, n_calibration):
    seen = f"above the best threshold {count} of {n} calibration samples were positive"
    problem = (
        f"precision >= {precision:g} with probability {1 - delta:g} could not be shown: {seen}"
    )
    # In steps of a tenth: the share that was seen is no better known than that.
    for factor in 1.1 ** np.arange(50):
        grown = math.ceil(count * factor), math.ceil(n * factor)
        if binom.sf(grown[0] - 1, grown[1], precision) <= delta:
            needed = math.ceil(n_calibration * factor)
            return f"{problem}. At that share it needs about {needed} samples, not {n_calibration}"
    return f"{problem}. More samples will hardly help: use an estimator that ranks better"
