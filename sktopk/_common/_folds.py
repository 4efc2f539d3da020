"""Folds of an ensemble. Equal samples are always in the same fold.

Folds depend only on the lexicographic order of the distinct samples. They do not change if columns
are multiplied by positive numbers, if float32 is converted to float64, or if samples are shuffled
or repeated.
"""

import math
from dataclasses import dataclass

import numpy as np
from scipy.sparse import issparse

from ._lazy_rows import LazyRows, SomeRows

# Numbers per chunk.
BLOCK = 1 << 20
LAZY_BLOCK = 1 << 25


def shuffled_order(X, seed, groups=None):
    """Return one random integer per sample, the same for equal samples and for a group."""
    rank = sample_ranks(X)
    order = np.random.RandomState(seed).permutation(rank.max() + 1)[rank]
    if groups is None:
        return order
    first = np.full(groups.max() + 1, len(order))
    np.minimum.at(first, groups, order)
    return first[groups]


def sample_ranks(X):
    """Return the rank of each sample in the lexicographic order of the distinct samples.

    Sparse and dense formats give the same ranks. NaN is larger than any number.
    """
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
    # Chunks of columns refine the ranks `n_smaller`. `tied` samples still equal another sample.
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
    """Return a chunk of columns of the samples `index`, and the index of the next column."""
    stop = min(start + max(1, BLOCK // len(index)), X.shape[1])
    return list(X[index, start:stop].T), stop


def _lazy_keys(X, index, start):
    """Return the same as `_dense_keys`, in larger chunks, because each call reads all samples."""
    n_columns = math.prod(X.shape[1:])
    stop = min(start + max(1, LAZY_BLOCK // len(index)), n_columns)
    keys = np.empty((len(index), stop - start), X.dtype)
    step = max(1, BLOCK // max(1, n_columns))
    for first in range(0, len(index) if stop > start else 0, step):
        rows = X[index[first : first + step]]
        keys[first : first + step] = rows.reshape(len(rows), -1)[:, start:stop]
    return list(keys.T), stop


def _sparse_keys(X, index, number):
    """Return sort keys for nonzero entry `number` of each sample, and ``number + 1``.

    In the first column where two samples differ, one may have the value v and the other 0. The
    sample with v is larger if v > 0.
    """
    place = X.indptr[index].astype(np.intp) + number
    there = place < X.indptr[index + 1]
    if not there.any():
        return [], number
    column, value = np.zeros(len(index), dtype=np.int64), np.zeros(len(index), X.dtype)
    value[there] = X.data[place[there]]
    column[there] = X.shape[1] - X.indices[place[there]]
    return [np.where(value < 0, -column, column), value], number + 1


def _canonical(X):
    """Return the CSR matrix with sorted indices, and without duplicate or zero entries."""
    if not X.has_canonical_format or not X.data.all():
        X = X.copy()
        X.sum_duplicates()
        X.eliminate_zeros()
    return X


def deal(order, target, n_folds):
    """Return the stratified fold of each sample, from the result of `shuffled_order`.

    Samples with equal integers in `order` get the same fold. A class is never held out (fold -1) if
    all its samples would be in one fold. The same holds for samples equal to these.
    """
    distinct, index = np.unique(order, return_inverse=True)
    labels, numbers = np.unique(np.column_stack([target, index]), axis=0).T
    # Number the classes by their samples, so that the folds do not depend on the class labels.
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
    """Folds that the members of an ensemble hold out: member m holds out fold m mod n_folds.

    `fold` is -1 for samples that no member holds out. `order` is the result of `shuffled_order`.
    """

    fold: np.ndarray
    order: np.ndarray
    n_folds: int
    n_members: int

    @property
    def of_member(self):
        """Return the fold that each member holds out."""
        return np.arange(self.n_members) % self.n_folds

    def holds_out(self):
        """Return for each member the mask of the samples that it holds out."""
        return self.fold == self.of_member[:, np.newaxis]

    def take(self, mask):
        """Return the folds of the samples where `mask` is true."""
        return Folds(self.fold[mask], self.order[mask], self.n_folds, self.n_members)


def calibration_rows(y, fraction, random):
    """Return a Boolean mask that selects calibration samples at random, stratified by class.

    Systematic sampling takes every (1 / fraction)-th sample of the shuffled classes, so that each
    sample has the same probability. Each class keeps at least one training sample.
    """
    code = np.unique(y, return_inverse=True)[1]
    order = random.permutation(len(code))
    order = order[np.argsort(code[order], kind="stable")]
    n_taken = min(len(code), max(1, round(fraction * len(code))))
    taken = (np.arange(n_taken) + random.uniform()) * (len(code) / max(1, n_taken))
    mask = np.zeros(len(code), dtype=bool)
    mask[order[taken.astype(np.intp)]] = True
    first = order[np.unique(code[order], return_index=True)[1]]
    keeps_none = np.bincount(code[~mask], minlength=len(first)) == 0
    mask[first[keeps_none]] = False
    return mask


# Minimum number of different held-out scores per class and ensemble member for the correction.
LEAST_UNSEEN = 3


def scores_as_unseen(scores, unseen, target, weight):
    r"""Return training scores with the distribution of the ensemble's scores of new samples.

    Most members have trained on a sample, and therefore score it differently from a new one. Let
    :math:`F_{mc}` and :math:`G_{mc}` be the distributions of the scores of member m for its
    training and its held-out samples of class c. The score s of a training sample is mapped to

    .. math::
        s + G_{mc}^{-1}(p) - F_{mc}^{-1}(p), \qquad p = F_{mc}(s),

    interpolated between the ranks of held-out samples, and constant beyond them. The result is the
    mean over members. `unseen` says which members have held out a sample (at least one). A class
    with fewer than three different held-out scores in a member gets the mean over these members.
    """
    scores = np.array(scores, dtype=np.float64)
    for label in np.unique(target):
        of_class = target == label
        there = of_class & (weight > 0)
        members = zip(scores[there].T, unseen[there].T, strict=True)
        if min(_n_distinct(own[left_out]) for own, left_out in members) < LEAST_UNSEEN:
            few = np.where(unseen[of_class], scores[of_class], np.nan)
            scores[of_class] = np.nanmean(few, axis=1, keepdims=True)
            continue
        for own, left_out in zip(scores.T, unseen.T, strict=True):
            seen, other = of_class & ~left_out, of_class & left_out
            if weight[seen].sum() > 0:
                own[seen] += _shift(own[seen], weight[seen], own[other], weight[other])
    return scores.mean(axis=1)


def _n_distinct(scores):
    """Return the number of different scores. Scores that are equal up to rounding count once."""
    return len(np.unique(np.round(scores / max(np.abs(scores).max(initial=0.0), 1e-300), 9)))


def _shift(seen, weight, other, other_weight):
    """Return, for each score in `seen`, the difference to the score of equal rank in `other`."""
    values, ranks = _mid_ranks(seen, weight)
    others, other_ranks = _mid_ranks(other, other_weight)
    shift = others - np.interp(other_ranks, ranks, values)
    # Interpolate between the ranks of `other`. np.interp is constant beyond these ranks.
    return np.interp(np.interp(seen, values, ranks), other_ranks, shift)


def _mid_ranks(scores, weight):
    """Return the distinct scores and their mid-ranks, as shares of the total weight."""
    values, place = np.unique(scores[weight > 0], return_inverse=True)
    mass = np.bincount(place, weight[weight > 0])
    return values, (mass.cumsum() - mass / 2) / mass.sum()
