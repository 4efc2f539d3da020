"""Helpers for samples: subsets, folds that networks hold out, and groups.

Unless all columns are categorical or boolean, the fold of a sample stays the same if samples are
shuffled or repeated, if X is made sparse, or if columns are multiplied by positive numbers.
"""

import math
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy.sparse import csr_matrix, issparse

from ._scalars import on_host, refuse_missing
from ._warnings import warn

BLOCK = 1 << 20  # number of values of X per chunk
# An improvement is significant if its mean exceeds this number of standard errors of the mean.
N_ERRORS = 2.0
LAZY_BLOCK = 1 << 25
LEAST_OF_BOTH = 0.1  # rankers warn if the share of groups with both classes is below this number


class Samples(NamedTuple):
    """Checked samples, labels, weights and group indices (None without groups)."""

    X: object
    y: np.ndarray
    weight: np.ndarray
    groups: np.ndarray | None = None
    target: np.ndarray | None = None  # class index, or 1 for positives; -1 for unknown labels
    count: np.ndarray | None = None  # sample weights, not multiplied by `class_weight`
    present: np.ndarray | None = None  # mask of samples of weight > 0, if others were dropped
    # The table with categories as integers. Folds are computed from this table, not from X, because
    # X can have target statistics, which may be different for equal samples.
    coded: np.ndarray | None = None
    only_cells: bool = False  # whether all columns are categorical or boolean
    ordered: np.ndarray | None = None  # stored result of `order`

    def order(self, seed):
        """Return an integer per sample. Samples with equal integers get the same fold."""
        if self.ordered is not None:
            return self.ordered
        if self.only_cells and self.groups is None:
            # If all columns are categories, many samples are equal. They may be in different folds.
            return np.random.RandomState(seed).permutation(len(self.y))
        return shuffled_order(self.X if self.coded is None else self.coded, seed, self.groups)

    def as_given(self, values, index):
        """Return `values` in an array for all samples of `fit`: NaN for samples not in `index`."""
        present = np.ones(len(self.y), bool) if self.present is None else self.present
        of_all = np.full((len(present), *values.shape[1:]), np.nan, values.dtype)
        of_all[np.flatnonzero(present)[index]] = values
        return of_all

    def take(self, mask):
        names = "y", "weight", "groups", "target", "count", "coded"
        parts = {k: each[mask] for k in names if (each := getattr(self, k)) is not None}
        return self._replace(X=take(self.X, mask), present=None, ordered=None, **parts)


class LazyRows:
    """Base class of containers that have a shape, a dtype and indexing like an array."""

    @property
    def ndim(self):
        return len(self.shape)

    def __len__(self):
        return self.shape[0]

    def __array__(self, dtype=None, copy=None):
        # This method exists because scorers of other packages call np.asarray(X).
        rows = self[:]
        return np.asarray(rows.toarray() if issparse(rows) else rows, dtype=dtype)


class SomeRows(LazyRows):
    """A subset of the rows of a table. Rows are copied only when they are indexed."""

    def __init__(self, table, index):
        self.table, self.index = table, index
        self.shape, self.dtype = (len(index), *table.shape[1:]), table.dtype
        if hasattr(table, "nnz"):
            # Estimate the number of nonzero values from the share of selected rows.
            self.nnz = table.nnz * len(index) // max(1, table.shape[0])

    def __getitem__(self, index):
        return self.table[self.index[index]]


class HeldOut(SomeRows):
    """Held-out samples, sorted by fold."""

    def __init__(self, X, folds):
        order = np.argsort(folds.fold, kind="stable")
        super().__init__(X, order[folds.fold[order] >= 0])
        stop = np.cumsum(np.bincount(folds.fold[self.index], minlength=folds.n_folds)).tolist()
        # For each fold: the slice of its samples, and the networks that hold out this fold.
        self.parts = [
            (slice(*ends), np.flatnonzero(folds.of_member == fold).tolist())
            for fold, ends in enumerate(pairwise([0, *stop]))
        ]

    def part(self, own):
        """Return the held-out samples in the slice `own`."""
        return SomeRows(self.table, self.index[own])


