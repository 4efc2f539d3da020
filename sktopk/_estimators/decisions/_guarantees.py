"""Thresholds from calibration rows, and what a finite number of rows can promise."""

import math
from numbers import Integral
from typing import NamedTuple

import numpy as np
from scipy.special import betainccinv, betaincinv
from scipy.stats import binom, hypergeom

from sktopk._common._scalars import n_kept

# Share of the calibration rows that only say where the precision is to be tested. Measured:
# fewer begin at a worse place, more leave too few rows to test with; .15 to .3 hardly differ.
_PLACING_FRACTION = 0.2
# A share of flagged rows less probable than this is no accident, even if looked at for years.
_DRIFT_P_VALUE = 1e-6
# Fewer rows of a class may well all be easy.
_SOME_ROWS = 20


class Rate(NamedTuple):
    """A share of calibration rows, `count` of `n`, and its exact confidence interval."""

    count: int
    n: int
    value: float
    low: float
    high: float


def calibrate(scores, positive, n_given, *, constraint, budget, delta, random):
    """Return a threshold on calibration scores, the rates there, and what to warn of.

    `budget` is the bound on the rate that `constraint` names. Of "count" it is a fraction of
    the rows to flag, or so many rows among `n_given`.
    """
    # In float64 there is a number between any two scores in float32.
    scores, problems, everything = scores.astype(np.float64), [], False
    if constraint == "count":
        share = min(budget, 2 * n_given) / n_given if isinstance(budget, Integral) else budget
        if share > 1:
            problems.append(f"budget={budget} but only {n_given} rows")
        everything = share >= 1
        n_flagged = len(scores) if everything else n_kept(share, len(scores))
        threshold, problem = count_threshold(scores, n_flagged)
    elif constraint == "precision":
        threshold, problem = precision_threshold(scores, positive, budget, delta, random)
    else:
        find = {"fpr": fpr_threshold, "recall": recall_threshold}[constraint]
        threshold, problem = find(scores, positive, budget, delta)
    flagged = scores > threshold
    if problem is not None and np.isinf(threshold):
        problem += f". {'No' if threshold > 0 else 'Every'} row will be flagged"
    elif problem is None and not flagged.any():
        problem = "no calibration row lies above the threshold"
    elif problem is None and flagged.all() and not everything:
        problem = "every calibration row lies above the threshold"
    if problem is not None:
        problems.append(problem)
    return float(threshold), calibration_rates(flagged, positive, 1 - delta), problems


def calibration_rates(flagged, positive, level):
    """Return what a threshold does to the calibration rows: rates, by name, of one row or more."""
    rows = {"flagged": flagged, "fpr": flagged[~positive], "recall": flagged[positive]}
    rows["precision"] = positive[flagged]
    return {
        name: clopper_pearson(np.count_nonzero(each), len(each), level)
        for name, each in rows.items()
        if len(each)
    }


def clopper_pearson(count, n, level):
    """Return the exact two-sided interval at `level` of a rate seen as `count` of `n`.

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

    The rate at which rows lie beyond the (x + 1)-th most extreme of n scores is at most
    Beta(x + 1, n - x) distributed, and exceeds `rate` with exactly that probability.
    """
    x = int(binom.ppf(delta, n, rate))
    return x if binom.cdf(x, n, rate) <= delta else x - 1


def n_rows_needed(rate, delta):
    """Return the smallest n for which `n_errors_allowed` is not -1: (1 - rate)^n <= delta."""
    return math.ceil(math.log(delta) / math.log1p(-rate))


def count_threshold(scores, n_flagged):
    """Return a threshold that at most `n_flagged` scores exceed, and what to warn of or None."""
    if n_flagged >= len(scores):
        return -np.inf, None
    scores = np.sort(scores)[::-1]
    cut = scores[n_flagged]
    above = scores[scores > cut]
    problem = None
    if len(above) < n_flagged:
        problem = (
            f"{(scores == cut).sum()} rows tie at the cut, of which a threshold flags all or none: "
            f"it flags {len(above)} of {len(scores)} calibration rows, not {n_flagged}. "
            'per="batch" breaks ties by row order'
        )
    return _between(cut, above.min(initial=np.inf)), problem


