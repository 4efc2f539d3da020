"""The folds of loss="auto": by content, class by class."""

import numpy as np
from scipy.sparse import csr_array

from sktopk._common._folds_by_content import deal


def test_parts_depend_on_content_only(rng):
    X = rng.normal(size=(150, 3)).astype(np.float32)
    X[rng.random(X.shape) < 0.3] = 0.0
    y = np.repeat([0, 1, 2], [100, 49, 1])
    part, n = deal(X, y, 5, seed=0)
    # Some rows are all zeros, in both classes.
    assert n == sum(len(np.unique(X[y == c], axis=0)) for c in range(2)) < 149
    assert part[-1] == -1
    for c in range(2):
        first = np.unique(X[y == c], axis=0, return_index=True)[1]
        sizes = np.bincount(part[y == c][first], minlength=5)
        assert sizes.max() - sizes.min() <= 1
    order = rng.permutation(150)
    np.testing.assert_array_equal(deal(X[order], y[order], 5, seed=0)[0], part[order])
    times = rng.integers(1, 4, size=150)
    again, n_again = deal(X.repeat(times, axis=0), y.repeat(times), 5, seed=0)
    np.testing.assert_array_equal(again, part.repeat(times))
    assert n_again == n
    np.testing.assert_array_equal(deal(csr_array(X.astype(np.float64)), y, 5, seed=0)[0], part)
    assert (deal(X, y, 5, seed=1)[0] != part).any()
    assert deal(X[:1], y[:1], 5, seed=0)[1] == 0
