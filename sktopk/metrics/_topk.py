"""Top-k accuracy that knows its classes: micro, macro and by shot group."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from sktopk._common._scalars import check_nonnegative, check_option, n_kept, on_host

from ._ranking import TIES, check_true, row_weights, undefined

# About 1 MB of float32: a chunk is compared twice while it is still in the cache.
_CHUNK_SIZE = 2**18


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
    r"""Compute the share of samples whose label is among the k highest scores.

    .. math::
        \frac{\sum_i w_i h_i}{\sum_i w_i},
        \qquad h_i = \min\Bigl(1, \max\Bigl(0, \frac{k - g_i}{m_i}\Bigr)\Bigr)

    where :math:`g_i` scores of sample i are greater than the score of its label, and
    :math:`m_i` are equal to it, including its own.

    Parameters
    ----------
    y_true : array-like of shape (n_samples,)
        True labels: numbers, strings or booleans.
    y_score : array-like of shape (n_samples, n_classes) or (n_samples,)
        Real scores; a larger score means that a class is more likely. Infinities are allowed.
        Scores s of one dimension are decision scores of two classes, read as the columns
        [-s, s]. Of probabilities, pass both columns.
    k : int or float, default=5
        Number of labels, at least 1, or a fraction in (0, 1) of the classes, rounded up. With
        n_classes or more, every sample whose label is in `labels` counts 1.
    labels : array-like of shape (n_classes,), default=None
        The class of each column of `y_score`, in any order; for a fitted classifier its
        ``classes_``. None: the sorted distinct values of `y_true`, as many as columns.
    average : {"micro", "macro"}, default="micro"
        "micro" is the mean over samples. "macro" is the mean over the classes found in `y_true`
        (with positive weight) of the mean over their samples: rare classes count the same [1]_.
    ties : {"expected", "optimistic", "pessimistic"}, default="expected"
        What a label counts that is tied at the k-th place: the probability that a random choice
        keeps it, 1, or 0. By default a constant classifier scores k / n_classes.
    sample_weight : array-like of shape (n_samples,), default=None
        Nonnegative weights; weight 2 equals the sample twice.

    Returns
    -------
    score : float
        In [0, 1]. A label that is not in `labels` is a miss, and under "macro" a class with
        accuracy 0. A class of `labels` that `y_true` lacks changes nothing. NaN, with an
        `UndefinedMetricWarning`, without samples of positive weight.

    Raises
    ------
    TypeError, ValueError
        If `y_score` holds NaN, shapes disagree, `labels` are missing where they are needed,
        repeated or of another kind than `y_true` (strings and numbers), an array has masked
        entries, or an argument has the wrong type or range.

    References
    ----------
    .. [1] C. Garcin, M. Servajean, A. Joly, J. Salmon. Stochastic smoothing of
       the top-K calibrated hinge loss for deep imbalanced classification.
       ICML 2022, section 4.5.1.

    Examples
    --------
    >>> from sktopk.metrics import topk_accuracy_score
    >>> y_true, y_score = ["ash", "elm", "oak", "yew"], [[3, 2, 1]] * 4
    >>> topk_accuracy_score(y_true, y_score, k=2, labels=["ash", "elm", "oak"])
    0.5
    """
    ranks = LabelRanks.from_predictions(y_true, y_score, labels, sample_weight)
    return ranks.accuracy(k, average=average, ties=ties)


def shot_accuracy_score(
    y_true: ArrayLike,
    y_score: ArrayLike,
    *,
    class_counts: ArrayLike,
    labels: ArrayLike | None = None,
    k: int | float = 5,
    few: int = 20,
    many: int = 100,
    ties: str = "expected",
    sample_weight: ArrayLike | None = None,
) -> dict[str, float]:
    r"""Compute the macro top-k accuracy inside the frequent, the medium and the rare classes.

    .. math::
        A_G = \frac{1}{|G|} \sum_{c \in G} a_c

    where :math:`a_c` is the top-k accuracy of the test samples of class c. G are the tested
    classes whose number of training samples :math:`n_c` lies in the group: many
    :math:`n_c > 100`, medium :math:`20 \le n_c \le 100`, few :math:`n_c < 20`, as in [1]_.

    Parameters
    ----------
    y_true, y_score, labels, k, ties, sample_weight
        As in `topk_accuracy_score`.
    class_counts : array-like of shape (n_classes,)
        Number of training samples of each column's class, in the order of `labels`; the
        ``class_count_`` of a fitted `TopKClassifier`.
    few, many : float, default=20 and 100
        Numbers of samples. A class with fewer than `few` training samples is a few-shot class, one
        with more than `many` a many-shot class.

    Returns
    -------
    scores : dict of str to float
        With keys "many", "medium", "few". A label of `y_true` that is not in `labels` is
        a few-shot class with accuracy 0. A group without tested classes is NaN, with an
        `UndefinedMetricWarning`.

    Raises
    ------
    TypeError, ValueError
        If `class_counts` does not fit the columns or is negative, if few > many, or as in
        `topk_accuracy_score`.

    References
    ----------
    .. [1] Z. Liu, Z. Miao, X. Zhan, J. Wang, B. Gong, S. X. Yu. Large-scale
       long-tailed recognition in an open world. CVPR 2019.

    Examples
    --------
    >>> from sktopk.metrics import shot_accuracy_score
    >>> y_true = [0, 0, 1, 2]
    >>> y_score = [[3, 2, 1], [1, 2, 3], [2, 3, 1], [3, 2, 1]]
    >>> shot_accuracy_score(y_true, y_score, class_counts=[500, 50, 5], k=1)
    {'many': 0.5, 'medium': 1.0, 'few': 0.0}
    """
    if not few <= many:
        raise ValueError(f"few={few!r} must not exceed many={many!r}")
    ranks = LabelRanks.from_predictions(y_true, y_score, labels, sample_weight)
    accuracy = ranks.class_accuracy(k, ties=ties)
    counts = np.zeros(len(accuracy))
    counts[: ranks.n_classes] = check_nonnegative(
        class_counts, "class_counts", ranks.n_classes, "one per column of y_score"
    )
    groups = {
        "many": counts > many,
        "medium": (few <= counts) & (counts <= many),
        "few": counts < few,
    }
    return {
        name: _mean_of_defined(accuracy[group], "shot_accuracy_score", f"no {name}-shot class")
        for name, group in groups.items()
    }


@dataclass(frozen=True)
class LabelRanks:
    """Rank of each sample's label among its scores: all that top-k accuracy needs.

    `code` is the column of the label; labels without a column are numbered from `n_classes` on.
    """

    code: np.ndarray
    n_greater: np.ndarray
    n_tied: np.ndarray
    sample_weight: np.ndarray
    n_classes: int

    @classmethod
    def from_predictions(cls, y_true, y_score, labels=None, sample_weight=None):
        """Check everything but k and rank the labels."""
        y_score = _check_scores(y_score)
        return cls.from_pieces(y_true, [y_score], y_score.shape, labels, sample_weight)

    @classmethod
    def from_pieces(cls, y_true, pieces, shape, labels=None, sample_weight=None):
        """Do the same for scores of `shape` that come a few samples at a time, in their order."""
        n_samples, n_classes = shape
        y_true = check_true(y_true)
        _check_n_rows(len(y_true), n_samples)
        code = _encode(y_true, _check_labels(labels, y_true, n_classes))
        sample_weight = row_weights(sample_weight, len(code))
        column, counts, start = np.where(code < n_classes, code, 0), [], 0
        for y_score in pieces:
            y_score = _check_scores(y_score)
            rows = slice(start, start + len(y_score))
            counts.append(_count_greater_and_tied(y_score, column[rows]))
            start = rows.stop
        _check_n_rows(len(code), start)
        n_greater, n_tied = map(np.concatenate, zip(*counts, strict=True))
        return cls(code, n_greater, n_tied, sample_weight, n_classes)

    def hits(self, k, *, ties="expected"):
        """Return for each sample whether its label is among the k highest scores, in [0, 1]."""
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
        """Return the accuracy inside each class by `code`; NaN for a class without weight."""
        hit = self.hits(k, ties=ties)
        _, mean = grouped_means(self.code, hit, self.sample_weight, self.n_classes)
        return _clip_to_range(mean, hit)

    def accuracy(self, k, *, average="micro", ties="expected"):
        """Return the mean hit over samples ("micro") or over classes ("macro")."""
        check_option(average, "average", ("micro", "macro"))
        if average == "macro":
            hit, weight = self.class_accuracy(k, ties=ties), None
        else:
            present = self.sample_weight > 0
            hit, weight = self.hits(k, ties=ties)[present], self.sample_weight[present]
        return _mean_of_defined(hit, "topk_accuracy_score", "no row of positive weight", weight)


def grouped_means(group, value, weight, n_groups):
    """Return the weight of each group and the mean of its values, NaN without weight."""
    total = np.bincount(group, weights=weight, minlength=n_groups)
    value_total = np.bincount(group, weights=value * weight, minlength=n_groups)
    return total, np.divide(value_total, total, out=np.full(len(total), np.nan), where=total > 0)


def _count_greater_and_tied(y_score, column):
    n_samples, n_classes = y_score.shape
    n_greater = np.empty(n_samples, dtype=np.intp)
    n_tied = np.empty(n_samples, dtype=np.intp)
    n_rows = max(1, _CHUNK_SIZE // n_classes)
    for start in range(0, n_samples, n_rows):
        rows = slice(start, start + n_rows)
        score = y_score[rows]
        # The maximum of numbers with a NaN among them is NaN.
        if np.isnan(score.max()):
            raise ValueError("y_score must not contain NaN; got NaN")
        label_score = np.take_along_axis(score, column[rows, None], axis=1)
        n_greater[rows] = np.count_nonzero(score > label_score, axis=1)
        n_tied[rows] = np.count_nonzero(score == label_score, axis=1)
    return n_greater, n_tied


def _check_n_rows(n_true, n_scored):
    if n_true != n_scored:
        raise ValueError(
            f"y_true and y_score must have the same number of rows; got {n_true} and {n_scored}"
        )


def _check_scores(y_score):
    """Return scores as an array, decision scores of two classes as two columns."""
    y_score = np.asarray(on_host(y_score, "y_score"))
    if y_score.dtype.kind not in "fiub":
        raise ValueError(
            f"y_score must be a dense array of real numbers; got dtype {y_score.dtype}"
        )
    if y_score.ndim not in (1, 2) or y_score.shape[1:] == (0,):
        raise ValueError(
            "y_score must have shape (n_samples, n_classes), or (n_samples,) for two classes; "
            f"got shape {y_score.shape}"
        )
    if y_score.ndim == 1:
        if y_score.dtype.kind != "f":
            y_score = y_score.astype(np.float64)
        y_score = np.column_stack([-y_score, y_score])
    return y_score


def _check_labels(labels, y_true, n_classes):
    """Return the distinct labels of the columns as a list."""
    if labels is None:
        labels = np.unique(y_true) if len(y_true) else np.arange(n_classes)
        if len(labels) != n_classes:
            raise ValueError(
                "labels=None needs as many distinct values in y_true as y_score has classes "
                f"({n_classes}); got {len(labels)}. Pass labels, the class of each column: for a "
                f"fitted classifier its classes_, for classes numbered from 0 range({n_classes})"
            )
    labels = np.asarray(on_host(labels, "labels"))
    if labels.shape != (n_classes,):
        raise ValueError(
            f"labels must name each of the {n_classes} classes (columns) of y_score; "
            f"got shape {labels.shape}"
        )
    labels = labels.tolist()
    if len(set(labels)) != n_classes:
        raise ValueError(f"labels must be distinct; got {labels!r}")
    return labels


def _encode(y_true, labels):
    """Return the column of each label, and numbers from len(labels) on for labels without one."""
    code_of = {label: code for code, label in enumerate(labels)}
    code = [code_of.setdefault(label, len(code_of)) for label in y_true.tolist()]
    is_string = {isinstance(label, str) for label in labels}
    for label in list(code_of)[len(labels) :]:
        if isinstance(label, str) not in is_string:
            raise ValueError(
                "labels and y_true must be of one kind, strings or numbers; "
                f"got {labels[0]!r} in labels and {label!r} in y_true"
            )
    return np.array(code, dtype=np.intp)


def _mean_of_defined(values, score, reason, weights=None):
    """Mean of the values that are not NaN; if none is, NaN with a warning of `score`."""
    defined = ~np.isnan(values)
    if not defined.any():
        return undefined(score, reason)
    values = values[defined]
    return float(_clip_to_range(np.average(values, weights=weights), values))


def _clip_to_range(mean, values):
    """Undo the rounding that moves a mean of equal values off their value."""
    return np.clip(mean, values.min(initial=np.inf), values.max(initial=-np.inf))
