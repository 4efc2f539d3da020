"""Correction of training scores, so that they have the distribution of scores of new samples."""

import numpy as np

# Minimum number of different held-out scores per class and ensemble member for the correction.
LEAST_UNSEEN = 3


def scores_as_unseen(scores, unseen, target, weight):
    r"""Return training scores with the distribution of the ensemble's scores of new samples.

    The ensemble returns the mean score of its members. Most members have trained on a training
    sample, and therefore score the sample differently from a new one. Let :math:`F_{mc}` and
    :math:`G_{mc}` be the distributions of the scores of member m for its training samples and its
    held-out samples of class c. The score s of a training sample is mapped to

    .. math::
        s + G_{mc}^{-1}(p) - F_{mc}^{-1}(p), \qquad p = F_{mc}(s).

    The correction is interpolated between the ranks of held-out samples, and constant beyond them.

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
        Mean of the mapped scores over members. A class with fewer than three different held-out
        scores in a member is not mapped: its samples get the mean over members that held them out.
    """
    scores = np.array(scores, dtype=np.float64)
    for label in np.unique(target):
        of_class = target == label
        there = of_class & (weight > 0)
        if min(_n_distinct(own[left_out]) for own, left_out in _members(scores, unseen, there)) < (
            LEAST_UNSEEN
        ):
            few = np.where(unseen[of_class], scores[of_class], np.nan)
            scores[of_class] = np.nanmean(few, axis=1, keepdims=True)
            continue
        for own, left_out in zip(scores.T, unseen.T, strict=True):
            seen, other = of_class & ~left_out, of_class & left_out
            if weight[seen].sum() > 0:
                own[seen] += _shift(own[seen], weight[seen], own[other], weight[other])
    return scores.mean(axis=1)


def _members(scores, unseen, there):
    """Return one pair per ensemble member: scores and held-out mask of the samples `there`."""
    return zip(scores[there].T, unseen[there].T, strict=True)


def _n_distinct(scores):
    """Return the number of different scores. Scores that are equal up to rounding count once."""
    return len(np.unique(np.round(scores / max(np.abs(scores).max(initial=0.0), 1e-300), 9)))


def _shift(seen, weight, other, other_weight):
    """Return, for each score in `seen`, the difference to the score of equal rank in `other`."""
    values, ranks = _mid_ranks(seen, weight)
    others, other_ranks = _mid_ranks(other, other_weight)
    shift = others - np.interp(other_ranks, ranks, values)
    # Interpolate between the ranks of `other`. np.interp is constant beyond these ranks.
    return np.interp(np.interp(seen, values, ranks), other_ranks, shift)


def _mid_ranks(scores, weight):
    """Return the distinct scores and their mid-ranks, as shares of the total weight."""
    values, place = np.unique(scores[weight > 0], return_inverse=True)
    mass = np.bincount(place, weight[weight > 0])
    return values, (mass.cumsum() - mass / 2) / mass.sum()