def chunks(n_samples, width, size=BLOCK):
    """Yield slices of rows for chunks of about `size` numbers. A row has `width` numbers."""
    n_rows = max(1, size // max(1, width))
    for start in range(0, n_samples, n_rows):
        yield slice(start, start + n_rows)


def take(X, mask):
    """Return selected samples. Do not copy memory maps, lazy rows or large parts of a sparse X."""
    if isinstance(X, np.ndarray) and not is_memory_map(X):
        return X[mask]
    index = np.flatnonzero(mask) if mask.dtype == bool else mask
    return X[index] if issparse(X) and 2 * len(index) < X.shape[0] else SomeRows(X, index)


def in_memory(X):
    """Return X as an array or CSR matrix. All samples of lazy rows are read."""
    X = X[:] if isinstance(X, LazyRows) else X
    return csr_matrix(X) if issparse(X) else X  # LightGBM warns of a csr_array


def is_memory_map(X):
    """Return whether an array is a memory map, or a view of one."""
    while X is not None:
        if isinstance(X, np.memmap):
            return True
        X = getattr(X, "base", None)
    return False


def shuffled_order(X, seed, groups=None):
    """Return a random integer per sample. Equal samples, or samples of a group, get equal ones."""
    rank = sample_ranks(X)
    order = np.random.RandomState(seed).permutation(rank.max() + 1)[rank]
    if groups is None:
        return order
    first = np.full(groups.max() + 1, len(order))
    np.minimum.at(first, groups, order)
    return first[groups]


def sample_ranks(X):
    """Return the rank of each sample in the lexicographic order of the distinct samples."""
    n_samples = X.shape[0]
    index, table = np.arange(n_samples), X
    while isinstance(table, SomeRows):
        index, table = table.index[index], table.table
    if isinstance(table, LazyRows):
        next_keys = _lazy_keys
    elif issparse(table):
        table, next_keys = _canonical(table), _sparse_keys
    else:
        table, next_keys = table.reshape(len(table), -1), _dense_keys
    # Each round compares more columns of `tied`, the samples that equal another sample so far.
    n_smaller, tied, start = np.zeros(n_samples, dtype=np.intp), np.arange(n_samples), 0
    while len(tied):
        keys, start = next_keys(table, index[tied], start)
        if not keys:
            break
        before = n_smaller[tied]
        order = np.lexsort([*keys[::-1], before])
        before = before[order]
        new_before = np.r_[True, before[1:] != before[:-1]]
        new = new_before.copy()
        for key in (key[order] for key in keys):
            nan = key != key
            new[1:] |= (key[1:] != key[:-1]) & ~(nan[1:] & nan[:-1])
        place = np.arange(len(order))
        first, first_before = (np.maximum.accumulate(place * mask) for mask in (new, new_before))
        n_smaller[tied[order]] = before + first - first_before
        tied = tied[order[~(new & np.r_[new[1:], True])]]
    return np.unique(n_smaller, return_inverse=True)[1]


def _dense_keys(X, index, start):
    # Start with one column. If all its values are distinct, the other columns are not needed.
    stop = min(start + max(1, min(start, BLOCK // len(index))), X.shape[1])
    return list(X[index, start:stop].T), stop


def _lazy_keys(X, index, start):
    # Use larger chunks than `_dense_keys`, because each call reads all samples.
    n_columns = math.prod(X.shape[1:])
    stop = min(start + max(1, LAZY_BLOCK // len(index)), n_columns)
    keys = np.empty((len(index), stop - start), X.dtype)
    first, varies = X[index[:1]].reshape(1, -1), np.zeros(n_columns, dtype=bool)
    for part in chunks(len(index) if stop > start else 0, n_columns, BLOCK):
        rows = X[index[part]].reshape(-1, n_columns)
        keys[part] = rows[:, start:stop]
        varies |= (rows != first).any(axis=0)
    # Skip columns in which all rows are equal, such as the black top of images.
    return list(keys.T), stop + int(np.argmax(np.append(varies[stop:], True)))


def _sparse_keys(X, index, number):
    # Compare the nonzero entries of the samples one after another: first columns, then values.
    place = X.indptr[index].astype(np.intp) + number
    there = place < X.indptr[index + 1]
    if not there.any():
        return [], number
    column, value = np.zeros(len(index), dtype=np.int64), np.zeros(len(index), X.dtype)
    value[there] = X.data[place[there]]
    column[there] = X.shape[1] - X.indices[place[there]]
    # In each column, sort negative entries before 0, and positive entries after 0.
    return [np.where(value < 0, -column, column), value], number + 1


def _canonical(X):
    """Return the CSR matrix with sorted indices, and without duplicate or zero entries."""
    if not X.has_canonical_format or not X.data.all():
        X = X.copy()
        X.sum_duplicates()
        X.eliminate_zeros()
    return X


def deal(order, target, n_folds):
    """Return folds, stratified by class. Samples with equal integers in `order` get the same fold.

    If all samples of a class would be in one fold, these samples and their copies get fold -1. No
    network holds out fold -1, because a network that holds out a whole class cannot learn it.
    """
    distinct, index = np.unique(order, return_inverse=True)
    labels, numbers = np.divmod(np.unique(target * len(distinct) + index), len(distinct))
    # Sort the classes by a hash of their samples, so that folds do not depend on class labels.
    content = np.bincount(labels, np.random.RandomState(0).random(len(distinct))[numbers])
    place = np.argsort(np.argsort(content, kind="stable"))
    target, labels = place[target], place[labels]
    count = np.bincount(labels)
    # Equal samples with different labels count as samples of the rarest of these labels.
    by_sample = np.lexsort((labels, count[labels], numbers))
    label = labels[by_sample][np.r_[True, np.diff(numbers[by_sample]) > 0]]
    by_class = np.argsort(label, kind="stable")
    several = (count > 1)[label[by_class]]
    fold = np.full(len(distinct), -1)
    # Assign the samples of a class to the folds in turn, so that fold sizes differ by at most one.
    fold[by_class[several]] = np.arange(several.sum()) % n_folds
    fold = fold[index]
    lowest, highest = np.full((2, len(count)), [[n_folds], [-1]])
    np.minimum.at(lowest, target, fold)
    np.maximum.at(highest, target, fold)
    fold[np.isin(index, index[(lowest == highest)[target]])] = -1
    return fold


@dataclass(frozen=True)
class Folds:
    """Folds that the members of an ensemble hold out: member m holds out fold `of_member[m]`.

    `fold` is -1 for samples that no member holds out. `order` has an integer per sample: samples
    with equal integers (copies, or samples of a group) are in one fold.
    """

    fold: np.ndarray
    order: np.ndarray
    n_folds: int
    of_member: np.ndarray

    def holds_out(self):
        """Return for each member the mask of the samples that it holds out."""
        return self.fold == self.of_member[:, np.newaxis]

    def take(self, mask):
        return replace(self, fold=self.fold[mask], order=self.order[mask])


def calibration_rows(y, fraction, random, groups=None):
    """Return a Boolean mask that selects calibration samples at random, stratified by class.

    The selection leaves at least one sample of each class for training. Apart from this rule, all
    samples are selected with equal probability. With `groups`, whole groups are selected. If a
    group has several classes, it is assigned to the class that is rarest in y.
    """
    if groups is not None:
        return _calibration_rows_of_groups(y, groups, fraction, random)
    code = np.unique(y, return_inverse=True)[1]
    order = random.permutation(len(code))
    order = order[np.argsort(code[order], kind="stable")]
    n_taken = min(len(code), max(1, round(fraction * len(code))))
    # Take about every (1 / fraction)-th sample.
    taken = (np.arange(n_taken) + random.uniform()) * (len(code) / max(1, n_taken))
    mask = np.zeros(len(code), dtype=bool)
    mask[order[taken.astype(np.intp)]] = True
    first = order[np.unique(code[order], return_index=True)[1]]
    keeps_none = np.bincount(code[~mask], minlength=len(first)) == 0
    mask[first[keeps_none]] = False
    return mask


def _calibration_rows_of_groups(y, groups, fraction, random):
    code, group = (np.unique(each, return_inverse=True)[1] for each in (y, groups))
    place = np.argsort(np.argsort(np.bincount(code), kind="stable"))
    rarest = np.full(group.max() + 1, len(place))
    np.minimum.at(rarest, group, place[code])
    mask = calibration_rows(rarest, fraction, random)[group]
    for lost in np.setdiff1d(code, code[~mask]):
        mask[group == group[code == lost][0]] = False
    return mask


def one_of_each_group(groups, random):
    """Return the index of one random sample of each group."""
    order = random.permutation(len(groups))
    return np.sort(order[np.unique(groups[order], return_index=True)[1]])


def encode_groups(groups, n_samples):
    """Return the group index of each sample. Groups are numbered in order of first appearance."""
    given, groups = groups, np.asarray(on_host(groups, "groups"))
    if groups.shape != (n_samples,):
        came = f"shape {groups.shape}"
        if isinstance(given, str):
            came = f"{given!r}: pass the column, such as X[{given!r}]"
        raise ValueError(f"groups must have one entry per sample ({n_samples}); got {came}")
    refuse_missing(groups, "groups", "values")
    code_of = {}
    code = [code_of.setdefault(label, len(code_of)) for label in groups.tolist()]
    return np.array(code, dtype=np.intp)


def present_groups(groups, weight):
    """Return the group index of each sample, or -1 for a sample of weight 0."""
    code, present = encode_groups(groups, len(weight)), weight > 0
    if not present.all():
        code[present] = encode_groups(code[present], np.count_nonzero(present))
        code[~present] = -1
    return code


def several_groups(code):
    """Return `code`, or None if all samples are in a single group."""
    return code if code is not None and (code > 0).any() else None


def check_groups_of_both(target, groups):
    """Raise an error if no group has both classes. Warn if only few groups have both classes."""
    n_groups = len(np.unique(groups))
    n_both = len(np.intersect1d(groups[target == 0], groups[target == 1]))
    which = f"{n_both} of {n_groups} groups with both classes"
    what = "groups must have samples of both classes, for example all samples of a day"
    if not n_both:
        raise ValueError(f"{what}; got {which}")
    if n_both < LEAST_OF_BOTH * n_groups:
        warn(f"{what}; got only {which}. Most losses ignore groups with one class")


def is_significant(gain, weight, cluster):
    """Return whether the mean gain is larger than its standard error times `N_ERRORS`."""
    mean = np.average(gain, weights=weight)
    residual = np.bincount(cluster, weight / weight.sum() * (gain - mean))
    return bool(mean > N_ERRORS * np.sqrt(np.square(residual).sum()))


def rows_of_groups(groups):
    """Return a list with the sample indices of each group. Without samples, the list is empty."""
    order = np.argsort(groups, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(groups[order])) + 1)[: len(order)]
