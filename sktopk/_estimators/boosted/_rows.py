"""Container for validated samples, labels and weights."""

from typing import NamedTuple

import numpy as np

from sktopk._common._groups import rows_of_groups


class Rows(NamedTuple):
    """Validated samples, labels, weights and groups. Training samples are sorted by group."""

    X: object
    y: np.ndarray
    target: np.ndarray
    weight: np.ndarray
    count: np.ndarray  # sample weight without the factor of `class_weight`
    groups: np.ndarray | None = None
    order: np.ndarray | None = None  # random integers from which folds are made

    def take(self, rows):
        """Return the selected samples. `rows` is a mask or an array of indices."""
        return Rows(*(None if each is None else each[rows] for each in self))


def groups_of_both(rows):
    """Return a list with the sample indices of each group that contains both classes."""
    return [own for own in rows_of_groups(rows.groups) if 0 < rows.target[own].mean() < 1]
