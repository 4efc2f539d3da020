"""Thresholds that are computed from calibration samples and have guarantees."""

import math
from typing import NamedTuple

import numpy as np
from scipy.special import betainccinv, betaincinv
from scipy.stats import binom, hypergeom

from ._selection import n_samples_needed

# Share of the calibration samples from which `precision_threshold` chooses the first threshold. In
# benchmarks, 0.15 to 0.3 gave similar results.
_PLACING_FRACTION = 0.2
# `predict` warns of drift below this p-value. It is small, because each call is another test.
_DRIFT_P_VALUE = 1e-6
# Warn about perfectly separated classes only if each class has at least this number of samples.
_SOME_SAMPLES = 20


class Rate(NamedTuple):
    """A rate `value` = `count` / `n`, with the exact confidence interval [`low`, `high`]."""

    count: int
    n: int
    value: float
    low: float
    high: float


def calibration_rates(flagged, positive, level):
    """Return a dict {name: Rate} for the calibration samples. Omit rates with n = 0."""
    rows = {"flagged": flagged, "fpr": flagged[~positive], "recall": flagged[positive]}
    rows["precision"] = positive[flagged]
    return {
        name: clopper_pearson(np.count_nonzero(each), len(each), level)
        for name, each in rows.items()
        if len(each)
    }


def clopper_pearson(count, n, level):
    """Return the exact two-sided confidence interval of the rate `count` / `n`.

    The limits are quantiles of a beta distribution: P(Binomial(n, p) >= x) = I_p(x, n - x + 1).
    """
    count, n, tail = int(count), int(n), (1 - level) / 2
    low = betaincinv(count, n - count + 1, tail) if count else 0.0
    high = betainccinv(count + 1, n - count, tail) if count < n else 1.0
    return Rate(count, n, count / n, float(low), float(high))


def n_errors_allowed(n, rate, delta):
    """Return the largest x with P(Binomial(n, rate) <= x) <= delta, or -1 if there is none.

    The probability R that a new score is above the (x + 1)-th largest of n scores is stochastically
    at most Beta(x + 1, n - x), so P(R > rate) <= P(Binomial(n, rate) <= x).
    """
    x = int(binom.ppf(delta, n, rate))
    return x if binom.cdf(x, n, rate) <= delta else x - 1


def n_rows_needed(rate, delta):
    """Return the smallest n that allows 0 errors in n samples: (1 - rate)^n <= delta."""
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
            f"the threshold flags {len(above)} of {len(scores)} calibration samples instead of "
            f"{n_flagged}, because {(scores == cut).sum()} samples have the same score. Use "
            "predict_top(X, n) to break ties"
        )
    return _between(cut, above.min(initial=np.inf)), problem


def fpr_threshold(scores, positive, fpr, delta):
    """Return a threshold with P(false positive rate > fpr) <= delta, and a warning or None.

    The threshold is at or above an order statistic of the n negatives (umbrella algorithm of Tong,
    Feng and Li, 2018), and infinite with too few negatives.
    """
    negative = np.sort(scores[~positive])[::-1]
    n_allowed = n_errors_allowed(len(negative), fpr, delta)
    if n_allowed < 0:
        needed = n_rows_needed(fpr, delta)
        return np.inf, _too_few("fpr <=", fpr, delta, needed, negative, "negatives")
    low = negative[n_allowed]
    return _between(low, scores[scores > low].min(initial=np.inf)), None


