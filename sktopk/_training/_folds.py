"""The samples that each network of an ensemble holds out."""

import numpy as np
import torch


class Folds:
    """Cross-fitting: member m of an ensemble holds out fold m mod n_folds.

    Parameters
    ----------
    fold : ndarray of int of shape (n_samples,)
        From 0 to n_folds - 1; -1 for samples that all members see.
    n_folds, n_members : int
        At least 2 folds, at most one per member.
    counts : bool, default=False
        Whether the loss counts the samples by their weight, as rankings do.
    """

    def __init__(self, fold, n_folds, n_members, counts=False):
        self.fold, self.n_folds, self.n_members = fold, n_folds, n_members
        self.of_member = np.arange(n_members) % n_folds
        left_out = np.bincount(fold[fold >= 0], minlength=n_folds)[self.of_member]
        # Weights of mean 1 over the samples of a member get mean 1 over all samples.
        self.factor = len(fold) / np.maximum(len(fold) - left_out, 1)
        if counts:
            self.factor = np.ones_like(self.factor)
        self._tensors = None

    def take(self, mask):
        """Return the folds of some of the samples."""
        return Folds(self.fold[mask], self.n_folds, self.n_members)

    def own_weights(self, target, weight, weights):
        """Sample weights (n_samples, n_members) of each member, 0 for those that it holds out.

        ``weights(target, weight)`` returns them for the samples of one member.
        """
        own = np.zeros((len(target), self.n_members))
        for m in range(self.n_members):
            seen = ~self.rows_of(m)
            own[seen, m] = weights(target[seen], weight[seen])
        return own

    def seen(self, weights):
        """Yield the sample weights in the loss of each member."""
        for m, each in enumerate(weights.T):
            yield np.where(self.rows_of(m), 0.0, each * self.factor[m])

    def to(self, device, dtype):
        """Move to a device what `weights` needs there, in the float type of the network."""
        arrays = self.fold, self.of_member, self.factor
        fold, of_member, factor = (torch.from_numpy(each).to(device) for each in arrays)
        self._tensors = fold, of_member, factor.to(dtype)

    def weights(self, index, weight):
        """Weights (n_rows, n_members) of the samples `index`; `to` must be called before."""
        fold, of_member, factor = self._tensors
        weights = (fold[index].unsqueeze(1) != of_member) * factor
        return weights if weight is None else weights * weight

    def rows_of(self, m):
        """Mask of the samples that member m holds out."""
        return self.fold == self.of_member[m]
