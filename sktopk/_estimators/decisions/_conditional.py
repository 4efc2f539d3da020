"""Conformity thresholds that are computed separately for each class or group."""

import numpy as np

from sktopk._common._groups import encode_groups
from sktopk._common._scalars import on_host
from sktopk._common._warnings import warn

from ._conformal import conformal_threshold, n_needed

CONDITIONS = (None, "class", "group")


def class_thresholds(scores, code, n_classes, coverage):
    """Return the threshold of each class. With too few samples it is -inf, with a warning."""
    threshold = _thresholds(scores, code, n_classes, coverage)
    n_few = np.count_nonzero(np.isneginf(threshold))
    if n_few:
        warn(
            f'coverage={coverage} with conditional="class" needs {n_needed(coverage)} calibration '
            f"samples per class; {n_few} of {n_classes} classes have fewer, and are in "
            "every set. Use more samples or a lower coverage"
        )
    return threshold


def group_thresholds(scores, groups, coverage):
    """Return the sorted group names, and a threshold per group (-inf for too few samples)."""
    names, code = np.unique(groups, return_inverse=True)
    threshold = _thresholds(scores, code, len(names), coverage)
    n_few = np.count_nonzero(np.isneginf(threshold))
    if n_few:
        warn(
            f'coverage={coverage} with conditional="group" needs {n_needed(coverage)} calibration '
            f"samples per group, with labels known to estimator; {n_few} of {len(names)} groups "
            "have fewer, and their sets have all classes. Use more samples or a lower coverage"
        )
    return names, threshold


def thresholds_of_samples(groups, names, threshold):
    """Return for each sample the threshold of its group, or -inf for an unknown group."""
    if (groups.dtype.kind in "US") != (names.dtype.kind in "US"):
        raise ValueError(
            f"groups must have the type of the groups in fit, such as {names.tolist()[0]!r}; got "
            f"{groups.tolist()[0]!r}"
        )
    index = np.searchsorted(names, groups).clip(max=len(names) - 1)
    known = names[index] == groups
    if not known.all():
        warn(
            f"{np.count_nonzero(~known)} of {len(groups)} samples have groups without calibration "
            "samples, so their sets have all classes: fit with samples of these groups"
        )
    return np.where(known, threshold[index], -np.inf)


def check_conditional_groups(groups, n_samples, conditional):
    """Return groups as an array or None. Raise an error if they are missing or not allowed."""
    if (groups is None) == (conditional == "group"):
        raise ValueError(
            'groups must be passed if and only if conditional="group"; got '
            f"conditional={conditional!r} and {'no groups' if groups is None else 'groups'}"
        )
    if groups is None:
        return None
    encode_groups(groups, n_samples)  # raises if groups are not valid
    # `tolist` makes NumPy choose the dtype again: a string dtype instead of object.
    return np.array(np.asarray(on_host(groups, "groups")).tolist())


def _thresholds(scores, code, n_codes, coverage):
    """Return the threshold of each class or group (code >= 0) from the scores of its samples."""
    order = np.argsort(code, kind="stable")
    parts = np.split(scores[order], np.searchsorted(code[order], np.arange(n_codes + 1)))[1:-1]
    return np.array([conformal_threshold(part, coverage) for part in parts])
