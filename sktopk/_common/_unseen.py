"""What several members, each trained without some rows, would say together of fresh rows."""

import numpy as np


def scores_as_unseen(scores, unseen, target, weight):
    r"""Mean scores that rows would have if no member had been trained on them.

    A fresh row is scored by the mean of members that have not seen it. A row of the training has
    been left out by one of them, or a few, and the mean of these few spreads more; the others have
    learnt its label. Among the rows of class c let :math:`F_{mc}` be the distribution of the scores
    that member m gives rows it has seen, :math:`G_{mc}` of those that it gives the others. A score
    s of a seen row becomes the one of the same rank among the unseen ones,

    .. math::
        s + G_{mc}^{-1}(p) - F_{mc}^{-1}(p), \qquad p = F_{mc}(s),

    and beyond the last rank that unseen rows have by as much as there, so that distances at the
    very top stay. What each member says of unseen rows of a class is right then; how far members
    agree is taken from all rows.

    Parameters
    ----------
    scores : ndarray of shape (n_samples, n_members)
    unseen : ndarray of bool of shape (n_samples, n_members)
        Whether a member was trained without a row.
    target : ndarray of shape (n_samples,)
        Classes, in any form.
    weight : ndarray of shape (n_samples,)
        A row of weight 2 counts as two, one of weight 0 for none.

    Returns
    -------
    scores : ndarray of shape (n_samples,), float64
        The mean over members. A member that left out no row of a class, or saw none, has its scores
        of that class as they are.
    """
    scores = np.array(scores, dtype=np.float64)
    for label in np.unique(target):
        of_class = target == label
        for own, left_out in zip(scores.T, unseen.T, strict=True):
            seen, other = of_class & ~left_out, of_class & left_out
            if weight[seen].sum() > 0 and weight[other].sum() > 0:
                own[seen] += _gap(own[seen], weight[seen], own[other], weight[other])
    return scores.mean(axis=1)


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
