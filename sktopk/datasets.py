"""Transformations of datasets that make a classification problem harder."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import column_or_1d

from ._common._input import check_labels, check_length, take_rows
from ._common._samples import rows_of_groups
from ._common._scalars import check_number, check_random
from ._common._types import RowsLike

__all__ = ["inject_label_noise", "make_long_tail"]


def inject_label_noise(
    y: ArrayLike,
    groups: ArrayLike | dict,
    p: float,
    random_state: int | np.random.RandomState | None = None,
) -> np.ndarray:
    r"""Replace each label with probability p by a random label of the same group of classes.

    .. math::
        \tilde y_i = \begin{cases} y_i & \text{with probability } 1 - p \\
        \text{uniform on } \{c : g(c) = g(y_i)\} & \text{with probability } p \end{cases}

    where g(c) is the group of class c. The new label can be equal to the old label. If no group has
    more than k classes, a classifier that ranks the classes of the correct group first still has a
    top-k accuracy of 1. In section 5.1 of [1]_, the groups are the 20 coarse classes of CIFAR-100.
    The paper's code groups every five successive classes instead: ``groups=np.arange(100) // 5``.

    Parameters
    ----------
    y : array-like of shape (n_samples,)
        Labels: numbers or strings.
    groups : array-like of shape (n_classes,) or dict
        Group of each class, for the classes of y in sorted order. Or a dict {label: group} that
        contains all labels of y.
    p : float
        Probability in [0, 1] that a label is replaced.
    random_state : int, RandomState or None, default=None
        Random seed. With the same int, a larger p keeps all changes of a smaller p, and adds more.

    Returns
    -------
    y_noisy : ndarray of shape (n_samples,)
        Copy of y with noise. Numbers keep their dtype.

    Raises
    ------
    TypeError, ValueError
        If p is not a number in [0, 1], or classes and groups do not match.

    References
    ----------
    .. [1] Berrada, Zisserman, Kumar. "Smooth Loss Functions for Deep Top-k Classification",
       ICLR 2018, section 5.1.

    Examples
    --------
    >>> from sktopk.datasets import inject_label_noise
    >>> group = {"cat": "pet", "dog": "pet", "oak": "tree", "ash": "tree"}
    >>> y = ["cat", "cat", "cat", "oak", "oak", "oak"]
    >>> inject_label_noise(y, group, p=1.0, random_state=0).tolist()
    ['cat', 'dog', 'dog', 'ash', 'oak', 'oak']
    """
    check_number(p, "p", 0, 1)
    y = check_labels(y)
    classes, of_class = _groups_of_classes(y, groups)
    _, group = np.unique(of_class, return_inverse=True)
    of_sample = group[np.searchsorted(classes, y)]
    # Sort the classes by group. Group g then has the classes order[first[g] : first[g] + size[g]].
    order = np.argsort(group, kind="stable")
    size = np.bincount(group)
    first = np.cumsum(size) - size
    rng = check_random(random_state)
    redrawn = rng.random_sample(len(y)) < p
    place = (rng.random_sample(len(y)) * size[of_sample]).astype(int)
    noisy = np.where(redrawn, classes[order[first[of_sample] + place]], y)
    return noisy.astype(y.dtype) if y.dtype.kind in "iuf" else noisy


def _groups_of_classes(y, groups):
    if not isinstance(groups, Mapping):
        classes, groups = np.unique(y), column_or_1d(groups)
        if len(groups) != len(classes):
            raise ValueError(
                f"groups must have one entry per class of y ({len(classes)}); got {len(groups)}. "
                "For classes that are not in y, pass a dict from label to group"
            )
        return classes, groups
    classes = np.unique(np.array(list(groups)))
    if len(unknown := np.setdiff1d(y, classes)):
        raise ValueError(f"each label of y must be a key of groups; {unknown.tolist()[0]!r} is not")
    if y.dtype.kind in "iuf" and len(lost := classes[classes.astype(y.dtype) != classes]):
        raise ValueError(f"groups must have keys of y's dtype {y.dtype}; got {lost.tolist()[0]}")
    code = {}  # number of each group; np.unique cannot sort groups of mixed types
    return classes, np.array([code.setdefault(groups[c], len(code)) for c in classes.tolist()])


def make_long_tail(
    X: RowsLike,
    y: ArrayLike,
    factor: float,
    *,
    random_state: int | np.random.RandomState | None = None,
) -> tuple[Any, Any]:
    r"""Remove samples so that class sizes decrease exponentially, as in a long tail.

    .. math::
        n_c = \lfloor n_{\max}\, \mathrm{factor}^{-c / (C - 1)} \rfloor, \qquad c = 0, \dots, C - 1

    where n_c is the new size of class c. The C classes are sorted by label. Class 0 becomes the
    largest, with about :math:`n_{\max}` samples. The largest possible value is used:
    :math:`n_{\max} = \min_c m_c\, \mathrm{factor}^{c / (C - 1)}`, where :math:`m_c` is the old size
    of class c. Cao et al. [1]_ use such long-tailed versions of CIFAR.

    Parameters
    ----------
    X : {array, CSR matrix, frame} of shape (n_samples, ...)
        Samples. Arrays may have more than two dimensions.
    y : array-like of shape (n_samples,)
        Labels of at least two classes.
    factor : float
        Size of the first class, divided by the size of the last class. At least 1.
    random_state : int, RandomState or None, default=None
        Seed of the random selection.

    Returns
    -------
    X_tail, y_tail : same types as X and y
        Selected samples in their original order, with at least one sample of each class.

    Raises
    ------
    TypeError, ValueError
        If `factor` is not a number of at least 1, or X and y have different lengths.

    See Also
    --------
    sktopk.metrics.shot_accuracy_score : Top-k accuracy of frequent and of rare classes.

    References
    ----------
    .. [1] Cao, Wei, Gaidon, Arechiga, Ma. "Learning Imbalanced Datasets with
       Label-Distribution-Aware Margin Loss", NeurIPS 2019.

    Examples
    --------
    >>> import numpy as np
    >>> from sktopk.datasets import make_long_tail
    >>> X, y = np.arange(300)[:, None], np.arange(300) % 3
    >>> X_tail, y_tail = make_long_tail(X, y, factor=100, random_state=0)
    >>> np.bincount(y_tail)
    array([100,  10,   1])
    """
    check_number(factor, "factor", 1)
    labels = check_labels(y)
    X, y = (each if hasattr(each, "shape") else np.asarray(each) for each in (X, y))
    check_length(labels, X.shape[0])
    classes, code, count = np.unique(labels, return_inverse=True, return_counts=True)
    if len(classes) < 2:
        raise ValueError(f"y must have at least two classes; got {len(classes)}")
    share = float(factor) ** -(np.arange(len(classes)) / (len(classes) - 1))
    # Round before floor, because rounding errors can turn a size of 10 into 9.999999.
    kept = np.floor(np.round(np.min(count / share) * share, 6)).astype(int)
    rng = check_random(random_state)
    of_class = zip(rows_of_groups(code), kept, strict=True)
    rows = np.sort(np.concatenate([rng.permutation(own)[: max(n, 1)] for own, n in of_class]))
    return take_rows(X, rows), take_rows(y, rows)
