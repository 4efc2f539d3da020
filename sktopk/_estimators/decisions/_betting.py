"""Bets against a promise whose capital, if the promise holds, hardly ever grows: e-processes."""

import numpy as np
from scipy.special import gammaln

# Ranks from the top at which calibration scores are cut into bins: finer where one looks.
_CUTS = np.r_[0.01, 0.02, 0.05, np.arange(1, 10) / 10]
# A bin of fewer calibration rows is joined to the next.
_ROWS_OF_A_BIN = 5
# How much of what was seen a bet remembers from one batch to the next.
_MEMORY = np.array([0.5, 0.9, 0.98, 1.0])
# Shares of the largest stake that cannot lose all.
_STAKES = np.array([1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 0.9])


class Capital:
    r"""What bets that start at any time have made of 1: a nonnegative (super)martingale.

    Of the capital 1 a share :math:`R_{t-1} - R_t`, with :math:`R_t = 1 / \log_2(t + 2)`, is put
    into play before batch t, in equal parts on each strategy, and is multiplied by its factors from
    then on; :math:`R_t` waits. So a change late is found nearly as fast as an early one: the
    start costs :math:`2 \log\log t + \log t` of the logarithm of the capital. By Ville's
    inequality the capital reaches c with a probability of at most 1 / c.

    Parameters
    ----------
    shape : tuple of int
        (..., n_strategies), of independent capitals.

    Attributes
    ----------
    log : ndarray of shape (...,)
        Logarithm of the capital.
    """

    def __init__(self, shape):
        self.t = 0
        self._in_play = np.full(shape, -np.inf)
        self.log = np.zeros(shape[:-1])

    def multiply(self, log_factors):
        """Play a batch: factors of each strategy, whose mean is at most 1 if the promise holds."""
        waited, self.t = 1 / np.log2(self.t + 2), self.t + 1
        waits = 1 / np.log2(self.t + 2)
        stake = np.log((waited - waits) / log_factors.shape[-1])
        self._in_play = np.logaddexp(self._in_play, stake) + log_factors
        self.log = np.logaddexp(np.logaddexp.reduce(self._in_play, axis=-1), np.log(waits))


class ScoreBins:
    """Calibration scores, cut into bins that a row like them falls into with known probability.

    Rows that tie get random places, calibration rows and new ones alike. Given n rows, as many of
    their n + 1 gaps belong to a bin as `mass` says.

    Parameters
    ----------
    scores, places : ndarray of shape (n_bins - 1,)
        Where bins are cut, rising.
    mass : ndarray of shape (n_bins,)
    """

    def __init__(self, scores, places, mass):
        self.scores, self.places, self.mass = scores, places, mass

    @classmethod
    def of(cls, scores, random):
        """Return the bins of calibration rows."""
        n = len(scores)
        place = random.uniform(size=n)
        order = np.lexsort((place, scores))
        ranks = np.unique(np.round((1 - _CUTS) * (n + 1)).astype(np.intp))
        kept, last = [], 0
        for rank in ranks:
            if rank - last >= _ROWS_OF_A_BIN <= n + 1 - rank:
                kept.append(rank)
                last = rank
        cut = order[np.asarray(kept, dtype=np.intp) - 1]
        mass = np.diff(np.r_[0, kept, n + 1]).astype(np.float64)
        return cls(scores[cut], place[cut], mass)

    def counts(self, scores, random):
        """Return how many new rows fall into each bin."""
        scores, place = scores[:, None], random.uniform(size=(len(scores), 1))
        above = (scores > self.scores) | ((scores == self.scores) & (place > self.places))
        return np.bincount(above.sum(axis=1), minlength=len(self.mass)).astype(np.float64)


class RowBets:
    r"""Bets that new rows fall into other bins than rows like the calibration rows do.

    If all are exchangeable, the rank of each row among all before it is uniform and independent
    of those before (its conformal p-value), and so the bins are those of Polya's urn: with
    `mass` :math:`a` and counts :math:`c` so far, the next row falls into bin b with probability
    :math:`(a_b + c_b) / (n + 1 + \sum c)`. Each strategy offers another urn, begun with one row
    per bin and filled with what it remembers of the rows before; the factor of a batch is the
    ratio of the probabilities of its counts.

    Parameters
    ----------
    mass : ndarray of shape (n_bins,)
    shape : tuple of int, default=()
        Of independent capitals.
    """

    def __init__(self, mass, shape=()):
        self.urn = np.broadcast_to(mass, (*shape, len(mass))).copy()
        self.remembered = np.zeros((*shape, len(_MEMORY), len(mass)))
        self.capital = Capital((*shape, len(_MEMORY)))

    def update(self, counts):
        """Play a batch with so many rows in each bin, of shape (..., n_bins)."""
        n_bins = self.urn.shape[-1]
        usual = self.urn / self.urn.sum(axis=-1, keepdims=True)
        other = n_bins * usual[..., None, :] + self.remembered
        expected = _log_probability(counts, self.urn)[..., None]
        self.capital.multiply(_log_probability(counts[..., None, :], other) - expected)
        self.urn += counts
        self.remembered = _MEMORY[:, None] * self.remembered + counts[..., None, :]


def _log_probability(counts, urn):
    """Return the log probability that rows drawn from an urn fall into bins in a given order."""
    total, drawn = urn.sum(axis=-1), counts.sum(axis=-1)
    each = (gammaln(urn + counts) - gammaln(urn)).sum(axis=-1)
    return gammaln(total) - gammaln(total + drawn) + each


class RateBets:
    r"""Bets that a mean which should be at most 0 is above it.

    .. math::
        \prod_i \Bigl( 1 + \lambda \frac{g_i}{\pi_i} \Bigr),
        \qquad E[g_i \mid \text{past}] \le 0, \quad g_i \ge -\text{lowest},

    over the rows of known label, with their propensities; all others are a factor of 1. A
    strategy has a share of the largest :math:`\lambda` that cannot lose all, which is known before
    the labels are.
    """

    def __init__(self, lowest, shape=()):
        self.lowest = lowest
        self.capital = Capital((*shape, len(_STAKES)))

    def update(self, gain, propensity):
        """Play a batch of rows, of shape (n_rows,); of none nothing is won or lost."""
        stakes = _STAKES * propensity.min(initial=1.0) / self.lowest
        self.capital.multiply(np.log1p(stakes * (gain / propensity)[:, None]).sum(axis=0))

    def update_counts(self, n_bad, n_good, loss):
        """Play batches of shape (...,), where a bad row gains `loss` and a good one the lowest."""
        bad = np.log1p(_STAKES * loss / self.lowest)
        good = np.log1p(-_STAKES)
        self.capital.multiply(n_bad[..., None] * bad + n_good[..., None] * good)
