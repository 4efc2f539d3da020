"""Training sets with a long tail."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sktopk._common._labels import check_labels, check_length
from sktopk._common._scalars import check_number, check_random
from sktopk._common._types import RowsLike


def make_long_tail(
    X: RowsLike,
    y: ArrayLike,
    factor: float,
    *,
    random_state: int | np.random.RandomState | None = None,
) -> tuple[Any, Any]:
    r"""Reduce the samples of each class to an exponential long tail.

    .. math::
        n_c = \lfloor n_{\max}\, \mathrm{factor}^{-c / (C - 1)} \rfloor, \qquad c = 0, \dots, C - 1

    with the classes in sorted order, so that the first class has `factor` times as many samples
    as the last. :math:`n_{\max}` is the largest number for which every class is large enough: the
    samples of a class, if all classes have equally many. This is the profile of the long-tailed
    CIFAR sets of [1]_.

    Parameters
    ----------
    X : {array, CSR matrix, frame} of shape (n_samples, ...)
        Samples of any kind.
    y : array-like of shape (n_samples,)
        Labels, at least two classes.
    factor : float
        Number of samples of the first class over the last, at least 1; 1 makes classes equal.
    random_state : int, RandomState or None, default=None
        Seed of the choice of samples.

    Returns
    -------
    X_tail, y_tail : of the types of X and y
        The samples kept, in their old order. Every class keeps a sample.

    Raises
    ------
    TypeError, ValueError
        If `factor` is not a number of at least 1, or X and y do not fit together.

    See Also
    --------
    inject_label_noise : Another way to make a problem harder.
    sktopk.metrics.shot_accuracy_score : Top-k accuracy of frequent and rare classes apart.

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
    n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
    check_length(labels, n_rows)
    classes, code, count = np.unique(labels, return_inverse=True, return_counts=True)
    if len(classes) < 2:
        raise ValueError(f"y must have at least two classes; got {len(classes)}")
    share = float(factor) ** -(np.arange(len(classes)) / (len(classes) - 1))
    # Rounded before it is cut: 100 * 0.1 ** 2 must not become 0.
    kept = np.floor(np.round(np.min(count / share) * share, 6)).astype(int)
    rng = check_random(random_state)
    rows = [rng.permutation(np.flatnonzero(code == c))[: max(n, 1)] for c, n in enumerate(kept)]
    rows = np.sort(np.concatenate(rows))
    return _rows_of(X, rows), _rows_of(y, rows)


def _rows_of(values, rows):
    if hasattr(values, "iloc"):
        return values.iloc[rows]
    return (values if hasattr(values, "shape") else np.asarray(values))[rows]
