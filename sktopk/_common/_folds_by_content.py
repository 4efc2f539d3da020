"""Folds that depend on what rows hold, not on where they stand or how often."""

import hashlib

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
    return _dealt(row_keys(X, seed), target, n_parts)


def keys_of_groups(key, groups):
    """The keys of rows, all of a group the same, whatever its name; without groups as they are."""
    if groups is None:
        return key
    # A row that is given twice changes no key.
    group, own = np.unique(np.column_stack([groups.astype(np.uint64), key]), axis=0).T
    total = np.zeros(groups.max() + 1, dtype=key.dtype)
    np.add.at(total, group.astype(np.intp), own)
    return total[groups]


def deal_distinct(key, target, n_parts):
    """Deal rows as `deal` does, but equal ones into one part, whatever their labels.

    Parameters
    ----------
    key : ndarray of shape (n_samples,)
        The `row_keys`.
    target : ndarray of shape (n_samples,)
        Class indices.
    n_parts : int

    Returns
    -------
    part : ndarray of shape (n_samples,)
        From 0 to n_parts - 1; -1 for the rows of a class that would all be in one part, and for
        rows equal to them.
    """
    keys, row = np.unique(key, return_inverse=True)
    labels, rows = np.unique(np.column_stack([target, row]), axis=0).T
    # Classes come in an order of what their rows hold, whatever they are called.
    content = np.zeros(labels.max() + 1, dtype=keys.dtype)
    np.bitwise_xor.at(content, labels, keys[rows])
    place = np.argsort(np.argsort(content, kind="stable"))
    target, labels = place[target], place[labels]
    n_rows_of = np.bincount(labels)
    # A row of several labels counts for the rarest of them.
    order = np.lexsort((labels, n_rows_of[labels], rows))
    first = np.r_[True, np.diff(rows[order]) > 0]
    part, _ = _dealt(key, labels[order][first][row], n_parts)
    lowest, highest = np.full((2, len(n_rows_of)), [[n_parts], [-1]])
    np.minimum.at(lowest, target, part)
    np.maximum.at(highest, target, part)
    kept = np.unique(row[(lowest == highest)[target]])
    part[np.isin(row, kept)] = -1
    return part


def digest_of(key, part):
    """What is the same of rows that `deal_distinct` has dealt alike, in any order."""
    keys, first = np.unique(key, return_index=True)
    digest = hashlib.blake2b(keys.tobytes(), digest_size=16)
    digest.update(part[first].tobytes())
    return digest.hexdigest()


def _dealt(key, target, n_parts):
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
