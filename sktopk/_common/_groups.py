"""Groups of rows by names of any kind: days, queries, plates."""

import numpy as np

from ._labels import refuse_missing
from ._scalars import on_host


def encode_groups(groups, n_samples):
    """Return a number per row, the same for rows of the same group."""
    given, groups = groups, np.asarray(on_host(groups, "groups"))
    if groups.shape != (n_samples,):
        came = f"shape {groups.shape}"
        if isinstance(given, str):
            came = f"{given!r}: pass the column itself, such as X[{given!r}]"
        raise ValueError(f"groups must name the group of each of the {n_samples} rows; got {came}")
    refuse_missing(groups, "groups", "a name per sample")
    code_of = {}
    code = [code_of.setdefault(label, len(code_of)) for label in groups.tolist()]
    return np.array(code, dtype=np.intp)


def several_groups(groups, weight):
    """Return what `encode_groups` does, or None if the rows of positive weight are one group.

    Other rows are of no group, whose number is -1: those of the others are as without them.
    """
    code, present = encode_groups(groups, len(weight)), weight > 0
    if not present.all():
        code[present] = encode_groups(code[present], np.count_nonzero(present))
        code[~present] = -1
    return code if (code > 0).any() else None


def rows_of_groups(groups):
    """Return the indices of the samples of each group, for the groups that have some."""
    order = np.argsort(groups, kind="stable")
    cuts = np.flatnonzero(np.diff(groups[order])) + 1
    return np.split(order, cuts)
