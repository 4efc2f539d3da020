"""Training sets with a long tail."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sktopk._common._input import check_labels, check_length
from sktopk._common._scalars import check_number, check_random
from sktopk._common._types import RowsLike


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

    for the sorted classes. The first class then has `factor` times as many samples as the last.
    :math:`n_{\max}` is the largest number for which all classes have enough samples. For classes of
    equal size, it is this size. The class sizes in the long-tailed CIFAR datasets of [1]_ follow
    the same formula.

    Parameters
    ----------
    X : {array, CSR matrix, frame} of shape (n_samples, ...)
        Samples of any kind.
    y : array-like of shape (n_samples,)
        Labels, at least two classes.
    factor : float
        Ratio of the sizes of the first and the last class, at least 1. With 1, all classes have
        the same size.
    random_state : int, RandomState or None, default=None
        Seed of the random selection.

    Returns
    -------
    X_tail, y_tail : same types as X and y
        Selected samples in their original order, at least one of each class.

    Raises
    ------
    TypeError, ValueError
        If `factor` is not a number of at least 1, or X and y have different lengths.

    See Also
    --------
    inject_label_noise : Replace labels at random.
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
    n_rows = X.shape[0] if hasattr(X, "shape") else len(X)
    check_length(labels, n_rows)
    classes, code, count = np.unique(labels, return_inverse=True, return_counts=True)
    if len(classes) < 2:
        raise ValueError(f"y must have at least two classes; got {len(classes)}")
    share = float(factor) ** -(np.arange(len(classes)) / (len(classes) - 1))
    # Round before floor, because rounding errors can turn a size of 10 into 9.999999.
    kept = np.floor(np.round(np.min(count / share) * share, 6)).astype(int)
    rng = check_random(random_state)
    rows = [rng.permutation(np.flatnonzero(code == c))[: max(n, 1)] for c, n in enumerate(kept)]
    rows = np.sort(np.concatenate(rows))
    return _rows_of(X, rows), _rows_of(y, rows)


def _rows_of(values, rows):
    if hasattr(values, "iloc"):
        return values.iloc[rows]
    return (values if hasattr(values, "shape") else np.asarray(values))[rows]
