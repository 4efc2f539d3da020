"""Which members of a network are trained without which rows."""

import copy

import numpy as np
import torch


class Folds:
    """Cross-fitted members: member m never sees the rows of fold m mod n_folds.

    Parameters
    ----------
    fold : ndarray of int of shape (n_samples,)
        From 0 to n_folds - 1; -1 for a row that all members see.
    n_folds, n_members : int
        At least 2 folds, at most one for each member.
    counts : bool, default=False
        Whether the loss counts rows by their weight, as those of two classes that are ranked do.
    digest : str, default=None
        The same for the same rows in the same folds.
    """

    def __init__(self, fold, n_folds, n_members, counts=False, digest=None):
        self.fold, self.n_folds, self.n_members = fold, n_folds, n_members
        self.digest = digest
        self.of_member = np.arange(n_members) % n_folds
        left_out = np.bincount(fold[fold >= 0], minlength=n_folds)[self.of_member]
        # So that weights of mean 1 over the rows of a member have mean 1 over all rows.
        self.factor = len(fold) / np.maximum(len(fold) - left_out, 1)
        if counts:
            self.factor = np.ones_like(self.factor)
        self._tensors = None

    def take(self, mask):
        """The same of the rows where `mask` is true, to score them."""
        some = copy.copy(self)
        some.fold = self.fold[mask]
        return some

    def own_weights(self, target, weight, weights):
        """What the rows weigh for each member, as if it had its own rows only.

        Parameters
        ----------
        target, weight : ndarray of shape (n_samples,)
        weights : callable
            Returns the weights of rows from the two.

        Returns
        -------
        weights : ndarray of shape (n_samples, n_members)
            0 for rows that a member leaves out.
        """
        own = np.zeros((len(target), self.n_members))
        for m in range(self.n_members):
            seen = ~self.rows_of(m)
            own[seen, m] = weights(target[seen], weight[seen])
        return own

    def seen(self, weights):
        """Yield what the rows weigh in the loss of each member."""
        for m, each in enumerate(weights.T):
            yield np.where(self.rows_of(m), 0.0, each * self.factor[m])

    def to(self, device, dtype):
        """Keep on a device what `weights` needs there, in the float type of the network."""
        arrays = self.fold, self.of_member, self.factor
        fold, of_member, factor = (torch.from_numpy(each).to(device) for each in arrays)
        self._tensors = fold, of_member, factor.to(dtype)

    def weights(self, index, weight):
        """The weights of a batch for all members, once `to` has been called.

        Parameters
        ----------
        index : slice or Tensor of int of shape (n_rows,)
        weight : Tensor of shape (n_rows, n_members) or None

        Returns
        -------
        weights : Tensor of shape (n_rows, n_members)
        """
        fold, of_member, factor = self._tensors
        weights = (fold[index].unsqueeze(1) != of_member) * factor
        return weights if weight is None else weights * weight

    def rows_of(self, m):
        """Mask of the rows that member m has not seen."""
        return self.fold == self.of_member[m]

    def unseen(self, chunk):
        """For each row of a slice, which share each member that has not seen it has in the mean.

        Returns
        -------
        share : Tensor of shape (n_rows, n_members)
            Rows sum to 1, those that all members have seen to 0.
        """
        mask = torch.from_numpy(self.fold[chunk, np.newaxis] == self.of_member)
        return mask / mask.sum(1, keepdim=True).clamp(min=1)