def recall_threshold(scores, positive, recall, delta):
    """Return a threshold with P(recall < `recall`) <= delta, and a warning or None.

    The threshold is below an order statistic of the positives, as in `fpr_threshold`.
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
    """Return a threshold with P(precision < `precision`) <= delta, and a warning or None.

    This is fixed sequence testing (Angelopoulos et al., 2021). One part of the samples chooses the
    first threshold, with the smallest p-value, because precision is not monotone in the threshold.
    The other part tests it, then the next lower ones, until a test fails. A threshold passes if
    P(Binomial(samples above, precision) >= positives above) <= delta.
    """
    n_placing = math.ceil(_PLACING_FRACTION * len(scores))
    order = random.permutation(len(scores))
    placing, testing = order[:n_placing], order[n_placing:]
    candidates = np.unique(scores[placing])[::-1]
    lower = candidates[1:]
    # Put thresholds between scores, where they are unlikely to tie with new scores.
    thresholds = lower + (candidates[:-1] - lower) / 2
    needed = n_rows_needed(1 - precision, delta)
    if len(thresholds) == 0 or len(testing) < needed:
        problem = (
            f"precision >= {precision:g} with probability {1 - delta:g} needs at least {needed} "
            "samples in four fifths of the calibration samples, and two different scores in the "
            f"other fifth; got {len(testing)} samples and {len(candidates)} scores"
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


def fdr_threshold(scores, positive, fdr):
    r"""Return a threshold whose expected false discovery rate is <= `fdr`, and a warning or None.

    The threshold is the lowest t with (1 + negatives above t) / (1 + samples above t) <= fdr, among
    the calibration scores and minus infinity.

    Proof. Add a new sample to the n calibration samples, and let T be the lowest t with
    negatives above t <= fdr * (samples above t) among the n + 1 samples. If the new sample is
    negative and above the threshold, T is the threshold. Let q(t) be the share of negatives and
    p(t) the share of samples above t in the population. By exchangeability, E[q(threshold)] =
    E[w] with w = (negatives above T) / ((n + 1) p(T)). As t increases, (negatives above t) /
    ((n + 1) p(t) q(t)) and (positives above t) / ((n + 1) p(t) (1 - q(t))) are martingales of mean
    1, and T is a stopping time. So E[w / q(T)] <= 1 and E[w / (1 - q(T))] <= fdr / (1 - fdr). With
    fdr^2 / q + (1 - fdr)^2 / (1 - q) >= 1 for all q, E[w] <= fdr^2 + (1 - fdr) fdr = fdr.
    """
    # A threshold between two scores would depend on the higher one, and T would not be a stopping
    # time. Use the lower score itself.
    thresholds = np.append(-np.inf, np.unique(scores))
    n_above, n_right = _count_above(scores, positive, thresholds)
    # Allow for rounding: 0.07 * 100 is above 7.
    passes = 1 + n_above - n_right <= fdr * (1 + n_above) + 1e-9
    if passes.any():
        return thresholds[np.argmax(passes)], None
    needed = n_samples_needed(fdr)
    if len(scores) < needed:
        few = f"fdr <= {fdr:g} needs at least {needed} calibration samples; got {len(scores)}"
        return np.inf, few
    best = np.argmin((1 + n_above - n_right) / (1 + n_above))
    return np.inf, (
        f"no threshold has fdr <= {fdr:g}: {n_above[best] - n_right[best]} of {n_above[best]} "
        f"calibration samples above the best threshold are negative, where {needed} positives "
        f"without negatives would do. Use more than {len(scores)} calibration samples"
    )


def separates(scores, positive):
    """Return True if all positives score above all negatives, with >= 20 samples per class."""
    few = min(np.count_nonzero(positive), np.count_nonzero(~positive)) < _SOME_SAMPLES
    return not few and scores[positive].min() > scores[~positive].max()


def drift(flagged, expected):
    """Return a warning if far more or fewer samples are flagged than in calibration, or None."""
    count, n = np.count_nonzero(flagged), len(flagged)
    # The smaller one-sided p-value of Fisher's test, exact for exchangeable samples.
    total = expected.n + n, expected.n, expected.count + count
    more = hypergeom.cdf(expected.count, *total) if count else 1.0
    fewer = hypergeom.sf(expected.count - 1, *total) if expected.count else 1.0
    if min(more, fewer) >= _DRIFT_P_VALUE:
        return None
    return (
        f"{100 * count / n:.3g} % of {n} samples are flagged, but {100 * expected.value:.3g} % of "
        f"{expected.n} calibration samples were: the scores have drifted, or the classifier was "
        "trained on one of these sets. Calibrate again with recent samples"
    )


def _between(low, high):
    """Return a threshold t with low <= t < high: the midpoint if possible, else `low`."""
    middle = low / 2 + high / 2
    return middle if low <= middle < high else low


def _count_above(scores, positive, thresholds):
    """Return two arrays: the number of samples and of positives above each threshold."""
    return [
        len(part) - np.searchsorted(np.sort(part), thresholds, side="right")
        for part in (scores, scores[positive])
    ]


def _too_few(rate, budget, delta, needed, scores, kind):
    return (
        f"{rate} {budget:g} with probability {1 - delta:g} needs at least {needed} {kind} "
        f"among the calibration samples; got {len(scores)}"
    )


def _too_imprecise(precision, delta, count, n, n_calibration):
    problem = (
        f"no threshold has precision >= {precision:g} with probability {1 - delta:g}: {count} of "
        f"{n} calibration samples above the best threshold are positive"
    )
    # Steps of 10 % are enough, because the share of positives is only an estimate.
    for factor in 1.1 ** np.arange(50):
        grown = math.ceil(count * factor), math.ceil(n * factor)
        if binom.sf(grown[0] - 1, grown[1], precision) <= delta:
            needed = math.ceil(n_calibration * factor)
            return f"{problem}. Use about {needed} calibration samples instead of {n_calibration}"
    return f"{problem}. Use an estimator with a better ranking, or a lower precision"
