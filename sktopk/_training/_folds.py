"""Samples that each network of an ensemble holds out."""

import numpy as np
import torch

from sktopk._common._input import take
from sktopk._common._lazy_rows import SomeRows


class Folds:
    """Folds of an ensemble: member m holds out fold m mod n_folds.

    Parameters
    ----------
    fold : ndarray of int of shape (n_samples,)
        Fold of each sample, from 0 to n_folds - 1. -1 marks samples that no member holds out.
    order : ndarray of int of shape (n_samples,)
        Result of `shuffled_order`: equal integers for equal samples and for a group.
    n_folds, n_members : int
        At least 2 folds, and at most one fold per member.
    counts : bool, default=False
        Whether sample weights are counts, as for rankings. Counts are not rescaled to mean 1.
    """

    def __init__(self, fold, order, n_folds, n_members, counts=False):
        self.fold, self.order, self.n_folds, self.n_members = fold, order, n_folds, n_members
        self.of_member = np.arange(n_members) % n_folds
        left_out = np.bincount(fold[fold >= 0], minlength=n_folds)[self.of_member]
        # Held-out samples get weight 0. The factor keeps the mean weight over all samples at 1.
        self.factor = len(fold) / np.maximum(len(fold) - left_out, 1)
        if counts:
            self.factor = np.ones_like(self.factor)
        self._tensors = None

    def take(self, mask):
        """Return the folds of the samples where `mask` is true."""
        return Folds(self.fold[mask], self.order[mask], self.n_folds, self.n_members)

    def own_weights(self, target, weight, weights):
        """Return sample weights, one column per member. Held-out samples have weight 0.

        ``weights(target, weight)`` returns the weights of the training samples of one member.
        """
        own = np.zeros((len(target), self.n_members))
        for m in range(self.n_members):
            seen = ~self.rows_of(m)
            own[seen, m] = weights(target[seen], weight[seen])
        return own

    def seen(self, weights):
        """Yield the sample weights (n_samples,) of each member. Held-out samples have weight 0."""
        for m, each in enumerate(weights.T):
            yield np.where(self.rows_of(m), 0.0, each * self.factor[m])

    def to(self, device, dtype):
        """Copy the folds to a device. The method `weights` then returns tensors of this dtype."""
        arrays = self.fold, self.of_member, self.factor
        fold, of_member, factor = (torch.from_numpy(each).to(device) for each in arrays)
        self._tensors = fold, of_member, factor.to(dtype)

    def weights(self, index, weight):
        """Return weights (n, n_members) of the n samples at `index`. Requires a call of `to`."""
        fold, of_member, factor = self._tensors
        weights = (fold[index].unsqueeze(1) != of_member) * factor
        return weights if weight is None else weights * weight

    def rows_of(self, m):
        """Return a boolean mask of the samples that member m holds out."""
        return self.fold == self.of_member[m]


class FoldRows(SomeRows):
    """The samples of one fold, and the numbers of the networks that hold out this fold."""

    def __init__(self, X, folds, fold):
        mask = folds.fold == fold
        super().__init__(X, np.flatnonzero(mask))
        self.rows, self.members = take(X, mask), np.flatnonzero(folds.of_member == fold)


class HeldOutRows(SomeRows):
    """The samples that the networks of an ensemble hold out, sorted by fold.

    :meth:`Net.scores` returns the out-of-fold scores of these rows, and of its parts `FoldRows`.
    """

    def __init__(self, X, folds):
        self.parts = [FoldRows(X, folds, fold) for fold in range(folds.n_folds)]
        super().__init__(X, np.concatenate([part.index for part in self.parts]))
