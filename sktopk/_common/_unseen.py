"""Correction of training scores, so that they have the distribution of scores of new samples."""

import numpy as np

# Minimum number of different held-out scores per class and ensemble member for the correction.
LEAST_UNSEEN = 3


def scores_as_unseen(scores, unseen, target, weight):
    r"""Return training scores with the distribution of the ensemble's scores of new samples.

    Most members have trained on a sample, and therefore score it differently from a new one. Let
    :math:`F_{mc}` and :math:`G_{mc}` be the distributions of the scores of member m for its
    training and its held-out samples of class c. The score s of a training sample is mapped to

    .. math::
        s + G_{mc}^{-1}(p) - F_{mc}^{-1}(p), \qquad p = F_{mc}(s),

    interpolated between the ranks of held-out samples, and constant beyond them. The result is the
    mean over members. `unseen` says which members have held out a sample (at least one). A class
    with fewer than three different held-out scores in a member gets the mean over these members.
    """
    scores = np.array(scores, dtype=np.float64)
    for label in np.unique(target):
        of_class = target == label
        there = of_class & (weight > 0)
        members = zip(scores[there].T, unseen[there].T, strict=True)
        if min(_n_distinct(own[left_out]) for own, left_out in members) < LEAST_UNSEEN:
            few = np.where(unseen[of_class], scores[of_class], np.nan)
            scores[of_class] = np.nanmean(few, axis=1, keepdims=True)
            continue
        for own, left_out in zip(scores.T, unseen.T, strict=True):
            seen, other = of_class & ~left_out, of_class & left_out
            if weight[seen].sum() > 0:
                own[seen] += _shift(own[seen], weight[seen], own[other], weight[other])
    return scores.mean(axis=1)


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
