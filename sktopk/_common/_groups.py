"""Groups of samples, such as days, queries or plates."""

import numpy as np

from ._scalars import on_host, refuse_missing


def encode_groups(groups, n_samples):
    """Return the group index of each sample. Groups are numbered in order of first appearance."""
    given, groups = groups, np.asarray(on_host(groups, "groups"))
    if groups.shape != (n_samples,):
        came = f"shape {groups.shape}"
        if isinstance(given, str):
            came = f"{given!r}: pass the column, such as X[{given!r}]"
        raise ValueError(f"groups must have one entry per sample ({n_samples}); got {came}")
    refuse_missing(groups, "groups", "values")
    code_of = {}
    code = [code_of.setdefault(label, len(code_of)) for label in groups.tolist()]
    return np.array(code, dtype=np.intp)


def several_groups(groups, weight):
    """Return the group index of each sample, or None if there is only one group.

    Samples of weight 0 get -1. They do not change the indices of the other samples.
    """
    code, present = encode_groups(groups, len(weight)), weight > 0
    if not present.all():
        code[present] = encode_groups(code[present], np.count_nonzero(present))
        code[~present] = -1
    return code if (code > 0).any() else None


def rows_of_groups(groups):
    """Return a list with one array per group: the indices of its samples."""
    order = np.argsort(groups, kind="stable")
    cuts = np.flatnonzero(np.diff(groups[order])) + 1
    return np.split(order, cuts)
