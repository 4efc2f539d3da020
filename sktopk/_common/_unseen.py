"""What several members, each trained without some rows, would say together of fresh rows."""

import numpy as np

# Fewer unseen rows of a class say nothing about how its scores spread.
LEAST_UNSEEN = 3


def scores_as_unseen(scores, unseen, target, weight):
    r"""Mean scores that rows would have if no member had been trained on them.

    A fresh row is scored by the mean of members that have not seen it. A row of the training has
    been left out by one of them, or a few, and the mean of these few spreads more; the others have
    learnt its label. Among the rows of class c let :math:`F_{mc}` be the distribution of the scores
    that member m gives rows it has seen, :math:`G_{mc}` of those that it gives the others. A score
    s of a seen row becomes about the one of the same rank among the unseen ones,

    .. math::
        s + G_{mc}^{-1}(p) - F_{mc}^{-1}(p), \qquad p = F_{mc}(s),

    with the distance between both, computed at the ranks of the unseen rows, on a line between
    these, and beyond the last by as much as there: distances at the very top stay. What each member
    says of unseen rows of a class is right then; how far members agree is taken from all rows.

    Parameters
    ----------
    scores : ndarray of shape (n_samples, n_members)
    unseen : ndarray of bool of shape (n_samples, n_members)
        Whether a member was trained without a row; of each row at least one was.
    target : ndarray of shape (n_samples,)
        Classes, in any form.
    weight : ndarray of shape (n_samples,)
        A row of weight 2 counts as two, one of weight 0 for none.

    Returns
    -------
    scores : ndarray of shape (n_samples,), float64
        The mean over members. Of a class of which a member left out fewer than three rows, the mean
        over the members that left a row out, as it is.
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
    """Scores of the samples of a class by each member, and which of them it has not seen."""
    return zip(scores[there].T, unseen[there].T, strict=True)


def _n_distinct(scores):
    """Number of scores that differ by more than rounding: a sample given twice counts once."""
    return len(np.unique(np.round(scores / max(np.abs(scores).max(initial=0.0), 1e-300), 9)))


def _gap(seen, weight, other, other_weight):
    """For each score its distance to the one of the same rank among others."""
    values, ranks = _curve(seen, weight)
    others, other_ranks = _curve(other, other_weight)
    gap = others - np.interp(other_ranks, ranks, values)
    # Between the ranks of the others, and beyond the last, it is that of the nearest ones.
    return np.interp(np.interp(seen, values, ranks), other_ranks, gap)


def _curve(scores, weight):
    """Distinct scores, and the share of the weight below each with half its own."""
    values, place = np.unique(scores[weight > 0], return_inverse=True)
    mass = np.bincount(place, weight[weight > 0])
    return values, (mass.cumsum() - mass / 2) / mass.sum()
