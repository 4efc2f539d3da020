"""Samples for boosting, and their groups."""

from typing import NamedTuple

import numpy as np

from sktopk._common._groups import rows_of_groups


class Rows(NamedTuple):
    """Checked samples; in training, those of a group are consecutive."""

    X: object
    y: np.ndarray
    target: np.ndarray
    weight: np.ndarray
    count: np.ndarray  # the sample weight without `class_weight`
    groups: np.ndarray | None = None

    def take(self, rows):
        """Return the samples of a mask or of these numbers."""
        return Rows(*(None if each is None else each[rows] for each in self))


def groups_of_both(rows):
    """Return the row numbers of each group that contains positives and negatives."""
    return [own for own in rows_of_groups(rows.groups) if 0 < rows.target[own].mean() < 1]
