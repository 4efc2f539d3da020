"""Scores of an ensemble for its training samples, as if they were new."""

import numpy as np

# Fewer unseen samples say nothing about the spread of the scores of a class.
LEAST_UNSEEN = 3


def scores_as_unseen(scores, unseen, target, weight):
    r"""Return the scores that an ensemble would give samples that no network was trained on.

    New samples are scored by the mean of all networks, but few networks have not seen a sample of
    the training set. In class c let :math:`F_{mc}` be the distribution of the scores of network m
    for samples that it has seen, :math:`G_{mc}` for the others. A score s of a seen sample becomes

    .. math::
        s + G_{mc}^{-1}(p) - F_{mc}^{-1}(p), \qquad p = F_{mc}(s),

    with the difference interpolated between the ranks of the unseen samples, and constant beyond.

    Parameters
    ----------
    scores : ndarray of shape (n_samples, n_members)
    unseen : ndarray of bool of shape (n_samples, n_members)
        Whether a network was trained without the sample; true for one network at least.
    target : ndarray of shape (n_samples,)
        Classes, in any form.
    weight : ndarray of shape (n_samples,)
        Weight 2 equals the sample given twice, weight 0 its absence.

    Returns
    -------
    scores : ndarray of shape (n_samples,), float64
        Means over the networks. If a network holds out fewer than three samples of a class: means
        over the networks that have not seen the sample.
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
