"""Folds that depend on what rows hold, not on where they stand or how often."""

import numpy as np

from sktopk._common._row_keys import row_keys


def deal(X, target, n_parts, seed):
    """Deal rows into parts of about the same make-up, by their content.

    Parameters
    ----------
    X : ndarray or CSR
    target : ndarray of shape (n_samples,)
        Class indices.
    n_parts, seed : int

    Returns
    -------
    part : ndarray of shape (n_samples,)
        From 0 to n_parts - 1; -1 for a row whose class has no other, which stays in training.
    n_distinct : int
        Number of rows in these parts, counting equal ones with equal labels once.
    """
    key = row_keys(X, seed)
    order = np.lexsort((key, target))
    target, key = target[order], key[order]
    new_class = np.r_[True, target[1:] != target[:-1]]
    new_row = new_class | np.r_[True, key[1:] != key[:-1]]
    group = np.cumsum(new_class) - 1
    single = (np.bincount(group, weights=new_row) == 1)[group]
    number = np.cumsum(new_row & ~single) - 1
    part = np.empty(len(order), dtype=np.int64)
    # Rows of a class have consecutive numbers, so its parts differ by one row at most.
    part[order] = np.where(single, -1, number % n_parts)
    return part, int(number[-1]) + 1
