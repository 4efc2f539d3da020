"""Samples that the networks hold out, and metrics on these samples for early stopping."""

import numpy as np

from sktopk._common._folds import deal
from sktopk._common._unseen import scores_as_unseen
from sktopk._training._folds import Folds

# Number of folds if there is a single network, which holds out the first fold.
HELD_OUT_FOLDS = 10


def hold_out(data, target, n_estimators, *, is_ranking, seed):
    """Return a tuple (training samples, held-out samples, folds).

    For one network, folds is None. For an ensemble, held-out samples is None, because each network
    holds out another fold. Both are None if the samples are too few.

    Parameters
    ----------
    data : Labelled
    target : ndarray of shape (n_samples,)
    n_estimators : int
        Number of networks. Each network holds out one fold.
    is_ranking : bool
        Whether each fold needs samples of both classes.
    seed : int
    """
    order = data.order(seed)
    for n_folds in range(n_estimators if n_estimators > 1 else HELD_OUT_FOLDS, 1, -1):
        fold = deal(order, target, n_folds)
        dealt = fold >= 0
        parts = {*zip(target[dealt], fold[dealt], strict=True)}
        n_classes = len(np.unique(target if is_ranking else target[dealt]))
        if len(parts) == n_folds * n_classes > 0:
            break
    else:
        return data, None, None
    if n_estimators == 1:
        return data.take(fold != 0), data.take(fold == 0), None
    return data, None, Folds(fold, order, n_folds, n_estimators, is_ranking)


def finite(scores, name="X"):
    """Return the given scores. Raise an error if the maximum of a row is not finite."""
    if not np.isfinite(scores.max(axis=1)).all():
        raise ValueError(
            f"The network returns NaN or infinity: {name} has values too large for its dtype, or a "
            "weight is not finite. Scale X, or lower learning_rate and fit again"
        )
    return scores


def values_of_samples(head, data, target):
    """Return the function `values` of :class:`Validation` for the held-out samples `data`."""
    cluster = np.arange(len(target))

    def values(net):
        scores = finite(net.scores(data.X), "X_val")
        return *head.values(target, scores, data.weight, data.groups), cluster

    return values


def values_of_folds(head, data, target, folds):
    """Return the function `values` of :class:`Validation` for the folds of an ensemble."""
    parts = []
    for fold in range(folds.n_folds):
        mask = folds.fold == fold
        parts.append((data.take(mask), target[mask], np.flatnonzero(folds.of_member == fold)))
    order = np.concatenate([folds.order[folds.fold == fold] for fold in range(folds.n_folds)])
    cluster = np.unique(order, return_inverse=True)[1]

    def values(net):
        found = []
        for own, own_target, members in parts:
            scores = sum(net.scores_of_member(own.X, m) for m in members) / len(members)
            found.append(head.values(own_target, scores.numpy(), own.weight, own.groups))
        return *map(np.concatenate, zip(*found, strict=True)), cluster

    return values


def ensemble_scores_as_unseen(net, X, folds, target, weight):
    """Estimate the scores of training samples as if no network were trained on these samples.

    Parameters
    ----------
    net : Net
        Net with one score per sample.
    X : table of shape (n_samples, n_features)
    folds : Folds
        The folds that the networks hold out.
    target, weight : ndarray of shape (n_held_out,)
        Class index and weight of each sample that is in a fold.

    Returns
    -------
    scores : ndarray of shape (n_held_out, 1)
    """
    known = folds.fold >= 0
    by_member = net.scores_by_member(X)[known].numpy()
    unseen = folds.fold[known, np.newaxis] == folds.of_member
    fresh = scores_as_unseen(by_member, unseen, target, weight)
    return fresh.astype(by_member.dtype)[:, np.newaxis]
