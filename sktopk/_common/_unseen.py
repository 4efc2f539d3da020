"""Scores of training samples, mapped to the scores of new samples."""

import numpy as np

# The mapping requires at least this number of different held-out scores per class and member.
LEAST_UNSEEN = 3


def scores_as_unseen(scores, unseen, target, weight):
    r"""Return training scores with the distribution of the ensemble's scores of new samples.

    The score of a new sample is the mean over all ensemble members, but only few members have held
    out a given training sample. Let :math:`F_{mc}` be the distribution of the scores that member m
    gives its training samples of class c, and :math:`G_{mc}` the same for its held-out samples. A
    score s of a training sample is mapped to

    .. math::
        s + G_{mc}^{-1}(p) - F_{mc}^{-1}(p), \qquad p = F_{mc}(s).

    The difference is interpolated between the ranks of held-out samples, and constant beyond them.

    Parameters
    ----------
    scores : ndarray of shape (n_samples, n_members)
    unseen : ndarray of bool of shape (n_samples, n_members)
        Whether a member has held out the sample. Each sample is held out by at least one member.
    target : ndarray of shape (n_samples,)
        Class labels or indices.
    weight : ndarray of shape (n_samples,)
        A sample of weight 2 counts twice, a sample of weight 0 does not count.

    Returns
    -------
    scores : ndarray of shape (n_samples,), float64
        Mean of the mapped scores over members. If a member has held out fewer than three samples of
        a class, the scores of this class are means over the members that held out the sample.
    """
    scores = np.array(scores, dtype=np.float64)
    for label in np.unique(target):
        of_class = target == label
        there = of_class & (weight > 0)
        if min(_n_distinct(own[left_out]) for own, left_out in _of_class(scores, unseen, there)) < (
            LEAST_UNSEEN
        ):
            few = np.where(unseen[of_class], scores[of_class], np.nan)
            scores[of_class] = np.nanmean(few, axis=1, keepdims=True)
            continue
        for own, left_out in zip(scores.T, unseen.T, strict=True):
            seen, other = of_class & ~left_out, of_class & left_out
            if weight[seen].sum() > 0:
                own[seen] += _gap(own[seen], weight[seen], own[other], weight[other])
    return scores.mean(axis=1)


def _of_class(scores, unseen, there):
    """Return pairs of scores and held-out masks, one per member, for samples of a class."""
    return zip(scores[there].T, unseen[there].T, strict=True)


def _n_distinct(scores):
    """Return the number of different scores up to rounding, so that duplicates count once."""
    return len(np.unique(np.round(scores / max(np.abs(scores).max(initial=0.0), 1e-300), 9)))


def _gap(seen, weight, other, other_weight):
    """Return for each score how much larger the score of the same rank in `other` is."""
    values, ranks = _curve(seen, weight)
    others, other_ranks = _curve(other, other_weight)
    gap = others - np.interp(other_ranks, ranks, values)
    # Interpolate the gap between ranks. np.interp is constant beyond the first and last rank.
    return np.interp(np.interp(seen, values, ranks), other_ranks, gap)


def _curve(scores, weight):
    """Return the distinct scores, and the share of weight below each plus half its own share."""
    values, place = np.unique(scores[weight > 0], return_inverse=True)
    mass = np.bincount(place, weight[weight > 0])
    return values, (mass.cumsum() - mass / 2) / mass.sum()
