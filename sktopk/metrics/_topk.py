"""Top-k accuracy: micro average, macro average, and by shot group (frequent to rare classes)."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from sktopk._common._samples import chunks
from sktopk._common._scalars import check_nonnegative, check_option, check_order, n_kept, on_host
from sktopk._common._warnings import warn, warn_of_order

from ._ranking import TIES, check_true, row_weights, undefined

_CHUNK_SIZE = 2**18  # scores per chunk: about 1 MB of float32, to fit into the processor's cache


def topk_accuracy_score(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    k: int | float = 5,
    labels: ArrayLike | None = None,
    average: str = "micro",
    ties: str = "expected",
    sample_weight: ArrayLike | None = None,
) -> float:
    r"""Compute the share of samples whose label is among the k classes of highest score.

    .. math::
        \frac{\sum_i w_i h_i}{\sum_i w_i},
        \qquad h_i = \min\Bigl(1, \max\Bigl(0, \frac{k - g_i}{m_i}\Bigr)\Bigr)

    where :math:`w_i` is the sample weight, :math:`g_i` is the number of classes with a higher score
    than the label, and :math:`m_i` is the number of classes with the same score, label included.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels: numbers, strings or booleans.
    y_score : array-like of shape (n_samples, n_classes) or (n_samples,)
        Real scores; larger means more likely. For two classes, one column of decision scores is
        enough: the second class has score s, the first -s. For probabilities, pass both columns.
    k : int or float, default=5
        Number of predicted labels, at least 1. A k in (0, 1) means ``ceil(k * n_classes)`` labels.
    labels : array-like of shape (n_classes,), default=None
        Class of each score column, such as ``classes_``. None means the sorted classes in `y_true`.
    average : {"micro", "macro"}, default="micro"
        "micro": mean over samples. "macro": mean accuracy of all classes of weight > 0 [1]_.
    ties : {"expected", "optimistic", "pessimistic"}, default="expected"
        Value of a sample whose label is tied at rank k: 1 for "optimistic", 0 for "pessimistic".
        "expected" is the probability that a random order of the tied classes gives a hit.
    sample_weight : array-like of shape (n_samples,), default=None
        Nonnegative weights. A sample of weight 2 counts twice.

    Returns
    -------
    score : float
        In [0, 1]. A sample whose label is not in `labels` is a miss. With "macro", each such label
        is a class of accuracy 0. NaN, with an `UndefinedMetricWarning`, if all weights are 0.

    Raises
    ------
    TypeError, ValueError
        If values are missing, `labels` are repeated, shapes or types differ, or k is out of range.

    References
    ----------
    .. [1] C. Garcin, M. Servajean, A. Joly, J. Salmon. Stochastic smoothing of the top-K calibrated
       hinge loss for deep imbalanced classification. ICML 2022, section 4.5.1.

    Examples
    --------
    >>> from sktopk.metrics import topk_accuracy_score
    >>> y_true, y_score = ["ash", "elm", "oak", "yew"], [[3, 2, 1]] * 4
    >>> topk_accuracy_score(y_true, y_score, k=2, labels=["ash", "elm", "oak"])
    0.5
    """
    ranks = LabelRanks.from_predictions(y_true, y_score, labels, sample_weight)
    warn_of_all(k, ranks.n_classes)
    return ranks.accuracy(k, average=average, ties=ties)


def shot_accuracy_score(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    class_counts: ArrayLike | Mapping,
    labels: ArrayLike | None = None,
    k: int | float = 5,
    few: int = 20,
    many: int = 100,
    ties: str = "expected",
    sample_weight: ArrayLike | None = None,
) -> dict[str, float]:
    r"""Compute the macro top-k accuracy of the frequent, the medium and the rare classes.

    .. math::
        A_G = \frac{1}{|G|} \sum_{c \in G} a_c

    where :math:`a_c` is the top-k accuracy of class c, and G is the group of the classes with many,
    medium or few training samples [1]_. Classes without test samples are not in G.

    Parameters
    ----------
    y_true, y_score, labels, k, ties, sample_weight
        Parameters of `topk_accuracy_score`, with the same meaning and defaults.
    class_counts : array-like of shape (n_classes,), Series or dict
        Number of training samples of each class: an array in the order of `labels`, or a dict or
        Series with labels as keys, such as ``y_train.value_counts()``. A missing key means 0.
    few, many : float, default=20 and 100
        Few-shot classes have fewer than `few` training samples, many-shot classes more than `many`.

    Returns
    -------
    scores : dict of str to float
        Accuracies of "many", "medium" and "few". A true label that is not in `labels` counts as a
        class with no training samples and accuracy 0. A group without test samples has the accuracy
        NaN, with a warning.

    Raises
    ------
    TypeError, ValueError
        If `class_counts` is not valid, if few > many, or if `topk_accuracy_score` raises an error.

    References
    ----------
    .. [1] Z. Liu et al. Large-scale long-tailed recognition in an open world. CVPR 2019.

    Examples
    --------
    >>> from sktopk.metrics import shot_accuracy_score
    >>> y_true, y_score = [0, 0, 1, 2], [[3, 2, 1], [1, 2, 3], [2, 3, 1], [3, 2, 1]]
    >>> shot_accuracy_score(y_true, y_score, class_counts=[500, 50, 5], k=1)
    {'many': 0.5, 'medium': 1.0, 'few': 0.0}
    """
    if not few <= many:
        raise ValueError(f"few={few!r} must not exceed many={many!r}")
    ranks = LabelRanks.from_predictions(y_true, y_score, labels, sample_weight)
    accuracy = ranks.class_accuracy(k, ties=ties)
    if hasattr(class_counts, "keys"):
        known = dict.fromkeys(_check_labels(labels, check_true(y_true), ranks.n_classes, "y_score"))
        if unknown := [key for key, n in class_counts.items() if n and key not in known]:
            raise ValueError(f"keys of class_counts must be in labels; got {unknown[0]!r}")
        class_counts = [class_counts.get(label, 0) for label in known]
    which = ranks.n_classes, "one per column of y_score"
    counts = check_nonnegative(class_counts, "class_counts", *which)
    counts = np.append(counts, np.zeros(len(accuracy) - len(counts)))
    is_few, is_many = counts < few, counts > many
    groups = {"many": is_many, "medium": ~is_few & ~is_many, "few": is_few}
    return {
        name: _mean_of_defined(accuracy[group], "shot_accuracy_score", f"no {name}-shot class")
        for name, group in groups.items()
    }


@dataclass(frozen=True)
class LabelRanks:
    """For each sample: how many classes score above its label, and how many score the same."""

    # Column of each sample's label. Labels without a column have codes from `n_classes` on.
    code: np.ndarray
    n_greater: np.ndarray
    n_tied: np.ndarray  # at least 1, because the label counts, too
    sample_weight: np.ndarray
    n_classes: int

    @classmethod
    def from_predictions(cls, y_true, y_score, labels=None, sample_weight=None):
        """Return the ranks of the labels in `y_true`, after checks of all arguments."""
        warn_of_order(y_true, "y_true", y_score=y_score, sample_weight=sample_weight)
        checked = _check_scores(y_score)
        ranks = cls.from_chunks(y_true, [checked], checked.shape, labels, sample_weight)
        if hasattr(y_score, "columns"):
            check_order(y_score, np.unique(y_true) if labels is None else labels, "y_score")
        return ranks

    @classmethod
    def from_chunks(cls, y_true, chunks, shape, labels=None, sample_weight=None):
        """Return the ranks of the labels in a score matrix. `chunks` yields blocks of its rows."""
        n_classes, code = shape[1], columns_of_labels(y_true, labels, shape)
        sample_weight = row_weights(sample_weight, len(code))
        column, counts, start = np.where(code < n_classes, code, 0), [], 0
        for y_score in chunks:
            y_score = _check_scores(y_score)
            rows = slice(start, start + len(y_score))
            counts.append(_count_greater_and_tied(y_score, column[rows]))
            start = rows.stop
        _check_n_rows(len(code), start)
        n_greater, n_tied = map(np.concatenate, zip(*counts, strict=True))
        return cls(code, n_greater, n_tied, sample_weight, n_classes)

    def hits(self, k, *, ties="expected"):
        """Return the hit :math:`h_i` of each sample, in [0, 1], as in `topk_accuracy_score`."""
        check_option(ties, "ties", TIES)
        k = n_kept(k, self.n_classes)
        if ties == "optimistic":
            hit = self.n_greater < k
        elif ties == "pessimistic":
            hit = self.n_greater + self.n_tied <= k
        else:
            hit = np.clip((k - self.n_greater) / self.n_tied, 0.0, 1.0)
        return np.where(self.code < self.n_classes, hit, 0.0)

    def class_accuracy(self, k, *, ties="expected"):
        """Return an array: entry j is the accuracy of class j, or NaN if class j has weight 0."""
        hit = self.hits(k, ties=ties)
        mean = grouped_means(self.code, hit, self.sample_weight, self.n_classes)[1]
        return _clip_to_range(mean, hit)

    def accuracy(self, k, *, average="micro", ties="expected"):
        check_option(average, "average", ("micro", "macro"))
        if average == "macro":
            hit, weight = self.class_accuracy(k, ties=ties), None
        else:
            present = self.sample_weight > 0
            hit, weight = self.hits(k, ties=ties)[present], self.sample_weight[present]
        return _mean_of_defined(hit, "topk_accuracy_score", "no sample of positive weight", weight)


def warn_of_all(k, n_classes):
    """Warn if the k best classes are all classes."""
    if n_kept(k, n_classes) >= n_classes:
        warn(f"k={k} covers all {n_classes} classes: all classifiers have the same score")


def grouped_means(group, value, weight, n_groups):
    """Return two arrays: the weight of each group, and its mean value (NaN if the weight is 0)."""
    total = np.bincount(group, weights=weight, minlength=n_groups)
    value_total = np.bincount(group, weights=value * weight, minlength=n_groups)
    return total, np.divide(value_total, total, out=np.full(len(total), np.nan), where=total > 0)


def _count_greater_and_tied(y_score, column):
    n_greater, n_tied = np.empty((2, len(y_score)), dtype=np.intp)
    for rows in chunks(*y_score.shape, _CHUNK_SIZE):
        score = y_score[rows]
        if np.isnan(score.max()):  # the maximum is NaN if any score is NaN
            raise ValueError("y_score must not contain NaN; got NaN")
        label_score = np.take_along_axis(score, column[rows, None], axis=1)
        n_greater[rows] = np.count_nonzero(score > label_score, axis=1)
        n_tied[rows] = np.count_nonzero(score == label_score, axis=1)
    return n_greater, n_tied


def _check_n_rows(n_true, n_rows, of="y_score"):
    if n_true != n_rows:
        raise ValueError(f"y_true and {of} must have equal lengths; got {n_true} and {n_rows}")


def _check_scores(y_score):
    """Return scores as a matrix. One-dimensional scores s become the two columns [-s, s]."""
    y_score = np.asarray(on_host(y_score, "y_score"))
    if y_score.dtype.kind not in "fiub":
        raise ValueError(f"y_score must be a dense array of real numbers; got {y_score.dtype}")
    if y_score.ndim not in (1, 2) or y_score.shape[1:] == (0,):
        raise ValueError(
            "y_score must have shape (n_samples, n_classes), or (n_samples,) for two classes; "
            f"got shape {y_score.shape}"
        )
    if y_score.ndim == 1 and y_score.size and 0 <= y_score.min() < y_score.max() <= 1:
        warn("one column of y_score is compared with 0: if it has probabilities, pass both columns")
    # Multiply by a float, because unsigned integers and booleans have no negative.
    return np.column_stack([-1.0 * y_score, y_score]) if y_score.ndim == 1 else y_score


def columns_of_labels(y_true, labels, shape, of="y_score"):
    """Return the score column of each label, or a number >= n_classes if the label has none."""
    y_true, (n_samples, n_classes) = check_true(y_true), shape
    _check_n_rows(len(y_true), n_samples, of)
    labels = _check_labels(labels, y_true, n_classes, of)
    code_of = {label: code for code, label in enumerate(labels)}
    code = [code_of.setdefault(label, len(code_of)) for label in y_true.tolist()]
    is_string = {isinstance(label, str) for label in labels}
    for label in list(code_of)[n_classes:]:
        if isinstance(label, str) not in is_string:
            raise ValueError(
                "labels and y_true must be all strings or all numbers; "
                f"got {labels[0]!r} in labels and {label!r} in y_true"
            )
    return np.array(code, dtype=np.intp)


def _check_labels(labels, y_true, n_classes, of):
    """Return a list with the label of each column of the scores. All labels are distinct."""
    if labels is None:
        labels = np.unique(y_true) if len(y_true) else np.arange(n_classes)
        if len(labels) != n_classes:
            raise ValueError(
                f"labels=None needs {n_classes} distinct values in y_true, one per column of {of}; "
                f"got {len(labels)}. Set labels to the class of each column: classes_ of the "
                f"classifier, or range({n_classes}) for classes numbered from 0"
            )
    labels = check_true(labels, "labels")
    if labels.shape != (n_classes,):
        raise ValueError(f"labels must name the {n_classes} columns of {of}; got {labels.shape}")
    labels = labels.tolist()
    if len(set(labels)) != n_classes:
        raise ValueError(f"labels must be distinct; got {labels!r}")
    return labels


def _mean_of_defined(values, score, reason, weights=None):
    """Return the mean of the values that are not NaN. If all are NaN, return NaN and warn."""
    values = values[~np.isnan(values)]
    if not len(values):
        return undefined(score, reason)
    return float(_clip_to_range(np.average(values, weights=weights), values))


def _clip_to_range(mean, values):
    """Clip a mean to the range of the values, because rounding can move the mean outside."""
    return np.clip(mean, values.min(initial=np.inf), values.max(initial=-np.inf))
