"""Samples that the networks hold out, and metrics on these samples for early stopping."""

import numpy as np

from sktopk._common._folds import deal
from sktopk._common._input import Labelled
from sktopk._common._unseen import scores_as_unseen
from sktopk._training._folds import Folds, HeldOutRows

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
        # Rankings need both classes in each fold. Labels only need samples, because no class is
        # held out as a whole.
        parts = {*zip(target[dealt] if is_ranking else fold[dealt], fold[dealt], strict=True)}
        if len(parts) == n_folds * (len(np.unique(target)) if is_ranking else 1):
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


def held_out_by_fold(data, folds):
    """Return the samples of all folds, with the rows `HeldOutRows`."""
    X = HeldOutRows(data.X, folds)
    groups = None if data.groups is None else data.groups[X.index]
    return Labelled(X, data.y[X.index], data.weight[X.index], groups)


def values_of(head, held_out, target, folds, *, with_loss):
    """Return the function `values` of :class:`Validation` for held-out samples.

    The loss takes as long as a training step for each fold. Without `with_loss` it is None.
    """
    weight, parts, name = head.weights(held_out.weight), [held_out.X], "X_val"
    cluster = np.arange(len(target))
    if folds is not None:
        cluster = np.unique(folds.order[held_out.X.index], return_inverse=True)[1]
        # The scores of different networks are not compared, and need not be in memory together.
        parts, name = held_out.X.parts, "X"
    stop = np.cumsum([part.shape[0] for part in parts]).tolist()
    columns = target, held_out.weight, weight, held_out.groups
    own = [
        [None if each is None else each[start:end] for each in columns]
        for start, end in zip([0, *stop[:-1]], stop, strict=True)
    ]
    shares = np.array([each[2].sum() for each in own])

    def values(net):
        found, losses = [], []
        for X, (y, given, of_loss, groups) in zip(parts, own, strict=True):
            scores = finite(net.scores(X), name)
            found.append(head.values(y, scores, given, groups))
            if with_loss:
                losses.append(net.loss_of(scores, y, of_loss))
        loss = losses @ shares / max(shares.sum(), 1e-300) if with_loss else None
        return *map(np.concatenate, zip(*found, strict=True)), cluster, loss

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
