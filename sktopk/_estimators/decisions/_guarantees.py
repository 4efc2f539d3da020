"""Statistics of calibration samples: rates with intervals, numbers of hits, drift."""

import math
from bisect import bisect_left
from typing import NamedTuple

import numpy as np
from scipy.special import betainccinv, betaincinv
from scipy.stats import binom, false_discovery_control, hypergeom

from sktopk._common._warnings import warn

# Warn of drift below this p-value, which is small because each call of `predict` is a test.
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
    """Return a dict with "flagged", "fpr", "recall" and "precision". Omit rates that are 0 / 0."""
    rows = {"flagged": flagged, "fpr": flagged[~positive], "recall": flagged[positive]}
    rows |= {"precision": positive[flagged]}
    return {name: clopper_pearson(each, level) for name, each in rows.items() if len(each)}


def clopper_pearson(hits, level):
    """Return the share of true values in a mask, with its exact two-sided confidence interval."""
    # Both bounds are quantiles of beta distributions: P(Binomial(n, p) >= x) = I_p(x, n - x + 1).
    count, n, tail = int(np.count_nonzero(hits)), len(hits), (1 - level) / 2
    low = betaincinv(count, n - count + 1, tail) if count else 0.0
    high = betainccinv(count + 1, n - count, tail) if count < n else 1.0
    return Rate(count, n, count / n, float(low), float(high))


def n_errors_allowed(n, rate, delta):
    """Return the largest x with P(Binomial(n, rate) <= x) <= delta, or -1 if there is none."""
    # The probability R that a new score is above the (x + 1)-th largest of n scores is at most
    # Beta(x + 1, n - x), stochastically, so P(R > rate) <= P(Binomial(n, rate) <= x).
    x = int(binom.ppf(delta, n, rate))
    return x if binom.cdf(x, n, rate) <= delta else x - 1


def n_rows_needed(rate, delta):
    """Return the smallest n for which `n_errors_allowed` is not -1: (1 - rate)^n <= delta."""
    return math.ceil(math.log(delta) / math.log1p(-rate))


def conformal_selection(old, positive, new, budget, batches=(slice(None),)):
    """Return a mask of the selected new samples. The FDR in each batch is at most `budget`."""
    # Procedure of Benjamini and Hochberg for the conformal p-values of Jin and Candès (2023).
    negative = np.sort(old[~positive])
    n_above = len(negative) - np.searchsorted(negative, new)
    p = (1 + n_above) / (1 + len(old))
    for batch in batches:
        p[batch] = false_discovery_control(p[batch])
    return p <= budget * (1 + 1e-12)  # allow for rounding: 0.1 * 3 is above 0.3


def hits_interval(old, positive, new, n, delta, random):
    """Return two bounds (level 1 - delta) for the number of positives in the n best new samples."""
    above = _labels_above(old, positive, new, n, random)
    n_above, n_positive = len(above), np.count_nonzero(above)
    numbers, half = range(n + 1), delta / 2

    def tail(function, count, hits):
        return function(count, n_above + n, n_positive + hits, n_above)

    # Both tail probabilities are monotone in the number h of positives: bisect for the bounds.
    low = bisect_left(numbers, True, key=lambda h: tail(hypergeom.sf, n_positive - 1, h) > half)
    high = bisect_left(numbers, True, key=lambda h: tail(hypergeom.cdf, n_positive, h) <= half)
    return low, high - 1


def simultaneous_hits(old, positive, new, ns, delta, rng):
    """Return two arrays: lower and upper bounds of `hits_interval` for each n in `ns`."""
    # All bounds hold together with probability 1 - delta: with j different n, each interval has the
    # level 1 - delta / j (Bonferroni). If n increases by m, positives increase by 0 to m. So the
    # interval at one n also gives bounds at any other n.
    ns = np.minimum(ns, len(new))
    each = {n: hits_interval(old, positive, new, n, delta / len({*ns}), rng) for n in sorted({*ns})}
    low, high = np.transpose([each[n] for n in ns])
    more = np.maximum(0, np.subtract.outer(ns, ns))  # entry (i, j): max(0, ns[i] - ns[j])
    return (low[None] - more.T).max(axis=1), (high[None] + more).min(axis=1)


def _labels_above(old, positive, new, n, random):
    """Return the labels of calibration samples that score above the (n + 1)-th best new sample."""
    if n == len(new):
        return positive
    cut = np.partition(new, -n - 1)[-n - 1]
    above, tied = old > cut, old == cut
    if tied.any():
        # Break ties at random: all orders of the tied samples are equally probable. The relative
        # place of the (n + 1)-th new sample among the tied samples then has a beta distribution.
        n_taken, n_tied = n - np.count_nonzero(new > cut), np.count_nonzero(new == cut)
        place = random.beta(n_taken + 1, n_tied - n_taken)
        above |= tied & (random.random(len(tied)) < place)
    return positive[above]


def separates(scores, positive):
    """Return whether all positives score above all negatives. False if a class has few samples."""
    few = min(np.count_nonzero(positive), np.count_nonzero(~positive)) < _SOME_SAMPLES
    return not few and scores[positive].min() > scores[~positive].max()


def warn_of_drift(flagged, old, what="flagged"):
    """Warn if the share of flagged samples clearly differs between new and calibration samples."""
    count, n, known, n_old = np.sum(flagged), len(flagged), np.sum(old), len(old)
    # The smaller one-sided p-value of Fisher's test, exact for exchangeable samples.
    more = hypergeom.cdf(known, n_old + n, n_old, known + count) if count else 1.0
    fewer = hypergeom.sf(known - 1, n_old + n, n_old, known + count) if known else 1.0
    if min(more, fewer) < _DRIFT_P_VALUE:
        warn(
            f"{100 * count / n:.3g} % of {n} samples are {what}, but {100 * known / n_old:.3g} % "
            f"of {n_old} calibration samples were. Either the scores or the share of positives "
            "changed, or the classifier was trained on the new or on the calibration samples. "
            "Calibrate with samples that are like the new samples and were not used for training"
        )
