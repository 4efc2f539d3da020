"""A threshold of conformity for each class or group of samples, from its samples alone."""

import numpy as np

from sktopk._common._groups import encode_groups
from sktopk._common._scalars import on_host
from sktopk._common._warnings import warn

from ._conformal import conformal_threshold, n_needed

CONDITIONS = (None, "class", "group")


def class_thresholds(scores, code, n_classes, coverage):
    """Return a threshold per class; minus infinity, with a warning, for too few samples."""
    threshold = _thresholds(scores, code, n_classes, coverage)
    n_few = np.count_nonzero(np.isneginf(threshold))
    if n_few:
        warn(
            f"coverage={coverage} of a class needs at least {n_needed(coverage)} calibration "
            f"samples of it; {n_few} of {n_classes} classes have fewer, or their scores say "
            "nothing: they are in every set"
        )
    return threshold


def group_thresholds(scores, groups, coverage):
    """Return the sorted names of the groups, and their thresholds as in `class_thresholds`."""
    names, code = np.unique(groups, return_inverse=True)
    threshold = _thresholds(scores, code, len(names), coverage)
    n_few = np.count_nonzero(np.isneginf(threshold))
    if n_few:
        warn(
            f"coverage={coverage} of a group needs at least {n_needed(coverage)} calibration "
            f"samples of it, with labels that estimator knows; {n_few} of {len(names)} groups have "
            "fewer: their sets hold all classes"
        )
    return names, threshold


def thresholds_of_samples(groups, names, threshold):
    """Return the threshold of each sample's group; minus infinity, with a warning, for new ones."""
    if (groups.dtype.kind in "US") != (names.dtype.kind in "US"):
        raise ValueError(
            f"groups must be of the kind given to fit, such as {names[0]!r}; got {groups[0]!r}"
        )
    index = np.searchsorted(names, groups).clip(max=len(names) - 1)
    known = names[index] == groups
    if not known.all():
        warn(
            f"{np.count_nonzero(~known)} of {len(groups)} samples are of groups without "
            "calibration samples: their sets hold all classes"
        )
    return np.where(known, threshold[index], -np.inf)


def check_conditional_groups(groups, n_samples, conditional):
    """Return groups as an array; raise unless they come with ``conditional="group"`` alone."""
    if (groups is None) == (conditional == "group"):
        raise ValueError(
            'groups must be passed with conditional="group" and only then; got '
            f"conditional={conditional!r} and {'no groups' if groups is None else 'groups'}"
        )
    if groups is None:
        return None
    encode_groups(groups, n_samples)  # raises what cannot be compared
    # Texts in an array of objects and in one of their own are the same names.
    return np.array(np.asarray(on_host(groups, "groups")).tolist())


def _thresholds(scores, code, n_codes, coverage):
    """Return the threshold of the samples of each code; samples of code -1 count for none."""
    order = np.argsort(code, kind="stable")
    parts = np.split(scores[order], np.searchsorted(code[order], np.arange(n_codes + 1)))[1:-1]
    return np.array([conformal_threshold(part, coverage) for part in parts])