def fpr_threshold(scores, positive, fpr, delta):
    """Return a threshold, and what is missing if it is infinite because nothing can be promised.

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
    """Return a threshold, and what is missing if it is infinite because nothing can be promised.

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
    """Return a threshold, and what is missing if it is infinite because nothing can be promised.

    P(the share of positives above the threshold < precision) <= delta, by learn-then-test
    with fixed sequence testing (Angelopoulos et al., 2021). Precision need not rise with the
    threshold, so a part of the rows says which threshold to test first: the one with most
    evidence there. From it downwards the other rows test "the precision is too low" by
    P(Binomial(rows above, precision) >= positives above) <= delta, until it fails once.
    """
    n_placing = math.ceil(_PLACING_FRACTION * len(scores))
    order = random.permutation(len(scores))
    placing, testing = order[:n_placing], order[n_placing:]
    candidates = np.unique(scores[placing])[::-1]
    lower = candidates[1:]
    # Between scores: thresholds that no row is likely to hit.
    thresholds = lower + (candidates[:-1] - lower) / 2
    needed = n_rows_needed(1 - precision, delta)
    if len(thresholds) == 0 or len(testing) < needed:
        problem = (
            f"precision >= {precision:g} with probability {1 - delta:g} needs at least {needed} "
            "flagged calibration rows, all positive, besides a fifth that says where to begin; "
            f"there are {len(testing)}, and {len(candidates)} different scores in that fifth"
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
    few = min(np.count_nonzero(positive), np.count_nonzero(~positive)) < _SOME_ROWS
    return not few and scores[positive].min() > scores[~positive].max()


def share_p_value(count, n, expected):
    """Return the one-sided p-value of `count` of `n` new rows above a threshold, the smaller.

    Given that ``expected.count`` of ``expected.n`` calibration rows lie above it, any order in
    which the two sets of scores mix is as likely: Fisher's exact test, and the distribution of
    the number of new scores beyond an order statistic of the others.
    """
    total = expected.n + n, expected.n, expected.count + count
    more = hypergeom.cdf(expected.count, *total) if count else 1.0
    fewer = hypergeom.sf(expected.count - 1, *total) if expected.count else 1.0
    return min(more, fewer)


def drift(flagged, expected):
    """Return what to warn of if so many flagged rows are wildly improbable, in a list."""
    count, n = np.count_nonzero(flagged), len(flagged)
    if share_p_value(count, n, expected) >= _DRIFT_P_VALUE:
        return []
    return [
        f"flagged {100 * count / n:.2g} % of {n} rows, {100 * expected.value:.2g} % expected "
        f"from {expected.n} calibration rows: the scores have drifted, or the classifier was "
        "trained on these rows"
    ]


def _between(low, high):
    """Return a number that `high` exceeds and `low` does not: midway, or `low` below infinity."""
    middle = low / 2 + high / 2
    return middle if low <= middle < high else low


def _count_above(scores, positive, thresholds):
    """Return how many rows, and how many positives, lie above each threshold."""
    return [
        len(part) - np.searchsorted(np.sort(part), thresholds, side="right")
        for part in (scores, scores[positive])
    ]


def _too_few(rate, budget, delta, needed, rows, kind):
    return (
        f"{rate} {budget:g} with probability {1 - delta:g} needs at least {needed} {kind} "
        f"among the calibration rows; there are {len(rows)}"
    )


def _too_imprecise(precision, delta, count, n, n_calibration):
    seen = f"above the most promising threshold {count} of {n} calibration rows were positive"
    problem = (
        f"precision >= {precision:g} with probability {1 - delta:g} could not be shown: {seen}"
    )
    # In steps of a tenth: the share that was seen is no better known than that.
    for factor in 1.1 ** np.arange(50):
        grown = math.ceil(count * factor), math.ceil(n * factor)
        if binom.sf(grown[0] - 1, grown[1], precision) <= delta:
            needed = math.ceil(n_calibration * factor)
            return f"{problem}. At that share it takes about {needed}, not {n_calibration}"
    return f"{problem}. More rows will hardly help: it takes an estimator that ranks better"
