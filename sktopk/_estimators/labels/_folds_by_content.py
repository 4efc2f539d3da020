"""Folds that depend on what rows hold, not on where they stand or how often."""

import hashlib

import numpy as np
from scipy.sparse import issparse


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
    key = _row_keys(X, seed)
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


def _row_keys(X, seed):
    """A random number of 64 bits for each row that depends on its content only."""
    if issparse(X):
        X = X.copy()
        X.sum_duplicates()
    salt = int(seed).to_bytes(8, "little")
    keys = np.empty(X.shape[0], dtype=np.uint64)
    for i in range(len(keys)):
        if issparse(X):
            span = slice(X.indptr[i], X.indptr[i + 1])
            columns, values = X.indices[span], X.data[span]
            columns, values = columns[values != 0], values[values != 0]
        else:
            values = np.ravel(X[i])
            columns = np.flatnonzero(values)
            values = values[columns]
        content = hashlib.blake2b(columns.astype(np.int64).tobytes(), digest_size=8, key=salt)
        content.update(values.astype(np.float64).tobytes())
        keys[i] = int.from_bytes(content.digest(), "little")
    return keys
