"""How many of the best rows of a batch are positive, by calibration rows."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sktopk._common._input import check_table
from sktopk._common._scalars import check_count
from sktopk._common._types import RowsLike

from ._selection import simultaneous_hits


class BoundsHits:
    """What bounds the positives among the n best rows.

    The class that has it owes `_scores`, the parameter `delta`, and of a fit that calibrates the
    attributes `_calibration_rows` and `_seed`.
    """

    def hits_interval(self, X: RowsLike, n: ArrayLike) -> tuple[Any, Any]:
        r"""Bound how many of the n best rows are positive.

        .. math::
            P\bigl( \text{low} \le \text{positives among the } n \text{ best of X}
            \le \text{high} \bigr) \ge 1 - \delta,

        over calibration rows and rows of X, if these are exchangeable. Of the calibration rows
        those count that score above the best row left out. Given all n and K rows above that,
        any of them is as likely to be one of the n: the positives among the K have a
        hypergeometric distribution, and the interval is the exact one that inverts it
        (Thatcher, 1964), :math:`\delta / 2` for each end. The fewer calibration rows there are
        above, the wider it is; without one it is 0 to n.

        Parameters
        ----------
        X : array-like, sparse matrix or frame of shape (n_samples, n_features)
            A batch as a whole.
        n : int or array-like of int of shape (n_numbers,)
            How many rows, those of ``predict_top(X, n)``; at most all. Fix it before you look: an
            interval for the best of several n promises less. For several n the intervals hold
            all at once, by Bonferroni's inequality.

        Returns
        -------
        low, high : int or ndarray of shape (n_numbers,)
            Numbers of positives.

        Raises
        ------
        TypeError, ValueError
            If n is not an integer from 1 to the number of rows, if X is a stream, or if there are
            no calibration rows, or they are weighted by a likelihood ratio.
        """
        each = np.ravel(n).tolist()
        for value in each or [None]:
            check_count(value, "n")
        check_table(X)
        scores = self._scores(X)
        if max(each) > len(scores):
            raise ValueError(
                f"n={max(each)} must be at most the number of rows of X ({len(scores)})"
            )
        rows = self._rows_to_compare_with("hits_interval")
        # A new generator each time, so that the answer stays the same.
        random = np.random.default_rng(self._seed)
        low, high = simultaneous_hits(rows, scores, each, float(self.delta), random)
        return (int(low[0]), int(high[0])) if np.ndim(n) == 0 else (low, high)

    # Python's errors about arguments say this: the name by which users know the method.
    hits_interval.__qualname__ = "BudgetClassifier.hits_interval"
