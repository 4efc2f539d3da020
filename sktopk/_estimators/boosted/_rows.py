"""Samples for boosting, and their groups."""

from typing import NamedTuple

import numpy as np


class Rows(NamedTuple):
    """Checked samples to train on or to evaluate on."""

    X: object
    y: np.ndarray
    target: np.ndarray
    weight: np.ndarray
    # The sample weight without `class_weight`.
    count: np.ndarray
    # In training, the samples of a group are consecutive.
    groups: np.ndarray | None = None

    def take(self, rows):
        """Return the samples of a mask or of these numbers."""
        return Rows(*(None if each is None else each[rows] for each in self))


def rows_of_groups(groups):
    """Return the row numbers of each group that has some."""
    order = np.argsort(groups, kind="stable")
    return np.split(order, np.flatnonzero(np.diff(groups[order])) + 1)


def groups_of_both(rows):
    """Return the row numbers of each group that contains positives and negatives."""
    return [own for own in rows_of_groups(rows.groups) if 0 < rows.target[own].mean() < 1]
